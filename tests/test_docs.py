"""README and docs: every Python block runs, every console block prints what it says."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import faiss
import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import recallatk
from recallatk import ground_truth, load_run, load_truth, open_demo, save_truth
from recallatk.adapters.postgres_server import bundled_server

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def readme_data(tmp_path_factory):
    """What the README's reader holds: documents, queries, a truth, answers of a graph, and an index."""
    folder, demo = tmp_path_factory.mktemp("readme"), open_demo()
    vectors = demo.corpus.vectors.read(0, 5_000)
    asked = demo.queries.vectors.read(0, 600)
    ids = demo.corpus.ids[:5_000]
    for name, matrix, known in (("docs", vectors, ids), ("queries", asked, demo.queries.ids[:600])):
        lists = pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), matrix.shape[1])
        pq.write_table(pa.table({"id": known, "vector": lists}), folder / f"{name}.parquet")
    truth = ground_truth(folder / "docs.parquet", folder / "queries.parquet", metric="cosine", store=False)
    save_truth(truth, folder / "truth.parquet")
    graph = faiss.IndexHNSWFlat(vectors.shape[1], 16, faiss.METRIC_INNER_PRODUCT)
    graph.hnsw.efConstruction, graph.hnsw.efSearch = 200, 40
    faiss.omp_set_num_threads(1)  # one thread builds the same graph everywhere
    graph.add(vectors)
    found = [ids.take(pa.array(rows)).to_pylist() for rows in graph.search(asked, 10)[1]]
    answers = pa.table({"query_id": demo.queries.ids[:600], "neighbors": found})
    pq.write_table(answers, folder / "answers.parquet")
    lists = faiss.index_factory(vectors.shape[1], "IVF64,Flat", faiss.METRIC_INNER_PRODUCT)
    lists.train(vectors)
    lists.add(vectors)
    faiss.write_index(lists, str(folder / "my.index"))
    return folder


@pytest.fixture
def folder(tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    if request.node.callspec.params["page"].name == "README.md":
        shutil.copytree(request.getfixturevalue("readme_data"), tmp_path, dirs_exist_ok=True)
        return tmp_path
    if request.node.callspec.params["page"].name in ("capture.md", "probe.md"):
        monkeypatch.setenv("DATABASE_URL", bundled_server())
    if request.node.callspec.params["page"].name == "probe.md":
        make_shop(tmp_path, monkeypatch)
    rows = {"id": ["a", "b", "c"], "category": ["x", "y", None]}
    vectors = pa.FixedSizeListArray.from_arrays(pa.array([1, 0, 0, 1, 1, 0], pa.float32()), 2)
    pq.write_table(
        pa.table({"id": rows["id"], "vector": vectors, "category": rows["category"]}), "corpus.parquet"
    )
    (tmp_path / "answers.jsonl").write_text(
        '{"query_id": "a", "neighbors": ["c", "a"]}\n{"query_id": "b", "neighbors": ["b", "b", "zzz"]}\n'
    )
    return tmp_path


def make_shop(folder, monkeypatch):
    """The table `items` in the database `shop`, as `psql` would find it, and a log of queries."""
    parts = psycopg.conninfo.conninfo_to_dict(bundled_server())
    monkeypatch.setenv("PGHOST", parts["host"])
    monkeypatch.setenv("PGUSER", parts["user"])
    with psycopg.connect(dbname=parts["dbname"], autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS shop")
        connection.execute("CREATE DATABASE shop")
    vectors = np.random.default_rng(0).normal(size=(700, 8)).astype("float32")
    with psycopg.connect(dbname="shop", autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
        connection.execute("CREATE TABLE items (id int PRIMARY KEY, embedding vector(8))")
        with connection.cursor().copy("COPY items FROM STDIN") as copy:
            for number, row in enumerate(vectors[:500].tolist()):
                copy.write_row((number, str(row)))
        connection.execute("CREATE INDEX ON items USING hnsw (embedding vector_cosine_ops)")
    lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors[500:].ravel()), 8)
    pq.write_table(pa.table({"vector": lists}), folder / "log.parquet")


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.name
)
def test_python_blocks_run(page, folder, capsys):
    namespace = {}
    pairs = re.findall(
        r"^```python\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", page.read_text(), re.MULTILINE | re.DOTALL
    )
    for block, printed in pairs:
        capsys.readouterr()
        exec(compile(block, page.name, "exec"), namespace)
        require_begins(capsys.readouterr().out, printed)


def sessions(page):
    for block in blocks(page, "console"):
        for session in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = session.partition("\n")
            yield command, output


def masked(text):
    """The words of a text without its numbers: latencies and line breaks may differ, words may not."""
    return re.sub(r"[\d.,]*\d", "#", re.sub(r"^\* ", "  ", text, flags=re.MULTILINE)).split()


def require_begins(printed, shown):
    """The output begins as the page shows it, up to a line of three dots."""
    shown, _, rest = shown.partition("\n...\n")
    assert not rest
    words = masked(shown)
    assert masked(printed)[: len(words)] == words


def timeless(text):
    return re.sub(r"in [\d.,]+ s$", "in # s", text, flags=re.MULTILINE)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "console")], ids=lambda page: page.name
)
def test_console_blocks_print_what_they_say(page, folder):
    shown = list(sessions(page))
    assert shown
    for command, output in shown:
        program, *arguments = shlex.split(command)
        assert program == "recallatk"
        ran = recallatk(*arguments, env={"COLUMNS": "100"})
        assert ran.returncode == 0, ran.stderr
        if "\n...\n" in output:
            require_begins(ran.stdout, output)
        else:
            assert timeless(ran.stdout) == timeless(output)


def test_the_demo_leaves_a_whole_run_and_one_next_step(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    printed = recallatk("demo", env={"COLUMNS": "100"}).stdout
    out = tmp_path / "recallatk-demo"
    written = {"run.json", "bench.toml", "truth.parquet", "report.md", "report.html", "trial-5.parquet"}
    assert written <= {path.name for path in out.iterdir()}
    found = json.loads(recallatk("show", out, "--json").stdout)
    shown = [trial["measures"]["recall@10"]["value"] for trial in found["trials"]]
    assert shown[0] < 0.88 and shown[-1] > 0.98 and shown == sorted(shown)
    assert all(trial["latency_ms"]["p99"] >= trial["latency_ms"]["p50"] > 0 for trial in found["trials"])
    assert [each.score["recall@10"] for each in load_run(out).measurements] == shown
    assert load_truth(out / "truth.parquet").depth == 100
    assert "recall@10" in (out / "report.md").read_text()
    *_, heading, step = printed.splitlines()
    assert heading == "Next, with your own data:"
    assert 'recallatk tune CORPUS QUERIES --metric cosine --target "recall@10 >= 0.95"' in step


def test_every_command_is_documented_with_an_example():
    from recallatk.cli import app

    page = (ROOT / "docs" / "cli.md").read_text()
    commands = {info.callback.__name__: info for info in app.registered_commands}
    for group in app.registered_groups:
        first, *others = group.typer_instance.registered_commands
        commands |= {group.name: first}
        commands |= {f"{group.name} {info.callback.__name__}": info for info in others}
    for name, info in commands.items():
        assert f"## recallatk {name}\n" in page
        assert f"Example: recallatk {name} " in info.callback.__doc__


def test_the_command_line_page_is_fresh():
    script = ROOT / "scripts" / "generate_docs.py"
    ran = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_every_format_is_in_the_data_formats_page():
    from recallatk.datasets.registry import FORMATS

    page = (ROOT / "docs" / "data-formats.md").read_text()
    for name in FORMATS:
        assert f"`{name}`" in page


def test_links_between_pages_lead_somewhere():
    for page in [*PAGES, *ROOT.glob("*.md"), *ROOT.glob("docs/rules/*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_public_names_have_a_sentence_each():
    import recallatk

    for name in recallatk.__all__:
        if name != "__version__":
            text = getattr(recallatk, name).__doc__
            assert text and text.strip().splitlines()[0].endswith((".", ":")), name


def test_every_module_opens_with_a_sentence():
    import ast

    for path in (ROOT / "src").rglob("*.py"):
        assert ast.get_docstring(ast.parse(path.read_text())), path


def test_every_engine_is_in_the_engines_page():
    from recallatk.adapters import registered

    page = (ROOT / "docs" / "engines.md").read_text()
    ours = [name for name, entry in registered().items() if entry.package == "recallatk"]
    assert [name for name in ours if f"`{name}`" not in page] == []
