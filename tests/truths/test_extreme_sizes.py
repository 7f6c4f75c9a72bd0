"""float64 vectors near the ends of its range: scores have all their digits, or the sizes are refused."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import exact_order, exact_value, is_within

from commands import recallatk
from examples import examples
from recallatk import load_truth, make_corpus, make_queries, open_dataset, score
from recallatk.core import Metric
from recallatk.errors import BadValueError
from recallatk.pair_scores import norms, pair_scores, tolerance
from recallatk.truths import ground_truth

METRICS = [str(each) for each in Metric]
UNIT = Fraction(1, 2**53)
DIMENSION, ROWS, DEPTH = 5, 12, 4


def vectors(random, count, exponents):
    """Vectors of any size in a range of powers of ten, with numbers much smaller than their largest."""
    sizes = 10.0 ** random.uniform(*exponents, (count, 1))
    spread = 10.0 ** -random.choice([0, 0, 0, 3, 12], (count, DIMENSION))
    return random.normal(size=(count, DIMENSION)) * sizes * spread


def size(vector):
    return float(np.abs(vector).max())


def is_accepted(metric, corpus, queries):
    """The range that the documentation states."""
    every = [size(each) for each in (*corpus, *queries)]
    if max(every) > 1e150:
        return False
    if metric == "cosine":
        return min(every) >= 1e-150
    products = min(map(size, corpus)) * min(map(size, queries))
    return metric == "l2" or products >= 2.0**-969


def allowed_error(metric, query, row, found):
    """A few units in the last place: of a distance, of a cosine of 1, or of the product of both norms."""
    units = (DIMENSION + 9) * UNIT
    if metric == "l2":
        return units * Fraction(found)
    if metric == "cosine":
        return 2 * units
    return units * Fraction(math.hypot(*row)) * Fraction(math.hypot(*query))


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("exponents", [(-170, -140), (-300, -200), (140, 160), (-170, 150)])
@examples(25)
@given(st.integers(0, 2**32 - 1))
def test_scores_have_all_their_digits_or_the_sizes_are_refused(metric, exponents, seed):
    random = np.random.default_rng(seed)
    corpus, queries = vectors(random, ROWS, exponents), vectors(random, 2, exponents)
    corpus[3], corpus[5] = corpus[1], queries[0]
    dataset = open_dataset(make_corpus(corpus), make_queries(queries), metric=metric)
    if not is_accepted(metric, corpus, queries):
        with pytest.raises(
            BadValueError, match=r"the largest value of the vector is .* Accepted: sizes from"
        ):
            ground_truth(dataset, depth=DEPTH)
        return
    truth = ground_truth(dataset, depth=DEPTH)
    for number, query in enumerate(queries):
        order = exact_order(metric, query, corpus, range(ROWS))
        assert truth.rows[number].tolist() == [row for _, row in order[:DEPTH]]
        for row, found in zip(truth.rows[number], truth.scores[number], strict=True):
            allowed = allowed_error(metric, query, corpus[row], found)
            assert is_within(metric, exact_value(metric, query, corpus[row]), found, allowed)


@examples(200)
@given(st.integers(0, 2**32 - 1), st.integers(-320, 150))
def test_distances_and_norms_are_off_by_a_share_of_themselves_at_any_size(seed, exponent):
    random = np.random.default_rng(seed)
    rows, query = vectors(random, 6, (exponent, exponent)), vectors(random, 1, (exponent, exponent))
    query[0, 0] = rows[0, 0]
    places = np.arange(6)
    found = pair_scores(Metric.L2, query, np.zeros(6, np.int64), rows, places)
    bounds = tolerance(Metric.L2, found, np.ones(6), DIMENSION)
    for row, distance, bound in zip(rows, found, bounds, strict=True):
        assert is_within("l2", exact_value("l2", query[0], row), distance, bound)
        assert Fraction(bound) <= (DIMENSION + 9) * UNIT * Fraction(distance) + Fraction(1, 2**1073)
    lengths = norms(rows)
    for row, length in zip(rows, lengths, strict=True):
        allowed = (DIMENSION + 8) * UNIT * Fraction(length) + Fraction(1, 2**1073)
        assert is_within("l2", exact_value("l2", np.zeros(DIMENSION), row), length, allowed)


@pytest.mark.parametrize("other", ["float32", "int8"])
def test_a_small_difference_between_numbers_of_different_types_is_measured(other):
    row = np.array([[3, 0, 0]], other)
    query = np.array([[3, 1e-170, 0]])
    assert pair_scores(Metric.L2, query, np.zeros(1, np.int64), row, np.zeros(1, np.int64))[0] == 1e-170
    assert pair_scores(Metric.L2, row, np.zeros(1, np.int64), query, np.zeros(1, np.int64))[0] == 1e-170


def test_a_float32_row_can_be_too_small_for_a_float64_query():
    corpus, queries = np.full((3, 2), 1e-36, "float32"), np.full((1, 2), 1e-280)
    dataset = open_dataset(make_corpus(corpus), make_queries(queries), metric="ip")
    with pytest.raises(BadValueError, match=r"row 0: the largest value of the vector is 1e-36, too small"):
        ground_truth(dataset, depth=1)


def test_measures_by_distance_refuse_what_a_truth_refuses():
    corpus, queries = np.full((3, 2), 1e-160), np.full((1, 2), 1e-160)
    corpus *= [[1], [2], [3]]
    dataset = open_dataset(make_corpus(corpus), make_queries(queries), metric="ip")
    larger = open_dataset(make_corpus(corpus * 2.0**500), make_queries(queries * 2.0**500), metric="ip")
    truth = ground_truth(larger, depth=2).take(np.arange(1))
    with pytest.raises(BadValueError, match="too small: its scores would lose digits"):
        score(truth=truth, answers=truth.rows, at=[2], measures=["eps(0.1)@2"], dataset=dataset)


@pytest.mark.parametrize("metric", ["ip", "cosine"])
def test_the_command_refuses_sizes_whose_scores_would_lose_digits(tmp_path, monkeypatch, metric):
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    np.save("corpus.npy", random.normal(size=(50, 4)) * 1e-160)
    np.save("queries.npy", random.normal(size=(3, 4)) * 1e-160)
    ran = recallatk("truth", "corpus.npy", "queries.npy", "--metric", metric, "--store", "store")
    assert ran.returncode == 2
    for said in (".npy, row ", " too small: its scores would lose digits", "Multiply all vectors"):
        assert said in ran.stderr


def test_the_command_measures_distances_of_such_sizes_with_all_digits(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    corpus, queries = random.normal(size=(50, 4)), random.normal(size=(3, 4))
    small = 2.0**-532
    for name, factor in (("usual", 1.0), ("small", small)):
        np.save("corpus.npy", corpus * factor)
        np.save("queries.npy", queries * factor)
        options = ("--metric", "l2", "--depth", 5, "--store", name, "--out", f"{name}.parquet")
        ran = recallatk("truth", "corpus.npy", "queries.npy", *options)
        assert ran.returncode == 0, ran.stderr
    usual, tiny = (load_truth(f"{name}.parquet") for name in ("usual", "small"))
    assert (usual.rows == tiny.rows).all()
    assert tiny.scores / small == pytest.approx(usual.scores, rel=1e-14)
