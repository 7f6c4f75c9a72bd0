"""What a report on a tuning is made of, before it is text or Markdown."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from recallatk.report.naming import Naming, cut, fitted
from recallatk.report.summary import number
from recallatk.report.tables import Table
from recallatk.report.tuned_settings import (
    about_front,
    about_noise,
    about_prices,
    marks_of,
    measure_of,
    number_names,
    numbers,
    trial_of,
)
from recallatk.report.tuned_verdict import (
    costs_in_words,
    mean_in_words,
    setting,
    verdict,
)

if TYPE_CHECKING:
    from recallatk.core.tuned import Attempt, Candidate, Tuned

# As many queries as an interval by resampling needs.
_FEW_QUERIES = 30
_CELL, _REASON = 60, 90
# A mark, and what a setting is called.
_WORDS = 2


@dataclass(frozen=True)
class Section:
    """A heading with sentences, code or a table under it."""

    title: str
    said: list[str] = field(default_factory=list)
    code: str | None = None
    table: Table | None = None


def sections(tuned: Tuned) -> list[Section]:
    """The parts of the report in their order; what has nothing to say is left out."""
    found = [
        Section("Verdict", verdict(tuned)),
        Section("To paste", code=tuned.snippet),
        Section("Runner-up", _runner_up(tuned)),
        _front(tuned),
        Section("Price of recall", about_prices(tuned, measure_of(tuned) or "recall")),
        Section("Worst segment", _worst(tuned)),
        _tried(tuned),
        Section("What it took", _took(tuned)),
        Section("Cautions", [each.message for each in tuned.cautions]),
    ]
    return [each for each in found if each.said or each.code or (each.table and each.table.rows)]


def _runner_up(tuned: Tuned) -> list[str]:
    other, choice = tuned.runner_up, tuned.choice
    if choice is None or other is None:
        return [tuned.no_runner_up] if choice is not None and tuned.no_runner_up else []
    measures = ", ".join(f"{name} {mean_in_words(mean)}" for name, mean in other.measures.items())
    known = ", ".join(part for part in (measures, costs_in_words(other)) if part)
    lines = [f"{setting(other)}: while choosing {known or 'nothing was measured'}."]
    traded = _traded(choice, other)
    if not traded:
        return lines
    return [*lines, f"Instead of the choice it would take {', '.join(traded)}.", *about_noise(tuned)]


def _traded(choice: Candidate, other: Candidate) -> list[str]:
    """How many times as much the runner-up takes of whatever both were measured by and differ in."""
    pairs = {
        "p95": (choice.latency_ms.get("p95"), other.latency_ms.get("p95")),
        "memory": (choice.memory_bytes, other.memory_bytes),
        "build time": (choice.build_seconds, other.build_seconds),
        "queries a second": (choice.qps, other.qps),
    }
    return [
        f"{its / ours:.2f} times the {name}"
        for name, (ours, its) in pairs.items()
        if ours and its and ours != its
    ]


def _front(tuned: Tuned) -> Section:
    names = Naming(trial_of(each) for each in tuned.front)
    measure = measure_of(tuned) or "recall"
    labels = fitted([names.label(trial_of(each)) for each in tuned.front], _CELL)
    rows = []
    for each, label in zip(tuned.front, labels, strict=True):
        mean = each.measures.get(measure)
        value = number(None if mean is None else mean.value, ".4f")
        rows.append([" ".join(marks_of(tuned, each)), label, value, *numbers(each)])
    header = ["", "setting", measure, *number_names(measure)]
    return Section("Front", about_front(tuned, names, measure), table=_without_empty(header, rows))


def _without_empty(header: list[str], rows: list[list[str]]) -> Table:
    """The table without columns in which nothing stands."""
    kept = [place for place in range(len(header)) if any(row[place] not in ("", "-") for row in rows)]
    words = sum(place < _WORDS for place in kept)
    return Table("Front", [header[each] for each in kept], [[row[e] for e in kept] for row in rows], words)


def _worst(tuned: Tuned) -> list[str]:
    if tuned.worst_segment is None:
        return []
    name, mean = tuned.worst_segment
    few = " So few queries say little." if mean.n < _FEW_QUERIES else ""
    return [f"{name}: {mean_in_words(mean)} on held-out queries.{few}"]


def _tried(tuned: Tuned) -> Section:
    """Attempts by engine, what they were and what came of them, with the most common reason."""
    groups: dict[tuple[str, str, str], list[Attempt]] = {}
    most = max((each.rows for each in tuned.attempts), default=0)
    for each in tuned.attempts:
        what = "build" if each.search is None else "setting"
        what += " of a part" if each.rows < most else ""
        groups.setdefault((each.engine, what, each.verdict), []).append(each)
    rows = [
        [*key, _reason(members), f"{len(members):,}", f"{sum(each.seconds for each in members):,.1f}"]
        for key, members in groups.items()
    ]
    header = ["engine", "what", "came of it", "why", "times", "seconds"]
    return Section("Tried and skipped", table=Table("Tried and skipped", header, rows, words=4))


def _reason(members: list[Attempt]) -> str:
    reasons = Counter(each.why for each in members if each.why)
    if not reasons:
        return "-"
    more = f" (and {len(reasons) - 1:,} more)" if len(reasons) > 1 else ""
    return f"{cut(reasons.most_common(1)[0][0], _REASON)}{more}"


def _took(tuned: Tuned) -> list[str]:
    said = f"{tuned.seconds:,.1f} s for {tuned.builds:,} builds and {tuned.trials:,} settings"
    grid = tuned.grid_seconds_estimate
    if grid is None or not tuned.seconds:
        return [f"{said}."]
    return [
        f"{said}; the full grid would take about {grid:,.0f} s, {grid / tuned.seconds:,.1f} times as long."
    ]
