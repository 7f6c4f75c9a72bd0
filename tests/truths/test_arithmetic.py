"""Ranks by exact scores, against fractions, on the numbers that floating point finds hardest."""

import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from recallatk.core import VECTOR_DTYPES, Metric
from recallatk.truths import arithmetic
from recallatk.truths.arithmetic import exact_ranks

METRICS = list(Metric)
HOSTILE = {
    "float16": [6e-8, -6e-8, 6.1e-5, 1e-3, 0.1, 1 / 3, 1.0, 2048.0, 65504.0, -65504.0],
    "float32": [1e-45, -1e-45, 1.2e-38, 1e-18, 0.1, 1 / 3, 1.0, 16777216.0, -1e18, 3.4e38],
    "float64": [1e-150, -1e-150, 1e-18, 0.1, 1 / 3, 1.0, 2.0**53, 1e18, -1e150, 1e150],
    "int8": [-128, -127, -2, 2, 3, 64, 126, 127],
    "uint8": [2, 3, 5, 127, 128, 254, 255],
}


def signed_square(number):
    return number * abs(number)


def fractions(vector):
    return [Fraction(float(number)) for number in vector]


def exact_score(metric, query, row):
    """What orders the rows as the metric does, larger being better."""
    query, row = fractions(query), fractions(row)
    if metric is Metric.L2:
        return -sum((a - b) ** 2 for a, b in zip(query, row, strict=True))
    product = sum(a * b for a, b in zip(query, row, strict=True))
    if metric is Metric.IP:
        return product
    return Fraction(signed_square(product), sum(a * a for a in query) * sum(b * b for b in row))


def expected_ranks(metric, query, rows):
    scores = [exact_score(metric, query, row) for row in rows]
    best_first = sorted(set(scores), reverse=True)
    return [best_first.index(score) for score in scores]


def check(metric, query, rows):
    ranks = exact_ranks(metric, query, rows)
    assert ranks.dtype == np.int64
    assert ranks.tolist() == expected_ranks(metric, query, rows)


def exactly(values, dtype):
    """The values in this type, or None if it cannot hold them."""
    values = np.asarray(values, dtype=np.float64)
    with np.errstate(all="ignore"):
        stored = values.astype(dtype)
    same = np.isfinite(stored).all() and (stored.astype(np.float64) == values).all()
    return stored if same else None


def elements(dtype):
    """Hard numbers and easy ones, so that there are ties as well as close calls."""
    kind = np.dtype(dtype)
    easy = [0, 1] if kind.kind == "u" else [0, 1, -1]
    if kind.kind != "f":
        limits = np.iinfo(kind)
        return st.sampled_from(HOSTILE[dtype] + easy) | st.integers(int(limits.min), int(limits.max))
    bound = float(kind.type({"float16": 6e4, "float32": 1e18, "float64": 1e150}[dtype]))
    width = kind.itemsize * 8
    return st.sampled_from([*HOSTILE[dtype], *easy, -0.0]) | st.floats(-bound, bound, width=width)


def vectors(dtype, dimension):
    made = st.lists(elements(dtype), min_size=dimension, max_size=dimension)
    return made.map(lambda numbers: np.array(numbers, dtype=dtype))


def neighbor(row, at, direction):
    """The row with one number moved by one unit in its last place."""
    row = row.copy()
    if row.dtype.kind == "f":
        row[at] = np.nextafter(row[at], row.dtype.type(direction * 1e4))
    else:
        limits = np.iinfo(row.dtype)
        row[at] = np.clip(int(row[at]) + direction, limits.min, limits.max)
    return row


def turned(query):
    """A vector at a right angle to the query: pairs of numbers swapped, one of each negated."""
    turned = np.zeros(len(query))
    even = len(query) // 2 * 2
    turned[0:even:2], turned[1:even:2] = query[1:even:2], -query[0:even:2].astype(np.float64)
    return turned


@st.composite
def relatives(draw, query, row):
    """A row whose score is likely to be equal to, or hardly different from, that of the given one."""
    at = draw(st.integers(0, len(row) - 1))
    wide = row.astype(np.float64)
    reflected = 2 * query.astype(np.float64) - wide
    multiples = [wide, 2 * wide, 3 * wide, wide / 2, -wide, 0.0 * wide, -0.0 * wide]
    rearranged = [wide[::-1], np.roll(wide, 1), turned(query), query, reflected]
    nearby = [neighbor(row, at, 1), neighbor(row, at, -1), neighbor(neighbor(row, 0, 1), at, -1)]
    stored = exactly(draw(st.sampled_from(multiples + rearranged + nearby)), row.dtype)
    return row.copy() if stored is None else stored


@st.composite
def cases(draw, query_dtype=None, row_dtype=None):
    dtypes = st.sampled_from(VECTOR_DTYPES)
    query_dtype, row_dtype = query_dtype or draw(dtypes), row_dtype or draw(dtypes)
    dimension = draw(st.integers(1, 8))
    query = draw(vectors(query_dtype, dimension))
    rows = draw(st.lists(vectors(row_dtype, dimension), min_size=1, max_size=3))
    for _ in range(draw(st.integers(1, 5))):
        rows.append(draw(relatives(query, draw(st.sampled_from(rows)))))
    return query, np.array(rows)


def without_zero_vectors(query, rows):
    """What the cosine is defined for: a vector of zeros becomes one of ones."""
    query = query if query.any() else np.ones_like(query)
    rows = rows.copy()
    rows[~rows.any(axis=1)] = 1
    return query, rows


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", VECTOR_DTYPES)
@given(data=st.data())
@examples(100)
def test_ranks_are_those_of_fractions(metric, dtype, data):
    query, rows = data.draw(cases(dtype, dtype))
    if metric is Metric.COSINE:
        query, rows = without_zero_vectors(query, rows)
    check(metric, query, rows)


@pytest.mark.parametrize("metric", METRICS)
@given(case=cases())
@examples(150)
def test_query_and_rows_may_differ_in_type(metric, case):
    query, rows = case
    if metric is Metric.COSINE:
        query, rows = without_zero_vectors(query, rows)
    check(metric, query, rows)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("metric", METRICS)
def test_the_whole_range_of_a_type(metric, dtype):
    limits = np.finfo(dtype)
    small, large = limits.smallest_subnormal, limits.max
    query = np.array([large, small, 1], dtype=dtype)
    rows = np.array(
        [
            [large, small, 1],
            [large, -small, 1],
            [large, 0, 1],
            [-large, small, 1],
            [small, large, 0],
            [small, -large, 0],
            [0, small, 0],
            [0, -small, 0],
            [0, 2 * small, 0],
            [small, 0, -large],
        ],
        dtype=dtype,
    )
    # Nothing may depend on what the caller lets floating point do.
    with np.errstate(all="raise"):
        check(metric, query, rows)
        check(metric, rows[6], rows)


@pytest.mark.parametrize("metric", METRICS)
def test_extreme_integers(metric):
    rows = np.array([[-128, -128], [127, 127], [-128, 127], [127, -128], [-1, -1], [0, 1]], dtype=np.int8)
    check(metric, np.array([-128, -128], dtype=np.int8), rows)
    check(metric, np.array([255, 255], dtype=np.uint8), rows)
    check(metric, np.array([255, 255], dtype=np.uint8), np.abs(rows.astype(np.int16)).astype(np.uint8))


def test_multiples_have_the_same_cosine_and_not_the_same_product():
    row = np.array([0.1, -0.7, 1 / 3], dtype=np.float32)
    query = np.array([0.3, 0.2, 0.9], dtype=np.float32)
    rows = np.array([row * 2, row, -row * 4, -row, row * 8])
    assert exact_ranks(Metric.COSINE, query, rows).tolist() == [0, 0, 1, 1, 0]
    assert exact_ranks(Metric.IP, query, rows).tolist() == [1, 2, 4, 3, 0]


def test_rows_at_a_right_angle_tie_whatever_their_length():
    query = np.array([0.1, 0.7], dtype=np.float64)
    rows = np.array([[0.7, -0.1], [-1.4, 0.2], [1e-9, 0.0], [-1e-9, 0.0]])
    assert exact_ranks(Metric.COSINE, query, rows).tolist() == [1, 1, 0, 2]
    assert exact_ranks(Metric.IP, query, rows).tolist() == [1, 1, 0, 2]


def test_nearly_parallel_rows_have_different_cosines():
    # Of all vectors of these sizes, no two that differ in direction are closer.
    rows = np.array([[126, 125], [127, 126], [254, 252], [125, 124]], dtype=np.uint8)
    assert exact_ranks(Metric.COSINE, np.array([1, 1], dtype=np.uint8), rows).tolist() == [1, 0, 0, 2]


def test_zeros_of_either_sign_are_equal():
    rows = np.array([[0.0, 1.0], [-0.0, 1.0]], dtype=np.float16)
    for metric in METRICS:
        assert exact_ranks(metric, np.array([-0.0, 1.0]), rows).tolist() == [0, 0]


def test_a_query_of_zeros():
    rows = np.array([[1, 2], [2, 1], [0, 0], [3, 0]], dtype=np.float32)
    query = np.zeros(2, dtype=np.float32)
    assert exact_ranks(Metric.IP, query, rows).tolist() == [0, 0, 0, 0]
    assert exact_ranks(Metric.L2, query, rows).tolist() == [1, 1, 0, 2]


def test_no_rows_and_one_row():
    query = np.ones(3, dtype=np.float32)
    assert exact_ranks(Metric.L2, query, np.empty((0, 3), dtype=np.float32)).tolist() == []
    assert exact_ranks(Metric.L2, query, np.ones((1, 3), dtype=np.float32)).tolist() == [0]


def test_rows_need_not_be_contiguous():
    matrix = np.random.default_rng(3).integers(-3, 4, (12, 8)).astype(np.float32)
    for metric in METRICS:
        query, rows = without_zero_vectors(matrix[0, ::2], matrix[::3, ::2])
        check(metric, query, rows)
        check(metric, matrix.T[1], np.asfortranarray(matrix.T[2:]))


@pytest.mark.parametrize("dtype", VECTOR_DTYPES)
@pytest.mark.parametrize("metric", METRICS)
def test_many_dimensions(metric, dtype):
    rng = np.random.default_rng(7)
    if np.dtype(dtype).kind == "f":
        query, row = rng.standard_normal((2, 4096)).astype(dtype)
    else:
        limits = np.iinfo(dtype)
        query, row = rng.integers(limits.min, limits.max, (2, 4096), endpoint=True).astype(dtype)
    halves = row // 2 if query.dtype.kind != "f" else row / 2
    smallest = int(np.abs(query.astype(np.float64) + (query == 0) * 1e9).argmin())
    order = rng.permutation(4096)
    rows = [row, row.copy(), neighbor(row, smallest, 1), neighbor(row, smallest, -1), row[order], halves]
    check(metric, query, np.array(rows))
    # To a query that is the same in every dimension the order of the numbers is all one.
    constant = np.full(4096, query[0])
    check(metric, constant, np.array([row, row[order], row[::-1], neighbor(row, 5, 1)]))


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_largest_sums_of_limbs_are_exact(metric, dtype):
    # All bits of every mantissa are set, so that every limb is as large as it can be.
    full = np.nextafter(np.ones(4096, dtype=dtype), 0, dtype=dtype)
    rows = np.array([full, full * 2, -full, neighbor(full, 0, -1), neighbor(full, 4095, -1), full[::-1]])
    check(metric, full, rows)


@pytest.mark.parametrize("metric", METRICS)
def test_blocks_of_rows_make_no_difference(metric, monkeypatch):
    rng = np.random.default_rng(11)
    rows = rng.standard_normal((40, 6)).astype(np.float32) * 10.0 ** rng.integers(-9, 9, (40, 1))
    rows = np.concatenate((rows, rows[:5] * 2, rows[3:9]))
    query = rng.standard_normal(6)
    whole = exact_ranks(metric, query, rows)
    monkeypatch.setattr(arithmetic, "_BLOCK_NUMBERS", 100)
    assert exact_ranks(metric, query, rows).tolist() == whole.tolist() == expected_ranks(metric, query, rows)


@pytest.mark.parametrize("metric", METRICS)
def test_many_identical_rows_cost_no_more_than_reading_them(metric):
    rng = np.random.default_rng(13)
    rows = np.repeat(rng.standard_normal((2, 64)).astype(np.float32), [50_000, 1], axis=0)
    started = time.perf_counter()
    ranks = exact_ranks(metric, rows[0], rows)
    # Row by row this would be 50,000 dot products of Python's integers, most of a minute.
    assert time.perf_counter() - started < 5
    assert len(set(ranks[:-1].tolist())) == 1
    assert ranks[-1] != ranks[0]
