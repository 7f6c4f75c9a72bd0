"""How near vectors lie, by any metric, and whether two sets of them can be told apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import Metric

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_WIDEST = 512
_SHRINKAGE = 0.1
_FOLDS = 2


def unit(vectors: NDArray[Any]) -> Floats:
    """Vectors of length one; a vector of zeros stays as it is."""
    wide = np.asarray(vectors, np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    return np.asarray(wide / np.where(lengths > 0, lengths, 1.0))


def nearness(metric: Metric, queries: NDArray[Any], rows: NDArray[Any]) -> Floats:
    """(queries, rows): higher is nearer, whatever the metric."""
    if metric is Metric.L2:
        return -distances(metric, queries, rows)
    if metric is Metric.COSINE:
        return np.asarray(unit(queries) @ unit(rows).T)
    return np.asarray(np.asarray(queries, np.float64) @ np.asarray(rows, np.float64).T)


def pair_nearness(metric: Metric, queries: NDArray[Any], rows: NDArray[Any]) -> Floats:
    """(queries, k) for rows of shape (queries, k, dimension): the same for each query's own rows."""
    asked, found = np.asarray(queries, np.float64), np.asarray(rows, np.float64)
    if metric is Metric.L2:
        return np.asarray(-np.linalg.norm(found - asked[:, None], axis=2))
    products = np.einsum("qkd,qd->qk", found, asked)
    if metric is Metric.IP:
        return np.asarray(products)
    lengths = np.linalg.norm(found, axis=2) * np.linalg.norm(asked, axis=1)[:, None]
    return np.asarray(products / np.where(lengths > 0, lengths, 1.0))


def distances(metric: Metric, queries: NDArray[Any], rows: NDArray[Any]) -> Floats:
    """(queries, rows) distances; between unit vectors under cosine."""
    asked, found = np.asarray(queries, np.float64), np.asarray(rows, np.float64)
    if metric is Metric.COSINE:
        asked, found = unit(asked), unit(found)
    squares = np.square(asked).sum(axis=1)[:, None] + np.square(found).sum(axis=1) - 2 * (asked @ found.T)
    return np.asarray(np.sqrt(np.maximum(squares, 0.0)))


def held_out_auc(first: NDArray[Any], second: NDArray[Any], seed: int = 0) -> float:
    """How well a linear classifier tells two sets apart on vectors that it has not seen; 0.5: not at all.

    Fisher's discriminant with a shrunken covariance, fitted on one half of either set and tried on the other,
    both ways. Vectors of more than 512 numbers are projected to 512 at random.
    """
    draw = np.random.default_rng(seed)
    both = [np.asarray(each, np.float64) for each in (first, second)]
    dimension = both[0].shape[1]
    if dimension > _WIDEST:
        projection = draw.standard_normal((dimension, _WIDEST)) / np.sqrt(_WIDEST)
        both = [each @ projection for each in both]
    folds = [np.array_split(draw.permutation(len(each)), _FOLDS) for each in both]
    found = []
    for fold in range(_FOLDS):
        seen = [
            each[np.setdiff1d(np.arange(len(each)), parts[fold])]
            for each, parts in zip(both, folds, strict=True)
        ]
        unseen = [each[parts[fold]] for each, parts in zip(both, folds, strict=True)]
        direction = _discriminant(*seen)
        found.append(_auc(unseen[0] @ direction, unseen[1] @ direction))
    return float(np.mean(found))


def _discriminant(first: Floats, second: Floats) -> Floats:
    centres = [each.mean(axis=0) for each in (first, second)]
    spread = np.concatenate([first - centres[0], second - centres[1]])
    covariance = spread.T @ spread / max(1, len(spread) - 2)
    level = float(np.trace(covariance)) / len(covariance)
    covariance = (1 - _SHRINKAGE) * covariance + (_SHRINKAGE * level + 1e-12) * np.eye(len(covariance))
    return np.asarray(np.linalg.solve(covariance, centres[1] - centres[0]))


def _auc(low: Floats, high: Floats) -> float:
    """The share of pairs in which the second is the larger, halves for ties."""
    from scipy.stats import rankdata

    ranks = rankdata(np.concatenate([low, high]))
    above = ranks[len(low) :].sum() - len(high) * (len(high) + 1) / 2
    return float(above / (len(low) * len(high)))


def dimension_of(distances_in_order: Floats) -> Floats:
    """The local intrinsic dimension of each line of ascending distances; NaN where there is none."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(distances_in_order / distances_in_order[:, -1:])
        usable = np.isfinite(logs)
        means = np.where(usable, logs, 0.0).sum(axis=1) / usable.sum(axis=1)
        return np.asarray(np.where(means < 0, -1.0 / means, np.nan))
