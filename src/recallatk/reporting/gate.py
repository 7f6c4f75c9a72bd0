"""The verdict of a gate for people and for CI: text, a comment, annotations, JUnit, JSON."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from recallatk.analysis.segments import FEWEST
from recallatk.core.judgments import Outcome
from recallatk.goals import Budget, RelativeGoal, parse_goal_with_baseline
from recallatk.reporting.document import (
    Code,
    Document,
    Form,
    Items,
    Lead,
    Section,
    Sentences,
    Table,
    build_sections,
)
from recallatk.reporting.labels import cut, number
from recallatk.reporting.markdown import render_markdown
from recallatk.reporting.results import described_comparison
from recallatk.reporting.text import for_console, printable, render_text, terminal_width
from recallatk.units import counted

if TYPE_CHECKING:
    from recallatk.goals.gated import Gated, GatedGoal
    from recallatk.reporting.document import Block, Builders

MARKER = "<!-- recallatk gate -->"
"""First line of the Markdown, by which a comment is found again and updated."""
_MENTION = re.compile(r"(?<!\w)@(?=\w)")
_LONGEST, _LONGEST_TEXT, _MOST_MISSED, _MOST_NAMED = 80, 80, 5, 10
_WORDS = {
    Outcome.MET: "PASS",
    Outcome.MISSED: "FAIL",
    Outcome.UNDECIDED: "UNDECIDED",
    Outcome.NOT_MEASURED: "not measured",
}


def gate_to_text(found: Gated, *, width: int | None = None, ascii_only: bool | None = None) -> str:
    """The verdict for the terminal.

    Args:
        found: the verdict.
        width: columns of the terminal; by default those of the current one.
        ascii_only: draw with ASCII; by default if the encoding of standard output needs it.
    """
    columns = terminal_width() if width is None else width
    sections = build_sections(SECTIONS, (found, ""), Form.TEXT)
    return for_console(render_text(Document("", sections), columns), ascii_only=ascii_only)


def gate_to_markdown(found: Gated, reproduce: str = "") -> str:
    """The verdict as a comment on a pull request, behind a marker that stays the same."""
    title = f"Recall gate: {found.verdict.outcome}"
    document = Document(title, build_sections(SECTIONS, (found, reproduce), Form.MARKDOWN))
    # No text of a query mentions people; a measure such as recall@10 does not either.
    return f"{MARKER}\n{_MENTION.sub('&#64;', render_markdown(document))}"


def gate_to_dict(found: Gated) -> dict[str, Any]:
    """The verdict for JSON."""
    return {
        "baseline": found.baseline,
        "candidate": found.candidate,
        "verdict": found.verdict.to_dict(),
        "queries": found.queries,
        "needed": found.needed,
        "goals": [
            {
                "setting": each.setting,
                "baseline": each.baseline,
                "limit": each.limit,
                "queries": each.queries,
                "needed": each.needed,
                **each.result.to_dict(),
            }
            for each in found.goals
        ],
        "without_baseline": list(found.without_baseline),
        "asked": found.asked,
        "asked_of": found.asked_of,
        "compared": None if found.compared is None else described_comparison(found.compared),
    }


def gate_annotations(found: Gated) -> list[str]:
    """Workflow commands of GitHub Actions: an error for each missed goal, a warning for undecided ones."""
    kinds = {Outcome.MISSED: "error", Outcome.UNDECIDED: "warning"}
    return [
        f"::{kinds[each.result.outcome]} title=recallatk gate::{_command_data(_said(each))}"
        for each in found.goals
        if each.result.outcome in kinds
    ]


def gate_to_junit(found: Gated) -> str:
    """JUnit XML: one case per goal and setting; UNDECIDED is skipped."""
    from xml.etree import ElementTree as ET

    outcomes = [each.result.outcome for each in found.goals]
    totals = {
        "tests": str(len(outcomes)),
        "failures": str(outcomes.count(Outcome.MISSED)),
        "skipped": str(outcomes.count(Outcome.UNDECIDED)),
        "errors": "0",
    }
    root = ET.Element("testsuites", {"name": "recallatk gate", **totals})
    suite = ET.SubElement(root, "testsuite", {"name": printable(found.candidate), **totals})
    for each in found.goals:
        names = {"classname": printable(each.setting), "name": printable(each.result.text)}
        case = ET.SubElement(suite, "testcase", names)
        message = printable(_said(each))
        if each.result.outcome is Outcome.MISSED:
            ET.SubElement(case, "failure", {"message": message}).text = message
        elif each.result.outcome is Outcome.UNDECIDED:
            ET.SubElement(case, "skipped", {"message": message})
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _command_data(text: str) -> str:
    return printable(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _said(each: GatedGoal) -> str:
    """A goal with its outcome, values and bounds in one line."""
    result = each.result
    value, limit = _shown(each, result.value), _shown(each, each.limit)
    bounds = ""
    if result.low is not None and result.high is not None:
        bounds = f" (between {_shown(each, result.low)} and {_shown(each, result.high)})"
    baseline = "" if each.baseline is None else f", baseline {_shown(each, each.baseline)}"
    needed = "" if each.needed is None else f"; about {counted(each.needed, 'more query', 'more queries')}"
    note = f"; {result.note}" if result.note else ""
    return (
        f"{_WORDS[result.outcome]}: {result.text}: {value}{bounds}, limit {limit}{baseline}{needed}{note} "
        f"[{cut(each.setting, _LONGEST)}]"
    )


def _shown(each: GatedGoal, value: float | None) -> str:
    goal = parse_goal_with_baseline(each.result.text)
    kind = goal.goal if isinstance(goal, RelativeGoal) else goal
    return "-" if value is None else kind.shown(value) if isinstance(kind, Budget) else f"{value:.4f}"


def _verdict(subject: tuple[Gated, str]) -> Section:
    found, _ = subject
    outcome = found.verdict.outcome
    sides = cut(printable(found.candidate), _LONGEST)
    if found.baseline is not None:
        sides += f" against {cut(printable(found.baseline), _LONGEST)}"
    count = counted(len(found.goals), "goal", "goals")
    blocks: list[Block] = [Lead(f"{outcome}: {sides}, {count}.")]
    if found.asked is not None and found.asked_of is not None:
        blocks.append(Sentences([_asked(found.asked, found.asked_of)]))
    # Costs have no queries: their notes say what would decide.
    if any(each.result.outcome is Outcome.UNDECIDED and each.queries for each in found.goals):
        blocks.append(Sentences([_what_decides(found)]))
    return Section("", blocks)


def _asked(asked: int, asked_of: int) -> str:
    if asked == asked_of:
        return f"All {counted(asked_of, 'query', 'queries')} asked."
    return f"{asked:,} of {counted(asked_of, 'query', 'queries')} asked, until every goal was decided."


def _what_decides(found: Gated) -> str:
    if found.needed is None:
        return "More queries would decide."
    more = counted(found.needed, "more query", "more queries")
    return f"About {more} would decide, if values stay as they are."


def _goals(subject: tuple[Gated, str]) -> Section:
    found, _ = subject
    several = len({each.setting for each in found.goals}) > 1
    rows = []
    for each in found.goals:
        result = each.result
        ends = "-"
        if result.low is not None and result.high is not None:
            ends = f"{_shown(each, result.low)} to {_shown(each, result.high)}"
        cells = [_shown(each, value) for value in (each.baseline, result.value)]
        setting = [cut(printable(each.setting), _LONGEST)] if several else []
        rows.append(
            [_WORDS[result.outcome], printable(result.text), *setting, *cells, ends, _shown(each, each.limit)]
        )
    header = ["outcome", "goal", *(["setting"] if several else [])]
    header += ["baseline", "candidate", "90 % interval", "limit"]
    noted = [each.result for each in found.goals if each.result.note]
    notes = dict.fromkeys(f"{each.text}: {each.note}" for each in noted)
    blocks: list[Block] = [Table("", header, rows, 3 if several else 2), Sentences(list(notes))]
    return Section("Goals", blocks, headed=Form.MARKDOWN)


def _without_baseline(subject: tuple[Gated, str]) -> Section | None:
    found, _ = subject
    if not found.without_baseline:
        return None
    shown = [cut(printable(each), _LONGEST) for each in found.without_baseline[:_MOST_NAMED]]
    more = len(found.without_baseline) - len(shown)
    shown += [f"{more:,} more"] if more > 0 else []
    said = "No baseline for these settings, so that no relative goal was judged for them:"
    return Section("Without a baseline", [Sentences([said]), Items(shown)], headed=Form.MARKDOWN)


def _evidence(subject: tuple[Gated, str]) -> Section:
    """The worst segment and the queries that lost most, for a reviewer."""
    found, _ = subject
    blocks: list[Block] = []
    if found.compared is None:
        return Section("", blocks)
    values = [value for pair in found.compared.pairs for value in pair.values]
    # A gate that stopped may have asked next to nothing of a segment.
    segments = [each for each in values if each.segment and each.difference.n >= FEWEST]
    if segments:
        worst = min(segments, key=lambda each: each.difference.difference)
        if worst.difference.difference < 0:
            ends = worst.difference
            said = f"Worst segment: {cut(printable(worst.segment), _LONGEST)}, {worst.measure} "
            said += f"{worst.first:.4f} → {worst.second:.4f}"
            if found.stopped:
                # Its interval is for a number of queries that was fixed before.
                said += f" over {counted(ends.n, 'query', 'queries')}."
            else:
                known = ends.low is not None and ends.high is not None
                said += f" [{ends.low:+.4f}, {ends.high:+.4f}]" if known else ""
                said += f", {worst.verdict}."
            blocks.append(Sentences([said]))
    lost = [
        (pair, each) for pair in found.compared.pairs for each in pair.changed if each.second < each.first
    ]
    lost.sort(key=lambda each: each[1].second - each[1].first)
    if lost:
        rows = [
            [
                cut(printable(each.query), _LONGEST),
                cut(printable(each.text or "-"), _LONGEST_TEXT),
                number(each.first, ".2f"),
                number(each.second, ".2f"),
            ]
            for _, each in lost[:_MOST_MISSED]
        ]
        title = f"Queries that lost most {lost[0][0].headline}"
        blocks.append(Table(title, ["query", "text", "baseline", "candidate"], rows, 2))
    return Section("Evidence", blocks, headed=Form.MARKDOWN)


def _again(subject: tuple[Gated, str]) -> Section | None:
    _, reproduce = subject
    return Section("Reproduce", [Code(reproduce)], headed=Form.MARKDOWN) if reproduce else None


SECTIONS: Builders = (
    (Form.ALL, _verdict),
    (Form.ALL, _goals),
    (Form.ALL, _without_baseline),
    (Form.ALL, _evidence),
    (Form.MARKDOWN, _again),
)
