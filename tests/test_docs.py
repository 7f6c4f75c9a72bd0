"""README and docs: every Python block runs, every console block prints what it says."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import recallatk
from recallatk import load_run, load_truth

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = {"id": ["a", "b", "c"], "category": ["x", "y", None]}
    vectors = pa.FixedSizeListArray.from_arrays(pa.array([1, 0, 0, 1, 1, 0], pa.float32()), 2)
    pq.write_table(
        pa.table({"id": rows["id"], "vector": vectors, "category": rows["category"]}), "corpus.parquet"
    )
    (tmp_path / "answers.jsonl").write_text(
        '{"query_id": "a", "neighbors": ["c", "a"]}\n{"query_id": "b", "neighbors": ["b", "b", "zzz"]}\n'
    )
    return tmp_path


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.name
)
def test_python_blocks_run(page, folder):
    namespace = {}
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), namespace)


def sessions(page):
    for block in blocks(page, "console"):
        for session in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = session.partition("\n")
            yield command, output


def masked(text):
    """Lines with numbers and hashes hidden, so that latencies may differ and words may not."""
    # Which lines are on the frontier is a matter of latencies too.
    starless = re.sub(r"^\*(?= +ef=)", " ", text, flags=re.MULTILINE)
    hidden = re.sub(r"\b[0-9a-f]{12}\b|[\d.,]*\d", "#", starless)
    return [" ".join(line.split()) for line in hidden.splitlines() if line.strip()]


def timeless(text):
    return re.sub(r"in [\d.,]+ s$", "in # s", text, flags=re.MULTILINE)


def recalls(text):
    """The three recall columns of every line of the table, by effort: a noisy moment may move a line."""
    lines = re.findall(r"^\*? +ef=(\d+) +([\d.]+) +([\d.]+) +([\d.]+)", text, re.MULTILINE)
    assert len(lines) == 5
    return [float(cell) for _, *line in sorted(lines, key=lambda line: int(line[0])) for cell in line]


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
        if arguments == ["demo"]:
            assert masked(ran.stdout)[: len(masked(output))] == masked(output)
            assert recalls(ran.stdout) == pytest.approx(recalls(output), abs=0.02)
            require_whole_demo(folder, ran.stdout)
        else:
            assert timeless(ran.stdout) == timeless(output)


def require_whole_demo(folder, printed):
    """The demo, which takes longest of all, left a run that can be read, and suggests commands that work."""
    out = folder / "recallatk-demo"
    written = {"run.json", "bench.toml", "truth.parquet", "report.md", "report.html", "trial-5.parquet"}
    assert written <= {path.name for path in out.iterdir()}
    found = json.loads(recallatk("show", out, "--json").stdout)
    shown = [trial["measures"]["recall@10"]["value"] for trial in found["trials"]]
    assert shown[0] < 0.88 and shown[-1] > 0.98 and shown == sorted(shown)
    assert all(trial["latency_ms"]["p99"] >= trial["latency_ms"]["p50"] > 0 for trial in found["trials"])
    assert [each.score["recall@10"] for each in load_run(out).measurements] == shown
    assert load_truth(out / "truth.parquet").depth == 100
    assert "recall@10" in (out / "report.md").read_text()
    (suggested,) = (line.strip() for line in printed.splitlines() if " tune CORPUS QUERIES " in line)
    assert printed.rstrip().endswith(suggested)


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
