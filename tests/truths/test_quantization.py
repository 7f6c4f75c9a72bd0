"""8-bit codes: no row whose real product reaches a limit has an integer product below it."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import GRAIN, dot, whole

from examples import examples
from recallatk.core import Metric
from recallatk.truths.quantization import QueryCodes, RowQuantizer, offset_weight
from recallatk.truths.space import FLOAT32, Space


def duplicates(random, rows, dimension):
    return random.normal(size=(3, dimension))[random.integers(0, 3, rows)]


def far(random, rows, dimension):
    return random.normal(1e4, 1, (rows, dimension))


def outliers(random, rows, dimension):
    found = random.normal(size=(rows, dimension))
    found[:: max(17, rows // 3)] *= 1e6
    return found


def zeros(random, rows, dimension):
    found = random.normal(size=(rows, dimension))
    found[::2] = 0
    return found


def denormal(random, rows, dimension):
    return random.normal(size=(rows, dimension)) * random.choice([1e-44, 1e-40, 1e-38, 1.0], (rows, 1))


def mixed(random, rows, dimension):
    return random.normal(size=(rows, dimension)) * 10 ** random.uniform(-6, 6, (rows, 1))


def int8(random, rows, dimension):
    return random.choice([-128, -1, 0, 127], (rows, dimension))


def uint8(random, rows, dimension):
    return random.choice([0, 1, 254, 255], (rows, dimension))


def level(random, rows, dimension):
    return np.full((rows, dimension), random.choice([-1.0, 1e-3, 127.0, 128.0])) * random.choice([1, 0.5])


KINDS = (duplicates, far, outliers, zeros, denormal, mixed, int8, uint8, level)


def real_products(space, queries, rows):
    """The products of prepared vectors, exactly."""
    width = space.width
    numbers = [[whole(each[:width]) for each in part] for part in (queries, rows)]
    return [[Fraction(dot(query, row), 1 << 2 * GRAIN) for row in numbers[1]] for query in numbers[0]]


@pytest.mark.parametrize("highest", [255, 127])
@pytest.mark.parametrize("metric", ["ip", "l2"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@examples(12)
@given(st.data())
def test_a_row_that_reaches_a_limit_is_not_ruled_out(kind, metric, highest, data):
    random = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    rows, dimension = data.draw(st.sampled_from([1, 2, 40])), data.draw(st.sampled_from([1, 3, 8, 33]))
    query_kind = data.draw(st.sampled_from([kind, *KINDS]))
    space = Space(Metric(metric), FLOAT32, dimension)
    placed = np.empty((rows, space.width), np.float32)
    space.rows(kind(random, rows, dimension).astype("float32"), placed)
    asked, _ = space.queries(query_kind(random, 3, dimension).astype("float32"))
    weight = data.draw(st.sampled_from([offset_weight(space, asked), 0.3, 127.0])) if metric == "l2" else 0.0
    queries = QueryCodes.of(space, asked, weight)
    found = RowQuantizer(space, 40, highest).codes(placed, weight)
    if found is None:
        # Nothing fits a scale: float32 does all of it.
        return
    assert found.codes.max() <= highest
    integers = queries.codes.astype(np.int64).T @ found.codes.astype(np.int64).T
    near = np.setdiff1d(np.arange(rows), found.loose)
    products = real_products(space, asked, placed)
    for row in near:
        # Rounded down, so that the row reaches it.
        least = np.array([np.nextafter(float(line[row]), -np.inf) for line in products])
        assert (integers[:, row] >= found.limits(queries, least)).all()


@pytest.mark.parametrize("metric", ["ip", "l2"])
@pytest.mark.parametrize("kind", [int8, uint8], ids=["int8", "uint8"])
def test_whole_numbers_of_8_bits_lose_nothing(kind, metric):
    random = np.random.default_rng(0)
    corpus, asked = (kind(random, count, 64).astype("float32") for count in (500, 20))
    # Distances do not change when everything moves; an inner product needs signed queries.
    shift = np.float32(128 if kind is uint8 else 0)
    rows = corpus - (shift if metric == "l2" else 0)
    space = Space(Metric(metric), FLOAT32, 64)
    placed = np.empty((500, space.width), np.float32)
    space.rows(rows, placed)
    prepared, _ = space.queries(asked - shift)
    weight = offset_weight(space, prepared) if metric == "l2" else 0.0
    queries = QueryCodes.of(space, prepared, weight)
    found = RowQuantizer(space, 500, 255).codes(placed, weight)
    assert (found.scale, found.residual) == (1.0, 0.0)
    assert (queries.scales == 1).all()
    assert queries.residuals.max() < 1e-9 * queries.norms.max()


def test_rows_that_would_wreck_the_scale_are_left_out_of_it():
    random = np.random.default_rng(0)
    space = Space(Metric.IP, FLOAT32, 32)
    rows = random.normal(size=(400, 32)).astype("float32")
    alone = RowQuantizer(space, 400, 255).codes(rows, 0.0)
    rows[[7, 300]] *= 1000
    found = RowQuantizer(space, 400, 255).codes(rows, 0.0)
    assert found.loose.tolist() == [7, 300]
    assert found.residual <= 1.1 * alone.residual


def test_nothing_reaches_infinity_and_everything_its_opposite():
    space = Space(Metric.IP, FLOAT32, 4)
    rows = np.random.default_rng(0).normal(size=(9, 4)).astype("float32")
    queries = QueryCodes.of(space, rows[:2], 0.0)
    limits = RowQuantizer(space, 9, 255).codes(rows, 0.0).limits(queries, np.array([np.inf, -np.inf]))
    assert limits.tolist() == [2**31 - 1, 1 - 2**31]
