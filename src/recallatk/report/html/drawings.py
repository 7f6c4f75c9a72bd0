"""The charts of a page: those of every run, and those that single queries and other runs allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.report.charts import (
    across_k,
    comparison,
    cost,
    distribution,
    latency_curve,
    qps_curve,
    segments,
)
from recallatk.report.html.groupings import FEWEST
from recallatk.report.naming import cut
from recallatk.report.tables import interval
from recallatk.report.text import printable

if TYPE_CHECKING:
    from recallatk.analysis.segments import Segment
    from recallatk.report.charts.kinds import Chart, Row
    from recallatk.report.charts.points import Curve
    from recallatk.report.html.comparison import Comparison
    from recallatk.report.html.facts import Facts
    from recallatk.report.verdict import SpokenVerdict

_MOST_COLUMNS, _MOST_LINES = 12, 12


def drawings(
    curve: Curve, facts: dict[int, Facts], chosen: SpokenVerdict, compared: Comparison | None
) -> dict[str, Chart]:
    """Every chart that can be drawn, by name."""
    from altair.utils.schemapi import debug_mode

    # Altair would hold every part of every chart against its schema, which takes half of the time.
    with debug_mode(False):
        return _drawn(curve, facts, chosen, compared)


def _drawn(
    curve: Curve, facts: dict[int, Facts], chosen: SpokenVerdict, compared: Comparison | None
) -> dict[str, Chart]:
    number = chosen.number or 0
    spreads = {place: each.spread for place, each in facts.items() if each.spread is not None}
    made = {
        "recall-latency": latency_curve.chart(curve, number),
        "recall-qps": qps_curve.chart(curve, number),
        "recall-across-k": across_k.chart(curve, number),
        "distribution": distribution.chart(spreads, curve.measure or "", number),
        "segments": segments.chart(*heat_map(curve, facts)),
        "cost": cost.chart(curve),
    }
    if compared is not None and len(compared.curves) > 1:
        made["comparison"] = comparison.chart(compared.curves)
    return {name: chart for name, chart in made.items() if chart is not None}


def heat_map(curve: Curve, facts: dict[int, Facts]) -> tuple[list[Row], str, list[str], list[str]]:
    """Rows, measure, columns and lines of the heat map: the front of the first load by rising recall."""
    measure = curve.measure or ""
    front = [each for each in curve.main if each["latencyFront"] and each["n"] in facts]
    front = _thinned(sorted(front, key=lambda each: each["recall"]))
    rows: list[Row] = []
    lines: dict[str, None] = {}
    for name in facts[front[-1]["n"]].segments if front else ():
        kept = _kept(facts[front[-1]["n"]].segments[name])
        for point in front:
            for each in facts[point["n"]].segments.get(name, ()):
                mean = each.measures[measure]
                if each.name not in kept or mean.value is None:
                    continue
                segment = f"{cut(printable(name), 36)}: {cut(printable(each.name), 40)}"
                lines.setdefault(segment)
                rows.append(
                    {
                        "segment": segment,
                        "setting": point["label"],
                        "recall": mean.value,
                        "queries": each.queries,
                        "text": f"{mean.value:.4f} ({interval(mean, '.4f')})",
                    }
                )
    return rows, measure, [each["label"] for each in front], list(lines)


def _kept(found: list[Segment]) -> set[str]:
    """The segments to draw: those of many queries where there are any."""
    many = [each for each in found if each.queries >= FEWEST]
    return {each.name for each in (many or found)[:_MOST_LINES]}


def _thinned(front: list[Row]) -> list[Row]:
    """At most so many, spread evenly, with both ends."""
    if len(front) <= _MOST_COLUMNS:
        return front
    step = (len(front) - 1) / (_MOST_COLUMNS - 1)
    return [front[round(place * step)] for place in range(_MOST_COLUMNS)]
