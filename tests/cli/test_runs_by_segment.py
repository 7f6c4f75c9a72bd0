"""`recallatk run --by`: recall by segment on the screen, in `show`, Markdown and JSON."""

import json

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import recallatk

KINDS = [*("shoes",) * 40, *("bags",) * 26, *("rare",) * 4]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with data and a run of two engines by two columns, and what it printed."""
    folder = tmp_path_factory.mktemp("by")
    random = np.random.default_rng(0)
    columns = {"kind": KINDS, "price": random.normal(size=len(KINDS)), "tags": [["a"]] * len(KINDS)}
    for name, rows, more in (("corpus", 600, {}), ("queries", len(KINDS), columns)):
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(random.normal(size=rows * 8), pa.float32()), 8)
        pq.write_table(pa.table({"id": range(rows), "vector": vectors, **more}), folder / f"{name}.parquet")
    ran = recallatk(
        *("run", "corpus.parquet", "queries.parquet", "--metric", "l2", "--at", "10", "--rounds", "1"),
        *("--engine", "faiss-ivf-flat", "--search", "faiss-ivf-flat.nprobe=1,4", "--engine", "exact"),
        *("--by", "kind", "--by", "price", "--target", "recall@10 >= 0.3", "--out", "out"),
        cwd=folder,
    )
    assert ran.returncode == 0, ran.stderr
    return folder, ran.stdout


def shown(folder, *words):
    ran = recallatk("show", "out", *words, cwd=folder)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_the_recall_of_every_segment_is_that_of_its_queries(made):
    folder, _ = made
    found = json.loads(shown(folder, "--json"))
    kind, price = found["segments"]
    assert (kind["by"], price["by"], kind["measure"]) == ("kind", "price", "recall@10")
    assert [each["ranked"] for each in kind["segments"]] == [True, True, False]
    assert kind["segments"][-1]["name"] == "rare" and len(price["segments"]) == 4
    trials = {json.dumps(each["search"]): each["number"] for each in found["trials"]}
    chosen = found["verdict"]["trial"]
    engines = [each["engine"] for each in kind["settings"]]
    numbers = {"exact": trials["{}"], "faiss-ivf-flat": trials['{"nprobe": 4}']}
    numbers[next(each["engine"] for each in found["trials"] if each["number"] == chosen)] = chosen
    for place, engine in enumerate(engines):
        expected = dict(
            duckdb.sql(
                f"""select q.kind, avg(t."value:recall@10")
                from '{folder}/out/trial-{numbers[engine]}.parquet' t
                join '{folder}/queries.parquet' q on q.id = t.query_id group by 1"""
            ).fetchall()
        )
        means = {each["name"]: each["recall"][place]["value"] for each in kind["segments"]}
        assert means == pytest.approx(expected)
    assert {each["name"]: each["queries"] for each in kind["segments"]} == {
        "shoes": 40,
        "bags": 26,
        "rare": 4,
    }


def test_the_screen_has_a_table_for_every_column(made):
    folder, printed = made
    for text in (printed, shown(folder), shown(folder, "--verbose"), (folder / "out/report.md").read_text()):
        assert "recall@10 by kind" in text and "recall@10 by price" in text
        assert "fewer than 10 queries, not ranked." in text.replace("\\", "")
        assert text.count("Settings: ") == 1
    rows = printed[printed.index("recall@10 by kind") :].splitlines()[1:]
    assert rows[0].split() == ["kind", "queries", "faiss-ivf-flat", "exact"]
    assert [row.split()[0] for row in rows[1:5]][-2:] == ["rare", "all"] and "rare *" in rows[3]


def test_without_the_truth_it_says_why_in_one_line(made, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    text = " ".join(shown(made[0]).split())
    assert "No recall by kind and price: the truth" in text
    assert "recallatk report RUN --truth TRUTH." in text
    assert json.loads(shown(made[0], "--json"))["segments"] == []
