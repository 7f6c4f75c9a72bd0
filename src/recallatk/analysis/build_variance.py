"""The variance between builds of one setting, added to the uncertainty of a difference over queries."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recallatk.analysis.distribution import scored_values, weighted_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from recallatk.analysis.comparison import Difference

    Floats = NDArray[np.float64]


class BuildError(NamedTuple):
    """Standard error of a difference of means that the choice of builds causes."""

    size: float
    freedom: int
    """Degrees of freedom."""


def build_error(first: Sequence[float], second: Sequence[float]) -> BuildError | None:
    """The error from the means of the builds of both sides; None if neither side has several builds.

    Both sides share one variance between builds, so that three builds each give four degrees of freedom.
    """
    groups = [np.asarray(first, np.float64), np.asarray(second, np.float64)]
    freedom = sum(len(each) - 1 for each in groups)
    if freedom < 1:
        return None
    squares = sum(float(np.sum((each - each.mean()) ** 2)) for each in groups)
    return BuildError(math.sqrt(squares / freedom * sum(1 / len(each) for each in groups)), freedom)


def shared_build_error(first: Sequence[float], second: Sequence[float]) -> BuildError | None:
    """The error where both sides are searches of the same indexes, so that builds are paired."""
    differences = np.asarray(second, np.float64) - np.asarray(first, np.float64)
    if len(differences) < 2:
        return None
    return BuildError(float(np.std(differences, ddof=1)) / math.sqrt(len(differences)), len(differences) - 1)


def with_builds(
    found: Difference,
    first: Floats,
    second: Floats,
    confidence: float = 0.95,
    weights: Floats | None = None,
    *,
    shared: bool = False,
) -> Difference:
    """A difference over queries with the uncertainty of builds added.

    Each side of the interval and the builds' own interval (Student's t) add up like errors that are
    independent. The p value is the larger of that over queries alone and that of Student's t over both
    variances, with the degrees of freedom of Satterthwaite (1946).

    Args:
        found: the difference of the values averaged over builds.
        first: (builds, queries) values of the first system, for queries that count.
        second: the same of the second, on the same queries.
        confidence: of the interval.
        weights: how much each query counts.
        shared: both sides searched the same indexes, in the same order.
    """
    from scipy.special import stdtr, stdtrit

    means = _means(first, weights), _means(second, weights)
    error = shared_build_error(*means) if shared else build_error(*means)
    if error is None or error.size == 0:
        return found
    margin = float(stdtrit(error.freedom, 0.5 + confidence / 2)) * error.size
    low = None if found.low is None else found.difference - math.hypot(found.difference - found.low, margin)
    high = (
        None if found.high is None else found.difference + math.hypot(found.high - found.difference, margin)
    )
    differences = second.mean(axis=0) - first.mean(axis=0)
    by_queries = float(np.std(differences, ddof=1)) / math.sqrt(len(differences)) if found.n > 1 else 0.0
    both = math.hypot(by_queries, error.size)
    freedom = both**4 / (by_queries**4 / max(1, found.n - 1) + error.size**4 / error.freedom)
    p_value = max(found.p_value, min(1.0, 2 * float(stdtr(freedom, -abs(found.difference) / both))))
    return found._replace(low=low, high=high, p_value=p_value)


def _means(values: Floats, weights: Floats | None) -> list[float]:
    return [weighted_mean(*scored_values(each, weights)) for each in values]
