"""Missed neighbors that mattered, in the report, on the screen and in JSON of a run, against counting."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import recallatk
from recallatk import load_run

ROWS, QUERIES, K = 300, 40, 5
TITLE = "Missed neighbors that mattered"


def write(path, prefix, vectors, **columns):
    lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    ids = [f"{prefix}{row}" for row in range(len(vectors))]
    pq.write_table(pa.table({"id": ids, "vector": lists, **columns}), path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Vectors of which each has a near copy, with texts, and judgments of half of the queries."""
    folder, random = tmp_path_factory.mktemp("missed"), np.random.default_rng(3)
    half = random.normal(size=(ROWS // 2, 6)).astype("float32")
    vectors = np.concatenate(
        [half, half + np.float32(0.01) * random.normal(size=half.shape).astype("float32")]
    )
    words = ["amber", "basalt", "cobalt", "garnet"]
    write(folder / "c.parquet", "c", vectors, text=[" ".join(random.choice(words, 3)) for _ in vectors])
    asked = random.normal(size=(QUERIES, 6)).astype("float32")
    write(folder / "q.parquet", "q", asked, text=[" ".join(random.choice(words, 2)) for _ in asked])
    lines = ["query-id\tcorpus-id\tscore"]
    for query in range(QUERIES // 2):
        lines += [f"q{query}\tc{row}\t1" for row in random.choice(ROWS, 60, replace=False)]
    (folder / "q.tsv").write_text("\n".join(lines) + "\n")
    (folder / "bench.toml").write_text(
        """
        name = "run"
        [data]
        corpus = "c.parquet"
        queries = "q.parquet"
        metric = "l2"
        qrels = "q.tsv"
        [measure]
        at = [5]
        rounds = 1
        [[engine]]
        name = "faiss-ivf-flat"
        [engine.build]
        nlist = 16
        [engine.search]
        nprobe = [1, 2]
        [[path]]
        name = "hybrid"
        k = 5
        stages = [{ retrieve = "exact", depth = 6 }, { retrieve = "bm25", depth = 6 }, { fuse = "rrf" }]
        """
    )
    ran = recallatk("run", "bench.toml", "--json", cwd=folder)
    assert ran.returncode == 0, ran.stderr
    return folder, json.loads(ran.stdout)


def test_json_has_one_setting_of_every_engine_with_shares_that_add_up(folder):
    folder, plain = folder
    vectors, asked = (
        np.array(pq.read_table(folder / name)["vector"].to_pylist(), np.float64)
        for name in ("c.parquet", "q.parquet")
    )
    found = plain["missed"]
    assert [each["engine"] for each in found] == ["faiss-ivf-flat", "hybrid"]
    for each in found:
        trial = next(one for one in plain["trials"] if one["number"] == each["trial"])
        assert each["lost"]["value"] == pytest.approx(1 - trial["measures"]["recall@5"]["value"])
        assert each["stood_in"]["value"] + each["without"]["value"] == pytest.approx(each["lost"]["value"])
        assert each["relevant"]["n"] == QUERIES // 2
    first = found[0]
    run = load_run(folder / "runs" / "run")
    answers = run.measurements[first["trial"] - 1].answers
    best = np.argsort(((asked[:, None] - vectors) ** 2).sum(axis=2), axis=1, kind="stable")[:, :K]
    relevant = {tuple(line.split("\t")[:2]) for line in (folder / "q.tsv").read_text().splitlines()[1:]}
    missed = [
        (query, row)
        for query in range(QUERIES)
        for row in best[query].tolist()
        if row not in answers[query].tolist()
    ]
    assert first["count"] == len(missed) > 0
    marked = sum((f"q{query}", f"c{row}") in relevant for query, row in missed)
    assert first["relevant_count"] == marked > 0
    assert first["relevant"]["value"] == pytest.approx(marked / K / (QUERIES // 2))


def test_reports_and_the_verbose_screen_show_the_same_line(folder):
    folder, plain = folder
    lost = [f"{each['lost']['value']:.3f}" for each in plain["missed"]]
    page = (folder / "runs" / "run" / "report.html").read_text()
    assert 'id="missed"' in page and TITLE in page
    for text in ((folder / "runs" / "run" / "report.md").read_text(), shown(folder, "--verbose")):
        section = text.split(TITLE)[1]
        assert "judged relevant" in section and f"over {QUERIES // 2} queries with judgments" in section
        assert all(each in section for each in lost)
    assert TITLE not in shown(folder)


def test_show_tells_as_json_what_the_run_told(folder):
    folder, plain = folder
    assert json.loads(shown(folder, "--json", "--verbose"))["missed"] == plain["missed"]
    assert "missed" not in json.loads(shown(folder, "--json"))


def test_judgments_that_changed_since_are_left_out(folder):
    folder, plain = folder
    kept = (folder / "q.tsv").read_text()
    try:
        (folder / "q.tsv").write_text(kept + "q0\tc0\t1\n")
        found = json.loads(shown(folder, "--json", "--verbose"))["missed"]
    finally:
        (folder / "q.tsv").write_text(kept)
    assert [each["relevant"] for each in found] == [None, None]
    assert [each["lost"] for each in found] == [each["lost"] for each in plain["missed"]]


def shown(folder, *options):
    ran = recallatk("show", "runs/run", *options, cwd=folder)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_queries_that_were_never_sent_miss_nothing(folder, tmp_path):
    """An engine without filters is asked the queries without one: the others are no misses."""
    folder, _ = folder
    table = pq.read_table(folder / "q.parquet")
    filters = ["id = 'c1'" if row % 2 else None for row in range(QUERIES)]
    pq.write_table(table.append_column("filter", pa.array(filters)), tmp_path / "q.parquet")
    bench = f"""
        name = "run"
        [data]
        corpus = "{folder / "c.parquet"}"
        queries = "q.parquet"
        metric = "l2"
        qrels = "{folder / "q.tsv"}"
        [measure]
        at = [5]
        rounds = 1
        [[engine]]
        name = "usearch"
        [engine.search]
        expansion = 5
        """
    (tmp_path / "bench.toml").write_text(bench)
    ran = recallatk("run", "bench.toml", "--json", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    plain = json.loads(ran.stdout)
    [found], [trial] = plain["missed"], plain["trials"]
    assert found["queries"] == QUERIES // 2 == found["lost"]["n"]
    assert found["relevant"]["n"] == QUERIES // 4
    assert found["lost"]["value"] == pytest.approx(1 - trial["measures"]["recall@5"]["value"])
