"""Spaces with vectors that are hard to add up, and the real numbers that their scan scores stand for."""

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st
from oracle import GRAIN, exact_value, whole

from recallatk.core import VECTOR_DTYPES, Metric
from recallatk.truths.space import FLOAT32, FLOAT64, Space, centre_of

METRICS = list(Metric)
PRECISIONS = {"float32": FLOAT32, "float64": FLOAT64}
SIZES = {"float16": (-4, 3), "float32": (-18, 15), "float64": (-18, 15)}


@st.composite
def matrices(draw, random, rows, dimension, dtype):
    """Vectors that are hard to add up: of all sizes, far from zero, that cancel, all but zero, or level."""
    kind = draw(st.sampled_from(["sizes", "far", "cancelling", "tiny", "level"]))
    if np.dtype(dtype).kind != "f":
        limits = np.iinfo(dtype)
        return random.integers(limits.min, limits.max, (rows, dimension), dtype, endpoint=True)
    numbers = random.normal(size=(rows, dimension))
    if kind == "sizes":
        numbers *= 10 ** random.uniform(*SIZES[dtype], (rows, 1))
    elif kind == "far":
        numbers += 1000
    elif kind == "cancelling":
        numbers[:, : dimension // 2] += 1000
        numbers[:, -(dimension // 2) :] -= 1000
    elif kind == "tiny":
        numbers *= random.choice([1, 1e-20, 1e-40, float(np.finfo(dtype).smallest_normal)], (rows, 1))
    else:
        # Sums of equal terms are rounded in the same direction many times over.
        numbers[:] = random.uniform(1, 2, (rows, 1))
    return numbers.astype(dtype)


@st.composite
def cases(draw, metric, precision):
    """A space, some queries and one row: the bound of a single row is the tightest."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dimension = draw(st.sampled_from([1, 2, 3, 7, 16, 65, 300, 1500]))
    dtype, query_dtype = draw(st.sampled_from(VECTOR_DTYPES)), draw(st.sampled_from(VECTOR_DTYPES))
    row = draw(matrices(random, 1, dimension, dtype))
    queries = draw(matrices(random, 2, dimension, query_dtype))
    if metric is Metric.COSINE:
        row, queries = (with_direction(each) for each in (row, queries))
    around = draw(st.sampled_from([row, queries, np.full((1, dimension), 1000.0), None]))
    centre = None if around is None else centre_of(around)
    return Space(metric, PRECISIONS[precision], dimension, centre), queries, row


def with_direction(vectors):
    """Vectors that the cosine accepts."""
    size = np.abs(vectors.astype(np.float64)).max(axis=1)
    vectors[size < (1e-150 if vectors.dtype == np.float64 else 1e-300), 0] = 1
    return vectors


def placed_row(space, row):
    placed = np.empty((1, space.width), space.precision.dtype)
    return placed, space.rows(row, placed)


def prepared(space, queries, row):
    """What a scan multiplies, and how far off it may be."""
    asked, query_norms = space.queries(queries)
    placed, norm = placed_row(space, row)
    assert space.is_safe(norm)
    assert space.is_safe(float(query_norms.max()))
    return asked, placed, space.error(query_norms, norm)


def moved(space, vector):
    """A vector as it lies around the centre, exactly, as multiples of the smallest float64."""
    centre = np.zeros(space.dimension) if space.centre is None else space.centre
    return [a - c for a, c in zip(whole(vector), whole(centre), strict=True)]


def kernel_value(space, query, row):
    """The real number that a scan score stands for, as `exact_value` has it."""
    if space.metric is not Metric.L2:
        return exact_value(space.metric, query, row)
    pairs = zip(moved(space, query), moved(space, row), strict=True)
    return Fraction(sum(b * (2 * a - b) for a, b in pairs), 2 << 2 * GRAIN)


def kernel_metric(space):
    """Which metric the values of a kernel are like: under l2 they are plain products."""
    return "cosine" if space.metric is Metric.COSINE else "ip"
