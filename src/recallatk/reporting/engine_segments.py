"""Recall by segment of queries: one setting of every engine, the chosen or the best one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from recallatk.analysis.distribution import mean_of
from recallatk.analysis.query_groupings import KnownQueries, query_grouping, without_effort
from recallatk.analysis.segments import FEW, FEW_SAID, FEWEST, segments
from recallatk.analysis.weighting import weights_of
from recallatk.core import Score
from recallatk.errors import RecallError
from recallatk.reporting.charts.points import thinned
from recallatk.reporting.document import Section, Sentences, Table
from recallatk.reporting.effort_gains import effort_gains, efforts_of, worst_said
from recallatk.reporting.labels import cut, fitted, number, with_margin
from recallatk.reporting.per_query import known_queries, recall_per_query
from recallatk.reporting.text import columns_taken, printable
from recallatk.units import counted

if TYPE_CHECKING:
    from recallatk.analysis.segments import Grouping
    from recallatk.core import Dataset, Mean, Truth
    from recallatk.reporting.charts.points import Curve
    from recallatk.reporting.charts.theme import Row
    from recallatk.reporting.document import Block
    from recallatk.reporting.effort_gains import EffortGains

_MOST_EFFORTS = 6
_LONGEST_NAME, _LONGEST_LABEL = 40, 60
# Lengths of names that a narrow terminal tries in turn.
_NAMES = (_LONGEST_NAME, 16, 10)
# The columns before those of the engines.
_FIXED = 2


@dataclass(frozen=True, eq=False)
class EngineRow:
    """One setting of an engine with its recall by segment."""

    engine: str
    label: str
    number: int
    """Number of its point on the curve."""
    overall: Mean
    means: dict[str, Mean]
    """By name of the segment."""


@dataclass(frozen=True, eq=False)
class EngineSegments:
    """Recall of every engine by segment of queries."""

    by: str
    measure: str
    groups: dict[str, int]
    """Number of scored queries in each segment, in the order to show them."""
    rows: list[EngineRow]
    gains: EffortGains | None = None
    """What segments gain from effort, for the first setting's index."""
    efforts: EngineSegments | None = None
    """The same segments over the settings of that index, if the run groups by effort."""

    @property
    def said(self) -> list[str]:
        """The worst segment and the one that gains most from effort, in sentences."""
        first = self.rows[0]
        gains = [] if self.gains is None else [self.gains.said]
        return worst_said(self.by, self.groups, first.means, first.overall) + gains

    def few(self, name: str) -> bool:
        """Whether a segment has too few queries to rank it."""
        return self.groups[name] < FEWEST

    def shortened(self, most: int) -> tuple[EngineSegments, int]:
        """The first segments, and how many are left out."""
        kept = dict(list(self.groups.items())[:most])
        return replace(self, groups=kept), len(self.groups) - len(kept)

    def table(self, longest: int = _LONGEST_NAME, *, margins: bool = True) -> Table:
        """One row per segment and one column per engine, with the number of queries.

        Args:
            longest: truncate names to this many characters.
            margins: with the 95 % interval of every value.
        """
        engines = fitted([printable(each.engine) for each in self.rows], longest)
        names = fitted([printable(each) for each in self.groups], longest)
        rows = [
            [
                f"{name} {FEW}" if self.few(group) else name,
                f"{self.groups[group]:,}",
                *(recall_cell(each.means.get(group), margins=margins) for each in self.rows),
            ]
            for name, group in zip(names, self.groups, strict=True)
        ]
        overall = [recall_cell(each.overall, margins=margins) for each in self.rows]
        rows.append(["all queries", f"{self._queries:,}", *overall])
        return Table(self.title, [cut(printable(self.by), longest), "queries", *engines], rows, 1)

    def table_within(self, width: int) -> Table:
        """The table that shows most within the columns of a terminal; the last engines may have no room."""
        # Names in pieces are harder to read than values without a margin.
        sizes = [*((name, True) for name in _NAMES[:2]), *((name, False) for name in _NAMES)]
        made = [self.table(name, margins=margins) for name, margins in sizes]
        while not (fits := [each for each in made if columns_taken(each.header, each.rows) <= width]):
            narrow = made[-1]
            if len(narrow.header) <= _FIXED + 1:
                return narrow
            made = [replace(narrow, header=narrow.header[:-1], rows=[row[:-1] for row in narrow.rows])]
        return fits[0]

    @property
    def title(self) -> str:
        """The heading of its table."""
        return f"{self.measure} by {cut(printable(self.by), _LONGEST_NAME)}"

    @property
    def settings(self) -> str:
        """The setting of every engine."""
        labels = fitted([each.label for each in self.rows], _LONGEST_LABEL)
        return f"{'Settings' if len(labels) > 1 else 'Setting'}: {'; '.join(labels)}."

    @property
    def _queries(self) -> int:
        return max(each.overall.n for each in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Every segment with its recall in every setting, for JSON."""
        from recallatk.reporting.as_dict import mean_to_dict

        return {
            "by": self.by,
            "measure": self.measure,
            "settings": [
                {"engine": each.engine, "setting": each.label, "overall": mean_to_dict(each.overall)}
                for each in self.rows
            ],
            "segments": [
                {
                    "name": name,
                    "queries": count,
                    "ranked": not self.few(name),
                    "recall": [mean_to_dict(each.means[name]) for each in self.rows],
                }
                for name, count in self.groups.items()
            ],
            "gains": None if self.gains is None else self.gains.to_dict(),
            "efforts": None if self.efforts is None else self.efforts.to_dict(),
        }


def recall_cell(mean: Mean | None, *, margins: bool) -> str:
    """A mean as a cell, with or without its margin."""
    return with_margin(mean) if margins else number(None if mean is None else mean.value, ".3f")


def segments_by_engine(
    curve: Curve, truth: Truth | None, grouping: Grouping, chosen: int | None
) -> EngineSegments | None:
    """Recall of each engine by group; None without recall or a matching truth.

    Groups come in their natural order, or else the worst of the first setting first; those with too few
    queries come last.

    Args:
        curve: the settings of the run.
        truth: the truth of the run.
        grouping: the groups of queries.
        chosen: the number of the verdict's point.
    """
    points = settings_by_engine(curve, chosen)
    return None if truth is None else segments_at(curve, truth, grouping, points, chosen)


def segments_at(
    curve: Curve, truth: Truth, grouping: Grouping, points: list[Row], chosen: int | None
) -> EngineSegments | None:
    """The same at these points."""
    k, measure = curve.k, curve.measure or ""
    if k is None or truth.depth < k:
        return None
    rows, order = [], list[str]()
    counts: dict[str, int] = {}
    for point in points:
        measurement = curve.lines[point["n"]].measurement
        if len(measurement.answers) != len(truth):
            continue
        values = recall_per_query(measurement, truth, k)
        weights = weights_of(measurement)
        score = Score(len(values), len(values), {}, {}, per_query={measure: values}, weights=weights)
        found = segments(score, grouping)
        means = {each.name: each.measures[measure] for each in found}
        # Engines that refused filters scored fewer queries.
        counts = {name: max(mean.n, counts.get(name, 0)) for name, mean in means.items()}
        # The first row, or the one of the verdict, ranks the segments.
        order = [each.name for each in found] if not order or point["n"] == chosen else order
        overall = mean_of(values, measure, weights=None if weights is None else weights.values)
        rows.append(EngineRow(point["engine"], point["label"], point["n"], overall, means))
    if grouping.order is None:
        order.sort(key=lambda name: counts[name] < FEWEST)
    groups = {name: counts[name] for name in order}
    return EngineSegments(grouping.name, measure, groups, rows) if rows and groups else None


def segments_by_columns(
    curve: Curve, truth: Truth | None, dataset: Dataset | None, chosen: int | None, no_truth: str
) -> tuple[list[EngineSegments], list[str]]:
    """Recall of each engine by each query column that the settings name, and why columns are missing."""
    known = KnownQueries() if truth is None else known_queries(curve, truth, dataset)
    asked, effort = without_effort(curve.run.by, known.names)
    names = {name: cut(printable(name), _LONGEST_NAME) for name in asked}
    if effort and not names:
        return [], [
            "No recall by effort alone. Name what to group by beside it, such as --by 'COLUMN*effort'."
        ]
    if truth is None:
        why = no_truth.replace(": --truth", ": recallatk report RUN --truth")
        return [], [f"No recall by {' and '.join(names.values())}: {why}."]
    found, missing = [], []
    for name, shown in names.items():
        try:
            grouping = query_grouping(name, known)
        except RecallError as problem:
            missing.append(f"No recall by {shown}: {problem}.")
            continue
        made = segments_by_engine(curve, truth, grouping, chosen)
        found += [] if made is None else [_across_efforts(curve, truth, grouping, made, shown=effort)]
    return found, missing


def _across_efforts(
    curve: Curve, truth: Truth, grouping: Grouping, made: EngineSegments, *, shown: bool
) -> EngineSegments:
    """With what segments gain from effort, and if asked for the recall at every effort."""
    point = curve.points[made.rows[0].number]
    gains = effort_gains(curve, truth, grouping, point)
    if not shown:
        return replace(made, gains=gains)
    points = thinned(efforts_of(curve, point), _MOST_EFFORTS)
    two_way = segments_at(curve, truth, grouping, points, points[-1]["n"]) if len(points) > 1 else None
    if two_way is not None:
        # Every column is a setting of the one engine.
        rows = [replace(each, engine=each.label) for each in two_way.rows]
        two_way = replace(two_way, rows=rows, groups=made.groups)
    return replace(made, gains=gains, efforts=two_way)


def segment_section(found: EngineSegments, most: int, width: int | None = None) -> Section:
    """A table with at most so many segments, within a width if given, and what it leaves out."""
    shown, more = found.shortened(most)
    table = shown.table() if width is None else shown.table_within(width)
    lines = [FEW_SAID] if any(map(shown.few, shown.groups)) else []
    missing = len(found.rows) - (len(table.header) - _FIXED)
    left_out = [counted(more, "more segment", "more segments")] if more else []
    left_out += [counted(missing, "more engine", "more engines")] if missing else []
    if left_out:
        lines.append(f"{'Not shown:' if width is None else '--verbose shows'} {' and '.join(left_out)}.")
    blocks: list[Block] = [table, Sentences([*lines, *found.said])]
    if found.efforts is not None:
        two_way = found.efforts.shortened(most)[0]
        title = f"{found.title} and effort"
        across = two_way.table() if width is None else two_way.table_within(width)
        blocks += [Sentences([title]), replace(across, title="")]
    return Section(found.title, blocks)


def settings_by_engine(curve: Curve, chosen: int | None) -> list[Row]:
    """One point per engine under the first load: the chosen one, or the best of its engine.

    The best is the cheapest that reaches the target, without one the recall of the chosen setting; where no
    setting of an engine does, its highest recall. Trials kept from earlier settings stand in only where
    nothing else is measured.
    """
    points = [each for each in curve.candidates or curve.main if each["recall"] is not None]
    mine = next((each for each in points if each["n"] == chosen), None)
    wanted = max(curve.wanted, default=1.0 if mine is None else mine["recall"])
    found: dict[str, Row] = {name: {} for name in curve.engines.values()}
    for name in found:
        members = [each for each in points if each["engine"] == name]
        enough = [each for each in members if each["recall"] >= wanted and each["latency"]]
        if mine is not None and mine["engine"] == name:
            found[name] = mine
        elif enough:
            found[name] = min(enough, key=lambda each: each["latency"])
        elif members:
            found[name] = max(members, key=lambda each: each["recall"])
    return [each for each in found.values() if each]
