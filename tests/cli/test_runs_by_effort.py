"""`recallatk run --by kind*effort`: segments across settings, the worst one, and the one that gains most."""

import html
import json
import re

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import recallatk

KINDS = [*("shoes",) * 40, *("bags",) * 26, *("rare",) * 4]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run of one index at three efforts by kind and effort, and what it printed."""
    folder = tmp_path_factory.mktemp("effort")
    random = np.random.default_rng(0)
    for name, rows, more in (("corpus", 600, {}), ("queries", len(KINDS), {"kind": KINDS})):
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(random.normal(size=rows * 8), pa.float32()), 8)
        pq.write_table(pa.table({"id": range(rows), "vector": vectors, **more}), folder / f"{name}.parquet")
    ran = recallatk(
        *("run", "corpus.parquet", "queries.parquet", "--metric", "l2", "--at", "10", "--rounds", "1"),
        *("--engine", "faiss-ivf-flat", "--search", "nprobe=1,2,4", "--out", "out"),
        *("--by", "kind*effort", "--by", "kind = 'bags'", "--by", "hardness", "--json"),
        cwd=folder,
    )
    assert ran.returncode == 0, ran.stderr
    return folder, json.loads(ran.stdout)


def test_gains_are_the_differences_between_the_lowest_and_the_highest_effort(made):
    folder, found = made
    kind, expression, hardness = found["segments"]
    assert [each["by"] for each in (kind, expression)] == ["kind", "kind = 'bags'"]
    assert hardness["by"].startswith("hardness")
    trials = {each["search"]["nprobe"]: each["number"] for each in found["trials"]}
    expected = dict(
        duckdb.sql(
            f"""select q.kind, avg(b."value:recall@10" - a."value:recall@10")
            from '{folder}/out/trial-{trials[1]}.parquet' a
            join '{folder}/out/trial-{trials[4]}.parquet' b on a.query_id = b.query_id
            join '{folder}/queries.parquet' q on q.id = a.query_id group by 1"""
        ).fetchall()
    )
    gains = {each["name"]: each["value"] for each in kind["gains"]["segments"]}
    # The rare kind has too few queries to be ranked.
    assert gains == pytest.approx({name: expected[name] for name in ("shoes", "bags")})
    assert list(gains) == sorted(gains, key=lambda name: -gains[name])
    assert [each["setting"] for each in kind["efforts"]["settings"]] == ["nprobe=1", "nprobe=2", "nprobe=4"]


def test_the_screen_names_the_worst_segment_and_the_largest_gain(made):
    folder, found = made
    ran = recallatk("show", "out", cwd=folder)
    shown = " ".join(ran.stdout.split())
    most = found["segments"][0]["gains"]["segments"][0]["name"]
    assert f"{most} gains most from effort: +0." in shown
    assert "from nprobe=1 to nprobe=4" in shown
    assert "Worst kind: " in shown
    assert "recall@10 by kind and effort" in shown
    assert "gains most from effort" in (folder / "out" / "report.md").read_text()


def test_the_page_has_the_worst_segment_and_every_gain(made):
    folder, found = made
    page = html.unescape((folder / "out" / "report.html").read_text())
    section = page[page.index('id="effort"') :].partition("</section>")[0]
    plain = " ".join(re.sub(r"<[^>]+>", " ", section).split())
    assert plain.count("Worst ") == len(found["segments"])
    for grouping in found["segments"]:
        gains = grouping["gains"]["segments"]
        assert f"{gains[0]['name']} gains most from effort: +0." in plain
        for gain in gains:
            assert f"{gain['name']} +{gain['value']:.3f} ±" in plain
    assert "Recall at every effort" in plain and 'href="#effort"' in page


def test_pages_without_groupings_have_no_such_section(made):
    folder, _ = made
    words = ("--metric", "l2", "--at", "10", "--rounds", "1", "--engine", "exact", "--out", "plain")
    ran = recallatk("run", "corpus.parquet", "queries.parquet", *words, cwd=folder)
    assert ran.returncode == 0, ran.stderr
    assert 'id="effort"' not in (folder / "plain" / "report.html").read_text()


def test_a_name_that_stands_for_nothing_is_refused_before_anything_is_measured(made):
    folder, _ = made
    ran = recallatk(
        *(
            "run",
            "corpus.parquet",
            "queries.parquet",
            "--metric",
            "l2",
            "--by",
            "knid*effort",
            "--out",
            "new",
        ),
        cwd=folder,
    )
    assert ran.returncode == 2
    assert "--by" in ran.stderr and "Did you mean kind" in ran.stderr
    assert not (folder / "new").exists()
