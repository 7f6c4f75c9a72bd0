"""Two-sided limits of a weighted mean: the means under which the observed mean would not be rare.

A few heavy queries carry the mean of a query log. Mostly they are found, which moves the mean up a little;
a miss moves it down a lot. The weights skew the error, and the values of a few queries say little about its
size. So each candidate mean is tested with the error that it would have itself, given the weights:

- Values follow a linear trend in the logarithm of their weight, shrunk by its standard error. For each
  candidate, the trend is fitted again to have that mean, which moves heavy values most.
- A value with mean m on the scale of the observed range has a variance of phi m (1 - m), with phi at most 1
  (Bhatia and Davis 2000), and a skewness in proportion to 1 - 2 m. All values estimate phi; it is larger if
  heavy values significantly vary more.
- The lightest queries count as drawn once from the log, the others in proportion to their weight. The
  variance along the trend is that of such draws. The variance around it counts by the squared weight.
- The weighted mean has a Pearson type III distribution, that of gamma limits. Student's t makes it wider, by
  the degrees of freedom of phi and the trend (Satterthwaite 1946).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recallatk.analysis.betting import largest_refuted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

# The error of a trend near the ends is overestimated, because there no mean can go beyond them.
FEWEST_DEGREES = 5.0
# Below this, the quantiles of a gamma distribution are normal ones but for rounding.
_NORMAL = 1e-3
_LEAST = 1e-12


class _Classes(NamedTuple):
    """Values by distinct weight: the share of one value of each class, and how many there are."""

    shares: Floats
    counts: Floats
    sums: Floats
    which: NDArray[np.integer]
    """The class of each value."""


class _Trend(NamedTuple):
    """What is expected of each class, given its weight."""

    observed: float
    """The weighted mean, more than 0 and less than 1."""
    means: Floats
    direction: Floats
    """How far each mean moves if the weighted mean moves by 1."""
    doubt: float
    """The relative error of the variance of the weighted mean that comes from the slope."""


class _Model(NamedTuple):
    """What decides the error of each candidate mean."""

    classes: _Classes
    trend: _Trend
    variance: float
    """Of a value over m (1 - m)."""
    skewness: float
    """The third moment of a value over the second, over 1 - 2 m."""
    degrees: float


def candidate_limits(unit: Floats, weights: Floats, confidence: float) -> tuple[float, float]:
    """Both limits of the weighted mean of values from 0 to 1 that include both."""
    above = 1.0 - _lower_limit(1.0 - unit, weights, confidence)
    return _lower_limit(unit, weights, confidence), above


def _lower_limit(unit: Floats, weights: Floats, confidence: float) -> float:
    from scipy.special import ndtri, stdtrit

    model = _model(unit, weights)
    observed, probability = model.trend.observed, 0.5 + confidence / 2
    wider = float(stdtrit(model.degrees, probability)) / float(ndtri(probability))

    def is_refuted(mean: float) -> bool:
        if mean >= observed:
            return False
        deviation, skewness = _error(model, mean, wider)
        return mean + deviation * _gamma_quantile(skewness, probability) < observed

    return largest_refuted(is_refuted)


def _model(unit: Floats, weights: Floats) -> _Model:
    # What is lighter would underflow, and carries nothing.
    relative = np.maximum(weights / float(np.max(weights)), 1e-300)
    shares, which = np.unique(relative / float(np.sum(relative)), return_inverse=True)
    counts, sums = np.bincount(which).astype(np.float64), np.bincount(which, unit).astype(np.float64)
    classes = _Classes(shares, counts, sums, which)
    # Between equal regard for all values and one in proportion to their weight.
    regard = np.sqrt(shares)
    trend = _trend(unit, classes, regard)
    means = trend.means[which]
    left, room = unit - means, means * (1 - means)
    variance, skewness, doubt = _moments(left, means, regard[which])
    variance = min(1.0, variance + _heavier(left * left, room, shares[which] ** 2, variance))
    degrees = max(FEWEST_DEGREES, 2 / max(doubt + trend.doubt**2, _LEAST))
    return _Model(classes, trend, variance, min(1.0, max(skewness, variance)), degrees)


def _trend(unit: Floats, classes: _Classes, regard: Floats) -> _Trend:
    """Weighted least squares on the logarithm of the weight, moved to the weighted mean."""
    shares, counts, sums, which = classes
    carried, regarded, places = shares * counts, regard * counts, np.log(shares)
    observed = min(max(float(np.sum(shares * sums)), _LEAST), 1 - _LEAST)
    total = float(np.sum(regarded))
    center, level = float(np.sum(regarded * places)) / total, float(np.sum(regard * sums)) / total
    offsets = places - center
    # Weights that differ by rounding alone have the same logarithm.
    spread = float(np.sum(regarded * offsets**2)) or 1.0
    slope = float(np.sum(regard * offsets * (sums - counts * level))) / spread
    left = unit - level - slope * offsets[which]
    error = math.sqrt(float(np.sum(((regard * offsets)[which] * left) ** 2))) / spread
    kept = slope * max(0.0, 1 - (error / slope) ** 2) if slope else 0.0
    lever = float(np.sum(carried * places)) - center
    means = np.clip(observed + kept * (offsets - lever), 0.0, 1.0)
    means = _moved(means, float(np.sum(carried * means)), observed)
    direction = 1 / total + lever * offsets / spread
    room = float(np.sum(carried * shares * means * (1 - means)))
    turned = abs(float(np.sum(carried * shares * (1 - 2 * means) * (offsets - lever))))
    doubt = turned * error / room if room > 0 else 0.0
    return _Trend(observed, means, direction / float(np.sum(carried * direction)), doubt)


def _moments(left: Floats, means: Floats, regard: Floats) -> tuple[float, float, float]:
    """The variance over m (1 - m), its skewness and the squared relative error of the variance."""
    room, tilt, squares = means * (1 - means), 1 - 2 * means, left * left
    expected, seen = float(np.sum(regard * room)), float(np.sum(regard * squares))
    if min(expected, seen) < _LEAST:
        return 1.0, 1.0, 0.0
    variance = seen / expected
    tilted = float(np.sum(regard * tilt * tilt * squares))
    skewness = float(np.sum(regard * tilt * squares * left)) / tilted if tilted > _LEAST else 0.0
    doubt = float(np.sum((regard * (squares - variance * room)) ** 2)) / seen**2
    return variance, skewness, doubt


def _heavier(squares: Floats, room: Floats, regard: Floats, variance: float) -> float:
    """How much more heavy values vary, shrunk by its standard error; 0 where they seem to vary less."""
    expected = float(np.sum(regard * room))
    if expected < 1e-150:
        return 0.0
    heavy = float(np.sum(regard * squares)) / expected
    # One value that dominates is no evidence: its error is that of a value that varies like the others.
    more, error = heavy - variance, float(np.sum((regard * (squares - variance * room)) ** 2)) / expected**2
    return more * max(0.0, 1 - error / more**2) if more > _LEAST else 0.0


def _error(model: _Model, mean: float, wider: float) -> tuple[float, float]:
    """The standard error and the skewness of the weighted mean, if this is the true one.

    What Student's t adds is not skewed.
    """
    shares, trend = model.classes.shares, model.trend
    carried = shares * model.classes.counts
    means = np.clip(trend.means + trend.direction * (mean - trend.observed), 0.0, 1.0)
    means = _moved(means, float(np.sum(carried * means)), mean)
    around = carried * shares * model.variance * means * (1 - means)
    third = float(np.sum(around * shares * model.skewness * (1 - 2 * means)))
    along = float(shares[0]) * float(np.sum(carried * (means - mean) ** 2))
    deviation = wider * math.sqrt(max(float(np.sum(around)) + along, 1e-150))
    return deviation, third / deviation**3


def _moved(means: Floats, current: float, wanted: float) -> Floats:
    """The means moved towards 0 or towards 1 in proportion to their distance, to another weighted mean."""
    if current >= wanted:
        return means * (wanted / current) if current > 0 else means
    return 1 - (1 - means) * ((1 - wanted) / (1 - current))


def _gamma_quantile(skewness: float, probability: float) -> float:
    """Of the Pearson type III distribution with mean 0 and variance 1."""
    from scipy.special import gammaincinv, ndtri

    if abs(skewness) < _NORMAL:
        return float(ndtri(probability))
    shape = 4 / skewness**2
    from_below = probability if skewness > 0 else 1 - probability
    return math.copysign(1.0, skewness) * (float(gammaincinv(shape, from_below)) - shape) / math.sqrt(shape)
