"""Separation of vectors: whether they fall into parts that share almost no neighbors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from recallatk.analysis.geometry import unit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

# Fewer vectors have no stable neighbors; more take longer and tell the same.
FEWEST_ROWS, MOST_ROWS = 500, 2_000
_NEIGHBORS = 10
# Smaller parts may be a topic or a group of near duplicates.
SMALLEST_PART = 0.05
# Two topics of one model may share as few neighbors as two models do, but they spread the same coordinates.
MOST_LEAVING, MOST_ALIKE = 0.04, 0.2
# Round clusters spread all coordinates alike: their variances differ by chance, and say nothing of models.
LEAST_STABLE = 0.5
# The order of fewer variances is mostly chance.
FEWEST_COORDINATES = 32
# A corpus with more parts has clusters, not models.
_MOST_PARTS = 3


class Separation(NamedTuple):
    """The best division of vectors into two parts."""

    leaving: float
    """Share of the smaller part's neighbor relations that lead to the other part; 0 if there are none."""
    smaller: float
    """Share of the vectors in the smaller part."""
    alike: float
    """Rank correlation of the parts' variances per coordinate: each model spreads its own coordinates. 1 if
    the variances are few or differ by chance alone, because then they cannot tell models apart."""

    @property
    def unrelated(self) -> bool:
        """Whether the parts look like those of two models, and not like two topics of one."""
        return self.leaving <= MOST_LEAVING and self.alike <= MOST_ALIKE


def separation(vectors: NDArray[Any]) -> Separation | None:
    """The sparsest cut of the graph of nearest neighbors by cosine, with at least 5 % on both sides.

    Vectors of unrelated spaces are not among each other's neighbors, whatever their means and norms are. The
    cut is found by the second eigenvector of the normalized graph Laplacian (a sweep cut). None for too few
    vectors, without a large connected part, and if there are more than three parts.
    """
    from scipy.sparse.csgraph import connected_components

    points = unit(np.unique(np.asarray(vectors), axis=0))
    if len(points) < FEWEST_ROWS:
        return None
    if len(points) > MOST_ROWS:
        points = points[np.random.default_rng(0).choice(len(points), MOST_ROWS, replace=False)]
    graph = _graph(points)
    _, labels = connected_components(graph, directed=False)
    sizes = np.bincount(labels) / len(points)
    parts = np.flatnonzero(sizes >= SMALLEST_PART)
    if len(parts) == 1:
        inside = np.flatnonzero(labels == parts[0])
        return _sweep(graph[inside][:, inside], points[inside], len(points))
    if not 1 < len(parts) <= _MOST_PARTS:
        return None
    second, first = np.argsort(sizes)[-2:]
    return Separation(0.0, float(sizes[second]), _alike(points[labels == first], points[labels == second]))


def _alike(one: Floats, other: Floats) -> float:
    if one.shape[1] < FEWEST_COORDINATES:
        return 1.0
    if max(_stability(part) for part in (one, other)) < LEAST_STABLE:
        return 1.0
    return _rank_correlation(one.var(axis=0), other.var(axis=0))


def _stability(part: Floats) -> float:
    """Rank correlation between halves of a part in how far each coordinate is from that of the nearest row.

    Nearest rows are in one cluster, so that the distance between clusters has no part in it.
    """
    mixed = part[np.random.default_rng(0).permutation(len(part))]
    return _rank_correlation(_local_variance(mixed[::2]), _local_variance(mixed[1::2]))


def _local_variance(points: Floats) -> Floats:
    near = points @ points.T
    np.fill_diagonal(near, -np.inf)
    return np.asarray(((points - points[near.argmax(axis=1)]) ** 2).mean(axis=0))


def _rank_correlation(one: Floats, other: Floats) -> float:
    """Rank correlation of one number per coordinate; 1 if all are equal."""
    from scipy.stats import rankdata

    ranks = [rankdata(each) for each in (one, other)]
    if any(np.ptp(each) == 0 for each in ranks):
        return 1.0
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _graph(points: Floats) -> Any:
    """Who is among the nearest of whom, in either direction."""
    from scipy.sparse import csr_matrix

    near = points @ points.T
    np.fill_diagonal(near, -np.inf)
    nearest = np.argpartition(-near, _NEIGHBORS, axis=1)[:, :_NEIGHBORS]
    rows = np.repeat(np.arange(len(points)), _NEIGHBORS)
    one_way = csr_matrix((np.ones(nearest.size), (rows, nearest.ravel())), near.shape)
    return one_way.maximum(one_way.T)


def _sweep(graph: Any, points: Floats, count: int) -> Separation | None:
    """The sparsest of the cuts along the second eigenvector; None if there are more than three parts."""
    from scipy.sparse import diags
    from scipy.sparse.linalg import ArpackNoConvergence, eigsh

    degrees = np.asarray(graph.sum(axis=1)).ravel()
    scale = diags(1 / np.sqrt(degrees))
    try:
        values, spread = eigsh(
            scale @ graph @ scale, k=_MOST_PARTS + 1, which="LA", v0=np.sqrt(degrees) + 0.1, tol=1e-4
        )
    except ArpackNoConvergence:
        return None
    order = np.argsort(-values)
    place = np.empty(len(degrees), np.int64)
    place[np.argsort(spread[:, order[1]] / np.sqrt(degrees))] = np.arange(len(degrees))
    ends = np.sort(place[np.array(graph.nonzero())], axis=0)
    steps = np.bincount(ends[0], minlength=len(degrees)) - np.bincount(ends[1], minlength=len(degrees))
    crossing = np.cumsum(steps)[:-1] / 2
    before = np.cumsum(degrees[np.argsort(place)])[:-1]
    leaving = crossing / np.minimum(before, degrees.sum() - before)
    smaller = np.minimum(np.arange(1, len(degrees)), np.arange(1, len(degrees))[::-1]) / count
    leaving[smaller < SMALLEST_PART] = 1.0
    best = int(leaving.argmin())
    # There are as many sparse cuts as eigenvalues near 0, each at most twice its cut: clusters, not models.
    clustered = 1 - values[order[-1]] <= 2 * MOST_LEAVING
    if clustered:
        return None
    left = place <= best
    return Separation(float(leaving[best]), float(smaller[best]), _alike(points[left], points[~left]))
