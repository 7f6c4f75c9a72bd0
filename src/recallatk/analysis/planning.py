"""Sample size planning: half-widths, and the number of queries that separates two values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from recallatk.core.weights import effective_number
from recallatk.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

STEP = 0.01


def half_width(spread: float, n: int, confidence: float = 0.95) -> float:
    """Half-width of the interval of a mean over n queries with this standard deviation."""
    if n < 1:
        raise UsageError(f"an interval for {n} queries. Accepted: 1 or more")
    return _quantile_of(confidence) * _checked_spread(spread) / math.sqrt(n)


def queries_for(half_width: float, spread: float, confidence: float = 0.95) -> int:
    """Number of queries for which the interval of the mean is within ± `half_width`."""
    if not 0 < half_width < math.inf:
        raise UsageError(f"a half width of {half_width}. Accepted: more than 0, such as 0.01")
    return _rounded_up((_quantile_of(confidence) * _checked_spread(spread) / half_width) ** 2)


def queries_to_tell(
    first: float, second: float, spread: float, confidence: float = 0.95, power: float = 0.8
) -> int:
    """Number of queries that tell a mean of `second` from the fixed value `first` with this power."""
    difference = abs(second - first)
    if not 0 < difference < math.inf:
        raise UsageError(f"cannot plan: {first} and {second} are equal or not finite")
    if not 0 < power < 1:
        raise UsageError(f"a power of {power}. Accepted: more than 0 and less than 1, such as 0.8")
    from scipy.special import ndtri

    # A power below the false positive rate needs no queries.
    reach = max(0.0, _quantile_of(confidence) + float(ndtri(power)))
    return _rounded_up((reach * _checked_spread(spread) / difference) ** 2)


def spread_of(values: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> float:
    """The standard deviation of two or more values; with weights, of as many that count the same."""
    if weights is None:
        return float(np.std(values, ddof=1))
    mean = np.average(values, weights=weights)
    deviation = float(np.sqrt(np.average((values - mean) ** 2, weights=weights)))
    return deviation * math.sqrt(len(values) / effective_number(weights))


def in_words(
    values: NDArray[np.float64],
    k_name: str,
    half: float | None = None,
    weights: NDArray[np.float64] | None = None,
) -> str:
    """Precision that these queries give, and the number needed to resolve a step of 0.01.

    Args:
        values: one value per query.
        k_name: name of the measure, such as recall@10.
        half: half-width of the interval shown elsewhere; by default computed from the spread.
        weights: how much each query counts; more queries are thought to have weights like these.
    """
    n = len(values)
    if n < 2:
        raise UsageError(f"cannot estimate the spread from {n} queries. Accepted: 2 or more")
    spread, mean = spread_of(values, weights), float(np.average(values, weights=weights))
    worth = "" if weights is None else f" worth {effective_number(weights):,.0f} of equal weight"
    if spread <= 1e-12 * abs(mean):
        return (
            f"all {n:,} queries have the same {k_name}, {mean:.4g}, "
            "so the number of queries needed cannot be estimated"
        )
    shown = round(mean, 2)
    other = shown - STEP if shown >= 1 else shown + STEP
    needed = queries_to_tell(shown, other, spread)
    width = _plus_or_minus(half_width(spread, n) if half is None else half)
    return (
        f"with {n:,} queries{worth} the interval of {k_name} is {width}; "
        f"to tell {shown:.2f} from {other:.2f}, use about {needed:,} queries"
    )


def _plus_or_minus(half: float) -> str:
    if half < 0.0001:
        return "within ±0.0001"
    return f"±{half:.3f}" if half >= 0.01 else f"±{half:.4f}"


def _quantile_of(confidence: float) -> float:
    from scipy.special import ndtri

    if not 0 < confidence < 1:
        raise UsageError(f"a confidence of {confidence}. Accepted: more than 0 and less than 1, such as 0.95")
    return float(ndtri(0.5 + confidence / 2))


def _checked_spread(spread: float) -> float:
    if not 0 <= spread < math.inf:
        raise UsageError(f"a spread of {spread}. Accepted: a standard deviation, 0 or more")
    return spread


def _rounded_up(count: float) -> int:
    # Rounding error must not add a query.
    return max(1, math.ceil(count * (1 - 1e-12)))
