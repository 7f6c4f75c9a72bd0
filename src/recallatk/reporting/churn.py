"""A replayed runbook as text, Markdown, page and JSON: the curve over steps, decay, recovery and failures."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from recallatk.core import Trial
from recallatk.core.churned import NO_MAINTENANCE, Operation
from recallatk.core.trials import called
from recallatk.reporting.charts.churn import churn_chart
from recallatk.reporting.charts.theme import unchecked_charts
from recallatk.reporting.document import (
    Document,
    Drawing,
    Figure,
    Form,
    Items,
    Section,
    Sentences,
    Table,
    build_sections,
)
from recallatk.reporting.history import sparkline
from recallatk.reporting.labels import (
    OVER_QUERIES,
    Naming,
    cut,
    megabytes,
    number,
    signed_interval,
    with_margin,
)
from recallatk.reporting.markdown import render_markdown
from recallatk.reporting.text import for_console, printable, render_text, terminal_width
from recallatk.reporting.verdict_words import goal_said
from recallatk.units import counted

if TYPE_CHECKING:
    from recallatk.core.churned import ChurnCurve, Churned, Recovery, SearchStep
    from recallatk.core.measured import Mean
    from recallatk.reporting.document import Block, Builders

_LONGEST, _LONGEST_LABEL = 300, 60


def churn_to_text(
    found: Churned, *, width: int | None = None, ascii_only: bool | None = None, verbose: bool = False
) -> str:
    """A replay for the terminal.

    Args:
        found: the result.
        width: columns of the terminal; by default those of the current one.
        ascii_only: draw with ASCII; by default if the encoding of standard output needs it.
        verbose: every search in a table.
    """
    columns = terminal_width() if width is None else width
    sections = build_sections(SECTIONS, found, Form.TEXT if verbose else Form.SCREEN)
    return for_console(render_text(Document("", sections), columns), ascii_only=ascii_only)


def churn_to_markdown(found: Churned) -> str:
    """A replay as a page of Markdown."""
    sections = build_sections(SECTIONS, found, Form.MARKDOWN)
    return render_markdown(Document(_title(found), sections))


def churn_to_html(found: Churned) -> str:
    """A replay as one HTML file that loads nothing."""
    from recallatk.reporting.html.page import render_html

    with unchecked_charts():
        sections = build_sections(SECTIONS, found, Form.HTML)
        return render_html(Document(_title(found), sections, window_title=_title(found)))


def churn_to_dict(found: Churned) -> dict[str, Any]:
    """A replay for JSON."""
    return {
        "dataset": found.dataset,
        "metric": found.metric,
        "runbook": found.runbook,
        "steps": found.steps,
        "queries": found.queries,
        "at": list(found.at),
        "concurrent": found.concurrent,
        "outcome": found.outcome,
        "truth_seconds": found.truth_seconds,
        "fingerprints": dict(found.fingerprints),
        "environment": dict(found.environment),
        "curves": [_curve_to_dict(each) for each in found.curves],
    }


def _curve_to_dict(curve: ChurnCurve) -> dict[str, Any]:
    failure = curve.failure
    return {
        "engine": curve.engine,
        "version": curve.version,
        "build": dict(curve.build),
        "search": dict(curve.search),
        "measure": curve.measure,
        "build_seconds": curve.build_seconds,
        "decay": _mean(curve.decay),
        "recoveries": [
            {
                "operation": str(each.operation),
                "step": each.step,
                "seconds": each.seconds,
                "gain": _mean(each.gain),
            }
            for each in curve.recoveries
        ],
        "searches": [_search_to_dict(each) for each in curve.searches],
        "changes": [
            {
                "step": each.step,
                "operation": str(each.operation),
                "deleted": each.deleted,
                "inserted": each.inserted,
                "seconds": each.seconds,
                "note": each.note,
            }
            for each in curve.changes
        ],
        "failure": None
        if failure is None
        else {"step": failure.step, "kind": failure.kind, "message": failure.message},
        "resumed": list(curve.resumed),
        "verdict": curve.verdict.to_dict(),
    }


def _search_to_dict(step: SearchStep) -> dict[str, Any]:
    overlap = step.overlap
    return {
        "step": step.step,
        "live": step.live,
        "changed": step.changed,
        "measures": {name: _mean(mean) for name, mean in step.measures.items()},
        "p50_ms": step.p50_ms,
        "p95_ms": step.p95_ms,
        "p95_low_ms": step.p95_interval[0],
        "p95_high_ms": step.p95_interval[1],
        "memory_bytes": step.memory_bytes,
        "size_bytes": step.size_bytes,
        "short": step.short,
        "stale": step.stale,
        "stale_queries": step.stale_queries,
        "unknown": step.unknown,
        "evidence": step.evidence,
        "unused": step.unused or None,
        "overlap": None
        if overlap is None
        else {
            "alone": overlap.alone,
            "one_write": overlap.one_write,
            "discarded": overlap.discarded,
            "before": _mean(overlap.before),
            "after": _mean(overlap.after),
        },
    }


def _mean(mean: Mean | None) -> dict[str, Any] | None:
    if mean is None:
        return None
    return {"value": mean.value, "low": mean.low, "high": mean.high, "n": mean.n}


def labels_of(found: Churned) -> list[str]:
    """The shortest name of each curve: its engine, and the parameters that differ among several."""
    trials = [Trial(each.engine, each.build, each.search) for each in found.curves]
    known, several = Naming(trials), Counter(each.engine for each in trials)
    return [
        each.engine
        if several[each.engine] == 1
        else cut(called(each.engine, known.build(each), known.search(each)), _LONGEST_LABEL)
        for each in trials
    ]


def _title(found: Churned) -> str:
    return cut(printable(f"Churn of {found.dataset or 'a corpus'}: {found.runbook}"), 120)


def _heading(found: Churned) -> Section:
    measure = found.curves[0].measure if found.curves else f"recall@{found.at[0]}"
    queries, steps = counted(found.queries, "query", "queries"), counted(found.steps, "step", "steps")
    said = f"{found.runbook}: {steps}, {queries}, {found.metric}. {measure} against the truth of each step."
    if found.concurrent:
        said += " Searches ran while another thread wrote."
    lines = [cut(printable(said), _LONGEST)]
    for label, curve in zip(labels_of(found), found.curves, strict=True):
        if curve.verdict.outcome is not None:
            lines += [f"{curve.verdict.outcome}. {label}: {goal_said(each)}" for each in curve.verdict.goals]
    return Section("", [Sentences(lines)], "churn")


def _summary(found: Churned) -> Section:
    rows = [_summary_row(*each) for each in zip(labels_of(found), found.curves, strict=True)]
    header = ["setting", "first", "last", "change", "p95 ms", "memory MB", "size MB", "stale", "short"]
    shown = [row for row in rows if row]
    note = (
        f"First and last search before maintenance. {OVER_QUERIES} change: last minus first over the same "
        "queries, with its 95 % interval. p95, memory and size: last search. stale: deleted rows among all "
        "answers. short: queries with too few answers, at all steps."
    )
    return Section(
        "Recall over steps", [Table("", header, shown, 1), Sentences([note], "note")], "summary", "Decay"
    )


def _summary_row(label: str, curve: ChurnCurve) -> list[str]:
    steps = curve.churned
    if not steps:
        return []
    first, last = steps[0], steps[-1]
    return [
        label,
        with_margin(first.measures[curve.measure]),
        with_margin(last.measures[curve.measure]),
        "-" if curve.decay is None else signed_interval(curve.decay),
        number(last.p95_ms, ".3g"),
        megabytes(last.memory_bytes),
        megabytes(last.size_bytes),
        f"{sum(each.stale for each in curve.searches):,}",
        f"{sum(each.short for each in curve.searches):,}",
    ]


def _drawn(found: Churned) -> Section | None:
    """A line of bars for each setting."""
    labels = labels_of(found)
    width, lines = max(map(len, labels), default=0), []
    for label, curve in zip(labels, found.curves, strict=True):
        values = [each.measures[curve.measure].value for each in curve.churned]
        known = [each for each in values if each is not None]
        if len(known) > 1:
            bars = sparkline(known)
            lines.append(f"  {label:<{width}}  {min(known):.3f} {bars} {max(known):.3f}")
    return Section("", [Drawing(lines)]) if lines else None


def _charted(found: Churned) -> Section | None:
    chart = churn_chart(found, labels_of(found))
    if chart is None:
        return None
    caption = (
        "One line per setting; bars: 95 % intervals over queries. Open points follow maintenance or a "
        "rebuild of the same rows."
    )
    return Section("Curve over steps", [Figure("churn", caption, chart)], "curve", "Curve")


def _recovery(found: Churned) -> Section | None:
    rows = [
        [label, str(each.operation), f"{each.step}", _took(each), signed_interval(each.gain)]
        for label, curve in zip(labels_of(found), found.curves, strict=True)
        for each in curve.recoveries
        if each.gain.value is not None
    ]
    without = dict.fromkeys(
        curve.engine
        for curve in found.curves
        for each in curve.changes
        if each.operation is Operation.MAINTAIN and each.note == NO_MAINTENANCE
    )
    blocks: list[Block] = [Table("", ["setting", "by", "step", "seconds", "gain"], rows, 2)]
    if without:
        blocks.append(Sentences([f"No maintenance of its own: {', '.join(without)}."], "note"))
    return Section("Recovery", blocks, "recovery", "Recovery") if rows or without else None


def _took(recovery: Recovery) -> str:
    return number(recovery.seconds, ".3g")


def _steps(found: Churned) -> Section | None:
    header = ["setting", "step", "live", "changed", "recall", "p50 ms", "p95 ms", "memory MB", "size MB"]
    header += ["stale", "short"]
    rows = [
        [
            label,
            f"{each.step}",
            f"{each.live:,}",
            f"{each.changed:,}",
            with_margin(each.measures[curve.measure]),
            number(each.p50_ms, ".3g"),
            number(each.p95_ms, ".3g"),
            megabytes(each.memory_bytes),
            megabytes(each.size_bytes),
            f"{each.stale:,}",
            f"{each.short:,}",
        ]
        for label, curve in zip(labels_of(found), found.curves, strict=True)
        for each in curve.searches
    ]
    return (
        Section("Every search", [Table("", header, rows, 1, "tall")], "steps", "Searches") if rows else None
    )


def _writes(found: Churned) -> Section | None:
    """What the changes took, by kind."""
    rows = []
    for label, curve in zip(labels_of(found), found.curves, strict=True):
        spent: dict[str, tuple[int, float]] = {}
        for each in curve.changes:
            if each.seconds is not None and not each.operation.recovers:
                count, seconds = spent.get(str(each.operation), (0, 0.0))
                spent[str(each.operation)] = count + each.deleted + each.inserted, seconds + each.seconds
        rows += [
            [label, name, f"{count:,}", f"{seconds:.3g}", f"{1e3 * seconds / max(1, count):.3g}"]
            for name, (count, seconds) in spent.items()
        ]
    header = ["setting", "change", "rows", "seconds", "ms per row"]
    return Section("Cost of changes", [Table("", header, rows, 2)], "changes", "Changes") if rows else None


def _overlaps(found: Churned) -> Section | None:
    rows = []
    for label, curve in zip(labels_of(found), found.curves, strict=True):
        parts = [each.overlap for each in curve.searches if each.overlap is not None]
        if parts:
            counts = [
                sum(getattr(part, name) for part in parts) for name in ("alone", "one_write", "discarded")
            ]
            last = parts[-1]
            means = [with_margin(last.before), with_margin(last.after)]
            rows.append([label, *(f"{count:,}" for count in counts), *means])
    if not rows:
        return None
    note = (
        "A call that overlapped one write counts with the better of the two states. before, after: the last "
        "search against each state. A call that overlapped several writes is discarded."
    )
    header = ["setting", "no write", "one write", "discarded", "before", "after"]
    return Section(
        "Searches during writes", [Table("", header, rows, 1), Sentences([note], "note")], "overlap"
    )


def _troubles(found: Churned) -> Section | None:
    lines = []
    for label, curve in zip(labels_of(found), found.curves, strict=True):
        if curve.failure is not None:
            where = "at the build" if curve.failure.step is None else f"at step {curve.failure.step}"
            message = cut(printable(curve.failure.message), _LONGEST)
            lines.append(f"{label} failed {where} ({curve.failure.kind}): {message}")
        if curve.resumed:
            steps = ", ".join(map(str, curve.resumed))
            lines.append(
                f"{label} was resumed before the search at step {steps}: its index was built again, and all "
                "changes until then were replayed on it"
            )
        scanned = [each for each in curve.searches if each.unused]
        if scanned:
            at = counted(len(scanned), "search", "searches")
            message = cut(printable(scanned[0].unused), _LONGEST)
            lines.append(
                f"{label} gave no evidence that its index answered at {at}, first at step "
                f"{scanned[0].step}: {message}"
            )
        unknown = sum(each.unknown for each in curve.searches)
        if unknown:
            lines.append(f"{label} returned {counted(unknown, 'row', 'rows')} that never existed")
    return Section("Notes", [Items(lines)], "notes") if lines else None


SECTIONS: Builders = (
    (Form.ALL, _heading),
    (Form.HTML, _charted),
    (Form.ALL, _summary),
    (Form.TERMINAL, _drawn),
    (Form.ALL, _recovery),
    (Form.ALL, _overlaps),
    (Form.PROSE | Form.HTML, _writes),
    (Form.PROSE | Form.HTML, _steps),
    (Form.ALL, _troubles),
)
