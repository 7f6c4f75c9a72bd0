"""Every metric as a largest inner product, with error bounds; rotated spaces for prefix bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import Metric

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PORTION_QUERIES = 256
# Squared norms between these lose nothing to overflow or underflow that the bound does not cover.
_SAFE_SQUARES = (2.0**-80, 2.0**80)


@dataclass(frozen=True)
class Precision:
    """A floating-point type and its limits."""

    dtype: np.dtype[Any]
    unit: float
    """Half the distance from 1 to the next number."""
    smallest: float
    """The smallest number that keeps its precision."""
    largest_norm: float
    """Beyond it, squares and products leave the range."""


FLOAT32 = Precision(np.dtype(np.float32), 2.0**-24, 2.0**-126, 1e18)
FLOAT64 = Precision(np.dtype(np.float64), 2.0**-53, 2.0**-1022, 1e153)


class Space:
    """Where rows and queries are compared by inner product, larger being nearer."""

    lead = 0
    """How many components may be left out at first, with the norm of them all as the last one."""

    def __init__(
        self, metric: Metric, precision: Precision, dimension: int, centre: NDArray[np.float32] | None = None
    ) -> None:
        self.metric, self.precision, self.dimension = metric, precision, dimension
        # Distances do not change when everything moves; numbers near zero leave less to rounding.
        self.centre = centre if metric is Metric.L2 else None
        self.width = dimension + (metric is Metric.L2)

    def queries(self, block: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Queries in the form that the scan needs, and a bound on the norm of each."""
        prepared = np.ones((len(block), self.width), self.precision.dtype)
        norms = np.empty(len(block))
        # In portions, because fresh memory for all of them in float64 costs more than the arithmetic.
        for start in range(0, len(block), _PORTION_QUERIES):
            part = slice(start, start + _PORTION_QUERIES)
            wide = block[part].astype(np.float64)
            if self.centre is not None:
                wide -= self.centre
            norms[part] = np.sqrt(np.square(wide).sum(axis=1))
            if self.metric is Metric.COSINE:
                wide /= norms[part, None]
                norms[part] = 1.0
            with np.errstate(over="ignore"):
                prepared[part, : self.dimension] = wide
        # Squares of very small numbers vanish, and with them a part of the norm.
        return prepared, norms * (1 + 1e-6) + np.sqrt(self.dimension * FLOAT64.smallest)

    def rows(self, block: NDArray[Any], out: NDArray[Any]) -> float:
        """Write corpus rows in the form that the scan needs to `out`; return a bound on their norms."""
        vectors = out[:, : self.dimension]
        with np.errstate(over="ignore", invalid="ignore"):
            self._place(block, vectors)
            squares = np.einsum("ij,ij->i", vectors, vectors)
            if self.metric is Metric.COSINE:
                self._to_unit_length(block, vectors, squares)
                return 1.0 + 1e-6
            if self.metric is Metric.L2:
                np.multiply(squares, -0.5, out=out[:, self.dimension])
            return self._norm_bound(float(squares.max(initial=0.0)))

    def _place(self, block: NDArray[Any], vectors: NDArray[Any]) -> None:
        if self.centre is None:
            vectors[:] = block
        elif block.dtype == np.float64:
            np.subtract(block, self.centre, out=vectors, casting="same_kind")
        else:
            vectors[:] = block
            vectors -= self.centre

    def _to_unit_length(self, block: NDArray[Any], vectors: NDArray[Any], squares: NDArray[Any]) -> None:
        low, high = _SAFE_SQUARES
        if len(squares) and not (low < squares.min() and squares.max() < high):
            wide = block.astype(np.float64)
            vectors[:] = wide / np.sqrt(np.square(wide).sum(axis=1))[:, None]
            return
        vectors *= (1 / np.sqrt(squares))[:, None]

    def _norm_bound(self, square: float) -> float:
        lost = np.sqrt(self.dimension * self.precision.smallest)
        return float(np.sqrt(square) * (1 + 4 * self.dimension * self.precision.unit) + lost)

    def is_safe(self, norm: float) -> bool:
        """Whether vectors of this norm stay in range; NaN does not."""
        return norm < self.precision.largest_norm

    @property
    def rounding(self) -> float:
        """How much of the size of its terms a score can be off by."""
        terms = (2 * self.dimension + 32) * self.precision.unit
        return terms / (1 - terms)

    def error(self, query_norms: NDArray[np.float64], row_norm: float) -> NDArray[np.float64]:
        """How far the scan's score of each query with any row up to this norm can be from the real one.

        It covers the conversion to this type, centring, norms and squares, the products and their sum,
        and underflow (also where the hardware flushes small numbers to zero).
        """
        size = query_norms * row_norm
        if self.metric is Metric.L2:
            size = size + row_norm**2 / 2
        lost = self.dimension * self.precision.smallest * (1 + query_norms + row_norm)
        return np.asarray(self.rounding * size + lost)

    def floors(
        self, queries: NDArray[Any], scores: NDArray[np.float64], bounds: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Scan scores that no row can be below that is as good as these scores, each off by its bound.

        NaN, which stands for no score, gives -inf.
        """
        if self.metric is not Metric.L2:
            floors = scores - 2 * bounds
        else:
            wide = queries.astype(np.float64) - (0.0 if self.centre is None else self.centre)
            squares, distances = np.square(wide).sum(axis=1), np.square(scores + 2 * bounds)
            rounding = (self.dimension + 16) * FLOAT64.unit
            floors = (squares - distances) / 2 - rounding * (squares + distances)
        return np.asarray(np.where(np.isnan(floors), -np.inf, floors))


def centre_of(block: NDArray[Any]) -> NDArray[np.float32] | None:
    """A point amid some rows, or None where they lie around zero anyway."""
    wide = block.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        middle = wide.mean(axis=0)
        spread = float(np.square(wide - middle).sum(axis=1).mean())
        if not float(middle @ middle) > spread / 16:
            return None
        centre: NDArray[np.float32] = middle.astype(np.float32)
    return centre if np.isfinite(centre).all() else None


# How many rows and queries to look at. Axes fit those that they are taken from, so that others have to tell
# what they are worth.
SAMPLE = 4096
_TRIED_QUERIES = 64
# All costs are in multiplications of the product. Looking takes so many besides those for axes and sample,
_LOOKING_COST = 2e9
# axes of a dimension so many times its cube,
_AXES_COST = 20
# and a pair that needs the rest of its components so many.
_PAIR_COST = 9000
# Looking may take this share of the whole scan, and has to promise one that is this much cheaper.
_MOST_LOOKING, _WORTH = 0.02, 0.93
# Thresholds rise only as the scan goes: on the whole, so many times as many rows reach them as in the end.
_EARLY = 2


@dataclass(frozen=True, eq=False)
class Rotation:
    """Axes, as the columns of a matrix, and how many of them are left out at first."""

    axes: NDArray[np.float32]
    lead: int

    @property
    def error(self) -> float:
        """How far a turned product can be from the one before, for vectors of norm 1.

        Turning rounds every component by as many terms as there are, in any order of summation; and axes
        in float32 are not quite at right angles.
        """
        dimension = len(self.axes)
        wide = self.axes.astype(np.float64)
        skew = float(np.linalg.norm(wide @ wide.T - np.eye(dimension))) + 1e-9
        terms = (dimension + 2) * FLOAT32.unit
        rounded = terms / (1 - terms) * np.sqrt(dimension) * (1 + skew)
        return float(skew + 2 * rounded * (1 + skew) + rounded**2)


class RotatedSpace(Space):
    """The same space along other axes: components left out at first, the others, the norm of the former."""

    def __init__(self, space: Space, rotation: Rotation) -> None:
        super().__init__(space.metric, space.precision, space.dimension, space.centre)
        self.plain, self.rotation = space, rotation
        self._turning_error, self.lead = rotation.error, rotation.lead
        self.width += 1

    def queries(self, block: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Queries in the form that the scan needs, and a bound on the norm of each."""
        plain, norms = self.plain.queries(block)
        prepared = np.ones((len(plain), self.width), plain.dtype)
        if self.is_safe(float(norms.max(initial=0.0))):
            self._turn(plain, prepared)
        return prepared, norms

    def rows(self, block: NDArray[Any], out: NDArray[Any]) -> float:
        """Write corpus rows in the form that the scan needs to `out`; return a bound on their norms."""
        plain = np.empty((len(block), self.plain.width), out.dtype)
        norm = self.plain.rows(block, plain)
        if self.is_safe(norm):
            self._turn(plain, out)
        return norm

    def _turn(self, plain: NDArray[Any], out: NDArray[Any]) -> None:
        dimension, lead = self.dimension, self.rotation.lead
        np.matmul(plain[:, :dimension], self.rotation.axes, out=out[:, :dimension])
        out[:, dimension:-1] = plain[:, dimension:]
        rest = out[:, :lead]
        squares = np.einsum("ij,ij->i", rest, rest)
        # Rounded up: a norm that is too small would bound nothing.
        out[:, -1] = np.sqrt(squares) * (1 + (lead + 4) * self.precision.unit) + np.sqrt(
            lead * self.precision.smallest
        )

    def error(self, query_norms: NDArray[np.float64], row_norm: float) -> NDArray[np.float64]:
        """How far the scan's score of each query with any row up to this norm can be from the real one."""
        # Thrice the usual: the rest is bounded, taken back and added, which doubles the size of the terms.
        plain = 3 * super().error(query_norms, row_norm)
        lost = 4 * self.dimension**1.5 * self.precision.smallest * (1 + query_norms + row_norm)
        return np.asarray(plain + self._turning_error * query_norms * row_norm + lost)


def is_worth_looking(dimension: int, queries: int, rows: int) -> bool:
    """Whether a scan is so large that looking for a rotation costs next to nothing."""
    looking = _LOOKING_COST + _AXES_COST * dimension**3 + 3 * SAMPLE * dimension**2
    return queries > 2 * dimension and looking < _MOST_LOOKING * queries * rows * dimension


def find_rotation(
    space: Space, rows: NDArray[Any], queries: NDArray[Any], k: int, pairs: tuple[int, int]
) -> Rotation | None:
    """A rotation that makes the scan cheaper; None where none does.

    Args:
        space: where rows and queries are compared.
        rows: a random part of the corpus.
        queries: a random part of the queries.
        k: how many rows a query is to find.
        pairs: how many queries and rows there are to be scanned.
    """
    dimension = space.dimension
    prepared = np.empty((len(rows), space.width), space.precision.dtype)
    norm = space.rows(rows, prepared)
    asked, norms = space.queries(queries)
    if not space.is_safe(max(norm, float(norms.max(initial=0.0)))):
        return None
    axes = _axes(prepared[::2, :dimension], asked[::2, :dimension])
    whole = Rotation(axes, 0)
    tried = asked[1::2][:_TRIED_QUERIES]
    offsets = prepared[1::2, dimension] if space.metric is Metric.L2 else np.float32(0)
    trial = _Trial(prepared[1::2, :dimension] @ axes, tried[:, :dimension] @ axes, offsets)
    slack = 4 * whole.error * norms[1::2][:_TRIED_QUERIES, None] * norm
    lead = trial.cheapest(k, pairs, slack)
    return None if lead is None else Rotation(axes, lead)


def _axes(rows: NDArray[Any], queries: NDArray[Any]) -> NDArray[np.float32]:
    """The axes of rows and queries, those along which they spread least first."""
    spread = np.zeros((rows.shape[1], rows.shape[1]))
    for part in (rows, queries):
        size = float(np.abs(part).max(initial=0.0))
        if size > 0:
            near_one = part / np.float32(size)
            square = near_one.T @ near_one
            spread += square / np.trace(square)
    axes: NDArray[np.float32] = np.linalg.eigh(spread)[1].astype(np.float32)
    return axes


@dataclass(frozen=True, eq=False)
class _Trial:
    """Some turned rows and queries, and what a scan of them would have cost."""

    rows: NDArray[Any]
    queries: NDArray[Any]
    offsets: Any

    def cheapest(self, k: int, pairs: tuple[int, int], slack: NDArray[np.float64]) -> int | None:
        """How many components to leave out at first; None where that is not worth it."""
        count, corpus = pairs
        sample, dimension = self.rows.shape
        scores = self.queries @ self.rows.T + self.offsets
        rank = min(sample, max(4, -(-_EARLY * k * sample // corpus)))
        limits = np.partition(scores, sample - rank, axis=1)[:, sample - rank, None]
        if float((scores >= limits - slack).mean()) > 2 * rank / sample:
            # Turned scores could not tell the best rows from many others.
            return None
        fixed = dimension**2 / count + _AXES_COST * dimension**3 / (count * corpus)
        best, chosen = _WORTH * dimension, None
        rest = [np.sqrt(np.cumsum(np.square(part), axis=1)) for part in (self.queries, self.rows)]
        for lead in range(dimension // 6, dimension, max(1, dimension // 12)):
            bounds = self.queries[:, lead:] @ self.rows[:, lead:].T + self.offsets
            bounds += np.multiply.outer(*(part[:, lead - 1] for part in rest))
            share = float((bounds >= limits - slack).mean())
            cost = dimension - lead + fixed + _PAIR_COST * share
            if cost < best:
                best, chosen = cost, lead
        return chosen
