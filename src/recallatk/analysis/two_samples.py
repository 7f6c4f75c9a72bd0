"""Differences of two samples: numbers with intervals, and how often chance alone gives as large ones.

A statistic is a function of weights of the pooled values, many sets of weights at a time. Weights of random
divisions of the pool give its distribution without a difference (a permutation test), weights of resamples
its interval (a bootstrap).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Floats: TypeAlias = "NDArray[np.float64]"
# The weights of the first and of the second sample, (draws, values) each, to one number per draw.
Statistic: TypeAlias = Callable[[Floats, Floats], Floats]

DIVISIONS, RESAMPLES = 999, 400
_CONFIDENCE = 0.95
# Rounding of sums must not tell equal divisions apart.
_SLACK = 1e-9


class Shift(NamedTuple):
    """One difference of two samples."""

    number: float
    low: float
    high: float
    """The 95 % bootstrap interval."""
    p: float
    """The share of random divisions of the pool with as large a difference; at least 1 / 1,000."""


@dataclass(frozen=True, eq=False)
class Pool:
    """Two samples as one, with the weights of its divisions and resamples.

    Args:
        first: size of the first sample, whose values come first.
        second: size of the second.
        seed: random seed.
    """

    first: int
    second: int
    seed: int = 0

    @property
    def observed(self) -> tuple[Floats, Floats]:
        """The weights of the samples themselves."""
        one = np.zeros((1, self.first + self.second))
        one[0, : self.first] = 1
        return self._shares(one, 1 - one)

    @cached_property
    def divided(self) -> tuple[Floats, Floats]:
        """Weights of random divisions into samples of the same sizes."""
        draw = np.random.default_rng(self.seed)
        ones = np.zeros((DIVISIONS, self.first + self.second))
        ones[:, : self.first] = 1
        ones = draw.permuted(ones, axis=1)
        return self._shares(ones, 1 - ones)

    @cached_property
    def resampled(self) -> tuple[Floats, Floats]:
        """Weights of resamples of each sample, with replacement."""
        draw = np.random.default_rng(self.seed + 1)
        counts = np.zeros((2, RESAMPLES, self.first + self.second))
        for side, size, start in ((0, self.first, 0), (1, self.second, self.first)):
            drawn = draw.multinomial(size, np.full(size, 1 / size), RESAMPLES)
            counts[side, :, start : start + size] = drawn
        return self._shares(counts[0], counts[1])

    def ratio(self, statistic: Statistic) -> Shift:
        """A statistic that is a logarithm of a ratio, as the ratio; both directions count."""
        [observed] = statistic(*self.observed)
        chance = statistic(*self.divided)
        low, high = _ends(statistic(*self.resampled))
        with np.errstate(over="ignore"):
            number, low, high = (float(np.exp(each)) for each in (observed, low, high))
        return Shift(number, low, high, _p(abs(observed), np.abs(chance)))

    def distance(self, statistic: Statistic) -> Shift:
        """A statistic that is a distance: never negative, and larger than 0 by chance.

        The number is what is left of it without the part that chance alone gives, in squares.
        """
        [observed] = statistic(*self.observed)
        chance = statistic(*self.divided)
        bias = float(np.square(chance).mean())
        # Resamples differ from their sample by as much again.
        resampled = np.sqrt(np.maximum(0.0, np.square(statistic(*self.resampled)) - 2 * bias))
        low, high = _ends(resampled)
        number = float(np.sqrt(max(0.0, float(observed) ** 2 - bias)))
        return Shift(number, min(low, number), max(high, number), _p(observed, chance))

    def _shares(self, first: Floats, second: Floats) -> tuple[Floats, Floats]:
        return first / self.first, second / self.second


@lru_cache(maxsize=2)
def pool_of(first: int, second: int, seed: int = 0) -> Pool:
    """The pool of two samples of these sizes; its weights are drawn once for all statistics.

    Args:
        first: size of the first sample, whose values come first.
        second: size of the second.
        seed: random seed.
    """
    return Pool(first, second, seed)


def log_ratio_of_means(values: Floats) -> Statistic:
    """The logarithm of the second mean over the first."""

    def statistic(first: Floats, second: Floats) -> Floats:
        return _log_ratio(first @ values, second @ values)

    return statistic


def log_ratio_of_medians(values: Floats) -> Statistic:
    """The logarithm of the second median over the first."""
    order = np.argsort(values, kind="stable")
    in_order = values[order]

    def median(weights: Floats) -> Floats:
        reached = np.cumsum(weights[:, order], axis=1) >= 0.5 - _SLACK
        return np.asarray(in_order[reached.argmax(axis=1)])

    def statistic(first: Floats, second: Floats) -> Floats:
        return _log_ratio(median(first), median(second))

    return statistic


def difference_of_means(values: Floats) -> Statistic:
    """The second mean minus the first, of values that are logarithms."""

    def statistic(first: Floats, second: Floats) -> Floats:
        return np.asarray((second - first) @ values)

    return statistic


def mean_distance(vectors: NDArray[Any]) -> Statistic:
    """The distance of the two means in standard deviations of the pool."""
    centered = vectors - vectors.mean(axis=0)
    spread = float(np.sqrt(np.square(centered).sum(axis=1).mean()))
    scaled = np.asarray(centered / spread if spread > 0 else centered, np.float32)

    def statistic(first: Floats, second: Floats) -> Floats:
        apart = (second - first).astype(np.float32) @ scaled
        return np.asarray(np.linalg.norm(apart, axis=1), np.float64)

    return statistic


def discrepancy(vectors: NDArray[Any], components: int = 64) -> Statistic:
    """The maximum mean discrepancy (MMD), of a Gaussian kernel as wide as the median distance.

    Vectors are projected on the first principal components of the pool.
    """
    points = _principal(vectors, components)
    squares = np.square(points).sum(axis=1)
    apart = np.maximum(squares[:, None] + squares - 2 * points @ points.T, 0.0)
    width = float(np.median(apart[np.triu_indices(len(apart), 1)]))
    kernel = np.exp(-apart / width if width > 0 else -apart).astype(np.float32)

    def statistic(first: Floats, second: Floats) -> Floats:
        signed = (second - first).astype(np.float32)
        found = np.einsum("ij,ij->i", signed @ kernel, signed)
        return np.asarray(np.sqrt(np.maximum(found, 0.0)), np.float64)

    return statistic


def variation(labels: NDArray[np.int64], values: int) -> Statistic:
    """Total variation distance of two mixes: the share that has another value.

    Args:
        labels: the number of each value's kind.
        values: how many kinds there are.
    """
    kinds = np.zeros((len(labels), values))
    kinds[np.arange(len(labels)), labels] = 1

    def statistic(first: Floats, second: Floats) -> Floats:
        found = np.abs((second - first) @ kinds).sum(axis=1) / 2
        # Rounding alone makes no difference.
        return np.asarray(np.where(found > _SLACK, found, 0.0))

    return statistic


def copies(first: NDArray[Any], second: NDArray[Any], seed: int = 0) -> Shift:
    """The share of the second sample's values that occur twice in it, minus that of the first.

    Samples must be of one size: a larger one has more copies. The interval is Newcombe's.
    """
    pool = pool_of(len(first), len(second), seed)
    _, kinds = np.unique(np.concatenate([first, second]), return_inverse=True)
    kinds = kinds.reshape(-1)
    ones = [_copied(kinds[: len(first)]), _copied(kinds[len(first) :])]
    observed = ones[1] - ones[0]
    # Values that occur once in the pool are never copies.
    repeated = np.bincount(kinds)[kinds] > 1
    chance = np.zeros(DIVISIONS)
    if repeated.any():
        _, few = np.unique(kinds[repeated], return_inverse=True)
        for each, sides in enumerate(pool.divided[0][:, repeated] > 0):
            chance[each] = _of_all(few[~sides], len(second)) - _of_all(few[sides], len(first))
    low, high = _newcombe(ones[0], len(first), ones[1], len(second))
    return Shift(observed, low, high, _p(abs(observed), np.abs(chance)))


def _copied(kinds: NDArray[np.int64]) -> float:
    return _of_all(kinds, len(kinds))


def _of_all(kinds: NDArray[np.int64], size: int) -> float:
    counts = np.bincount(kinds)
    return float(counts[counts > 1].sum() / size)


def _newcombe(first: float, n: int, second: float, m: int) -> tuple[float, float]:
    """The interval of a difference of shares from those of each (Newcombe 1998, method 10)."""
    from recallatk.analysis.intervals import share_interval

    one, two = share_interval(first * n, n), share_interval(second * m, m)
    if one is None or two is None:
        return -1.0, 1.0
    below = np.hypot(second - two.low, one.high - first)
    above = np.hypot(two.high - second, first - one.low)
    return float(second - first - below), float(second - first + above)


def _principal(vectors: NDArray[Any], components: int) -> Floats:
    centered = np.asarray(vectors - vectors.mean(axis=0), np.float64)
    if centered.shape[1] <= components:
        return centered
    _, axes = np.linalg.eigh(centered.T @ centered)
    return np.asarray(centered @ axes[:, -components:])


def _log_ratio(below: Floats, above: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.log(above) - np.log(below)
    return np.asarray(np.where((above == 0) & (below == 0), 0.0, found))


def _p(observed: float, chance: Floats) -> float:
    """The share of draws, with the observed one, that reach it."""
    reached = chance >= observed * (1 - _SLACK) - 1e-12
    return float((1 + np.count_nonzero(reached)) / (1 + len(chance)))


def _ends(draws: Floats) -> tuple[float, float]:
    low, high = np.quantile(draws, [(1 - _CONFIDENCE) / 2, (1 + _CONFIDENCE) / 2])
    return float(low), float(high)
