"""A space turned so that a part of its components tells most of a score, and bounds what the rest can add.

The components are those of the data's own axes, least spread first. The last of them are multiplied for
every pair, together with the norms of what is left out, which by Cauchy and Schwarz adds no more than their
product. Only pairs that reach their threshold with that are worth the remaining components.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import Metric
from recallatk.truth.space import FLOAT32, Space

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
        self._turning_error = rotation.error
        self.width += 1

    def queries(self, block: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Queries as the scan takes them, and a bound on the norm of each."""
        plain, norms = self.plain.queries(block)
        prepared = np.ones((len(plain), self.width), plain.dtype)
        if self.is_safe(float(norms.max(initial=0.0))):
            self._turn(plain, prepared)
        return prepared, norms

    def rows(self, block: NDArray[Any], out: NDArray[Any]) -> float:
        """Corpus rows as the scan takes them, written to `out`; returns a bound on their norms."""
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
