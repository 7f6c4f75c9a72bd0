"""Filtered search apart from unfiltered search: by selectivity, and by correlation of filter and query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.distribution import mean_of
from recallatk.analysis.segments import CORRELATION, Grouping, selectivity_grouping
from recallatk.core.filtering import FilterFacts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Dataset, Mean, Measurement, Truth

FILTER = "filter"
SELECTIVE, CORRELATED = "selectivity", "correlation"
NAMED = (FILTER, SELECTIVE, CORRELATED)
"""Groupings that goals can name without a query column."""
FILTERED, UNFILTERED = "filtered", "unfiltered"
CORRELATIONS = NEGATIVE, NONE, POSITIVE = "negative", "none", "positive"
# Passing neighbors this many times as frequent as in the corpus, or as rare, are a correlation.
FACTOR = 2.0
# Of each side: a share that chance explains is no correlation.
CHANCE = 0.025
# Neighbors to look at, which is enough to tell a share of 10 % from twice as much.
DEPTH = 100


def filter_facts(dataset: Dataset, unfiltered: Truth | None = None) -> FilterFacts | None:
    """What the filter of each query admits; None where no query has one.

    Args:
        dataset: the data.
        unfiltered: the truth of the same queries without filters, for the correlation.
    """
    queries = dataset.queries
    if not queries.filtered:
        return None
    filtered = np.array([each is not None for each in queries.filters or ()])
    rows = dataset.eligibility
    if unfiltered is None:
        return FilterFacts(filtered, rows.counts, rows.corpus_rows)
    places = np.repeat(np.arange(len(unfiltered)), unfiltered.depth)
    near = rows.allowed(places, unfiltered.rows.reshape(-1)).reshape(unfiltered.rows.shape).sum(axis=1)
    return FilterFacts(filtered, rows.counts, rows.corpus_rows, near, unfiltered.depth)


def violations(dataset: Dataset, answers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number of answers to each query that its filter does not admit; rows outside the corpus are unknown."""
    query, column = np.nonzero((answers >= 0) & (answers < dataset.corpus.rows))
    forbidden = ~dataset.eligibility.allowed(query, answers[query, column])
    return np.bincount(query[forbidden], minlength=len(answers))


def by_filter(facts: FilterFacts) -> Grouping:
    """Queries with a filter, and those without."""
    labels = np.where(facts.filtered, FILTERED, UNFILTERED).astype(object)
    return Grouping(FILTER, labels, (UNFILTERED, FILTERED))


def by_correlation(facts: FilterFacts) -> Grouping | None:
    """Filtered queries by the share of passing rows among their neighbors, against that in the corpus.

    Positive: more than twice the share of the corpus. Negative: less than half of it. Both count only beyond
    chance: of as many rows drawn at random, at most 2.5 % would have so many or so few. None where the
    neighbors without the filter are unknown.
    """
    if facts.near is None or facts.depth is None:
        return None
    labels = np.full(len(facts.filtered), None, object)
    known = facts.filtered & (facts.eligible > 0)
    pairs, places = np.unique(
        np.stack([facts.eligible[known], facts.near[known]], axis=1), axis=0, return_inverse=True
    )
    names = [_correlation(int(passing), int(near), facts) for passing, near in pairs]
    labels[known] = np.array(names, object)[places.reshape(-1)] if names else None
    return Grouping(CORRELATION, labels, CORRELATIONS)


def _correlation(passing: int, near: int, facts: FilterFacts) -> str:
    rows, depth = facts.corpus_rows, min(facts.depth or 0, facts.corpus_rows)
    below, above = _tails(rows, passing, depth, near)
    # In whole numbers: near / depth against passing / rows.
    if near * rows > FACTOR * depth * passing and above < CHANCE:
        return POSITIVE
    return NEGATIVE if near * rows * FACTOR < depth * passing and below < CHANCE else NONE


def _tails(rows: int, passing: int, drawn: int, near: int) -> tuple[float, float]:
    """Chances of at most and of at least `near` passing rows among rows drawn without replacement."""
    from scipy.special import gammaln

    count = np.arange(max(0, drawn - (rows - passing)), min(drawn, passing) + 1)

    def ways(whole: int, part: NDArray[np.int64] | int) -> NDArray[np.float64]:
        parts = gammaln(np.asarray(part) + 1) + gammaln(whole - np.asarray(part) + 1)
        return np.asarray(gammaln(whole + 1) - parts)

    chances = np.exp(ways(passing, count) + ways(rows - passing, drawn - count) - ways(rows, drawn))
    return float(chances[count <= near].sum()), float(chances[count >= near].sum())


def named_grouping(name: str, facts: FilterFacts | None) -> Grouping | None:
    """The grouping that a goal calls `filter`, `selectivity` or `correlation`; None if it is not known."""
    if facts is None:
        return None
    made = {FILTER: by_filter, SELECTIVE: _by_share, CORRELATED: by_correlation}
    return made[name](facts) if name in made else None


def _by_share(facts: FilterFacts) -> Grouping:
    return selectivity_grouping(facts.eligible, facts.corpus_rows)


@dataclass(frozen=True)
class FilterGroup:
    """Recall and rates of one group of queries."""

    name: str
    queries: int
    refused: int
    """Queries whose filters the engine refused."""
    recall: Mean
    """Over the answered queries that have recall."""
    short: float | None
    """Share of answered queries with fewer answers than k and than their eligible rows."""
    violations: float | None
    """Share of returned rows that the query's filter does not admit; None if nothing was returned."""
    latency_ms: float | None
    """Median latency of single calls; None for batches."""
    eligible: float
    """Median number of eligible rows."""

    @property
    def refusal(self) -> float:
        """Share of refused queries."""
        return self.refused / self.queries


def filter_groupings(facts: FilterFacts) -> list[Grouping]:
    """By filter, by selectivity, and by correlation where it was measured."""
    found = [by_filter(facts), _by_share(facts), by_correlation(facts)]
    return [each for each in found if each is not None]


def filter_groups(measurement: Measurement, measure: str) -> dict[str, list[FilterGroup]]:
    """The groups of each grouping in their order; empty without filters or values of single queries."""
    facts, values = measurement.filters, measurement.values(measure)
    if facts is None or values is None:
        return {}
    trial = _GroupRates(measurement, facts, measure, values)
    return {
        grouping.name: [
            trial.group(name, np.asarray(grouping.labels == name, bool))
            for name in grouping.order or ()
            if (grouping.labels == name).any()
        ]
        for grouping in filter_groupings(facts)
    }


def filter_parts(measurement: Measurement, measure: str) -> dict[str, Mean]:
    """Recall of filtered and of unfiltered queries; empty unless a query set has both."""
    facts, values = measurement.filters, measurement.values(measure)
    if facts is None or values is None or facts.filtered.all():
        return {}
    parts = {FILTERED: facts.filtered, UNFILTERED: ~facts.filtered}
    return {
        name: mean_of(values[inside], measure, weights=_part(measurement.weights, inside))
        for name, inside in parts.items()
    }


def _part(weights: NDArray[np.float64] | None, inside: NDArray[np.bool_]) -> NDArray[np.float64] | None:
    return None if weights is None else weights[inside]


class _GroupRates:
    """The values of every query of a trial."""

    def __init__(
        self, measurement: Measurement, facts: FilterFacts, measure: str, values: NDArray[np.float64]
    ) -> None:
        self.measure, self.values, self.facts = measure, values, facts
        self.asked = measurement.asked
        self.calls, self.weights = measurement.calls, measurement.weights
        self.violations = measurement.violations
        refused = measurement.refused
        self.refused = np.zeros(len(values), bool) if refused is None else refused.refused
        answers = measurement.answers
        self.returned = _distinct(np.where(answers < facts.corpus_rows, answers, -1))
        self.short = self.returned < np.minimum(measurement.k, facts.eligible)
        self.listed = ((answers >= 0) & (answers < facts.corpus_rows)).sum(axis=1)

    def group(self, name: str, inside: NDArray[np.bool_]) -> FilterGroup:
        answered = inside & self.asked
        listed = int(self.listed[answered].sum())
        broken = None if self.violations is None else int(self.violations[answered].sum())
        return FilterGroup(
            name=name,
            queries=int(inside.sum()),
            refused=int((inside & self.refused).sum()),
            recall=mean_of(self.values[inside], self.measure, weights=_part(self.weights, inside)),
            short=float(self.short[answered].mean()) if answered.any() else None,
            violations=None if broken is None or not listed else broken / listed,
            latency_ms=self._latency(answered),
            eligible=float(np.median(self.facts.eligible[inside])),
        )

    def _latency(self, answered: NDArray[np.bool_]) -> float | None:
        of_group = self.calls.latency_ns[answered[self.calls.query]]
        return float(np.median(of_group)) / 1e6 if self.calls.batch == 1 and len(of_group) else None


def _distinct(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number of distinct rows in each line, without padding."""
    ordered = np.sort(rows, axis=1)
    new = np.ones(ordered.shape, bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    return np.asarray((new & (ordered >= 0)).sum(axis=1))
