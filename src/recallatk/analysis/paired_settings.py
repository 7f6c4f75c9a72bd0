"""Two settings compared query by query: each measure, tails, segments, and the queries that changed most."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.build_variance import with_builds
from recallatk.analysis.compared_results import ChangedQuery, ComparedSettings, ComparedValue
from recallatk.analysis.comparison import compare, largest_sign_flip_p
from recallatk.analysis.cost_ratios import cost_ratios
from recallatk.analysis.distribution import mean_of
from recallatk.analysis.headline import headline_of, recall_cutoffs
from recallatk.analysis.intervals import quantile
from recallatk.analysis.measures import Robustness
from recallatk.analysis.segments import FEWEST
from recallatk.analysis.sides import same_indexes
from recallatk.analysis.unpaired import percentile_difference, unpaired_difference
from recallatk.errors import MismatchError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from recallatk.analysis.sides import ComparedSide, SideBuild, SideSetting
    from recallatk.core import Mean

    Floats = NDArray[np.float64]

TAIL_SHARE, TAIL_LEAST = 0.05, 0.8
_MOST_SEGMENTS, _MOST_CHANGED = 60, 10


@dataclass(frozen=True, eq=False)
class PairedSettings:
    """A setting of the first side and one of another, on the same queries."""

    side: ComparedSide
    """The first side, which knows ids, texts and groups of the queries."""
    first: SideSetting
    second: SideSetting

    def compared(self, *, paired: bool = True) -> ComparedSettings:
        """Every shared measure, the costs, and with pairing also tails, segments and changed queries."""
        first, second = self.first, self.second
        shared = [name for name in first.measures if name in second.measures]
        headline = headline_of(shared)
        versions = None
        if None not in (first.version, second.version) and first.version != second.version:
            versions = (str(first.version), str(second.version))
        costs = tuple(cost_ratios(first, second))
        made = ComparedSettings(first.label, second.label, headline, (), costs, versions=versions)
        if not paired:
            return replace(made, values=tuple(map(self._unpaired, shared)))
        values = [self.value(each) for each in shared]
        if headline is not None:
            values += [*self._tails(headline), *self._segments(headline)]
            made = self._with_changes(made, headline)
        return replace(made, values=tuple(each for each in values if each is not None))

    def by_build(self, measure: str) -> tuple[Floats, Floats]:
        """(builds, queries) values of a measure of both settings."""
        one, other = self.first.by_build(measure), self.second.by_build(measure)
        if one is None or other is None or one.shape[1] != other.shape[1]:
            raise MismatchError(f"{measure} has no values per query, or those of other queries")
        return one, other

    def value(self, measure: str, inside: NDArray[np.bool_] | None = None) -> ComparedValue | None:
        """A measure over the queries that both settings answered; None if there are none."""
        one, other = self.by_build(measure)
        return self._value(measure, "", one, other, inside)

    def _value(
        self, measure: str, segment: str, one: Floats, other: Floats, inside: NDArray[np.bool_] | None = None
    ) -> ComparedValue | None:
        both = _answered(one, other)
        both = both if inside is None else both & inside
        weights = None if self.side.weights is None else self.side.weights.values[both]
        one, other = one[:, both], other[:, both]
        if not both.any() or (weights is not None and not (weights > 0).any()):
            return None
        means = {"first": one.mean(axis=0), "second": other.mean(axis=0)}
        found = compare(means, weights=weights)[0]
        differences = means["second"] - means["first"]
        # Holm's correction of many values would let no p value of 9,999 draws be significant.
        least = largest_sign_flip_p(differences if weights is None else differences * weights)
        found = found._replace(p_value=min(found.p_value, least))
        shared = same_indexes(self.first, self.second)
        found = with_builds(found, one, other, weights=weights, shared=shared)
        shown = [mean_of(each, measure, weights=weights).value or 0.0 for each in means.values()]
        return ComparedValue(measure, segment, shown[0], shown[1], found, builds=(len(one), len(other)))

    def _unpaired(self, measure: str) -> ComparedValue:
        one, other = (_mean(each.builds, measure) for each in (self.first, self.second))
        found, builds = unpaired_difference(one, other), (len(self.first.builds), len(self.second.builds))
        return ComparedValue(
            measure, "", one.value or 0.0, other.value or 0.0, found, paired=False, builds=builds
        )

    def _tails(self, headline: str) -> Iterator[ComparedValue | None]:
        """The share of queries that reach a recall of 0.8, and the 5th percentile."""
        one, other = self.by_build(headline)
        [k] = recall_cutoffs([headline])
        robust = Robustness(k, TAIL_LEAST)
        if k > 1 and str(robust) not in self.first.measures:
            yield self._value(str(robust), "", robust.of_recalls(one), robust.of_recalls(other))
        both = _answered(one, other)
        # A percentile of averages over builds is that of no index.
        if k > 1 and len(one) == len(other) == 1 and self.side.weights is None and both.any():
            mine, theirs = one[0][both], other[0][both]
            found = percentile_difference(mine, theirs, TAIL_SHARE)
            ends = quantile(mine, TAIL_SHARE), quantile(theirs, TAIL_SHARE)
            yield ComparedValue(f"p5({headline})", "", *ends, found)

    def _segments(self, headline: str) -> Iterator[ComparedValue | None]:
        one, other = self.by_build(headline)
        left = _MOST_SEGMENTS
        for grouping in self.side.groupings:
            if len(grouping.labels) != one.shape[1]:
                continue
            for label in dict.fromkeys(each for each in grouping.labels if each is not None):
                inside = np.asarray(grouping.labels == label, bool)
                if left and FEWEST <= inside.sum() < len(inside):
                    left -= 1
                    yield self._value(headline, f"{grouping.name}={label}", one, other, inside)

    def _with_changes(self, made: ComparedSettings, headline: str) -> ComparedSettings:
        """The queries whose recall changed most, losses before gains of the same size."""
        one, other = (each.mean(axis=0) for each in self.by_build(headline))
        change = np.where(np.isnan(one) | np.isnan(other), 0.0, other - one)
        change[np.abs(change) < 1e-9] = 0.0
        order = np.lexsort((change, -np.abs(change)))[:_MOST_CHANGED]
        ids, texts = self.side.query_ids, self.side.texts
        changed = tuple(
            ChangedQuery(
                str(place) if ids is None else ids[place],
                None if texts is None else texts[place],
                float(one[place]),
                float(other[place]),
            )
            for place in order
            if change[place]
        )
        lost, gained = int((change < 0).sum()), int((change > 0).sum())
        return replace(made, changed=changed, lost=lost, gained=gained)


def _answered(one: Floats, other: Floats) -> NDArray[np.bool_]:
    """Queries with a value in every build: in an open loop, each trial sends its own sample."""
    return np.asarray(~(np.isnan(one).any(axis=0) | np.isnan(other).any(axis=0)), bool)


def _mean(builds: Sequence[SideBuild], measure: str) -> Mean:
    """The mean of the values averaged over builds, or that of the first build where only means are known."""
    values = [each.values[measure] for each in builds if measure in each.values]
    if len(values) == len(builds):
        return mean_of(np.mean(values, axis=0), measure)
    return builds[0].means[measure]
