"""The tables of a tuning: its front, all settings, what recall costs, and everything that was tried."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from recallatk.report.document import Table
from recallatk.report.labels import cut, fitted, interval, listed, number
from recallatk.report.text import printable
from recallatk.report.tuned_words import bound_name, marks_of, measure_of, number_names, numbers, trial_of

if TYPE_CHECKING:
    from recallatk.core.tuned import Attempt, Tuned
    from recallatk.report.charts.tuned_curve import TunedCurve
    from recallatk.report.labels import Naming

_CELL, _REASON, _LONGER_CELL = 60, 90, 120
# A mark, and what a setting is called.
_WORDS = 2
# So many attempts can be read, and the page stays small; tuned.json has all.
MOST_ATTEMPTS = 300
_PAGE_NAMES = {
    "p95 ms": "p95 (ms)",
    "QPS": "QPS (1/s)",
    "memory MiB": "Memory (MiB)",
    "build s": "Build (s)",
}


def front_table(tuned: Tuned, names: Naming, measure: str) -> Table:
    """The front with what each of its settings is to the outcome, without columns in which nothing stands."""
    labels = fitted([names.label(trial_of(each)) for each in tuned.front], _CELL)
    rows = []
    for each, label in zip(tuned.front, labels, strict=True):
        mean = each.measures.get(measure)
        value = number(None if mean is None else mean.value, ".4f")
        rows.append([" ".join(marks_of(tuned, each)), label, value, *numbers(each)])
    return _without_empty(["", "setting", measure, *number_names(measure)], rows)


def _without_empty(header: list[str], rows: list[list[str]]) -> Table:
    """The table without columns in which nothing stands."""
    kept = [place for place in range(len(header)) if any(row[place] not in ("", "-") for row in rows)]
    words = sum(place < _WORDS for place in kept)
    return Table("Front", [header[each] for each in kept], [[row[e] for e in kept] for row in rows], words)


def settings_table(curve: TunedCurve) -> Table:
    """Every setting that the chart shows, the front first, and those that it cannot show."""
    measure = curve.measure or ""
    rows = []
    for candidate, point in zip(curve.candidates, curve.points, strict=True):
        mean = candidate.measures.get(measure)
        marks = [*(["front"] if point["costFront"] else []), *marks_of(curve.tuned, candidate)]
        value = number(None if mean is None else mean.value, ".4f")
        rows.append([point["label"], ", ".join(marks), value, interval(mean, ".4f"), *numbers(candidate)])
    header = ["Setting", "Is", short(measure) or "recall", "95 % interval"]
    header += [page_name(name) for name in number_names(measure)]
    return Table("All settings measured at full size, the front first", header, rows, 2)


def short(text: str) -> str:
    return cut(printable(text), _LONGER_CELL)


def page_name(name: str) -> str:
    """The name of a column as the page writes it."""
    return _PAGE_NAMES.get(name, name[:1].upper() + name[1:])


def price_table(tuned: Tuned) -> Table:
    """How many times as much each round number costs as the one before."""
    rows = [[f"{each.low:g}", f"{each.high:g}", f"{each.ratio:.2f} times"] for each in tuned.prices]
    return Table("Between measured settings, never beyond them", ["From", "To", "Costs"], rows, 2, "narrow")


def tried_table(tuned: Tuned) -> Table:
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
    return Table("Tried and skipped", ["engine", "what", "came of it", "why", "times", "seconds"], rows, 4)


def _reason(members: list[Attempt]) -> str:
    reasons = Counter(each.why for each in members if each.why)
    if not reasons:
        return "-"
    more = f" (and {len(reasons) - 1:,} more)" if len(reasons) > 1 else ""
    return f"{cut(reasons.most_common(1)[0][0], _REASON)}{more}"


def attempts_table(tuned: Tuned) -> Table:
    """Everything that was tried or skipped, in its order."""
    rows = [
        [
            short(each.engine),
            short(listed(each.build)) or "-",
            "the whole build" if each.search is None else short(listed(each.search)) or "-",
            short(each.verdict),
            each.why or "-",
            f"{each.rows:,}",
            number(each.bound, ".4f"),
            number(each.p95_ms, ".3f"),
            number(each.seconds, ",.1f"),
        ]
        for each in tuned.attempts[:MOST_ATTEMPTS]
    ]
    bound = page_name(bound_name(measure_of(tuned)))
    header = ["Engine", "Build", "Search", "Came of it", "Why", "Rows", bound, "p95 (ms)", "Seconds"]
    return Table("Everything that was tried or skipped, in its order", header, rows, 5, "tall")
