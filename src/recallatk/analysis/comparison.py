"""Paired comparison of systems on the same queries: differences, intervals and p-values."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recallatk.analysis.betting import lower_bound, upper_bound
from recallatk.analysis.distribution import FEWEST_RESAMPLED, plain_mean, weighted_mean
from recallatk.analysis.intervals import Interval, mean_interval
from recallatk.analysis.weighting import checked_weights
from recallatk.core.weights import effective_number, unequal
from recallatk.errors import MismatchError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

RESAMPLES = 9_999
# Up to this many differences, all sign combinations are fewer than random draws.
MOST_ENUMERATED = 13
# More distinct sizes of differences than this are drawn one by one for the largest only.
MOST_SIZES = 2_000
# Random numbers per draw.
AT_ONCE = 1_000_000


class Difference(NamedTuple):
    """Mean of the second system minus that of the first, over shared queries; larger is better."""

    first: str
    second: str
    difference: float
    low: float | None
    high: float | None
    p_value: float
    adjusted_p: float
    n: int
    differing: int
    significant: bool
    unweighted: float | None = None
    """The difference with equal weights; None if the queries have no weights."""

    @property
    def in_words(self) -> str:
        """One sentence with the p value, adjusted for the number of pairs."""
        if not self.significant:
            found = f"{self.difference:+.4f}{_bracketed(self.low, self.high)}, p = {self.adjusted_p:.2g}"
            return f"no significant difference between {self.first} and {self.second}: {found}"
        better, worse, low, high = self.second, self.first, self.low, self.high
        if self.difference < 0:
            better, worse = worse, better
            low, high = (None if end is None else -end for end in (high, low))
        by = f"{abs(self.difference):.4f}{_bracketed(low, high)}"
        return f"{better} is better than {worse} by {by}, p = {self.adjusted_p:.2g}"


def compare(
    values: Mapping[str, Floats], confidence: float = 0.95, seed: int = 0, weights: Floats | None = None
) -> list[Difference]:
    """Paired comparison of all systems by one value per query.

    The p value is that of flipping the signs of the queries' differences: all combinations where there are at
    most 9,999 of them, else as many drawn from `seed`. Holm's correction is over all pairs. Queries that
    are NaN everywhere are left out. Fewer than 30 are too few to resample: their interval is what holds for
    any differences in [-1, 1]. Beyond these they have none, nor have differences that are all equal.

    With weights, one per query, the mean difference and its interval are weighted, and each difference
    counts by its weight in the test. An effective number below 30 is too few to resample.
    """
    shared, counts = _on_shared_queries(values, weights)
    pairs = list(combinations(shared, 2))
    differences = [_differences(shared[first], shared[second]) for first, second in pairs]
    p_values = [_sign_flip_p(each if counts is None else each * counts, seed) for each in differences]
    adjusted = holm(p_values)
    results = []
    for (first, second), each, p_value, adjusted_p in zip(
        pairs, differences, p_values, adjusted, strict=True
    ):
        low, high = difference_interval(each, confidence, counts) or (None, None)
        results.append(
            Difference(
                first,
                second,
                weighted_mean(each, counts),
                low,
                high,
                p_value,
                adjusted_p,
                len(each),
                int(np.count_nonzero(each)),
                adjusted_p < 1 - confidence,
                None if weights is None else plain_mean(each),
            )
        )
    return results


def difference_interval(
    differences: Floats, confidence: float = 0.95, weights: Floats | None = None
) -> Interval | None:
    """The interval of a mean difference; None for few or for equal differences beyond [-1, 1]."""
    weights = unequal(weights)
    effective = len(differences) if weights is None else effective_number(weights)
    if effective < FEWEST_RESAMPLED:
        if np.abs(differences).max() > 1:
            return None
        moved, sure = (differences + 1) / 2, (1 + confidence) / 2
        return Interval(
            2 * lower_bound(moved, sure, weights=weights) - 1,
            2 * upper_bound(moved, sure, weights=weights) - 1,
        )
    most = float(np.abs(differences).max())
    # Limits of weighted means need to know how far out an unseen value can be.
    if np.ptp(differences) > 1e-12 * most and (weights is None or most > 1):
        return mean_interval(differences, confidence, weights)
    # Equal differences cannot be resampled; a betting bound on [-1, 1], mapped to [0, 1], still holds.
    found = mean_interval((differences + 1) / 2, confidence, weights)
    return found and Interval(2 * found.low - 1, 2 * found.high - 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm-adjusted p values."""
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for place, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - place) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def _on_shared_queries(
    values: Mapping[str, Floats], weights: Floats | None
) -> tuple[dict[str, Floats], Floats | None]:
    if len(values) < 2:
        raise UsageError(f"{len(values)} systems. Accepted: two or more to compare")
    arrays = {name: _numbers(name, each) for name, each in values.items()}
    (reference, first), *others = arrays.items()
    if first.ndim != 1:
        raise UsageError(f"values of {reference} of shape {first.shape}. Accepted: one value per query")
    missing = np.isnan(first)
    for name, each in others:
        if each.shape != first.shape:
            raise MismatchError(
                f"{reference} has values of shape {first.shape} and {name} of shape {each.shape}. "
                "Accepted: the same queries for all"
            )
        odd = np.flatnonzero(np.isnan(each) != missing)
        if len(odd):
            raise MismatchError(
                f"query {odd[0]} has a value in only one of {reference} and {name}. "
                "Accepted: the same queries for all"
            )
    if any(np.isinf(each).any() for each in arrays.values()):
        raise UsageError("cannot compare: some values are infinite")
    if missing.all():
        raise UsageError("cannot compare: no query has values")
    counts = ~missing
    if weights is not None:
        given = checked_weights("weights", _numbers("weights", weights)).values
        if given.shape != first.shape:
            raise UsageError(f"weights of shape {given.shape} for {len(first):,} queries. Accepted: one each")
        counts &= given > 0
        if not counts.any():
            raise UsageError("cannot compare: every query with values has a weight of 0")
        weights = unequal(given[counts])
    return {name: each[counts] for name, each in arrays.items()}, weights


def _numbers(name: str, values: object) -> Floats:
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError) as problem:
        raise UsageError(f"values of {name} are not numbers: {problem}. Accepted: one per query") from problem


def _differences(first: Floats, second: Floats) -> Floats:
    found = second - first
    # Equal shares may differ by rounding.
    rounding = 1e-12 * np.maximum(np.abs(first), np.abs(second))
    return np.where(np.abs(found) <= rounding, 0.0, found)


def _sign_flip_p(differences: Floats, seed: int) -> float:
    """Twice the share of sums, over all or 9,999 drawn combinations of signs, as far on the observed side."""
    # A zero stays zero with either sign.
    differing = differences[differences != 0.0]
    if not len(differing):
        return 1.0
    # In units of the largest, to avoid overflow and merge sizes that differ by rounding.
    sizes = np.round(np.abs(differing) / np.abs(differing).max(), 12)
    reached = abs(float(np.sum(np.sign(differing) * sizes))) - 1e-12 * len(sizes)
    if len(sizes) <= MOST_ENUMERATED:
        signs = 2 * (np.arange(2 ** len(sizes))[:, None] >> np.arange(len(sizes)) & 1) - 1
        return min(1.0, 2 * float(np.mean(signs @ sizes >= reached)))
    # The observed signs count as one of the combinations, or p could be 0.
    as_far = 1 + sum(int(np.count_nonzero(sums >= reached)) for sums in _drawn_sums(sizes, seed))
    return min(1.0, 2 * as_far / (RESAMPLES + 1))


def largest_sign_flip_p(differences: Floats) -> float:
    """An upper bound of the p value of flipping signs, which random draws cannot show below 0.0002.

    Twice exp(-s² / 2Σd²): sums under random signs have at most the tail of a normal sum (Hoeffding 1963).
    """
    differing = differences[differences != 0.0]
    if not len(differing):
        return 1.0
    sizes = differing / np.abs(differing).max()
    return float(min(1.0, 2 * np.exp(-(np.sum(sizes) ** 2) / (2 * np.sum(sizes**2)))))


def _drawn_sums(sizes: Floats, seed: int) -> Iterator[Floats]:
    """Sums under random signs: of c equal sizes, the number with a plus is one binomial draw."""
    random = np.random.default_rng(seed)
    distinct, counts = np.unique(sizes, return_counts=True)
    # Weighted differences have as many sizes as there are queries. The smallest add up to a normal sum.
    small = max(0, len(distinct) - MOST_SIZES)
    deviation = float(np.sqrt(np.sum(counts[:small] * distinct[:small] ** 2)))
    distinct, counts = distinct[small:], counts[small:]
    left = RESAMPLES
    while left:
        drawn = min(left, max(1, AT_ONCE // len(distinct)))
        sums = (2 * random.binomial(counts, 0.5, (drawn, len(distinct))) - counts) @ distinct
        yield sums + deviation * random.standard_normal(drawn) if small else sums
        left -= drawn


def _bracketed(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f" [{low:.4f}, {high:.4f}]"
