"""The linter's findings as text, Markdown and plain values."""

from __future__ import annotations

from dataclasses import asdict
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from recallatk.core.judgments import Finding, Severity
from recallatk.report.markdown import escaped
from recallatk.report.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_NOTHING = "The linter found nothing."


def findings_to_text(findings: Sequence[Finding], *, short: bool = False) -> str:
    """Each finding on a line, with why it matters and what to do below; the count at the end.

    Args:
        findings: in their order.
        short: the lines and the count alone.
    """
    lines = []
    for each, is_last in _marked(findings):
        lines.append(f"{each.severity} {each.rule}: {_sentence(each)}")
        if is_last and not short and each.waived is None:
            lines += [f"    {each.why}", f"    {each.remedy}"]
    return "\n".join(printable(line) for line in [*lines, findings_in_words(findings)])


def findings_to_markdown(findings: Sequence[Finding], heading: str = "## Linter") -> str:
    """A heading and a list, fit for a report or a comment."""
    lines = [heading, ""]
    for each, is_last in _marked(findings):
        lines.append(f"- **{each.severity} {each.rule}**: {escaped(_sentence(each))}")
        if is_last and each.waived is None:
            # These are the rule's own words, and no text from data.
            lines.append(f"  {each.why} {each.remedy}")
    return "\n".join([*lines, *([""] if findings else []), findings_in_words(findings), ""])


def findings_to_dict(findings: Sequence[Finding]) -> dict[str, Any]:
    """Plain values: how many there are of each severity, and all of them."""
    return {
        "counts": {**_counts(findings), "waived": sum(each.waived is not None for each in findings)},
        "findings": [{**asdict(each), "severity": str(each.severity)} for each in findings],
    }


def findings_from_dict(found: Mapping[str, Any]) -> list[Finding]:
    """The findings that plain values say."""
    return [Finding(**{**each, "severity": Severity(each["severity"])}) for each in found["findings"]]


def findings_in_words(findings: Sequence[Finding]) -> str:
    """How many there are, in one sentence."""
    if not findings:
        return _NOTHING
    counted = [
        f"{count} {name}{'' if count == 1 else 's'}" for name, count in _counts(findings).items() if count
    ]
    waived = sum(each.waived is not None for each in findings)
    counted += [f"{waived} waived"] if waived else []
    listed = [", ".join(counted[:-1]), counted[-1]] if counted[1:] else counted
    return f"The linter found {' and '.join(listed)}."


def _marked(findings: Sequence[Finding]) -> Iterator[tuple[Finding, bool]]:
    """Each finding, and whether it is the last of several of its rule, of which reasons are given once."""
    for each, after in zip_longest(findings, findings[1:]):
        yield each, after is None or (after.rule, after.remedy) != (each.rule, each.remedy)


def _counts(findings: Sequence[Finding]) -> dict[str, int]:
    standing = [each.severity for each in findings if each.waived is None]
    return {str(severity): standing.count(severity) for severity in Severity}


def _sentence(finding: Finding) -> str:
    waived = "" if finding.waived is None else f" (waived: {finding.waived})"
    return f"{finding.title}: {finding.message}{waived}"
