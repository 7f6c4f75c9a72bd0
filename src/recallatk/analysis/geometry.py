"""Geometry of vectors: distances, nearness and order by metric, local intrinsic dimension."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import Metric

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def unit(vectors: NDArray[Any]) -> Floats:
    """Vectors scaled to unit length; zero vectors stay zero."""
    wide = np.asarray(vectors, np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    return np.asarray(wide / np.where(lengths > 0, lengths, 1.0))


def nearness(metric: Metric, queries: NDArray[Any], rows: NDArray[Any]) -> Floats:
    """(queries, rows) nearness: higher is nearer for every metric."""
    if metric is Metric.L2:
        return -distances(metric, queries, rows)
    if metric is Metric.COSINE:
        return np.asarray(unit(queries) @ unit(rows).T)
    return np.asarray(np.asarray(queries, np.float64) @ np.asarray(rows, np.float64).T)


def pair_nearness(metric: Metric, queries: NDArray[Any], rows: NDArray[Any]) -> Floats:
    """(queries, k) nearness of each query's own rows, which have shape (queries, k, dimension)."""
    asked, found = np.asarray(queries, np.float64), np.asarray(rows, np.float64)
    if metric is Metric.L2:
        return np.asarray(-np.linalg.norm(found - asked[:, None], axis=2))
    products = np.einsum("qkd,qd->qk", found, asked)
    if metric is Metric.IP:
        return np.asarray(products)
    lengths = np.linalg.norm(found, axis=2) * np.linalg.norm(asked, axis=1)[:, None]
    return np.asarray(products / np.where(lengths > 0, lengths, 1.0))


def distances(metric: Metric, queries: NDArray[Any], rows: NDArray[Any]) -> Floats:
    """(queries, rows) distances; for cosine, between unit vectors."""
    asked, found = np.asarray(queries, np.float64), np.asarray(rows, np.float64)
    if metric is Metric.COSINE:
        asked, found = unit(asked), unit(found)
    squares = np.square(asked).sum(axis=1)[:, None] + np.square(found).sum(axis=1) - 2 * (asked @ found.T)
    return np.asarray(np.sqrt(np.maximum(squares, 0.0)))


def dimension_of(distances_in_order: Floats) -> Floats:
    """Local intrinsic dimension per row of ascending distances; NaN where undefined."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(distances_in_order / distances_in_order[:, -1:])
        usable = np.isfinite(logs)
        means = np.where(usable, logs, 0.0).sum(axis=1) / usable.sum(axis=1)
        return np.asarray(np.where(means < 0, -1.0 / means, np.nan))


# Float32 engines and imported files round; smaller differences say nothing about the metric.
ROUNDING = 1e-5


def out_of_order(metric: Metric, queries: Floats, vectors: Floats, named: NDArray[np.bool_]) -> float | None:
    """Share of adjacent pairs whose second row is nearer than the first; None without pairs."""
    near = pair_nearness(metric, queries, vectors)
    both = named[:, 1:] & named[:, :-1]
    if not both.any():
        return None
    slack = ROUNDING * np.maximum(np.abs(near[:, 1:]), np.abs(near[:, :-1]))
    return float((near[:, 1:] > near[:, :-1] + slack)[both].mean())


def better_metric(
    metric: Metric, queries: Floats, vectors: Floats, named: NDArray[np.bool_], most: float
) -> tuple[Metric, float, float] | None:
    """The metric that lists are really ordered by, with the shares out of order by `metric` and by it.

    None unless more than `most` of the pairs are out of order by `metric`, and at most a fifth of that share
    by the other.
    """
    own = out_of_order(metric, queries, vectors, named)
    if own is None or own <= most:
        return None
    others = [
        (found, other)
        for other in Metric
        if other is not metric and (found := out_of_order(other, queries, vectors, named)) is not None
    ]
    found, other = min(others, key=lambda each: each[0])
    return (other, own, found) if found <= own / 5 else None
