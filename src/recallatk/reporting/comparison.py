"""Comparison of runs: verdicts, paired differences of the same settings, and unpaired settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.comparison import compare, holm
from recallatk.analysis.compatibility import different_data
from recallatk.errors import RecallError
from recallatk.reporting.charts.points import curve_of, shortened
from recallatk.reporting.document import Sentences, Table
from recallatk.reporting.labels import cut, interval, number
from recallatk.reporting.per_query import recall_per_query
from recallatk.reporting.text import printable
from recallatk.reporting.verdict_words import spoken_verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from recallatk.analysis.comparison import Difference
    from recallatk.core import Measurement, Run, Trial, Truth
    from recallatk.reporting.charts.points import Curve
    from recallatk.reporting.document import Block

_MOST_PAIRS = _MOST_UNPAIRED = 60
_LONGEST = 120
_CONFIDENCE = 0.05
COMPARED = "Comparison of runs"


@dataclass(frozen=True, eq=False)
class Comparison:
    """The first run compared with others."""

    curves: dict[str, Curve]
    """The points of each run."""
    table: Table
    paired: Table | None
    unpaired: Table | None = None
    """Settings that only some of the runs have."""
    refusals: list[str] = field(default_factory=list)
    """Runs that cannot be compared, and why."""


def compared(
    first: Curve, others: Sequence[Run], names: Sequence[str], truth: Truth | None
) -> Comparison | None:
    """Compare the first run with those of the same data; None without other runs."""
    if not others:
        return None
    named = [*names, *(f"run {place + 1}" for place in range(len(names), len(others) + 1))]
    titles = [cut(printable(each), 60) for each in named[: len(others) + 1]]
    if len(set(titles)) < len(titles):
        titles = [f"{place}: {each}" for place, each in enumerate(titles, 1)]
    curves, refusals = {titles[0]: first}, []
    for title, run in zip(titles[1:], others, strict=True):
        different = _different(first.run, run)
        if different:
            refusals.append(f"{title} cannot be compared: different {', '.join(different)}.")
        else:
            curves[title] = curve_of(run)
    drawn = {title: shortened(curve)[0] for title, curve in curves.items()}
    return Comparison(drawn, _side_by_side(curves), _paired(curves, truth), _unpaired(curves), refusals)


def comparison_blocks(found: Comparison) -> list[Block]:
    """Refused runs, then the verdicts, the paired and the unpaired settings."""
    blocks: list[Block] = [Sentences(found.refusals, "bad"), found.table]
    if found.paired is not None:
        said = (
            "Differences in recall are paired by query; p values are adjusted for multiple comparisons "
            "(Holm). A latency ratio above 1 is slower than the first run."
        )
        blocks += [Sentences([said]), found.paired]
    elif len(found.curves) > 1:
        blocks.append(Sentences(["The runs have no setting in common, so no difference is paired by query."]))
    return [*blocks, *([] if found.unpaired is None else [found.unpaired])]


def _different(one: Run, other: Run) -> list[str]:
    """The data, truth or metric in which two runs differ."""
    found = different_data(one.fingerprints, other.fingerprints, one.models, other.models)
    return [*found, "metric"] if one.metric != other.metric else found


def _side_by_side(curves: dict[str, Curve]) -> Table:
    rows = []
    for title, curve in curves.items():
        chosen = spoken_verdict(curve)
        begun = printable(curve.run.begun or "-")[:19]
        if chosen.number is None:
            rows.append([title, "-", "-", "-", "-", "-", "-", begun])
            continue
        point = curve.points[chosen.number]
        cells = [
            point[name] for name in ("label", "recallText", "p95Text", "qpsText", "memoryText", "buildText")
        ]
        rows.append([title, *cells, begun])
    header = ["Run", "Setting", "Recall", "p95", "QPS", "Memory", "Build time", "Started"]
    return Table("Verdict of each run", header, rows, 2)


def _paired(curves: dict[str, Curve], truth: Truth | None) -> Table | None:
    """The same settings in the first run and in another: recall query by query, latency as a ratio."""
    (title, first), *others = curves.items()
    k, known = first.k, {each.trial: each for each in first.run.measurements}
    pairs = [
        (name, curve, known[each.trial], each)
        for name, curve in others
        for each in curve.run.measurements
        if each.trial in known
    ][:_MOST_PAIRS]
    if not pairs or k is None:
        return None
    found = [_difference(truth, k, mine, theirs) for _, _, mine, theirs in pairs]
    adjusted = iter(holm([each.p_value for each in found if each is not None]))
    rows = []
    for (name, curve, mine, theirs), each in zip(pairs, found, strict=True):
        cells = ["-", "-", "-"]
        if each is not None:
            p_value = next(adjusted)
            cells = [f"{each.difference:+.4f}", interval(each, "+.4f"), _judged(each, p_value)]
        label = cut(printable(curve.names.label(theirs.trial)), 80)
        rows.append([name, label, *cells, _ratio(first, curve, mine.trial)])
    header = ["Run", "Setting", f"Δ {first.measure}", "95 % interval", "Significance", f"{first.tail} ratio"]
    return Table(f"Same settings, paired by query: difference from {title}", header, rows, 2)


def _unpaired(curves: dict[str, Curve]) -> Table | None:
    """Settings that are not in both the first run and another: a different build, search or load."""
    (title, first), *others = curves.items()
    known = {line.trial for line in first.lines}
    elsewhere = {line.trial for _, curve in others for line in curve.lines}
    alone = [(title, first, place) for place, line in enumerate(first.lines) if line.trial not in elsewhere]
    for name, curve in others:
        alone += [(name, curve, place) for place, line in enumerate(curve.lines) if line.trial not in known]
    if not others or not alone:
        return None
    rows = []
    for name, curve, place in alone[:_MOST_UNPAIRED]:
        point = curve.points[place]
        # The whole setting: what tells trials of one run apart may be what all of them share.
        label = cut(printable(str(curve.lines[place].trial)), _LONGEST)
        cells = [point[key] for key in ("recallText", "p95Text", "qpsText", "memoryText", "buildText")]
        rows.append([name, label, *cells])
    more = len(alone) - len(rows)
    rows += [[f"{more:,} more", "", "", "", "", "", ""]] if more > 0 else []
    header = ["Run", "Setting", first.measure or "Recall", "p95", "QPS", "Memory", "Build time"]
    return Table("Unpaired settings: in one run only", header, rows, 2)


def _difference(truth: Truth | None, k: int, mine: Measurement, theirs: Measurement) -> Difference | None:
    values = [_values(truth, k, each) for each in (mine, theirs)]
    if values[0] is None or values[1] is None or len(values[0]) != len(values[1]):
        return None
    # In an open loop, each run sends its own sample of queries.
    both = ~(np.isnan(values[0]) | np.isnan(values[1]))
    weights = None if mine.weights is None else mine.weights[both]
    try:
        return compare({"first": values[0][both], "second": values[1][both]}, weights=weights)[0]
    except RecallError:
        return None


def _values(truth: Truth | None, k: int, measurement: Measurement) -> NDArray[np.float64] | None:
    known = measurement.values(f"recall@{k}")
    if known is not None or truth is None or truth.depth < k or len(truth) != len(measurement.answers):
        return known
    return recall_per_query(measurement, truth, k)


def _judged(found: Difference, p_value: float) -> str:
    if not found.differing:
        return "no query differs"
    said = "significant" if p_value < _CONFIDENCE else "not significant"
    return f"{said} (p = {p_value:.2g})"


def _ratio(first: Curve, other: Curve, trial: Trial) -> str:
    def latency(curve: Curve) -> float | None:
        found = [line.latency_ms[first.tail].value for line in curve.lines if line.trial == trial]
        return found[0] if found else None

    before, after = latency(first), latency(other)
    return number(None if not before or after is None else after / before, ".2f")
