"""How far per-query figures can be trusted: intervals of means, of shares of queries and of quantiles."""

from __future__ import annotations

import math
from bisect import bisect_left
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recallatk.analysis.weighted_interval import candidate_limits
from recallatk.analysis.weighted_limits import rare_limits
from recallatk.core.weights import effective_number, unequal
from recallatk.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    _Correction = Callable[["_Sample", tuple[float, float]], tuple[float, float]]

# recall@k of queries with fewer than k eligible rows has their number below the line: 1 to 10 are all
# divisors of 2,520.
FINEST_LATTICE = 5_040
LONGEST_EXACT = 2**18
LONGEST_TRANSFORM = 2**20
# Splitting a value between two grid points adds at most a quarter of a squared cell to the variance: 1/16,384
# of it at this many cells.
CELLS_PER_DEVIATION = 64
DEVIATIONS = 24
# How many times as far out as the outermost value one more is thought to be, over the acceleration.
TAIL = 10.0
# Values from 0 to 1 that include both have squared deviations of at least this sum. Weighted ones have less
# if only light values differ: as many equal ones as the weights are worth would hold none of these.
LEAST_SQUARES = 0.5
# Groups of equal total weight, whose values may vary differently; chosen by simulated query logs.
WEIGHT_GROUPS = 4
# Differences of larger numbers may be infinite.
_LARGE = 1e300
# What lies closer is the same but for rounding.
_SAME = 1e-12


class Interval(NamedTuple):
    """From `low` to `high`, both included."""

    low: float
    high: float


class _Sample(NamedTuple):
    """Values from 0 to 1 that include both: the distinct ones, and how many there are of each."""

    values: Floats
    counts: NDArray[np.int64]
    n: int
    mean: float
    deviation: float
    acceleration: float
    """How fast the spread of the mean changes with it, by the jackknife."""


class _Lattice(NamedTuple):
    """Values from 0 to 1 as weights on the multiples of 1 / cells."""

    weights: Floats
    cells: int
    length: int


def mean_interval(values: Floats, confidence: float = 0.95, weights: Floats | None = None) -> Interval | None:
    """The interval of a mean that is shown: `bca_interval`, wider where few values make a long tail.

    A tail that few values show is longer than they say. BCa corrects for skew to the second order, which
    leaves an error of the order of one over m for m equal values in the tail; their acceleration is one over
    six roots of m. So the end on that side counts one more value than was seen, as the exact limits of rare
    events do (Garwood 1936; Fay and Feuer 1997 for events of unequal weight). It lies 10 accelerations times
    as far from the mean as the outermost value does, which moves the mean by s = 5 / 3m standard errors and
    widens these by the root of 1 + s^2. The 10 is chosen by the coverage of recalls near 1
    (benchmarks/interval_coverage.py).

    With weights, E[weight value] / E[weight] is the mean, and the ends are the means under which the one seen
    would be rare, given the weights (`candidate_limits`). Where only light values differ, one more value of
    the heaviest weight bounds the mean (`rare_limits`).
    """
    return _interval(values, confidence, _with_longer_tail, unequal(weights))


def weighted_spread(values: Floats, weights: Floats) -> float:
    """The standard error of a weighted mean over that of equally varying values of the same effective number.

    The error of a weighted mean adds up the squared deviation of each value times its squared weight. A few
    heavy values leave that to chance, so the deviations are averaged within four groups of about equal total
    weight, from the lightest to the heaviest values.
    """
    shares = weights / float(np.sum(weights))
    squares = (values - float(np.sum(shares * values))) ** 2
    # Values of equal weight stay in one group: which of them come first would be up to their order.
    distinct, which = np.unique(shares, return_inverse=True)
    carried = distinct * np.bincount(which)
    place = (np.cumsum(carried) - carried / 2) * WEIGHT_GROUPS
    group = np.clip(place.astype(np.int64), 0, WEIGHT_GROUPS - 1)[which]
    total, squared_weights, deviations = (
        np.bincount(group, each, WEIGHT_GROUPS) for each in (shares, shares**2, shares * squares)
    )
    there = total > 0
    error = float(np.sum(squared_weights[there] * deviations[there] / total[there]))
    alike = float(np.sum(deviations)) * float(np.sum(squared_weights))
    return math.sqrt(error / alike) if alike > 0 else 1.0


def bca_interval(values: Floats, confidence: float = 0.95) -> Interval | None:
    """The BCa bootstrap interval of a mean, from the exact bootstrap distribution: nothing is drawn.

    Resampling n values and adding them up is the n-fold convolution of what was observed, which one Fourier
    transform gives. The values are any finite numbers; a unit of resampling is one query.

    Values without variation leave nothing to resample. When all n are the same v in [0, 1], a distribution
    that shows this with a probability of at least alpha = 1 - confidence has at least s = alpha^(1/n) of its
    mass on v; its mean is therefore between v s and 1 - (1 - v) s, which is the interval. Outside [0, 1]
    nothing bounds the rest of the mass, and there is no interval: None, as for no values.
    """
    return _interval(values, confidence, lambda _, ends: ends)


def share_interval(successes: float, n: float, confidence: float = 0.95) -> Interval | None:
    """Wilson's interval of a share of queries; None without queries.

    For what is one yes or no per query. Hits are not: those of one query depend on each other. Weighted
    queries count as their effective number, which is no whole number.
    """
    from scipy.special import ndtri

    _check_confidence(confidence)
    if not 0 <= successes <= n:
        raise UsageError(f"{successes} of {n} is not a share. Accepted: 0 <= successes <= n")
    if n == 0:
        return None
    z = float(ndtri(0.5 + confidence / 2))
    share, weight = successes / n, z * z / n
    center = (share + weight / 2) / (1 + weight)
    half = z / (1 + weight) * math.sqrt(share * (1 - share) / n + weight / (4 * n))
    # At the ends the formula gives 0 and 1 but for rounding.
    return Interval(
        0.0 if successes == 0 else max(0.0, center - half), 1.0 if successes == n else min(1.0, center + half)
    )


def quantile(values: Floats, share: float) -> float:
    """The smallest of the values that at least `share` of them do not exceed."""
    _check_share(share)
    if not len(values):
        raise UsageError("cannot take a quantile: there are no values")
    rank = max(1, math.ceil(share * len(values) - 1e-9))
    return float(np.partition(values, rank - 1)[rank - 1])


def quantile_interval(values: Floats, share: float, confidence: float = 0.95) -> Interval | None:
    """The interval of a quantile of values in [0, 1] between two of them, whatever their distribution.

    How many of n values do not exceed the true quantile is binomial; its quantiles are the two ranks, and the
    confidence is at least what is asked for. Too few values for a lower rank leave 0 as the lower end, and
    for an upper rank 1 as the upper end. None without values.
    """
    n = len(values)
    lower, upper = quantile_ranks(n, share, confidence)
    if not n:
        return None
    in_order = np.sort(values)
    if not (in_order[0] >= 0.0 and in_order[-1] <= 1.0):
        raise UsageError("a quantile interval of values outside [0, 1]. Accepted: values from 0 to 1")
    return Interval(
        0.0 if lower is None else float(in_order[lower]), 1.0 if upper is None else float(in_order[upper])
    )


@lru_cache(maxsize=4096)
def quantile_ranks(n: int, share: float, confidence: float = 0.95) -> tuple[int | None, int | None]:
    """The places, among n values in order, of the two ends of that interval; None for an end that is none.

    They depend on no value, and the trials of a run mostly have the same number of calls.
    """
    from scipy.special import bdtr

    _check_confidence(confidence)
    _check_share(share)
    tail = (1 - confidence) / 2
    lower, upper = (
        bisect_left(range(n), probability, key=lambda count: float(bdtr(count, n, share)))
        for probability in (tail, 1 - tail)
    )
    return (lower - 1 if lower >= 1 else None), (upper if upper < n else None)


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise UsageError(f"a confidence of {confidence}. Accepted: more than 0 and less than 1, such as 0.95")


def _check_share(share: float) -> None:
    if not 0 <= share <= 1:
        raise UsageError(f"a share of {share}. Accepted: 0 to 1, such as 0.05")


def _interval(
    values: Floats, confidence: float, corrected: _Correction, weights: Floats | None = None
) -> Interval | None:
    _check_confidence(confidence)
    if not len(values):
        return None
    if weights is None:
        in_order = np.sort(values).astype(np.float64)
    else:
        order = np.argsort(values, kind="stable")
        in_order, weights = values[order].astype(np.float64), weights[order]
    low, high = float(in_order[0]), float(in_order[-1])
    if not (math.isfinite(low) and math.isfinite(high)):
        raise UsageError("cannot compute an interval: some values are NaN or infinite")
    if max(-low, high) > _LARGE:
        # The width of these would be infinite.
        inner = _interval(in_order / 16, confidence, corrected, weights)
        return inner and Interval(max(inner.low * 16, low), min(inner.high * 16, high))
    width = high - low
    if width <= _SAME * max(-low, high):
        return _without_variation(low, len(values) if weights is None else _heaviest(weights), confidence)
    if weights is None:
        sample = _sampled(in_order)
        ends = corrected(sample, _bootstrap_ends(sample, confidence))
    else:
        unit = (in_order - low) / width
        if _squares(unit, weights) < LEAST_SQUARES:
            found = rare_limits(in_order, weights, confidence) if low >= 0 and high <= 1 else None
            return found and Interval(*found)
        ends = candidate_limits(unit, weights, confidence)
    least, most = (min(max(low + width * end, low), high) for end in ends)
    return Interval(least, most)


def _squares(unit: Floats, weights: Floats) -> float:
    """The squared deviations of as many equally weighted values as the weights are worth."""
    shares = weights / float(np.max(weights))
    shares = shares / float(np.sum(shares))
    mean = float(np.sum(shares * unit))
    return effective_number(weights) * float(np.sum(shares * (unit - mean) ** 2))


def _heaviest(weights: Floats) -> float:
    """How many values as heavy as the heaviest have this weight; unseen values can be as heavy."""
    return float(np.sum(weights / np.max(weights)))


def _without_variation(value: float, n: float, confidence: float) -> Interval | None:
    if not 0 <= value <= 1:
        return None
    least = (1 - confidence) ** (1 / n)
    return Interval(value * least, 1 - (1 - value) * least)


def _sampled(in_order: Floats) -> _Sample:
    """What is needed of values in order, whatever their scale; recalls have few distinct ones."""
    n = len(in_order)
    starts = np.concatenate([[0], np.flatnonzero(in_order[1:] != in_order[:-1]) + 1])
    counts = np.diff(starts, append=n)
    distinct = in_order[starts]
    unit = (distinct - distinct[0]) / (distinct[-1] - distinct[0])
    mean = float(np.sum(counts * unit)) / n
    offsets = unit - mean
    weighted = counts * offsets * offsets
    squares = float(np.sum(weighted))
    below = 6 * squares**1.5
    acceleration = float(np.sum(weighted * offsets)) / below if below > 0 else 0.0
    return _Sample(unit, counts, n, mean, math.sqrt(squares / n), acceleration)


def _bootstrap_ends(sample: _Sample, confidence: float) -> tuple[float, float]:
    from scipy.special import ndtr, ndtri

    n, acceleration = sample.n, sample.acceleration
    lattice = _lattice(sample)
    observed = float(np.sum(sample.counts * sample.values)) * lattice.cells
    center, probabilities = _sum_distribution(lattice, n, observed)
    # Half a cell to either side of each sum carries its probability evenly: half of that of the observed sum
    # is then below it, and quantiles move with the confidence and not in jumps.
    below = np.concatenate([[0.0], np.cumsum(probabilities)])
    below /= below[-1]
    edges = np.arange(len(below)) + (center - lattice.length // 2 - 0.5)
    bias = float(ndtri(np.clip(np.interp(observed, edges, below), 1e-12, 1 - 1e-12)))
    z = float(ndtri(0.5 + confidence / 2))
    adjusted = ndtr([_adjusted(bias, acceleration, -z), _adjusted(bias, acceleration, z)])
    low, high = np.interp(adjusted, below, edges) / (n * lattice.cells)
    return float(low), float(high)


def _with_longer_tail(sample: _Sample, ends: tuple[float, float]) -> tuple[float, float]:
    mean, (low, high) = sample.mean, ends
    outermost = -mean if sample.acceleration < 0 else 1 - mean
    further = TAIL * abs(sample.acceleration) * outermost
    wider = math.sqrt(1 + further**2 / (sample.n * sample.deviation**2))
    if sample.acceleration < 0:
        return min(low, mean + further / sample.n + (low - mean) * wider), high
    return low, max(high, mean + further / sample.n + (high - mean) * wider)


def _adjusted(bias: float, acceleration: float, z: float) -> float:
    moved = bias + z
    left = 1 - acceleration * moved
    # Beyond this pole the correction asks for more than the whole distribution.
    return bias + moved / left if left > 0 else math.copysign(math.inf, moved)


def _lattice(sample: _Sample) -> _Lattice:
    unit, counts, n, deviation = sample.values, sample.counts, sample.n, sample.deviation
    exact = _common_denominator(unit)
    if exact is not None:
        length = _transform_length(exact, n, deviation)
        if length <= LONGEST_EXACT:
            weights = np.bincount(np.rint(unit * exact).astype(np.int64), counts, exact + 1)
            return _Lattice(weights / n, exact, length)
    affordable = LONGEST_TRANSFORM / (DEVIATIONS * math.sqrt(n))
    cells = max(1, math.ceil(min(CELLS_PER_DEVIATION, affordable) / deviation))
    places = unit * cells
    lower = np.minimum(places.astype(np.int64), cells - 1)
    above = (places - lower) * counts
    weights = np.bincount(lower, counts - above, cells + 1) + np.bincount(lower + 1, above, cells + 1)
    return _Lattice(weights / n, cells, min(_transform_length(cells, n, deviation), LONGEST_TRANSFORM))


def _common_denominator(unit: Floats) -> int | None:
    """The smallest number of which all values are multiples of its inverse; None if there is no small one."""
    found = 1
    while True:
        places = unit * found
        off = np.abs(places - np.rint(places)) > 1e-9 * found
        first = int(np.argmax(off))
        if not off[first]:
            return found
        denominator = Fraction(float(unit[first])).limit_denominator(FINEST_LATTICE).denominator
        larger = math.lcm(found, denominator)
        if larger == found or larger > FINEST_LATTICE:
            return None
        found = larger


def _transform_length(cells: int, n: int, deviation: float) -> int:
    """A power of two that holds every sum to both sides of any, or so many that the rest is negligible."""
    needed = min(2 * n * cells + 2, DEVIATIONS * deviation * cells * math.sqrt(n))
    return max(64, 1 << math.ceil(math.log2(needed)))


def _sum_distribution(lattice: _Lattice, n: int, observed: float) -> tuple[int, Floats]:
    """The sum in cells at the middle of the window, and the probabilities of the sums in the window."""
    weights, _, length = lattice
    center = round(observed)
    # Near its mean a distribution has phases near zero, which lose least when they are multiplied by n.
    middle = round(observed / n)
    wrapped = np.bincount((np.arange(len(weights)) - middle) % length, weights, length)
    spectrum = np.fft.rfft(wrapped)
    size = np.abs(spectrum)
    powers = np.zeros_like(spectrum)
    # What is left out is below the rounding of the transform.
    kept = size > math.exp(-60 / n)
    powers[kept] = np.exp(n * (np.log(size[kept]) + 1j * np.angle(spectrum[kept])))
    sums = np.maximum(np.fft.irfft(powers, length), 0.0)
    return center, np.roll(sums, length // 2 - (center - n * middle))
