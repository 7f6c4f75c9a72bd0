"""`--by-row`: an index that drops the rows of one source is found out, in every form of the result."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import recallatk

SOURCES = ["crawler", "books", "news", "books", "news"]


@pytest.fixture
def sources(tmp_path):
    """A corpus whose every fifth row is of the crawler."""
    random = np.random.default_rng(5)
    for name, rows in (("corpus", 100), ("queries", 60)):
        vectors = random.normal(size=(rows, 4)).astype("float32")
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 4)
        table = {"id": [f"{name[0]}{row}" for row in range(rows)], "vector": column}
        if name == "corpus":
            table["source"] = [SOURCES[row % 5] for row in range(rows)]
        pq.write_table(pa.table(table), tmp_path / f"{name}.parquet")
    return tmp_path


def said(*arguments):
    ran = recallatk(*arguments)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.usefixtures("faulty")
def test_a_dropped_source_is_named(sources):
    out = sources / "run"
    given = [sources / "corpus.parquet", sources / "queries.parquet", "--metric", "l2", "--engine", "faulty"]
    measured = [*given, "--search", "how=drop", "--at", "10", "--rounds", "1", "--out", out]
    shown = " ".join(said("run", *measured, "--by-row", "source").split())
    assert "Rows with source = crawler are found worst: 0.000" in shown
    assert "rows are never found" in shown
    # The same run without measuring again, grouped otherwise.
    told = json.loads(said("run", *measured, "--by-row", "source", "--json"))["by_row"]
    [found] = told
    worst, *others = found["columns"]["source"]
    assert (worst["found"]["value"], worst["judged"]) == (0.0, True)
    assert worst["found"]["high"] < 0.1 < min(each["found"]["low"] for each in others)
    assert {int(each["id"][1:]) % 5 for each in found["never_found"]["rows"]} == {0}
    assert found["never_found"]["count"] >= 10
    assert (found["trial"], found["engine"]) == (1, "faulty")
    assert "source = crawler" in said("show", out)
    assert json.loads(said("show", out, "--json"))["by_row"] == told
    for file in ("report.md", "report.html"):
        assert "source = crawler" in (out / file).read_text()
    plain = said("report", out, "--by-row", "source", "--markdown", out / "again.md")
    assert "report.html" in plain
    assert "source = crawler" in (out / "again.md").read_text()


@pytest.mark.usefixtures("faulty")
def test_a_column_that_the_corpus_lacks_is_refused_before_anything_is_measured(sources):
    given = [sources / "corpus.parquet", sources / "queries.parquet", "--metric", "l2", "--engine", "faulty"]
    ran = recallatk("run", *given, "--by-row", "sorce", "--out", sources / "run")
    assert ran.returncode == 2
    assert "--by-row" in ran.stderr
    assert "source" in ran.stderr
    assert not (sources / "run").exists()
