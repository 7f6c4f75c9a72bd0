"""Paths against the same steps by hand, with NumPy and faiss."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_paths import (
    DIMENSION,
    QUERIES,
    ROWS,
    batch,
    built,
    dataset,
    hits,
    ranked,
    reordered,
    scores,
    vectors,
)

from examples import examples
from recallatk import Path, parse_filter
from recallatk.adapters import QueryBatch
from recallatk.adapters.base import resolved
from recallatk.adapters.exact import Exact
from recallatk.errors import EngineError
from recallatk.pipeline.path_engine import path_engine
from recallatk.pipeline.reduced_vectors import Reduction

METRICS = ("l2", "cosine", "ip")
PQ = {"retrieve": "faiss-ivf-pq", "build": {"nlist": 4, "M": 4, "nbits": 6, "refine": "none"}}
EXACT = {"rerank": "exact"}


def table(data):
    """Scores of all pairs by whole vectors."""
    return scores(str(data.metric), vectors(data.queries), vectors(data.corpus))


@pytest.mark.parametrize("metric", METRICS)
def test_lists_of_codes_reranked_by_whole_vectors(metric):
    data = dataset(metric)
    engine = built(data, {**PQ, "oversample": 3, "search": {"nprobe": 2}}, EXACT)
    found = engine.search(batch(data), 10)
    index = engine.legs[0].engine.index
    index.nprobe = 2
    asked = vectors(data.queries)
    candidates = index.search(asked, 30)[1]
    assert (found == reordered(table(data), candidates, 10)).all()
    assert engine.settings["k_factor"] == 0, "the engine does not rerank as well"
    # The recall of an exact reranking is the share of the true top k among its candidates.
    truth = ranked(table(data), 10)
    assert hits(found, truth).tolist() == hits(candidates, truth).tolist()
    assert 0.1 < hits(found, truth).mean() < 0.95


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("unit", [True, False])
def test_leading_dimensions_reranked_by_whole_vectors(metric, unit):
    data = dataset(metric, unit=unit)
    engine = built(data, {"retrieve": "exact", "dimensions": 6, "oversample": 4}, EXACT)
    short = [vectors(part)[:, :6].astype(float) for part in (data.corpus, data.queries)]
    if unit:
        # Vectors of norm 1 are normalized again, so that any metric ranks them by angle.
        short = [each / np.linalg.norm(each, axis=1, keepdims=True) for each in short]
    candidates = ranked(scores(metric, short[1], short[0]), 40)
    assert (engine.search(batch(data), 10) == reordered(table(data), candidates, 10)).all()
    assert engine.exercised().endswith("; 6 of 16 dimensions")


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dimensions", [None, 10])
def test_binary_codes_rank_by_hamming_distance(metric, dimensions):
    data = dataset(metric)
    leg = {"retrieve": "exact", "codes": "binary", "oversample": 5}
    engine = built(data, leg if dimensions is None else {**leg, "dimensions": dimensions}, EXACT)
    bits = [vectors(part)[:, :dimensions] >= 0 for part in (data.corpus, data.queries)]
    differing = (bits[1][:, None] != bits[0][None]).sum(axis=2)
    candidates = ranked(-differing, 50)
    retrieved, _ = engine.legs[0].retrieve(batch(data), 10)
    same = np.take_along_axis(differing, retrieved, axis=1) == np.take_along_axis(
        differing, candidates, axis=1
    )
    assert same.all()
    assert (engine.search(batch(data), 10) == reordered(table(data), retrieved, 10)).all()
    assert f"{dimensions or DIMENSION} bits of {DIMENSION} dimensions" in engine.exercised()


@pytest.mark.parametrize("engine", ["exact", "faiss-hnsw", "usearch", "hnswlib", "faiss-ivf-flat"])
@pytest.mark.parametrize("reduced", [{"dimensions": 8}, {"codes": "binary"}])
def test_engines_hold_smaller_vectors(engine, reduced):
    data = dataset("cosine")
    path = built(data, {"retrieve": engine, **reduced, "oversample": 4}, EXACT)
    truth = ranked(table(data), 10)
    found = path.search(batch(data), 10)
    candidates, _ = path.legs[0].retrieve(batch(data), 10)
    assert hits(found, truth).tolist() == hits(candidates, truth).tolist()
    assert (found == reordered(table(data), candidates, 10)).all()


def reciprocal(lists, constant, k):
    found = []
    for lines in zip(*lists, strict=True):
        totals = {}
        for line in lines:
            for rank, row in enumerate((row for row in line if row >= 0), 1):
                totals[row] = totals.get(row, 0) + 1 / (constant + rank)
        order = sorted(totals, key=lambda row: (-round(totals[row], 12), row))
        found.append((order + [-1] * k)[:k])
    return np.array(found)


def by_weight(lists, tables, share, k):
    found = []
    for query in range(len(lists[0])):
        totals = {}
        for line, own, weight in zip(lists, tables, (share, 1 - share), strict=True):
            known = {row: own[query, row] for row in line[query] if row >= 0}
            low, high = min(known.values(), default=0), max(known.values(), default=0)
            for row, value in known.items():
                scaled = 1 if high == low else (value - low) / (high - low)
                totals[row] = totals.get(row, 0) + weight * scaled
        order = sorted(totals, key=lambda row: (-round(totals[row], 12), row))
        found.append((order + [-1] * k)[:k])
    return np.array(found)


LEXICAL = {"retrieve": "bm25", "depth": 20}
DENSE = {"retrieve": "exact", "depth": 30}


@pytest.fixture(scope="module")
def texts():
    """Data, and BM25 scores of all pairs from the leg alone."""
    data = dataset("cosine")
    leg = built(data, {"retrieve": "bm25", "depth": ROWS}, EXACT).legs[0]
    rows, values = leg.retrieve(batch(data), 10)
    every = np.full((QUERIES, ROWS), -np.inf)
    for query in range(QUERIES):
        known = rows[query] >= 0
        every[query, rows[query][known]] = values[query][known]
    return data, every


def lexical_list(every, depth):
    lists = ranked(every, depth)
    return np.where(np.isfinite(np.take_along_axis(every, lists, axis=1)), lists, -1)


@pytest.mark.parametrize("constant", [1, 60])
def test_legs_fused_by_reciprocal_ranks(texts, constant):
    data, every = texts
    engine = built(data, DENSE, LEXICAL, {"fuse": "rrf", "constant": constant})
    lists = [ranked(table(data), 30), lexical_list(every, 20)]
    assert (engine.search(batch(data), 10) == reciprocal(lists, constant, 10)).all()


@pytest.mark.parametrize("weight", [0, 0.3, 0.5, 1])
@pytest.mark.parametrize("metric", METRICS)
def test_legs_fused_by_weighted_scores(texts, weight, metric):
    _, every = texts
    data = dataset(metric)
    engine = built(data, DENSE, LEXICAL, {"fuse": "weighted", "weight": weight})
    lists = [ranked(table(data), 30), lexical_list(every, 20)]
    # Distances are fused as distances: their square roots, not their squares.
    dense = -np.sqrt(-table(data)) if metric == "l2" else table(data)
    assert (engine.search(batch(data), 10) == by_weight(lists, [dense, every], weight, 10)).all()


def test_candidates_of_codes_are_fused_by_their_whole_vectors(texts):
    data, every = texts
    leg = {"retrieve": "exact", "codes": "binary", "depth": 30}
    engine = built(data, leg, LEXICAL, {"fuse": "weighted", "weight": 0.6})
    candidates, _ = engine.legs[0].retrieve(batch(data), 10)
    lists = [candidates, lexical_list(every, 20)]
    assert (engine.search(batch(data), 10) == by_weight(lists, [table(data), every], 0.6, 10)).all()


def test_the_depth_of_a_fusion_limits_the_rows_that_go_on(texts):
    data, every = texts
    stages = [DENSE, LEXICAL, {"fuse": "rrf", "constant": 60, "depth": 15}, EXACT]
    lists = [ranked(table(data), 30), lexical_list(every, 20)]
    joined = reciprocal(lists, 60, 15)
    assert (built(data, *stages).search(batch(data), 10) == reordered(table(data), joined, 10)).all()
    # Without one, every candidate goes on.
    stages[2] = {"fuse": "rrf", "constant": 60}
    joined = reciprocal(lists, 60, 50)
    assert (built(data, *stages).search(batch(data), 10) == reordered(table(data), joined, 10)).all()


def test_three_legs_are_fused():
    data = dataset("l2")
    stages = [{**DENSE, "depth": depth, "name": f"leg {depth}", "dimensions": depth} for depth in (3, 5, 9)]
    engine = built(data, *stages, {"fuse": "rrf", "constant": 60})
    lists = [
        ranked(scores("l2", vectors(data.queries)[:, :depth], vectors(data.corpus)[:, :depth]), depth)
        for depth in (3, 5, 9)
    ]
    assert (engine.search(batch(data), 8) == reciprocal(lists, 60, 8)).all()


@given(
    st.integers(1, 30),
    st.integers(1, 60),
    st.integers(1, 12),
    st.sampled_from(METRICS),
    st.integers(0, 3),
)
@examples(40)
def test_any_depth_of_reranking_changes_the_first_rows_alone(k, depth, dimensions, metric, seed):
    data = dataset(metric, seed=seed)
    leg = {"retrieve": "exact", "dimensions": dimensions, "depth": 60}
    engine = built(data, leg, {**EXACT, "depth": depth})
    candidates, _ = engine.legs[0].retrieve(batch(data), k)
    first = reordered(table(data), candidates[:, :depth], depth)
    expected = np.concatenate([first, candidates[:, depth:]], axis=1)[:, :k]
    assert (engine.search(batch(data), k) == expected).all()


FILTERS = [parse_filter("group = 1"), None, parse_filter("group >= 2"), parse_filter("group = 9")] * 3


@pytest.mark.parametrize("rerank", [True, False])
def test_a_filter_after_the_search_removes_candidates(rerank):
    data = dataset("l2", filters=FILTERS)
    leg = {"retrieve": "exact", "dimensions": 8, "oversample": 4}
    engine = built(data, leg, {"filter": "after"}, *([EXACT] if rerank else []))
    groups = np.arange(ROWS) % 4
    admitted = [groups == 1, groups >= 0, groups >= 2, groups == 9] * 3
    short = scores("l2", vectors(data.queries)[:, :8], vectors(data.corpus)[:, :8])
    kept = [[row for row in line if admitted[query][row]] for query, line in enumerate(ranked(short, 40))]
    order = table(data) if rerank else short
    found = engine.search(batch(data), 10)
    assert (found == reordered(order, kept, 10)).all()
    assert (found[3] == -1).all(), "no row is admitted"
    assert (found[0] == -1).any(), "fewer candidates than k are left, and none is made up"


def test_a_filter_without_such_a_stage_is_the_filter_of_the_legs():
    data = dataset("l2", filters=FILTERS)
    engine = built(data, {"retrieve": "exact", "dimensions": 8, "oversample": 4}, EXACT)
    groups = np.arange(ROWS) % 4
    admitted = np.array([groups == 1, groups >= 0, groups >= 2, groups == 9] * 3)
    short = scores("l2", vectors(data.queries)[:, :8], vectors(data.corpus)[:, :8])
    candidates = ranked(np.where(admitted, short, -np.inf), 40)
    known = np.take_along_axis(admitted, candidates, axis=1)
    found = engine.search(batch(data), 10)
    assert (found == reordered(table(data), np.where(known, candidates, -1), 10)).all()


class Picky(Exact):
    """An exact search that refuses one filter."""

    def refusal(self, condition):
        return "no index on group" if "9" in condition.key else super().refusal(condition)


def test_a_filter_that_a_leg_refuses_is_refused_with_its_reason():
    data = dataset("l2", filters=FILTERS)
    for stages, said in (([], "no index on group"), ([{"filter": "after"}], None)):
        kind = path_engine(Path("mine", [{"retrieve": "exact"}, *stages]))
        kind.knobs.engines["exact"] = Picky
        engine = kind()
        engine.build(data.corpus, data.metric)
        engine.configure(**resolved("mine", kind.search_knobs, {}))
        assert engine.refusal(parse_filter("group = 9")) == said
        assert engine.refusal(parse_filter("group = 1")) is None
        assert "colour" in engine.refusal(parse_filter("colour = 1"))


def test_queries_one_by_one_and_together_find_the_same(texts):
    data, _ = texts
    engine = built(data, DENSE, LEXICAL, {"fuse": "rrf"}, {**EXACT, "depth": 12})
    together = engine.search(batch(data), 10)
    alone = [engine.search(batch(data, one=query), 10)[0] for query in range(QUERIES)]
    assert (together == np.array(alone)).all()


def test_a_path_retrieves_for_its_own_number_of_results():
    data = dataset("l2")
    leg = {"retrieve": "exact", "dimensions": 4, "oversample": 2}
    wide, narrow = built(data, leg, EXACT, k=10), built(data, leg, EXACT)
    assert (wide.search(batch(data), 5) == wide.search(batch(data), 10)[:, :5]).all()
    assert wide.legs[0].depth(10) == 20 and narrow.legs[0].depth(5) == 10
    assert (narrow.search(batch(data), 5) != wide.search(batch(data), 5)).any()


def test_more_candidates_than_rows_are_all_rows():
    data = dataset("l2", rows=20)
    engine = built(data, {"retrieve": "exact", "dimensions": 2, "oversample": 100}, EXACT)
    found = engine.search(batch(data), 30)
    assert (found[:, :20] == ranked(table(data), 20)).all() and (found[:, 20:] == -1).all()


def test_an_engine_reranks_natively_by_itself():
    data = dataset("l2")
    leg = {"retrieve": "faiss-ivf-pq", "build": {"nlist": 4, "M": 4, "nbits": 6}}
    leg["search"] = {"nprobe": 4, "k_factor": 5}
    engine = built(data, leg, {"rerank": "native"})
    assert engine.path.stage_names == ("faiss-ivf-pq",)
    assert (engine.search(batch(data), 10) == engine.legs[0].engine.search(batch(data), 10)).all()
    assert "oversample" not in engine.settings


def test_smaller_vectors_keep_zeros_and_signs():
    few = np.array([[0, 0, 5], [3, 4, 1], [-1, 0, 2]], np.float32)
    assert Reduction(2, unit=True).apply(few).tolist() == [
        [0, 0],
        [np.float32(0.6), np.float32(0.8)],
        [-1, 0],
    ]
    assert Reduction(2, binary=True).apply(few).tolist() == [[1, 1], [1, 1], [-1, 1]]
    assert Reduction(binary=True).describe(3) == "3 bits of 3 dimensions"


def test_a_path_without_an_index_says_so():
    engine = type(built(dataset(), {"retrieve": "exact"}))()
    for ask in (lambda: engine.search(QueryBatch(np.zeros((1, DIMENSION))), 3), engine.exercised):
        with pytest.raises(EngineError, match="mine: no index is built"):
            ask()


def test_a_closed_path_holds_nothing():
    data = dataset()
    engine = built(data, {"retrieve": "exact"}, {"filter": "after"}, EXACT)
    engine.search(batch(data), 3)
    engine.close()
    assert (engine.legs, engine.exact, engine.allowed, engine.masks, engine.searched) == (
        [],
        None,
        None,
        {},
        0,
    )
