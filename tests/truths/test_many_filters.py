"""Thousands of queries with a filter each, against brute force on numbers that float64 adds up exactly."""

import dataclasses
from typing import NamedTuple

import numpy as np
import pytest

from recallatk import make_corpus, make_queries, open_dataset
from recallatk.filters import And, Equals, In, Not, Range
from recallatk.truths import ground_truth, scanner_faiss
from recallatk.truths.memory_plan import batches

ROWS, QUERIES, DEPTH = 3000, 2100, 7


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Tiles of the usual size for faiss take longer to allocate than all that is tested here."""
    monkeypatch.setattr(scanner_faiss, "_TILE_BYTES", 1 << 14)


class Problem(NamedTuple):
    corpus: np.ndarray
    queries: np.ndarray
    columns: dict
    filters: list
    masks: np.ndarray
    """(queries, rows): what passes."""
    own_rows: np.ndarray | None = None

    def dataset(self, metric):
        asked = make_queries(self.queries, filters=self.filters)
        if self.own_rows is not None:
            asked = dataclasses.replace(asked, corpus_rows=self.own_rows)
        return open_dataset(make_corpus(self.corpus, metadata=self.columns), asked, metric=metric)


def condition(number, columns):
    """One of seven kinds of filter by turns, and which rows it lets pass."""
    owner, price = columns["owner"], columns["price"]
    kind, value = number % 7, number // 7
    if kind == 0:
        return None, np.ones(ROWS, bool)
    if kind == 1:
        return Equals("owner", value), owner == value
    if kind == 2:
        return Equals("owner", -1 - value), np.zeros(ROWS, bool)
    if kind == 3:
        # A handful of rows: fewer than the depth.
        return Range("price", gte=value, lt=value + 3), (price >= value) & (price < value + 3)
    if kind == 4:
        return Range("price", gt=value), price > value
    if kind == 5:
        return In("owner", (value, value + 1, 7)), np.isin(owner, [value, value + 1, 7])
    both = And((Not(Equals("owner", value)), Range("price", lte=ROWS - value)))
    return both, (owner != value) & (price <= ROWS - value)


@pytest.fixture(scope="module")
def problem():
    random = np.random.default_rng(4)
    columns = {"owner": random.integers(0, 400, ROWS), "price": random.permutation(ROWS)}
    # Few different numbers, so that there are many ties.
    corpus, queries = (random.integers(-3, 4, (rows, 4)).astype("int8") for rows in (ROWS, QUERIES))
    filters, masks = zip(*(condition(number, columns) for number in range(QUERIES)), strict=True)
    return Problem(corpus, queries, columns, list(filters), np.array(masks))


def keys_of(metric, corpus, queries):
    """Smaller is better; sums of small whole numbers, so that nothing is rounded."""
    rows, asked = corpus.astype(np.float64), queries.astype(np.float64)
    products = asked @ rows.T
    if metric == "ip":
        return -products
    return (rows**2).sum(axis=1) - 2 * products + (asked**2).sum(axis=1)[:, None]


def assert_brute_force(problem, metric, truth):
    keys, masks = keys_of(metric, problem.corpus, problem.queries), problem.masks.copy()
    if problem.own_rows is not None:
        masks[np.arange(len(masks)), problem.own_rows] = False
    assert (truth.eligible == masks.sum(axis=1)).all()
    offsets, beyond = truth.overflow
    for number, (key, mask) in enumerate(zip(keys, masks, strict=True)):
        order = np.flatnonzero(mask)
        order = order[np.argsort(key[order], kind="stable")]
        kept = min(DEPTH, len(order))
        ranked = key[order]
        assert truth.rows[number].tolist() == [*order[:DEPTH], *[-1] * (DEPTH - kept)]
        scores = np.sqrt(ranked[:DEPTH]) if metric == "l2" else -ranked[:DEPTH]
        assert truth.scores[number, :kept].tolist() == scores.tolist()
        assert np.isnan(truth.scores[number, kept:]).all()
        tied = np.concatenate([[False], ranked[1:] == ranked[:-1]])[:kept]
        assert truth.tied[number].tolist() == [*tied, *[False] * (DEPTH - kept)]
        ties = order[DEPTH:][ranked[DEPTH:] == ranked[DEPTH - 1]] if len(order) > DEPTH else order[:0]
        assert beyond[offsets[number] : offsets[number + 1]].tolist() == ties[:1000].tolist()
        assert truth.tie_counts[number] == len(ties)
        assert truth.certificate.next_rows[number] == (order[DEPTH] if len(order) > DEPTH else -1)


BLOCKS = {"block_bytes": 5000, "threads": 2}


@pytest.mark.parametrize(
    ("metric", "backend", "arguments"),
    [("ip", "blas", BLOCKS), ("ip", "faiss", {}), ("l2", "blas", {}), ("l2", "faiss", BLOCKS)],
    ids=["ip-blas-blocks", "ip-faiss-whole", "l2-blas-whole", "l2-faiss-blocks"],
)
def test_every_query_gets_what_its_own_filter_lets_pass(problem, metric, backend, arguments):
    truth = ground_truth(problem.dataset(metric), depth=DEPTH, backend=backend, **arguments)
    assert_brute_force(problem, metric, truth)


@pytest.mark.parametrize("backend", ["blas", "faiss"])
def test_a_query_does_not_find_itself_whatever_its_filter(problem, backend):
    own_rows = np.arange(QUERIES)[::-1].copy()
    mine = problem._replace(queries=problem.corpus[own_rows], own_rows=own_rows)
    assert_brute_force(mine, "l2", ground_truth(mine.dataset("l2"), depth=DEPTH, backend=backend))


def test_some_filters_gather_their_rows_and_others_are_masked_in_one_scan(problem):
    eligibility = problem.dataset("l2").eligibility
    found = batches(eligibility)
    sets = np.array([None if each is None else each.count for each in eligibility.sets], object)
    gathered = np.concatenate([batch.queries for batch in found if batch.members is not None])
    common = np.concatenate([batch.queries for batch in found if batch.members is None])
    assert sorted([*gathered, *common]) == list(range(QUERIES))
    assert len(gathered) > 1000
    assert sum(each is not None for each in sets[eligibility.group[common]]) > 500
    # With nothing to mask in, faiss is handed rows that have passed.
    always = batches(eligibility, always_gather=True)
    assert {each.members is None for each in always} == {True, False}
    assert sum(len(each.queries) for each in always if each.members is None) == problem.filters.count(None)
    assert all(batch.members.count == sets[eligibility.group[batch.queries[0]]] for batch in always[:-1])


@pytest.mark.parametrize("backend", ["blas", "faiss"])
def test_many_queries_with_one_selective_filter_share_its_rows(problem, backend):
    numbers = np.flatnonzero(problem.columns["owner"] < 3)
    alike = problem._replace(
        filters=[Range("owner", lt=3)] * QUERIES, masks=np.tile(problem.columns["owner"] < 3, (QUERIES, 1))
    )
    dataset = alike.dataset("ip")
    assert [batch.members.count for batch in batches(dataset.eligibility)] == [len(numbers)] * 3
    assert_brute_force(alike, "ip", ground_truth(dataset, depth=DEPTH, backend=backend, block_bytes=3000))
