"""The documents' side of recall in words: true neighbors found by column value, and rows that are lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from recallatk.analysis.row_segments import FEWEST_OF_HUB, FEWEST_WANTING, row_groupings, segments_by_row
from recallatk.analysis.segments import FEWEST
from recallatk.analysis.weighting import weights_of
from recallatk.reporting.document import Section, Sentences, Table
from recallatk.reporting.engine_segments import settings_by_engine
from recallatk.reporting.labels import cut, with_margin
from recallatk.reporting.per_query import compared_queries
from recallatk.reporting.text import printable
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.analysis.row_segments import LostRow, LostRows, RowSegment, RowSegments
    from recallatk.core import Dataset, Trial, Truth
    from recallatk.reporting.charts.points import Curve
    from recallatk.reporting.document import Block

TITLE = "Recall by corpus row"
_MOST_VALUES, _MOST_IDS = 12, 5
_LONGEST_VALUE, _LONGEST_ID = 40, 60
_TOO_FEW = f"(fewer than {FEWEST} queries)"


@dataclass(frozen=True, eq=False)
class SettingRows:
    """One setting of an engine, and the rows that it finds and loses."""

    trial: Trial
    label: str
    found: RowSegments


def rows_by_engine(
    curve: Curve, truth: Truth | None, dataset: Dataset | None, chosen: int | None, columns: Sequence[str]
) -> list[SettingRows]:
    """One setting per engine, as recall by selectivity shows them; empty without recall, truth or data.

    Args:
        curve: the settings of the run.
        truth: the truth of the run.
        dataset: the data of the run, which have the columns.
        chosen: the number of the verdict's point.
        columns: names of corpus columns.
    """
    k = curve.k
    if truth is None or dataset is None or k is None or truth.depth < k:
        return []
    groupings = row_groupings(dataset.corpus, columns)
    found = []
    for point in settings_by_engine(curve, chosen):
        measurement = curve.lines[point["n"]].measurement
        if len(measurement.answers) == len(truth) and not measurement.truth_lost:
            compared = compared_queries(measurement, truth)
            rows = segments_by_row(compared, k, groupings, weights_of(measurement))
            found.append(SettingRows(measurement.trial, point["label"], rows))
    return found


def row_sections(
    found: Sequence[SettingRows], why_not: str, *, ids: int = _MOST_IDS, name: str = ""
) -> list[Section]:
    """One section: a table per setting and column, and the rows that are lost.

    Args:
        found: the settings.
        why_not: why there are none, if there are none.
        ids: how many lost rows to name.
        name: the anchor of the section on a page.
    """
    blocks: list[Block] = [] if found else [Sentences([f"Not computed: {why_not}."])]
    for each in found:
        blocks += [Sentences([f"{each.label}:"])] if len(found) > 1 else []
        blocks += row_blocks(each.found, ids=ids)
    return [Section(TITLE, blocks, name, "Rows" if name else "")]


def row_blocks(found: RowSegments, *, ids: int = _MOST_IDS) -> list[Block]:
    """A table per column with what it shows in a sentence, then the rows that are lost."""
    blocks: list[Block] = []
    if found.weight is not None:
        blocks.append(
            Sentences(
                [
                    f"Shares of neighbors are weighted by {cut(printable(found.weight), _LONGEST_VALUE)}; "
                    "neighbors, queries and lost rows are counted without weights."
                ]
            )
        )
    for column, segments in found.columns.items():
        table = _table(column, segments, weighted=found.weight is not None)
        blocks += [Sentences([_worst(found, column, segments)]), table]
        more = len(segments) - _MOST_VALUES
        if more > 0:
            blocks.append(
                Sentences([f"{counted(more, 'more value is', 'more values are')} not shown; --json has all."])
            )
    return [*blocks, Sentences([_never(found.never_found, ids), *_hubs(found.lost_hubs, ids)])]


def _table(column: str, segments: Sequence[RowSegment], *, weighted: bool) -> Table:
    rows = []
    for each in segments[:_MOST_VALUES]:
        name = cut(printable(each.name), _LONGEST_VALUE)
        name = name if each.judged else f"{name} {_TOO_FEW}"
        plain = [f"{each.share.unweighted:.3f}"] if weighted else []
        counts = [f"{each.neighbors:,.0f}", f"{each.share.n:,}"]
        rows.append([f"  {name}", with_margin(each.share), *plain, *counts])
    header = [f"by corpus column {cut(printable(column), _LONGEST_VALUE)}", "found"]
    return Table("", [*header, *(["unweighted"] if weighted else []), "neighbors", "queries"], rows, 1)


def _worst(found: RowSegments, column: str, segments: Sequence[RowSegment]) -> str:
    """The worst value, if the share of its rows is significantly below that of all rows."""
    whole = f"of all true neighbors within rank {found.k}, {with_margin(found.share)} are found"
    low = [each for each in segments if each.judged and _is_below(each, found)]
    name = printable(column)
    if not low:
        return f"No value of {name} is found significantly less often: {whole}."
    first = low[0]
    more = f" {counted(len(low), 'value is', 'values are')} significantly below." if len(low) > 1 else ""
    return (
        f"Rows with {name} = {cut(printable(first.name), _LONGEST_VALUE)} are found worst: "
        f"{with_margin(first.share)} of the {first.neighbors:,.0f} times that one is a true neighbor; "
        f"{whole}.{more}"
    )


def _is_below(segment: RowSegment, found: RowSegments) -> bool:
    high, whole = segment.share.high, found.share.value
    return high is not None and whole is not None and high < whole


def _never(lost: LostRows, ids: int) -> str:
    if not lost.count:
        return f"Every row that {FEWEST_WANTING} or more answered queries want is found for at least one."
    rows = counted(lost.count, "row is", "rows are")
    each = "it" if lost.count == 1 else "each"
    return (
        f"{rows} never found, although {each} is a true neighbor of {FEWEST_WANTING} or more answered "
        f"queries: {_listed(lost, ids)}."
    )


def _hubs(lost: LostRows, ids: int) -> list[str]:
    if not lost.count:
        return []
    rows = counted(lost.count, "hub is", "hubs are")
    return [
        f"{rows} found at most half as often as other rows (true neighbors of {FEWEST_OF_HUB} or more "
        f"queries): {_listed(lost, ids)}."
    ]


def _listed(lost: LostRows, ids: int) -> str:
    shown = [f"{_id(each)} ({each.found:,} of {each.queries:,} queries)" for each in lost.rows[:ids]]
    more = lost.count - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")


def _id(row: LostRow) -> str:
    return cut(printable(str(row.id)), _LONGEST_ID)
