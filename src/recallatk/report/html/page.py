"""The page: every part in the order in which a reader asks for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from recallatk.report.charts.points import curve_of
from recallatk.report.charts.selection import shortened
from recallatk.report.contents import contents
from recallatk.report.html.comparison import compared
from recallatk.report.html.drawings import drawings
from recallatk.report.html.facts import facts_of
from recallatk.report.html.followed import followed
from recallatk.report.naming import cut
from recallatk.report.text import printable
from recallatk.report.verdict import spoken_verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from recallatk.core import Dataset, Run, Truth
    from recallatk.report.charts.kinds import Chart
    from recallatk.report.charts.points import Curve
    from recallatk.report.contents import Contents
    from recallatk.report.html.comparison import Comparison
    from recallatk.report.html.facts import Facts
    from recallatk.report.html.followed import Part
    from recallatk.report.verdict import SpokenVerdict


_LONGEST = 800


@dataclass(frozen=True)
class Finding:
    """What a linter found, as text."""

    code: str
    severity: str
    title: str
    message: str
    why: str
    remedy: str
    waived: str
    """The reason why it is accepted; empty where it is not."""


@dataclass(frozen=True, eq=False)
class ReportData:
    """Everything that a page says, before it is one."""

    run: Run
    curve: Curve
    verdict: SpokenVerdict
    contents: Contents
    facts: dict[int, Facts]
    """By point; empty where single queries cannot be told."""
    untold: str
    """Why segments and the worst queries cannot be told, in words."""
    parts: list[Part]
    charts: dict[str, Chart]
    comparison: Comparison | None
    findings: tuple[Finding, ...] | None
    """None: nobody looked."""


def report_data(
    run: Run,
    truth: Truth | None = None,
    dataset: Dataset | None = None,
    *,
    findings: Iterable[Any] | None = None,
    others: Sequence[Run] = (),
    names: Sequence[str] = (),
    no_truth: str = "",
) -> ReportData:
    """What there is to say of a run, query by query where its truth is given or can be opened.

    Args:
        run: what was measured.
        truth: what it was scored against; by default what the run names, if that is still the same.
        dataset: what it was measured on, likewise; it has the words of queries and rows.
        findings: what a linter found: objects with rule, severity, title, message, why and remedy; None:
            nobody looked.
        others: more runs, to compare with this one.
        names: what the runs are called, this one first.
        no_truth: why there is no truth, where somebody has looked for it.
    """
    if truth is None and not no_truth:
        from recallatk.bench.recorded_benchmark import RecordedBenchmark

        found = RecordedBenchmark(run)
        truth, dataset, no_truth = found.truth, found.dataset, found.no_truth
    whole = curve_of(run)
    chosen = spoken_verdict(whole, truth, dataset)
    comparison = compared(whole, others, names, truth)
    curve, number = shortened(whole, chosen.number)
    chosen = replace(chosen, number=number)
    facts = facts_of(curve, truth, dataset)
    return ReportData(
        run=run,
        curve=curve,
        verdict=chosen,
        contents=contents(run),
        facts=facts,
        untold=""
        if facts and truth is not None
        else no_truth or "no recall was measured, or the truth does not fit the answers",
        parts=followed(curve, facts, truth, dataset),
        charts=drawings(curve, facts, chosen, comparison),
        comparison=comparison,
        findings=None if findings is None else said_findings(findings),
    )


def said_findings(findings: Iterable[Any]) -> tuple[Finding, ...]:
    """Findings as text in which nothing is obeyed or endless."""
    return tuple(_finding(each) for each in findings)


def _finding(found: Any) -> Finding:
    def said(name: str) -> str:
        return cut(printable(str(getattr(found, name, None) or "")), _LONGEST)

    others = ("severity", "title", "message", "why", "remedy", "waived")
    return Finding(said("code") or said("rule"), *(said(name) for name in others))


def to_html(
    run: Run,
    *,
    truth: Truth | None = None,
    dataset: Dataset | None = None,
    findings: Iterable[Any] | None = None,
    others: Sequence[Run] = (),
    names: Sequence[str] = (),
) -> str:
    """The report as one HTML file: nothing is loaded from anywhere, and a policy in it says so.

    Args:
        run: what was measured.
        truth: what it was scored against; by default what the run names, if that is still the same.
        dataset: what it was measured on, likewise; it has the words of queries and rows.
        findings: what a linter found: objects with rule, severity, title, message, why and remedy; None:
            nobody looked.
        others: more runs, to compare with this one.
        names: what the runs are called, this one first.
    """
    from recallatk.report.html.rendering import rendered

    found = report_data(run, truth, dataset, findings=findings, others=others, names=names)
    return rendered(found)
