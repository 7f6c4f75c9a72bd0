"""Truth against rational arithmetic: the same rows, order, ties and next row, whatever the numbers are."""

import dataclasses
import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import exact_order, exact_value, is_within, tie_block

from examples import examples
from recallatk import make_corpus, make_queries, open_dataset
from recallatk.core.truth import Decision
from recallatk.filters import Equals, Range
from recallatk.truths import ground_truth, scanner_faiss, scanner_int8

METRICS = ("cosine", "ip", "l2")
DTYPES = ("float16", "float32", "float64", "int8", "uint8")
# The last ones have more rows than float32 may leave as candidates at small depths.
SHAPES = ((1, 1), (1, 7), (2, 3), (9, 1), (9, 33), (40, 2), (40, 3), (40, 8), (330, 3))


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Tiles of the usual size for faiss take longer to allocate than all that is tested here."""
    monkeypatch.setattr(scanner_faiss, "_TILE_BYTES", 1 << 14)
    monkeypatch.setattr(scanner_int8, "_FEW_QUERIES", 1)


def largest(dtype):
    """The largest number that a vector may have."""
    kind = np.dtype(dtype)
    return np.iinfo(kind).max if kind.kind in "iu" else min(float(np.finfo(kind).max), 1e150)


def stored(numbers, dtype):
    """The numbers in a type, as near as it has them."""
    kind = np.dtype(dtype)
    low = -largest(dtype) if kind.kind == "f" else np.iinfo(kind).min
    return np.clip(np.rint(numbers) if kind.kind in "iu" else numbers, low, largest(dtype)).astype(dtype)


def small(random, shape, dtype):
    return random.integers(-3, 5, shape) / (2 if dtype.startswith("float") else 1)


def one_unit_apart(random, shape, dtype):
    base = random.uniform(1, 2, shape[1])
    if not dtype.startswith("float"):
        return np.rint(50 * base) + random.integers(-1, 2, shape)
    return base.astype(dtype) * (1 + float(np.finfo(dtype).eps) * random.integers(-2, 3, shape))


def far_from_zero(random, shape, dtype):
    return random.normal(1000 if dtype.startswith("float") else 100, 1, shape)


def all_norms(random, shape, dtype):
    low, high = {"float16": (-3, 3), "float32": (-18, 18), "float64": (-18, 18)}.get(dtype, (0, 2))
    return random.normal(size=shape) * 10 ** random.uniform(low, high, (shape[0], 1))


def cancelling(random, shape, dtype):
    """Sums in which, with a level query, two large terms go and the small ones stay."""
    found = random.uniform(-3, 3, shape)
    rows, columns = np.arange(0, shape[0], 2), random.permutation(shape[1])
    high = {"float32": 1e18, "float64": 1e18}.get(dtype, largest(dtype))
    found[rows, columns[0]], found[rows, columns[-1]] = high, -high
    return found


def subnormal(random, shape, dtype):
    if not dtype.startswith("float"):
        return random.integers(0, 2, shape)
    limits = np.finfo(dtype)
    units = random.choice([float(limits.smallest_subnormal), float(limits.smallest_normal)], shape)
    return units * random.integers(-3, 4, shape)


def extreme(random, shape, dtype):
    kind = np.dtype(dtype)
    low = np.iinfo(kind).min if kind.kind in "iu" else -largest(dtype)
    return random.choice([low, largest(dtype), largest(dtype), 0, 1], shape)


def multiples(random, shape, dtype):
    base = random.integers(1, 4, (3, shape[1]))[random.integers(0, 3, shape[0])]
    return base * random.choice([1, 2, 4, -1, -2], (shape[0], 1))


def shuffled(random, shape, dtype):
    """Rows that a level query is as far from, and that floating point adds up to different sums."""
    numbers = random.normal(scale=1 if dtype.startswith("float") else 50, size=shape[1])
    return np.array([random.permutation(numbers) for _ in range(shape[0])])


def level(random, shape, dtype):
    return np.ones(shape) * random.integers(1, 4, (shape[0], 1))


KINDS = (
    small,
    one_unit_apart,
    far_from_zero,
    all_norms,
    cancelling,
    subnormal,
    extreme,
    multiples,
    shuffled,
)


def vectors(kind, random, shape, dtype, metric):
    """Vectors of a kind that the metric accepts."""
    found = stored(kind(random, shape, dtype), dtype)
    size = np.abs(found.astype(np.float64)).max(axis=1)
    if metric == "cosine":
        # A vector of zeros has no direction, and one whose square float64 cannot hold is refused.
        found[size == 0, 0] = 1
    if metric != "l2" and dtype == "float64":
        # So are inner products that float64 cannot hold with all digits.
        found[(size > 0) & (size < 1e-145), 0] = 1e-145
    return found


class Problem(NamedTuple):
    metric: str
    corpus: np.ndarray
    queries: np.ndarray
    filters: list | None
    own_rows: list | None
    depth: int

    def dataset(self):
        rows = np.arange(len(self.corpus))
        metadata = {"colour": [str(row % 3) for row in rows], "number": rows}
        asked = make_queries(self.queries, filters=self.filters)
        if self.own_rows is not None:
            asked = dataclasses.replace(asked, corpus_rows=np.array(self.own_rows, np.int64))
        return open_dataset(make_corpus(self.corpus, metadata=metadata), asked, metric=self.metric)

    def eligible(self, number):
        condition = None if self.filters is None else self.filters[number]
        own = None if self.own_rows is None else self.own_rows[number]
        return [row for row in range(len(self.corpus)) if row != own and passes(condition, row)]


def passes(condition, row):
    match condition:
        case None:
            return True
        case Equals("colour", value):
            return str(row % 3) == value
    return row < condition.lt


@st.composite
def filter_lists(draw, queries):
    conditions = st.sampled_from(
        [None, Equals("colour", "0"), Equals("colour", "no such"), Range("number", lt=5)]
    )
    alike = conditions.map(lambda condition: [condition] * queries)
    return draw(st.one_of(st.none(), alike, st.lists(conditions, min_size=queries, max_size=queries)))


@st.composite
def problems(draw, metric, kind):
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype, shape = draw(st.sampled_from(DTYPES)), draw(st.sampled_from(SHAPES))
    corpus = vectors(kind, random, shape, dtype, metric)
    # Copies, in blocks that are larger than many a depth.
    distinct = draw(st.sampled_from([shape[0], shape[0], 3, 1]))
    corpus = corpus[random.integers(0, min(distinct, shape[0]), shape[0])] if distinct < shape[0] else corpus
    count = draw(st.integers(1, 3))
    own_rows = draw(
        st.one_of(st.none(), st.lists(st.integers(0, shape[0] - 1), min_size=count, max_size=count))
    )
    if own_rows is not None:
        queries, own_rows = corpus[own_rows], draw(st.sampled_from([own_rows, None]))
    else:
        other = draw(st.sampled_from([kind, kind, level, level, *KINDS]))
        query_dtype = draw(st.sampled_from([dtype, *DTYPES]))
        queries = vectors(other, random, (count, shape[1]), query_dtype, metric)
    depth = draw(st.sampled_from([1, 2, 5, 12, 50]))
    return Problem(metric, corpus, queries, draw(filter_lists(count)), own_rows, depth)


def close_enough(problem, query, score, rows):
    """A few units in the last place of a score, or of its largest terms."""
    unit = (problem.corpus.shape[1] + 8) * 2.0**-51
    if problem.metric == "l2":
        return unit * score + 2.0**-1074
    if problem.metric == "cosine":
        return unit
    sizes = [math.hypot(*problem.corpus[row].tolist()) for row in rows]
    return unit * math.hypot(*query.tolist()) * max(sizes) + 2.0**-1060


def claimed_block(truth, number, k):
    """How many rows the truth says are better than the k-th, and which ones tie with it."""
    first, last = k - 1, k
    while truth.tied[number, first]:
        first -= 1
    while last < truth.depth and truth.tied[number, last]:
        last += 1
    block = set(truth.rows[number, first:last].tolist())
    offsets, beyond = truth.overflow
    if last == truth.depth:
        block |= set(beyond[offsets[number] : offsets[number + 1]].tolist())
    return first, block


def assert_scores(problem, truth, number, order, kept):
    """Scores are near the real ones, none steps back, and those at the boundary keep to their bound."""
    query, depth = problem.queries[number], problem.depth
    scores = [*truth.scores[number, :kept].tolist(), truth.certificate.next_scores[number]]
    scores = scores[: min(len(order), depth + 1)]
    bound = truth.certificate.bounds[number]
    steps = np.diff(scores) * (1 if problem.metric == "l2" else -1)
    assert (steps >= 0).all()
    rows = [row for _, row in order]
    allowed = [close_enough(problem, query, score, rows) for score in scores]
    for place, score in enumerate(scores):
        value = exact_value(problem.metric, query, problem.corpus[rows[place]])
        assert is_within(problem.metric, value, score, allowed[place])
        if place >= kept - 1:
            assert is_within(problem.metric, value, score, bound)
    assert not scores or bound <= max(allowed[kept - 1 :])


def assert_query(problem, truth, number):
    """One query's part of a truth is what rational arithmetic says."""
    depth, certificate = problem.depth, truth.certificate
    order = exact_order(problem.metric, problem.queries[number], problem.corpus, problem.eligible(number))
    kept = min(depth, len(order))
    keys, rows = [key for key, _ in order], [row for _, row in order]
    tied = [place > 0 and keys[place] == keys[place - 1] for place in range(len(order))]
    assert truth.eligible[number] == len(order)
    assert truth.rows[number].tolist() == rows[:depth] + [-1] * (depth - kept)
    assert np.isnan(truth.scores[number, kept:]).all()
    assert truth.tied[number].tolist() == tied[:depth] + [False] * (depth - kept)
    for place in np.flatnonzero(truth.tied[number]):
        assert truth.scores[number, place] == truth.scores[number, place - 1]
    for k in range(1, kept + 1):
        assert claimed_block(truth, number, k) == tie_block(order, k)
    offsets, beyond = truth.overflow
    overflow = [row for key, row in order[depth:] if key == keys[depth - 1]]
    assert beyond[offsets[number] : offsets[number + 1]].tolist() == overflow[:1000]
    assert truth.tie_counts[number] == len(overflow)
    assert certificate.next_rows[number] == (rows[depth] if len(order) > depth else -1)
    assert np.isnan(certificate.next_scores[number]) == (len(order) <= depth)
    assert np.isnan(certificate.bounds[number]) == (kept == 0)
    decided = {Decision.EXACT} if any(tied[: depth + 1]) else set(Decision)
    assert certificate.decided[number] in decided
    assert_scores(problem, truth, number, order, kept)


def assert_exact(problem, **arguments):
    truth = ground_truth(problem.dataset(), depth=problem.depth, **arguments)
    assert truth.rows.shape == truth.scores.shape == truth.tied.shape == (len(problem.queries), problem.depth)
    for number in range(len(problem.queries)):
        assert_query(problem, truth, number)
    return truth


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("metric", METRICS)
@examples(25)
@given(st.data())
def test_truth_is_what_rational_arithmetic_says(metric, kind, data):
    problem = data.draw(problems(metric, kind))
    sizes = [64, 1 << 10, 1 << 20, None] if len(problem.corpus) > 100 else [1, 64, 1 << 20, None]
    assert_exact(
        problem,
        block_bytes=data.draw(st.sampled_from(sizes)),
        backend=data.draw(st.sampled_from(["blas", "faiss", "int8"])),
        threads=data.draw(st.sampled_from([1, 2])),
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("metric", METRICS)
@examples(4)
@given(st.sampled_from(KINDS), st.integers(0, 2**32 - 1), st.sampled_from(["blas", "faiss", "int8"]))
def test_vectors_of_4096_numbers_are_ranked_exactly(metric, dtype, kind, seed, backend):
    random = np.random.default_rng(seed)
    corpus = vectors(kind, random, (5, 4096), dtype, metric)
    corpus[3] = corpus[1]
    queries = vectors(kind, random, (1, 4096), dtype, metric)
    assert_exact(Problem(metric, corpus, queries, None, None, 2), backend=backend)


def one_query(metric, corpus, query, depth):
    return Problem(metric, np.array(corpus), np.array([query]), None, None, depth)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_row_whose_bound_reaches_past_its_neighbors_is_placed_exactly(depth):
    # Float64 says 0 for the first row, whose product is 1: its bound spans both others, which lie apart.
    corpus = np.array([[1e18, 1, -1e18], [0.5, 0, 0], [0.75, 0, 0]], "float32")
    truth = assert_exact(one_query("ip", corpus, [1.0, 1.0, 1.0], depth))
    assert truth.rows[0].tolist() == [0, 2, 1][:depth]


@pytest.mark.parametrize("depth", [1, 2])
def test_the_bound_covers_the_score_that_a_tie_shares(depth):
    # Both products are 1; float64 says 0 for the first row, and its bound alone says so.
    assert_exact(one_query("ip", [[1e18, 1, -1e18], [1, 0, 0]], [1.0, 1.0, 1.0], depth))


@pytest.mark.parametrize("metric", METRICS)
def test_the_largest_numbers_that_are_accepted_are_ranked(metric):
    corpus = np.where(np.eye(4), -1e149, 1e150)
    assert_exact(one_query(metric, corpus, [1e150, -1e150, 1e150, 1e149], 3))


@pytest.mark.parametrize("sizes", [(1e-200, 1e100), (1.0, 1e-170), (1e10, 1e-300)])
def test_products_of_numbers_whose_squares_vanish_are_ranked_exactly(sizes):
    # Every row has the same product with the query, added in another order: 600 ties.
    random = np.random.default_rng(0)
    numbers = random.normal(size=8)
    corpus = sizes[0] * np.array([random.permutation(numbers) for _ in range(600)])
    assert_exact(one_query("ip", corpus, np.full(8, sizes[1]), 3))
