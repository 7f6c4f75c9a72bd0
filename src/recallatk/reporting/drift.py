"""Drift as text, Markdown and JSON: the verdict of the recall test, and triggers beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.core.drifted import ALARMS
from recallatk.reporting.document import (
    Code,
    Document,
    Form,
    Lead,
    Section,
    Sentences,
    Table,
    build_sections,
)
from recallatk.reporting.html.page import render_html
from recallatk.reporting.labels import cut, with_margin
from recallatk.reporting.markdown import render_markdown
from recallatk.reporting.text import for_console, printable, render_text, terminal_width
from recallatk.reporting.verdict_words import goal_said
from recallatk.units import counted

if TYPE_CHECKING:
    from recallatk.core.drifted import Drifted, SnapshotSize, Trigger
    from recallatk.reporting.document import Block, Builders

_LONGEST = 120


def drift_to_text(found: Drifted, *, width: int | None = None, ascii_only: bool | None = None) -> str:
    """The drift for the terminal.

    Args:
        found: the result.
        width: columns of the terminal; by default those of the current one.
        ascii_only: draw with ASCII; by default if the encoding of standard output needs it.
    """
    columns = terminal_width() if width is None else width
    sections = build_sections(SECTIONS, found, Form.TEXT)
    return for_console(render_text(Document("", sections), columns), ascii_only=ascii_only)


def drift_to_markdown(found: Drifted) -> str:
    """The drift as Markdown."""
    return render_markdown(Document("Drift", build_sections(SECTIONS, found, Form.MARKDOWN)))


def drift_to_html(found: Drifted) -> str:
    """The drift as a self-contained page."""
    sections = build_sections(SECTIONS, found, Form.HTML)
    return render_html(Document("Drift", sections, window_title="Drift - recallatk"))


def fired_in_words(triggers: tuple[Trigger, ...]) -> str:
    """The triggers that fired in one line; empty if none did."""
    return ", ".join(f"{each.part} {each.name}" for each in triggers if each.fired)


def _verdict(found: Drifted) -> Section:
    """Both answers, side by side: what recall is, and what triggers say."""
    test, shifts = found.tested, found.shifts
    blocks: list[Block] = []
    if test is None:
        lead = "No verdict: recall on the current queries was not measured."
    else:
        queries = counted(test.recall.n, "query", "queries")
        bound = f"{test.measure} {with_margin(test.recall)} on {queries}, {_named(test.source)}."
        lead = f"{found.outcome}. {bound}" if found.outcome else f"Recall: {bound}"
    blocks.append(Lead(printable(lead)))
    fired = fired_in_words(shifts.triggers)
    many = counted(len(shifts.triggers), "trigger", "triggers")
    lines = [f"Triggers: {len(shifts.fired)} of {many} fired" + (f": {fired}." if fired else ".")]
    if test is not None:
        lines += [goal_said(each) for each in test.verdict.goals]
        lines += _reading(found)
    blocks.append(Sentences([printable(each) for each in lines]))
    if test is None and found.next_step:
        blocks.append(Sentences(["Measure recall on the current queries:"]))
        blocks.append(Code(found.next_step))
    return Section("Result", blocks, "verdict", "Result", Form.HTML | Form.MARKDOWN)


def _reading(found: Drifted) -> list[str]:
    """What the two say together."""
    if found.outcome == "PASS" and found.shifts.fired:
        return ["Something changed, and recall still meets its target."]
    if found.outcome == "FAIL" and not found.shifts.fired:
        return ["Recall is below its target, and no trigger shows why: compare index and settings."]
    return []


def _triggers(found: Drifted) -> Section:
    rows = [
        [
            each.part,
            printable(each.name),
            f"{each.number:.3g}",
            "-" if each.low is None or each.high is None else f"{each.low:.3g} to {each.high:.3g}",
            _threshold(each),
            _chance(each.p),
            "fired" if each.fired else "-",
        ]
        for each in found.shifts.triggers
    ]
    header = ["part", "trigger", "number", "95 % interval", "threshold", "p", ""]
    said = [printable(f"{each.part}: {each.said}.") for each in found.shifts.triggers if each.fired]
    why = (
        f"A trigger fires beyond its threshold and with p <= {ALARMS:g}, adjusted for all of them (Holm). It "
        "is a reason to measure recall, and no verdict."
    )
    return Section("Triggers", [Table("Triggers", header, rows, 2), Sentences([*said, why])], "triggers")


def _chance(p: float | None) -> str:
    return "counted" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"


def _threshold(each: Trigger) -> str:
    if each.least is None:
        return f"> {each.most:.3g}"
    if each.least == each.most:
        return f"not {each.most:.6g}"
    return f"< {each.least:.3g} or > {each.most:.3g}"


def _basis(found: Drifted) -> Section:
    shifts = found.shifts
    lines = [f"Baseline: {_size(shifts.baseline)}.", f"Current: {_size(shifts.current)}."]
    lines += [f"Not compared: {each}." for each in shifts.notes]
    return Section("Snapshots", [Sentences([printable(each) for each in lines])], "snapshots")


def _size(side: SnapshotSize) -> str:
    held = [] if side.queries is None else [counted(side.queries, "query", "queries")]
    held += [] if side.rows is None else [counted(side.rows, "row", "rows")]
    return f"{_named(side.name)}, {' and '.join(held)}, {side.dimension:,} dimensions"


def _named(name: str) -> str:
    return cut(name, _LONGEST)


SECTIONS: Builders = ((Form.ALL, _verdict), (Form.ALL, _triggers), (Form.ALL, _basis))
