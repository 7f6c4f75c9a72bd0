"""Geometry of vectors: distances, nearest rows, order by metric, and two-sample tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import Metric
from recallatk.datasets.matrix import gather

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    from recallatk.core import Dataset
    from recallatk.linter.evidence import Evidence

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


# More queries than this say no more about a share of 1 %, and cost more.
MOST_QUERIES = 2_000
_NEAREST = 20
_MOST = 500


def production_vectors(evidence: Evidence) -> Floats | None:
    """Some queries of production; None where they are of another dimension than the corpus."""
    sample, dataset = evidence.production, evidence.dataset
    if sample is None or dataset is None or sample.dimension != dataset.corpus.dimension:
        return None
    rows = np.sort(np.random.default_rng(0).permutation(sample.rows)[:MOST_QUERIES])
    return np.asarray(sample.vectors.read(0, sample.rows)[rows], np.float64)


def nearest_distances(evidence: Evidence) -> tuple[Floats, Floats] | None:
    """For queries of the benchmark and of production, the distances of their nearest sampled rows, ascending.

    None under inner product, which has no distances, and where there is no production to compare with.
    """
    dataset, looked = evidence.dataset, evidence.survey
    theirs = production_vectors(evidence)
    if dataset is None or looked is None or theirs is None or dataset.metric is Metric.IP:
        return None
    count = min(_NEAREST, len(looked.sample))

    def nearest(queries: Floats) -> Floats:
        found = distances(dataset.metric, queries, looked.sample)
        return np.sort(np.partition(found, count - 1, axis=1)[:, :count], axis=1)

    return nearest(looked.queries[:_MOST]), nearest(theirs[:_MOST])


# Float32 engines and other people's files round; what differs by less says nothing of the metric.
ROUNDING = 1e-5


def vectors_of(dataset: Dataset, rows: NDArray[np.int64]) -> Floats:
    """(queries, k, dimension) vectors of named rows; whatever is no row has the vector of row 0."""
    known = np.where((rows >= 0) & (rows < dataset.corpus.rows), rows, 0)
    distinct, inverse = np.unique(known, return_inverse=True)
    array = gather(dataset.corpus.vectors, distinct).array.astype(np.float64)
    return np.asarray(array[inverse.reshape(rows.shape)])


def out_of_order(metric: Metric, queries: Floats, vectors: Floats, named: NDArray[np.bool_]) -> float | None:
    """The share of neighboring pairs in which the second is nearer than the first; None without pairs."""
    near = pair_nearness(metric, queries, vectors)
    both = named[:, 1:] & named[:, :-1]
    if not both.any():
        return None
    slack = ROUNDING * np.maximum(np.abs(near[:, 1:]), np.abs(near[:, :-1]))
    return float((near[:, 1:] > near[:, :-1] + slack)[both].mean())


def better_metric(
    metric: Metric, queries: Floats, vectors: Floats, named: NDArray[np.bool_], most: float
) -> tuple[Metric, float, float] | None:
    """Another metric that lists are ordered by, with the shares out of order by this one and by that one.

    None unless more than `most` of the pairs are out of order by this metric, and at the most a fifth as many
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
