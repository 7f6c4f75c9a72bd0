"""Filtered search in reports: recall and rates by filter, selectivity and correlation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.analysis.fall_off import (
    FallOff,
    ScanSwitch,
    find_fall_off,
    find_scan_switch,
    find_undecided_fall,
)
from recallatk.analysis.filtered import FILTER, filter_groups
from recallatk.analysis.segments import CORRELATION, SELECTIVITY
from recallatk.core import FilterFacts
from recallatk.reporting.document import Table
from recallatk.reporting.engine_segments import recall_cell, settings_by_engine
from recallatk.reporting.labels import fitted, number, with_margin
from recallatk.reporting.per_query import recall_per_query
from recallatk.reporting.run_notes import index_share
from recallatk.reporting.run_tables import LONGEST_CELL
from recallatk.reporting.text import columns_taken
from recallatk.units import counted

if TYPE_CHECKING:
    from recallatk.analysis.filtered import FilterGroup
    from recallatk.core import Mean, Measurement, Truth
    from recallatk.reporting.charts.points import Curve
    from recallatk.reporting.charts.theme import Row

_OF_ROWS = " of the rows"
_TITLES = {
    FILTER: ("Recall with and without filters", "filter"),
    SELECTIVITY: ("Recall by filter selectivity", "rows admitted"),
    CORRELATION: ("Recall by correlation of filter and query", "correlation"),
}
_SAID = {
    FILTER: "of queries without and with filters.",
    SELECTIVITY: "by the share of rows that a query's filter admits.",
    CORRELATION: (
        "by the share of rows that pass the filter among the query's nearest rows without it. Positive: more "
        "than twice their share of the corpus; negative: less than half of it; both beyond chance."
    ),
}
_SETTINGS = (
    "One setting per engine: the cheapest that reaches the target or the recall of the verdict, else the "
    "highest recall."
)


@dataclass(frozen=True, eq=False)
class EngineGroups:
    """One engine: its setting and the groups of queries under that setting."""

    engine: str
    label: str
    overall: Mean
    groups: dict[str, FilterGroup]
    changes: tuple[str, ...] = ()
    """Where recall falls off and where the engine switches to a scan, in sentences."""


@dataclass(frozen=True, eq=False)
class GroupedRecall:
    """Recall of every engine by groups of queries."""

    grouping: str
    measure: str
    groups: dict[str, int]
    """Number of scored queries in each group, in their order."""
    rows: list[EngineGroups]
    no_eligible: int = 0
    """Number of queries whose filter admits no row, which have no recall."""

    @property
    def title(self) -> str:
        """What the table shows."""
        return _TITLES[self.grouping][0]

    @property
    def said(self) -> str:
        """What the table shows, in sentences."""
        return f"{self.measure} {_SAID[self.grouping]} {_SETTINGS}"

    @property
    def rates_said(self) -> str:
        """What the rates are, in sentences."""
        return (
            "Short: answered queries with fewer answers than k and than rows that pass. Violations: returned "
            "rows that do not pass. Refused: queries that the engine cannot filter; means leave them out."
        )

    @property
    def ordered_by_share(self) -> bool:
        """Whether the groups go from broad to selective filters."""
        return self.grouping == SELECTIVITY

    @property
    def changes(self) -> list[str]:
        """Queries without recall; where that of each engine falls off, and where it switches to a scan."""
        none = [
            f"{counted(self.no_eligible, 'query has', 'queries have')} no eligible row, and so no recall."
        ]
        return [*(none if self.no_eligible else []), *(said for each in self.rows for said in each.changes)]

    def table(self, longest: int = LONGEST_CELL, *, overall: bool = True, margins: bool = True) -> Table:
        """One row per engine and one column per group, with the number of queries at the end.

        Args:
            longest: cut labels of settings to this many characters.
            overall: with the recall over all queries.
            margins: with the 95 % interval of every value.
        """
        # Not every query is in a group by correlation.
        overall = overall and self.grouping != CORRELATION
        labels = fitted([each.label for each in self.rows], longest)
        rows = [
            [label, *self._cells(each, overall=overall, margins=margins)]
            for label, each in zip(labels, self.rows, strict=True)
        ]
        counts = [f"{count:,}" for count in self.groups.values()]
        rows.append(["queries", *([f"{sum(self.groups.values()):,}"] if overall else []), *counts])
        names = [name.removesuffix(_OF_ROWS) for name in self.groups]
        corner = _TITLES[self.grouping][1]
        return Table(self.title, [corner, *(["overall"] if overall else []), *names], rows, 1)

    def _cells(self, row: EngineGroups, *, overall: bool, margins: bool) -> list[str]:
        means = [row.groups[name].recall if name in row.groups else None for name in self.groups]
        return [recall_cell(each, margins=margins) for each in [*([row.overall] if overall else []), *means]]

    def table_within(self, width: int) -> Table:
        """The table that shows most within the columns of a terminal."""
        sizes = [(longest, overall) for overall in (True, False) for longest in (LONGEST_CELL, 24, 16)]
        made = [self.table(longest, overall=overall) for longest, overall in sizes]
        made += [self.table(longest, overall=overall, margins=False) for longest, overall in sizes]
        return next((each for each in made if columns_taken(each.header, each.rows) <= width), made[-1])

    def rates(self, longest: int = LONGEST_CELL) -> Table:
        """One row per engine and group: short answers, violations, refusals and latency beside recall."""
        labels = fitted([each.label for each in self.rows], longest)
        rows = [
            [label if place == 0 else "", name.removesuffix(_OF_ROWS), *_rates(group)]
            for label, each in zip(labels, self.rows, strict=True)
            for place, (name, group) in enumerate(each.groups.items())
        ]
        header = ["setting", _TITLES[self.grouping][1], "queries", self.measure]
        return Table("", [*header, "short", "violations", "refused", "p50 ms"], rows, 2)

    def cells(self) -> list[Row]:
        """One entry per engine and group, for a heat map."""
        return [
            {
                "engine": each.label,
                "group": name.removesuffix(_OF_ROWS),
                "recall": group.recall.value,
                "text": with_margin(group.recall),
                "queries": group.recall.n,
            }
            for each in self.rows
            for name, group in each.groups.items()
            if group.recall.value is not None
        ]


def _rates(group: FilterGroup) -> list[str]:
    shares = (group.short, group.violations, group.refusal)
    return [
        f"{group.queries:,}",
        with_margin(group.recall),
        *(number(share, ".1%") for share in shares),
        number(group.latency_ms, ".3f"),
    ]


def grouped_recall(curve: Curve, truth: Truth | None, chosen: int | None) -> dict[str, GroupedRecall]:
    """Recall of each engine by grouping; empty without filters or recall.

    Args:
        curve: the settings of the run.
        truth: the truth of the run, for run formats that did not record what filters admit.
        chosen: the number of the verdict's point.
    """
    measure = curve.measure or ""
    found: dict[str, list[EngineGroups]] = {}
    no_eligible = 0
    for point in settings_by_engine(curve, chosen):
        measurement = with_facts(curve.lines[point["n"]].measurement, truth, curve.k, measure)
        overall = measurement.score.measures[measure]
        if measurement.filters is not None:
            no_eligible = int((measurement.filters.eligible == 0).sum())
        for grouping, groups in filter_groups(measurement, measure).items():
            named = {each.name: each for each in groups}
            said = changes_said(point["label"], groups, measurement) if grouping == SELECTIVITY else ()
            found.setdefault(grouping, []).append(
                EngineGroups(point["engine"], point["label"], overall, named, said)
            )
    made: dict[str, GroupedRecall] = {}
    for grouping, rows in found.items():
        # Engines that refused filters scored fewer queries.
        counts = {name: max(row.groups[name].recall.n for row in rows) for name in rows[0].groups}
        # One group alone says what the overall recall says.
        if counts and (grouping != FILTER or len(counts) > 1):
            # Said once, below the first table.
            made[grouping] = GroupedRecall(grouping, measure, counts, rows, 0 if made else no_eligible)
    return made


def changes_said(label: str, groups: list[FilterGroup], measurement: Measurement) -> tuple[str, ...]:
    """The fall-off and the switch to a scan of one setting, each in a sentence; without any, that."""
    fall, switch = find_fall_off(groups), find_scan_switch(groups, measurement)
    said = []
    if fall is not None:
        worst = (
            f"; lowest at {fall.worst}: {with_margin(fall.worst_recall)}" if fall.worst != fall.group else ""
        )
        said.append(
            f"{label}: recall falls off at {fall.group}: {with_margin(fall.recall)} against "
            f"{with_margin(fall.before)} at {fall.broadest}{worst}."
        )
    undecided = find_undecided_fall(groups)
    if undecided is not None:
        said.append(
            f"{label}: too few queries to tell whether recall falls off: {with_margin(undecided.recall)} at "
            f"{undecided.group} against {with_margin(undecided.before)} at {undecided.broadest}."
        )
    share = index_share(measurement.exercised)
    if switch is not None:
        shown = switch.latency_follows or share < 1
        what = "switches to a scan" if shown else "recall jumps to 1, as in a scan,"
        why = "; latency follows the eligible rows" if switch.latency_follows else ""
        said.append(
            f"{label}: {what} at {switch.group}: {with_margin(switch.recall)} after "
            f"{with_margin(switch.before)} at {switch.broader}{why}."
        )
    if share < 1:
        said.append(f"{label}: the engine reports that its index answered {share:.1%} of the calls.")
    known = [each for each in groups if each.recall.value is not None]
    if not said and len(known) > 1:
        said.append(f"{label}: recall does not fall off, not even at {known[-1].name}.")
    return tuple(said)


def with_facts(measurement: Measurement, truth: Truth | None, k: int | None, measure: str) -> Measurement:
    """The measurement with what its filters admit, taken from the truth if it did not record that."""
    if measurement.filters is not None or truth is None or k is None or truth.depth < k:
        return measurement
    if truth.eligible is None or not truth.corpus_rows or len(measurement.answers) != len(truth):
        return measurement
    # A query that excludes only its own row has no filter.
    filtered = truth.eligible < truth.corpus_rows - 1
    if not filtered.any():
        return measurement
    recalls = recall_per_query(measurement, truth, k)[measurement.asked]
    per_query = {**measurement.score.per_query, measure: np.asarray(recalls)}
    facts = FilterFacts(filtered, truth.eligible, truth.corpus_rows)
    return replace(measurement, filters=facts, score=replace(measurement.score, per_query=per_query))


def filters_to_dict(measurement: Measurement, measure: str | None) -> dict[str, Any] | None:
    """Recall and rates by filter, selectivity and correlation for JSON; None without filters."""
    found = filter_groups(measurement, measure or "")
    if not found:
        return None
    names = {FILTER: "by_filter", SELECTIVITY: "by_selectivity", CORRELATION: "by_correlation"}
    decades = found[SELECTIVITY]
    return {
        "measure": measure,
        **{key: _listed(found.get(name)) for name, key in names.items()},
        "fall_off": _change(find_fall_off(decades)),
        "scan_switch": _change(find_scan_switch(decades, measurement)),
    }


def _change(found: FallOff | ScanSwitch | None) -> dict[str, Any] | None:
    if found is None:
        return None
    plain = {"group": found.group, "recall": found.recall.value, "recall_before": found.before.value}
    if isinstance(found, FallOff):
        worst = {"worst_group": found.worst, "worst_recall": found.worst_recall.value}
        return {**plain, "group_before": found.broadest, **worst}
    return {**plain, "group_before": found.broader, "latency_follows": found.latency_follows}


def _listed(groups: list[FilterGroup] | None) -> list[dict[str, Any]] | None:
    from recallatk.reporting.as_dict import mean_to_dict

    if groups is None:
        return None
    return [
        {
            "group": each.name,
            "queries": each.queries,
            "recall": {name: value for name, value in mean_to_dict(each.recall).items() if name != "ids"},
            "short_rate": each.short,
            "violation_rate": each.violations,
            "refusal_rate": each.refusal,
            "p50_ms": each.latency_ms,
        }
        for each in groups
    ]
