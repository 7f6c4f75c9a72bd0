"""A linear classifier as a two-sample test: how well it tells two sets of vectors apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_WIDEST = 512
_SHRINKAGE = 0.1
_FOLDS = 2
_NORMAL_95 = 1.959964


class ToldApart(NamedTuple):
    """How well a classifier tells two sets apart."""

    auc: float
    """On held-out vectors; 0.5 is chance."""
    low: float
    high: float
    """The 95 % interval of the AUC (Hanley and McNeil 1982)."""
    p: float
    """How often a difference by chance alone gives as high an AUC, by the rank sum test."""


def held_out_auc(first: NDArray[Any], second: NDArray[Any], seed: int = 0) -> float:
    """AUC of a linear classifier that separates two sets, on held-out vectors; 0.5 is chance."""
    return told_apart(first, second, seed).auc


def told_apart(first: NDArray[Any], second: NDArray[Any], seed: int = 0) -> ToldApart:
    """A linear classifier that separates two sets, judged on held-out vectors.

    Fisher's discriminant with a shrunken covariance, fitted on one half of each set and tested on the other,
    both ways. A random projection reduces vectors of more than 512 dimensions to 512.
    """
    draw = np.random.default_rng(seed)
    both = [np.asarray(each, np.float64) for each in (first, second)]
    dimension = both[0].shape[1]
    if dimension > _WIDEST:
        projection = draw.standard_normal((dimension, _WIDEST)) / np.sqrt(_WIDEST)
        both = [each @ projection for each in both]
    folds = [np.array_split(draw.permutation(len(each)), _FOLDS) for each in both]
    found, chances = [], []
    for fold in range(_FOLDS):
        seen = [
            each[np.setdiff1d(np.arange(len(each)), parts[fold])]
            for each, parts in zip(both, folds, strict=True)
        ]
        unseen = [each[parts[fold]] for each, parts in zip(both, folds, strict=True)]
        direction = _discriminant(*seen)
        auc, p = _auc(unseen[0] @ direction, unseen[1] @ direction)
        found.append(auc)
        chances.append(p)
    auc = float(np.mean(found))
    half = _NORMAL_95 * _standard_error(auc, len(both[0]), len(both[1]))
    # The folds share vectors, so that their tests are combined by Bonferroni's bound.
    return ToldApart(auc, max(0.0, auc - half), min(1.0, auc + half), min(1.0, _FOLDS * min(chances)))


def _discriminant(first: Floats, second: Floats) -> Floats:
    centers = [each.mean(axis=0) for each in (first, second)]
    spread = np.concatenate([first - centers[0], second - centers[1]])
    covariance = spread.T @ spread / max(1, len(spread) - 2)
    level = float(np.trace(covariance)) / len(covariance)
    covariance = (1 - _SHRINKAGE) * covariance + (_SHRINKAGE * level + 1e-12) * np.eye(len(covariance))
    return np.asarray(np.linalg.solve(covariance, centers[1] - centers[0]))


def _auc(low: Floats, high: Floats) -> tuple[float, float]:
    """The share of pairs in which the second value is larger, ties counting half, and its p value."""
    from scipy.stats import mannwhitneyu

    found = mannwhitneyu(high, low, alternative="greater", method="asymptotic")
    return float(found.statistic / (len(low) * len(high))), float(found.pvalue)


def _standard_error(auc: float, first: int, second: int) -> float:
    one, two = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    spread = auc * (1 - auc) + (first - 1) * (one - auc**2) + (second - 1) * (two - auc**2)
    return float(np.sqrt(max(0.0, spread) / (first * second)))
