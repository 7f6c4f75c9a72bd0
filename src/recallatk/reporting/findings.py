"""The linter's findings as a section of a document and as plain values."""

from __future__ import annotations

from dataclasses import asdict
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from recallatk.core.judgments import Finding, Severity
from recallatk.reporting.document import Document, Form, Linted, Remark, Section
from recallatk.reporting.markdown import render_markdown
from recallatk.reporting.text import printable, render_text
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_NOTHING = "The linter found nothing."
MOST_BRIEF = 5
_TEXTS = ("severity", "title", "message", "why", "remedy", "waived")


def findings_to_text(findings: Sequence[Finding], *, short: bool = False) -> str:
    """Each finding on a line, with why it matters and what to do below; the count at the end.

    Args:
        findings: in their order.
        short: the lines and the count alone.
    """
    return render_text(Document("", [linter_section(findings, short=short)]))


def findings_in_brief(findings: Iterable[Any], width: int | None = None, most: int = MOST_BRIEF) -> list[str]:
    """One line per rule, the most severe first, with the number of its findings.

    Args:
        findings: objects with rule, severity, title and message; waived ones are left out.
        width: truncate lines to this many columns; None: never.
        most: number of lines; the last one counts the rules that do not fit.
    """
    groups: dict[str, list[Remark]] = {}
    for each in (_remark(finding, explained=False) for finding in findings):
        if not each.waived:
            groups.setdefault(each.code, []).append(each)
    ranks = [str(severity) for severity in Severity]
    ordered = sorted(groups.values(), key=lambda group: _rank(group[0], ranks))
    lines = [_brief(group) for group in ordered]
    if len(lines) > most:
        rest = counted(len(lines) - most + 1, "more rule", "more rules")
        hidden = [each for group in ordered[most - 1 :] for each in group]
        lines = [*lines[: most - 1], f"{rest}: {_counts_in_words(hidden)}"]
    return [line if width is None else shortened_line(line, width) for line in map(printable, lines)]


def _rank(remark: Remark, ranks: list[str]) -> int:
    return ranks.index(remark.severity) if remark.severity in ranks else len(ranks)


def _brief(group: list[Remark]) -> str:
    times = f" ×{len(group):,}" if len(group) > 1 else ""
    return f"{group[0].severity} {group[0].code}{times}: {group[0].sentence}"


def shortened_line(line: str, width: int) -> str:
    """The line, or its beginning where it is longer than the width."""
    return line if len(line) <= width else f"{line[: width - 1].rstrip()}…"


def findings_to_markdown(findings: Sequence[Finding]) -> str:
    """A heading and a list, fit for a report or a comment."""
    return render_markdown(Document("", [linter_section(findings)]))


def linter_section(findings: Sequence[Finding], *, short: bool = False) -> Section:
    """What the linter found, under a heading where there are headings."""
    return Section("Linter", [linted(findings, short=short)], headed=Form.MARKDOWN)


def linted(findings: Iterable[Any], *, short: bool = False) -> Linted:
    """Findings as a block of a document.

    Args:
        findings: objects with rule, severity, title, message, why and remedy.
        short: without reasons and remedies.
    """
    found = list(findings)
    # Of several findings of a rule, the last gives the reasons.
    last = [after is None or _kind(after) != _kind(each) for each, after in zip_longest(found, found[1:])]
    remarks = [_remark(each, not short and is_last) for each, is_last in zip(found, last, strict=True)]
    return Linted(remarks, _count_in_words(remarks))


def _kind(finding: Any) -> tuple[Any, Any]:
    return getattr(finding, "rule", None), getattr(finding, "remedy", None)


def _remark(finding: Any, explained: bool) -> Remark:
    code = getattr(finding, "code", None) or getattr(finding, "rule", None) or ""
    texts = {name: str(getattr(finding, name, None) or "") for name in _TEXTS}
    return Remark(str(code), **texts, explained=explained and not texts["waived"])


def _count_in_words(remarks: Sequence[Remark]) -> str:
    return f"The linter found {_counts_in_words(remarks)}." if remarks else _NOTHING


def _counts_in_words(remarks: Sequence[Remark]) -> str:
    parts = [counted(count, name, f"{name}s") for name, count in _counts(remarks).items() if count]
    waived = sum(bool(each.waived) for each in remarks)
    parts += [f"{waived} waived"] if waived else []
    listed = [", ".join(parts[:-1]), parts[-1]] if parts[1:] else parts
    return " and ".join(listed)


def _counts(findings: Sequence[Finding | Remark]) -> dict[str, int]:
    standing = [str(each.severity) for each in findings if not each.waived]
    return {str(severity): standing.count(str(severity)) for severity in Severity}


def findings_to_dict(findings: Sequence[Finding]) -> dict[str, Any]:
    """Plain values: how many there are of each severity, and all of them."""
    return {
        "counts": {**_counts(findings), "waived": sum(each.waived is not None for each in findings)},
        "findings": [{**asdict(each), "severity": str(each.severity)} for each in findings],
    }


def findings_from_dict(found: Mapping[str, Any]) -> list[Finding]:
    """Parse findings from plain values."""
    return [Finding(**{**each, "severity": Severity(each["severity"])}) for each in found["findings"]]
