"""What a report on a tuning is made of, before it is text or Markdown."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from recallatk.core import Trial
from recallatk.report.naming import Naming, cut, fitted
from recallatk.report.summary import number
from recallatk.report.tables import Table
from recallatk.report.tuned_verdict import (
    costs_in_words,
    mean_in_words,
    setting,
    verdict,
)

# As many queries as an interval by resampling needs.
_FEW_QUERIES = 30
_CELL, _REASON = 60, 90
_MIB = 1 << 20
# A mark, and what a setting is called.
_WORDS = 2
_COSTS = {"p95": "p95", "qps": "time per query", "memory": "memory", "build": "build time"}


@dataclass(frozen=True)
class Section:
    """A heading with sentences, code or a table under it."""

    title: str
    said: list[str] = field(default_factory=list)
    code: str | None = None
    table: Table | None = None


def sections(tuned: Any) -> list[Section]:
    """The parts of the report in their order; what has nothing to say is left out."""
    found = [
        Section("Verdict", verdict(tuned)),
        Section("To paste", code=tuned.snippet),
        Section("Runner-up", _runner_up(tuned)),
        _front(tuned),
        Section("Worst segment", _worst(tuned)),
        _tried(tuned),
        Section("What it took", _took(tuned)),
        Section("Cautions", [each.message for each in tuned.cautions]),
    ]
    return [each for each in found if each.said or each.code or (each.table and each.table.rows)]


def _runner_up(tuned: Any) -> list[str]:
    other, choice = tuned.runner_up, tuned.choice
    if other is None or choice is None:
        return []
    measures = ", ".join(f"{name} {mean_in_words(mean)}" for name, mean in other.measures.items())
    known = ", ".join(part for part in (measures, costs_in_words(other)) if part)
    lines = [f"{setting(other)}: while choosing {known or 'nothing was measured'}."]
    traded = _traded(choice, other)
    return [*lines, f"Instead of the choice it would take {', '.join(traded)}."] if traded else lines


def _traded(choice: Any, other: Any) -> list[str]:
    """How many times as much the runner-up takes of everything that both were measured by."""
    pairs = {
        "p95": (choice.latency_ms.get("p95"), other.latency_ms.get("p95")),
        "memory": (choice.memory_bytes, other.memory_bytes),
        "build time": (choice.build_seconds, other.build_seconds),
        "queries a second": (choice.qps, other.qps),
    }
    return [f"{its / ours:.2f} times the {name}" for name, (ours, its) in pairs.items() if ours and its]


def _front(tuned: Any) -> Section:
    names = Naming(_trial(each) for each in tuned.front)
    measure = _measure(tuned)
    header = ["", "setting", measure, "at least", "p95 ms", "QPS", "memory MiB", "build s", "queries"]
    labels = fitted([names.label(_trial(each)) for each in tuned.front], _CELL)
    rows = [
        [_mark(tuned, each), label, *_numbers(each, measure)]
        for each, label in zip(tuned.front, labels, strict=True)
    ]
    return Section("Front", _about_front(tuned, names, measure), table=_without_empty(header, rows))


def _without_empty(header: list[str], rows: list[list[str]]) -> Table:
    """The table without columns in which nothing stands."""
    kept = [place for place in range(len(header)) if any(row[place] not in ("", "-") for row in rows)]
    words = sum(place < _WORDS for place in kept)
    return Table("Front", [header[each] for each in kept], [[row[e] for e in kept] for row in rows], words)


def _trial(candidate: Any) -> Trial:
    return Trial(candidate.engine, tuple(candidate.build), tuple(candidate.search))


def _measure(tuned: Any) -> str:
    known = [name for each in tuned.front for name in each.measures]
    return known[0] if known else "recall"


def _mark(tuned: Any, candidate: Any) -> str:
    trial = _trial(candidate)
    marks = (("choice", tuned.choice), ("knee", tuned.knee))
    return " ".join(word for word, each in marks if each is not None and _trial(each) == trial)


def _numbers(candidate: Any, measure: str) -> list[str]:
    mean = candidate.measures.get(measure)
    memory = candidate.memory_bytes
    return [
        number(None if mean is None else mean.value, ".4f"),
        number(candidate.bound, ".4f"),
        number(candidate.latency_ms.get("p95"), ".3f"),
        number(candidate.qps, ",.0f"),
        number(None if memory is None else memory / _MIB, ",.1f"),
        number(candidate.build_seconds, ",.1f"),
        f"{candidate.queries:,}",
    ]


def _about_front(tuned: Any, names: Naming, measure: str) -> list[str]:
    if not tuned.front:
        return []
    cost = _COSTS.get(tuned.prefer, tuned.prefer)
    lines = [
        f"No other setting that was measured is as good in both {measure} and {cost}. All on the queries to "
        "choose by; held-out ones were not asked."
    ]
    lines += [f"All of {name}: {same}." for name in names.engines if (same := _same(names, name))]
    if tuned.knee is not None:
        lines.append(
            f"Knee, a suggestion: {names.label(_trial(tuned.knee))}. Beyond it more {measure} costs more."
        )
    if tuned.prices:
        steps = "; ".join(
            f"from {each.low:g} to {each.high:g} costs {each.ratio:.2f}x" for each in tuned.prices
        )
        lines.append(f"The price of {measure} in {cost}: {steps}.")
    return lines


def _same(names: Naming, engine: str) -> str:
    """What all settings of an engine have in common, and their lines leave out."""
    said = names.engine(engine).removeprefix(engine)
    return said[1:-1] if said.endswith(")") else said.removeprefix("()")


def _worst(tuned: Any) -> list[str]:
    if tuned.worst_segment is None:
        return []
    name, mean = tuned.worst_segment
    few = " So few queries say little." if mean.n < _FEW_QUERIES else ""
    return [f"{name}: {mean_in_words(mean)} on held-out queries.{few}"]


def _tried(tuned: Any) -> Section:
    """Attempts by engine, what they were and what came of them, with the most common reason."""
    groups: dict[tuple[str, str, str], list[Any]] = {}
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


def _reason(members: list[Any]) -> str:
    reasons = Counter(each.why for each in members if each.why)
    if not reasons:
        return "-"
    more = f" (and {len(reasons) - 1:,} more)" if len(reasons) > 1 else ""
    return f"{cut(reasons.most_common(1)[0][0], _REASON)}{more}"


def _took(tuned: Any) -> list[str]:
    said = f"{tuned.seconds:,.1f} s for {tuned.builds:,} builds and {tuned.trials:,} settings"
    grid = tuned.grid_seconds_estimate
    if grid is None or not tuned.seconds:
        return [f"{said}."]
    return [
        f"{said}; the full grid would take about {grid:,.0f} s, {grid / tuned.seconds:,.1f} times as long."
    ]
