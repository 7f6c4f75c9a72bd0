"""Planted losses: each is named, on two engines, through the command that users type."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import recallatk

ENGINES = {
    "dropping-lists": "DroppingLists",
    "dropping-graph": "DroppingGraph",
    "post-filtering-lists": "PostFilteringLists",
    "post-filtering-graph": "PostFilteringGraph",
}
ROWS, QUERIES, K = 1_000, 60, 5
CASES = {
    "pq codes": ("faiss-ivf-pq", "nlist = 4, M = 2, nbits = 3, refine = 'none'", "nprobe = 4, k_factor = 0"),
    "sq codes": ("faiss-sq", "type = 'SQ4'", ""),
    "dropped from lists": ("dropping-lists", "nlist = 4", "nprobe = 4"),
    "dropped from a graph": ("dropping-graph", "M = 16", "ef = 100"),
    # The walk keeps as many candidates as there are rows, so that nothing can be a matter of effort.
    "cut edges": ("hnswlib", "M = 2, ef_construction = 2", f"ef = {ROWS}"),
    "cut edges in faiss": ("faiss-hnsw", "M = 2, ef_construction = 2", f"ef = {ROWS}"),
    "tiny nprobe": ("faiss-ivf-flat", "nlist = 16", "nprobe = 1"),
    "tiny ef": ("hnswlib", "M = 4, ef_construction = 100", "ef = 5"),
    "two losses": ("dropping-lists", "nlist = 16", "nprobe = 2"),
}
FILTERED = {
    "post-filtered lists": ("post-filtering-lists", "nlist = 4", "nprobe = 4"),
    "post-filtered graph": ("post-filtering-graph", "M = 16", "ef = 200"),
}


@pytest.fixture(scope="module")
def lossy(tmp_path_factory):
    """The engines that lose recall on purpose, known to processes that this one starts."""
    place = tmp_path_factory.mktemp("plugin")
    described = place / "lossy_engines-1.dist-info"
    described.mkdir()
    shutil.copy(Path(__file__).parent / "lossy_engines.py", place)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: lossy-engines\nVersion: 1\n")
    points = "".join(f"{name} = lossy_engines:{kind}\n" for name, kind in ENGINES.items())
    (described / "entry_points.txt").write_text(f"[recallatk.engines]\n{points}")
    return str(place)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A corpus with groups, and queries."""
    folder = tmp_path_factory.mktemp("planted")
    random = np.random.default_rng(0)
    for name, count in (("corpus", ROWS), ("queries", QUERIES)):
        vectors = random.normal(size=(count, 8)).astype("f4")
        np.save(folder / f"{name}.npy", vectors)
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 8)
        table = {"id": pa.array(range(count)), "vector": column, "group": pa.array(np.arange(count) % 8)}
        pq.write_table(pa.table(table), folder / f"{name}.parquet")
    return folder


def explained(files, lossy, cases, *lines):
    """What `recallatk explain` says of every trial that `recallatk run --explain` measured."""
    path = files / f"bench-{len(cases)}.toml"
    data = [f"{name} = '{files / name}.parquet'" for name in ("corpus", "queries")]
    engines = [
        f"[[engine]]\nname = '{name}'\nbuild = {{ {build} }}\nsearch = {{ {search} }}"
        for name, build, search in cases.values()
    ]
    head = ["[data]", *data, "metric = 'l2'", *lines, "[measure]", f"at = [{K}]", "rounds = 1"]
    # The evidence must not depend on how fast or busy the machine is.
    head += ["[limits]", "explain = '10min'"]
    path.write_text("\n".join([*head, *engines]))
    own = {"XDG_CACHE_HOME": str(files / "cache"), "PYTHONPATH": lossy}
    ran = recallatk("run", path, "--explain", "--out", files / path.stem, "--quiet", env=own)
    assert ran.returncode == 0, ran.stderr
    said = recallatk("explain", files / path.stem, "--json", env=own)
    assert said.returncode == 0, said.stderr
    found = json.loads(said.stdout)["trials"]
    return dict(zip(cases, found, strict=True))


@pytest.fixture(scope="module")
def planted(files, lossy):
    return explained(files, lossy, CASES)


@pytest.fixture(scope="module")
def filtered(files, lossy):
    return explained(files, lossy, FILTERED, "where = 'group = 3'")


def shares(found):
    return {each["cause"]: each["share"] for each in found["loss"]}


def assert_all_lost_to(found, cause):
    """The interval of one cause holds all of the loss, and the remedy is for it."""
    lost = 1 - found["recall"]["value"]
    assert lost > 0.02
    assert sum(shares(found).values()) == pytest.approx(lost, abs=1e-9)
    own = next(each for each in found["loss"] if each["cause"] == cause)
    assert own["low"] <= lost <= own["high"], found
    assert found["remedy"]["cause"] == cause


@pytest.mark.parametrize("width", [60, 80, 140])
def test_explanations_fit_the_terminal(planted, files, width):
    said = recallatk("explain", files / f"bench-{len(CASES)}", env={"COLUMNS": str(width)})
    assert said.returncode == 0, said.stderr
    lines = said.stdout.splitlines()
    assert max(map(len, lines)) <= width
    # Every cause of every trial is there, whatever the form of the table.
    rows = [line for line in lines if "±" in line and "remedy" not in line]
    trials = [each for each in planted.values() if each["recall"]["value"] < 1]
    if width == 140:
        assert len(rows) == len(planted)
    else:
        lost = sum(share > 0 for each in trials for share in shares(each).values())
        assert len(rows) == len(planted) + lost


@pytest.mark.parametrize("case", ["pq codes", "sq codes"])
def test_crippled_codes_are_lost_to_ranking(planted, case):
    assert_all_lost_to(planted[case], "ranking")
    assert shares(planted[case])["missing"] == 0
    assert "rerank" in planted[case]["remedy"]["action"]


@pytest.mark.parametrize("case", ["dropped from lists", "dropped from a graph"])
def test_dropped_rows_are_missing(planted, case):
    found = planted[case]
    assert_all_lost_to(found, "missing")
    assert any("missing from the index" in each for each in found["notes"])
    assert "rebuild" in found["remedy"]["action"]


@pytest.mark.parametrize("case", ["cut edges", "cut edges in faiss"])
def test_cut_edges_are_lost_to_the_build(planted, case):
    assert_all_lost_to(planted[case], "build")
    assert "M" in planted[case]["remedy"]["action"]


@pytest.mark.parametrize(("case", "action"), [("tiny nprobe", "nprobe from 1"), ("tiny ef", "ef from 5")])
def test_tiny_effort_is_lost_to_effort(planted, case, action):
    assert_all_lost_to(planted[case], "effort")
    assert action in planted[case]["remedy"]["action"]


def test_lists_that_were_not_probed_are_named(planted):
    said = planted["tiny nprobe"]["notes"][0]
    assert said.startswith("100% of the neighbors lost to effort are in lists that the search did not visit")


@pytest.mark.parametrize("case", FILTERED)
def test_post_filtering_is_lost_to_the_filter(filtered, case):
    assert_all_lost_to(filtered[case], "filter")
    assert "filter" in filtered[case]["remedy"]["action"]


def test_two_losses_are_told_apart(planted, files):
    found = planted["two losses"]
    corpus, queries = (np.load(files / f"{name}.npy").astype(float) for name in ("corpus", "queries"))
    truth = np.argsort(((queries[:, None] - corpus[None]) ** 2).sum(axis=2), axis=1)[:, :K]
    # Every fifth row was dropped, however many lists are visited; all else is a matter of effort.
    dropped = float((truth % 5 == 0).mean())
    assert shares(found)["missing"] == pytest.approx(dropped, abs=1e-9)
    assert shares(found)["effort"] == pytest.approx(1 - found["recall"]["value"] - dropped, abs=1e-9)
