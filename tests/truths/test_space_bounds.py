"""Scan scores keep to the bounds that the proof rests on, and the sweep needs no more than these."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import GRAIN, is_within
from spaces import METRICS, PRECISIONS, cases, kernel_metric, kernel_value, moved, placed_row, prepared

from examples import examples
from recallatk.core import Metric
from recallatk.filters.eligibility import Eligibility
from recallatk.pair_scores import norms, pair_scores, tolerance
from recallatk.truths import scanner_int8
from recallatk.truths.scanner import Asked, ScanHits, below
from recallatk.truths.scanner_blas import BlasScanner
from recallatk.truths.scanner_faiss import FaissScanner
from recallatk.truths.scanner_int8 import Int8Scanner
from recallatk.truths.scanner_jax import JaxScanner
from recallatk.truths.space import FLOAT32, FLOAT64, Space
from recallatk.truths.sweep import Sweep


def sums(query, row):
    """The product of two vectors, in the type that they have, added up in several orders."""
    terms = query * row
    yield np.matmul(query[None], row[:, None])[0, 0]
    for order in (terms, terms[::-1], terms[np.argsort(terms)], terms[np.argsort(-np.abs(terms))]):
        yield list(itertools.accumulate(order))[-1]


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("metric", METRICS)
@examples(120)
@given(st.data())
def test_no_order_of_additions_takes_a_scan_score_further_off_than_its_bound(metric, precision, data):
    space, queries, row = data.draw(cases(metric, precision))
    asked, placed, errors = prepared(space, queries, row)
    for query, vector, error in zip(queries, asked, errors, strict=True):
        value = kernel_value(space, query, row[0])
        for score in sums(vector, placed[0]):
            assert score.dtype == space.precision.dtype
            assert is_within(kernel_metric(space), value, float(score), float(error))


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("metric", METRICS)
@examples(60)
@given(st.data())
def test_a_threshold_inside_the_product_costs_no_more_than_its_own_rounding(metric, precision, data):
    space, queries, row = data.draw(cases(metric, precision))
    asked, placed, errors = prepared(space, queries, row)
    share = data.draw(st.sampled_from([1.0, -1.0, 0.999, 2.0, 1e-3]))
    one = np.ones(1, space.precision.dtype)
    for query, vector, error in zip(queries, asked, errors, strict=True):
        value = kernel_value(space, query, row[0])
        threshold = np.matmul(vector, placed[0]) * one * space.precision.dtype.type(share)
        reach = space.rounding * abs(float(threshold[0]))
        for score in sums(np.append(vector, -threshold), np.append(placed[0], one)):
            # The scanner adds the threshold back to what it keeps.
            assert is_within(kernel_metric(space), value, float(score + threshold[0]), float(error) + reach)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("metric", [Metric.IP, Metric.L2])
@examples(60)
@given(st.data())
def test_no_row_is_longer_than_the_bound_of_its_norm(metric, precision, data):
    space, _, row = data.draw(cases(metric, precision))
    squares = Fraction(sum(number**2 for number in moved(space, row[0])), 1 << 2 * GRAIN)
    assert squares <= Fraction(placed_row(space, row)[1]) ** 2


@pytest.mark.parametrize("size", [1e-154, 1e-170, 1e-300])
def test_a_query_whose_square_vanishes_has_a_bound_that_holds(size):
    random = np.random.default_rng(0)
    row, queries = random.normal(size=(1, 40)), size * random.normal(size=(20, 40))
    space = Space(Metric.IP, FLOAT64, 40)
    asked, placed, errors = prepared(space, queries, row)
    for query, vector, error in zip(queries, asked, errors, strict=True):
        for score in sums(vector, placed[0]):
            assert is_within("ip", kernel_value(space, query, row[0]), float(score), float(error))


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("metric", METRICS)
@examples(60)
@given(st.data())
def test_the_bound_is_no_wider_than_its_type_deserves(metric, precision, data):
    space, queries, row = data.draw(cases(metric, precision))
    asked, placed, errors = prepared(space, queries, row)
    parts = [np.linalg.norm(each.astype(np.float64), axis=1) for each in (asked, placed)]
    # Under l2 the last component of the row holds its square, and may be the largest.
    size = (1 + parts[0]) * (1 + parts[1])
    units = 4 * (space.dimension + 32) * space.precision.unit
    assert (errors <= units * size).all()


def real_scores(metric, queries, row):
    """Float64 scores of a row with some queries, and how far off they can be."""
    places, zeros = np.arange(len(queries)), np.zeros(len(queries), np.int64)
    scores = pair_scores(metric, queries, places, row, zeros)
    scales = norms(queries) * norms(row)
    if metric is Metric.COSINE:
        scores /= scales
    return scores, tolerance(metric, scores, scales, row.shape[1])


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("metric", METRICS)
@examples(120)
@given(st.data())
def test_no_floor_is_above_a_row_that_is_as_good(metric, precision, data):
    space, queries, row = data.draw(cases(metric, precision))
    scores, bounds = real_scores(metric, queries, row)
    bounds = bounds * data.draw(st.sampled_from([1, 1e5]))
    # A score that is better than the real one by as much as its bound allows.
    flattered = scores + bounds * data.draw(st.sampled_from([0, 0.9])) * (1 if metric != "l2" else -1)
    floors = space.floors(queries, flattered, bounds)
    # The bound of the scan, which is taken off every floor, covers what underflows.
    lost = space.dimension * FLOAT64.smallest
    for query, floor in zip(queries, floors, strict=True):
        value = kernel_value(space, query, row[0])
        limit = Fraction(float(floor)) - Fraction(lost)
        assert (limit * abs(limit) if metric is Metric.COSINE else limit) <= value


def test_no_score_gives_no_floor():
    for metric in METRICS:
        floors = Space(metric, FLOAT32, 2).floors(np.ones((1, 2)), np.array([np.nan]), np.array([np.nan]))
        assert floors.tolist() == [-np.inf]


@pytest.fixture
def few_queries(monkeypatch):
    """Codes for a few queries too."""
    monkeypatch.setattr(scanner_int8, "_FEW_QUERIES", 1)


@pytest.mark.usefixtures("few_queries")
@pytest.mark.parametrize("known", ["all", "none", "some"])
@pytest.mark.parametrize(
    "make", [BlasScanner, FaissScanner, Int8Scanner, JaxScanner], ids=["blas", "faiss", "int8", "jax"]
)
@examples(30)
@given(st.integers(0, 2**32 - 1))
def test_a_scanner_names_every_pair_that_may_reach_its_floor(make, known, seed):
    # Few different sums, so that hundreds of rows are just at the threshold.
    random = np.random.default_rng(seed)
    rows, queries = (random.integers(-2, 3, (count, 3)).astype("float32") for count in (700, 5))
    real, k = queries @ rows.T, 10
    best = np.sort(real, axis=1)[:, -k]
    errors = np.arange(5.0) / 2 + 2**-10
    has_floor = {"all": np.ones(5, bool), "none": np.zeros(5, bool), "some": np.arange(5) % 2 == 0}[known]
    scanner = make(Space(Metric.IP, FLOAT32, 3), 5)
    own = np.ones((5, scanner.extra), "float32")
    asked = Asked(np.hstack([queries, own]), errors, np.where(has_floor, best, -np.inf), k, 0, None)
    placed = np.hstack([rows, np.ones((700, scanner.extra), "float32")])
    scanner.enter(placed)
    hits = scanner.hits(asked, placed)
    pairs = list(zip(hits.queries.tolist(), hits.columns.tolist(), strict=True))
    # These products are exact, so that what a scanner may be off by is what it takes in besides.
    reaching = real >= (hits.floors - hits.errors)[:, None]
    assert sorted(pairs) == list(zip(*np.nonzero(reaching), strict=True))
    assert (np.diff(hits.queries) >= 0).all()
    assert (hits.errors >= errors).all()
    assert np.allclose(hits.errors, errors, atol=1e-4)
    # A first floor is what the tenth best allows, or not far below.
    assert (hits.floors[has_floor] == best[has_floor]).all()
    assert (hits.floors <= best).all()
    wanted = best - 2 * hits.errors
    assert (reaching.sum(axis=1) <= 2 * (real >= wanted[:, None]).sum(axis=1)).all()
    assert (hits.scores == real[hits.queries, hits.columns]).all()


class WorstScanner:
    """As wrong as the bounds allow, and always to the harm of the best rows."""

    gathers, extra, tile_rows = False, 0, 16

    def enter(self, rows):
        pass

    def __init__(self, best):
        self.best = best

    def hits(self, asked, rows):
        real = asked.queries.astype(np.float64) @ rows.astype(np.float64).T
        # No two blocks have one bound.
        errors = asked.errors * (1 + len(rows) % 3)
        harm = np.where(real >= self.best[:, None], -0.95, 0.95) * errors[:, None]
        scores = (real + harm).astype(np.float32)
        floors, fresh = asked.floors.copy(), asked.fresh
        if len(rows) >= asked.k:
            best = np.sort(scores[fresh], axis=1)[:, -asked.k].astype(np.float64)
            floors[fresh] = best - (1 + asked.spare) * errors[fresh]
        queries, columns = np.nonzero(scores >= below(floors, errors, scores.dtype)[:, None])
        return ScanHits(queries, columns, scores[queries, columns], errors, floors)


@pytest.mark.parametrize("guesses", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
@examples(40)
@given(st.integers(0, 2**32 - 1), st.sampled_from([20, 300, 1500]), st.sampled_from([1, 4, 9]))
def test_a_scan_that_is_as_wrong_as_its_bound_allows_loses_no_row(threads, guesses, seed, block_rows, k):
    # Rows are much closer to each other than the scan is to the real scores.
    random = np.random.default_rng(seed)
    corpus = np.ones((1500, 1), "float32") + random.integers(0, 3000, (1500, 1)) * np.float32(2**-22)
    queries = np.array([[1.0], [2.0], [0.5]], "float32")
    real = queries.astype(np.float64) @ corpus.astype(np.float64).T
    best = np.sort(real, axis=1)[:, -k]
    space = Space(Metric.IP, FLOAT32, 1)
    every = Eligibility((None,), np.zeros(3, np.int64), None, 1500)
    guesses = guesses and block_rows == 1500
    sweep = Sweep(space, queries, every, k, lambda *_: WorstScanner(best), threads=threads, guesses=guesses)
    for start in range(0, 1500, block_rows):
        sweep.take(start, corpus[start : start + block_rows])
    found = sweep.candidates()
    assert not found.abandoned.any()
    assert guesses or not found.missed.any()
    assert len(found.rows) < real.size
    pairs = set(zip(found.queries.tolist(), found.rows.tolist(), strict=True))
    wanted = (real >= best[:, None]) & ~found.missed[:, None]
    assert set(zip(*np.nonzero(wanted), strict=True)) <= pairs
