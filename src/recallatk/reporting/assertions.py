"""The recall assertions of a test session as one HTML page: the failed ones first, with what helps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.reporting.document import Document, Form, Lead, Section, Sentences, Table, build_sections
from recallatk.reporting.labels import OVER_QUERIES, cut, number, with_margin
from recallatk.reporting.text import printable
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.core.asserted import RecallAssertion
    from recallatk.reporting.document import Block, Builders

_LONGEST = 200
_TITLE = "Recall assertions"


def assertions_to_html(found: Sequence[RecallAssertion]) -> str:
    """One HTML file that loads nothing."""
    from recallatk.reporting.html.page import render_html

    ordered = sorted(found, key=lambda each: each.passed)
    sections = build_sections(SECTIONS, ordered, Form.HTML)
    return render_html(Document(_TITLE, sections, window_title=_TITLE))


def _verdict(found: Sequence[RecallAssertion]) -> Section:
    failed = sum(not each.passed for each in found)
    if not found:
        return Section("", [Sentences(["No test of this session asserted recall."])])
    count = counted(len(found), "recall assertion", "recall assertions")
    said = f"All of {count} passed." if not failed else f"{failed:,} of {count} failed."
    return Section("", [Lead(said, "FAIL" if failed else "PASS", good=not failed)])


def _all(found: Sequence[RecallAssertion]) -> Section:
    rows = [
        [
            each.outcome if each.passed == (each.outcome == "PASS") else f"{each.outcome} (passed)",
            cut(printable(each.name), _LONGEST),
            "-" if each.k is None else f"recall@{each.k}",
            " and ".join(goal.text for goal in each.goals) or "-",
            with_margin(each.recall),
            number(each.baseline, ".3f"),
            "-" if each.recall is None else f"{each.recall.n:,} of {each.available:,}",
        ]
        for each in found
    ]
    header = ["outcome", "assertion", "measure", "asserted", "value", "baseline", "queries"]
    blocks: list[Block] = [Table("", header, rows, 4), Sentences([OVER_QUERIES], "note")]
    return Section("All assertions", blocks if rows else [], "all", "All assertions")


def _failed(found: Sequence[RecallAssertion]) -> list[Section]:
    """What each failed assertion found, and the queries to look at."""
    failed = [each for each in found if not each.passed]
    return [_one(each, number) for number, each in enumerate(failed, start=1)]


def _one(each: RecallAssertion, place: int) -> Section:
    searched = f"{each.searched}: {each.setting}" if each.setting else each.searched
    lines = [f"{goal.text}: {goal.outcome}{_bounds(goal.value, goal.low, goal.high)}" for goal in each.goals]
    blocks: list[Block] = [Sentences([printable(text) for text in [searched, *lines, *each.advice] if text])]
    if each.worst:
        compared = any(query.baseline is not None for query in each.worst)
        header = ["query", *(["baseline"] if compared else []), "recall"]
        rows = [
            [cut(printable(query.query), _LONGEST), *([number(query.baseline, ".2f")] if compared else []),
             f"{query.recall:.2f}"]
            for query in each.worst
        ]  # fmt: skip
        title = "Queries that lost most" if compared else "Worst queries"
        blocks.append(Table(title, header, rows, 1, "narrow"))
    name = cut(printable(each.name), _LONGEST)
    return Section(f"{each.outcome}: {name}", blocks, f"failed-{place}", cut(name, 60))


def _bounds(value: float | None, low: float | None, high: float | None) -> str:
    if value is None:
        return ""
    return f": {value:.4f}" + ("" if low is None or high is None else f" ({low:.4f} to {high:.4f})")


SECTIONS: Builders = ((Form.HTML, _verdict), (Form.HTML, _all), (Form.HTML, _failed))
