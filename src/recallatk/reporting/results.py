"""Compared results as documents: the conclusion, quality, costs, and the queries that changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recallatk.analysis.compared_results import conclusion
from recallatk.goals import Budget
from recallatk.reporting.document import (
    Document,
    Form,
    Heading,
    Items,
    Lead,
    Section,
    Sentences,
    Table,
    build_sections,
)
from recallatk.reporting.html.page import render_html
from recallatk.reporting.labels import cut, number
from recallatk.reporting.markdown import render_markdown
from recallatk.reporting.text import for_console, printable, render_text, terminal_width
from recallatk.units import counted

if TYPE_CHECKING:
    from recallatk.analysis.compared_results import (
        ComparedResults,
        ComparedSettings,
        ComparedValue,
        SideComparison,
    )
    from recallatk.analysis.cost_ratios import CostRatio
    from recallatk.reporting.document import Block, Builders

_LONGEST_TEXT, _LONGEST_SETTING, _LONGEST_NAME = 80, 120, 60
_MOST_ALONE, _MOST_PAIRS = 20, 20
_LEAST_P = 1e-6
_UNPAIRED = (
    "Compared with --across: means are not paired by query, so that differences between the queries count "
    "as noise."
)
_ACROSS_RUNS = (
    "across runs: measured at another time, so that a ratio includes changes in the machine's pace."
)
_INTERLEAVED = "interleaved: measured in turns on one index, so that the machine's pace cancels."


def comparison_to_text(
    found: ComparedResults, *, width: int | None = None, ascii_only: bool | None = None
) -> str:
    """A comparison for the terminal.

    Args:
        found: the comparison.
        width: columns of the terminal; by default those of the current one.
        ascii_only: draw with ASCII; by default if the encoding of standard output needs it.
    """
    columns = terminal_width() if width is None else width
    sections = build_sections(SECTIONS, found, Form.TEXT)
    return for_console(render_text(Document("", sections), columns), ascii_only=ascii_only)


def comparison_to_markdown(found: ComparedResults) -> str:
    """A comparison as Markdown."""
    return render_markdown(Document("Comparison", build_sections(SECTIONS, found, Form.MARKDOWN)))


def comparison_to_html(found: ComparedResults) -> str:
    """A comparison as a self-contained page."""
    title = _title(found)
    sections = build_sections(SECTIONS, found, Form.HTML)
    return render_html(Document(title, sections, window_title=f"{title} - recallatk"))


def comparison_to_dict(found: ComparedResults) -> dict[str, Any]:
    """A comparison for JSON."""
    return {"comparisons": [described_comparison(each) for each in found.comparisons]}


def _title(found: ComparedResults) -> str:
    first, *_ = found.comparisons
    others = ", ".join(cut(each.second, _LONGEST_NAME) for each in found.comparisons)
    return f"{others} against {cut(first.first, _LONGEST_NAME)}"


def _verdicts(found: ComparedResults) -> Section:
    """What a reader must know, one line for each pair of settings."""
    blocks: list[Block] = []
    for each in found.comparisons:
        shown = each.pairs[:_MOST_PAIRS]
        blocks += [Lead(f"{_named(each, pair)}{conclusion(pair)}") for pair in shown]
        more = len(each.pairs) - _MOST_PAIRS
        blocks += [Sentences([f"{each.second}: {more:,} more settings."])] if more > 0 else []
    return Section("Result", blocks, "verdict", "Result", Form.HTML | Form.MARKDOWN)


def _named(each: SideComparison, pair: ComparedSettings) -> str:
    """The side, and its setting where there are several."""
    named = f"{each.second}, {pair.second}" if len(each.pairs) > 1 else each.second
    return f"{cut(printable(named), _LONGEST_SETTING)}: "


def _details(found: ComparedResults) -> list[Section]:
    """Tables of each pair of settings, then what one side lacks."""
    sections = []
    for each in found.comparisons:
        for place, pair in enumerate(each.pairs[:_MOST_PAIRS]):
            number = f"-{place + 1}" if place else ""
            title = _heading(each, pair)
            sections.append(Section(title, _blocks(each, pair), f"{_anchor(found, each)}{number}", "Details"))
        rest = _rest(each)
        if rest:
            sections.append(
                Section(f"{each.second}: remarks", rest, f"{_anchor(found, each)}-remarks", "Remarks")
            )
    return sections


def _anchor(found: ComparedResults, each: SideComparison) -> str:
    return f"result-{next(place for place, one in enumerate(found.comparisons, 2) if one is each)}"


def _heading(each: SideComparison, pair: ComparedSettings) -> str:
    first, second = (
        cut(printable(f"{name}: {setting}" if setting else name), _LONGEST_SETTING)
        for name, setting in ((each.first, pair.first), (each.second, pair.second))
    )
    if pair.first == pair.second:
        return f"{second}, against {cut(printable(each.first), _LONGEST_NAME)}"
    return f"{second}, against {first}"


def _blocks(each: SideComparison, pair: ComparedSettings) -> list[Block]:
    blocks: list[Block] = [Sentences([_UNPAIRED], "note")] if each.different else []
    quality = [_quality_row(value) for value in pair.values]
    header = ["measure", "segment", "first", "second", "difference", "95 % interval", "result"]
    blocks.append(Table("Quality", header, quality, 2))
    builds = {value.builds for value in pair.values}
    said = ["Differences are paired by query; p values are adjusted for multiple comparisons (Holm)."]
    if each.different:
        said = ["p values are adjusted for multiple comparisons (Holm)."]
    if builds == {(1, 1)}:
        said.append("One build each: the variance between builds is not part of these intervals.")
    elif builds:
        one, other = next(iter(builds))
        numbers = f"{counted(one, 'build', 'builds')} and {counted(other, 'build', 'builds')}"
        said.append(f"{numbers}: intervals include the variance between builds.")
    blocks.append(Sentences(said, "note"))
    if pair.costs:
        costs = [_cost_row(one) for one in pair.costs]
        blocks.append(
            Table("Cost", ["cost", "measured", "first", "second", "ratio", "95 % interval"], costs, 2)
        )
        kinds = {one.interleaved for one in pair.costs if one.timed}
        blocks.append(
            Items([*([_INTERLEAVED] if True in kinds else []), *([_ACROSS_RUNS] if False in kinds else [])])
        )
    if pair.changed:
        blocks += [_changed_table(pair), Sentences([_changes(pair)])]
    return blocks


def _quality_row(value: ComparedValue) -> list[str]:
    found = value.difference
    ends = "-" if found.low is None or found.high is None else f"{found.low:+.4f} to {found.high:+.4f}"
    result = value.verdict
    if value.paired and not found.differing:
        result = "no query differs"
    elif found.differing:
        p_value = found.adjusted_p
        result += f" (p = {p_value:.2g})" if p_value >= _LEAST_P else f" (p < {_LEAST_P:g})"
    segment = cut(printable(value.segment), _LONGEST_NAME) or "all queries"
    cells = [f"{value.first:.4f}", f"{value.second:.4f}", f"{found.difference:+.4f}", ends, result]
    return [value.measure, segment, *cells]


def _cost_row(found: CostRatio) -> list[str]:
    ends = "-" if found.low is None or found.high is None else f"{found.low:.2f} to {found.high:.2f}"
    how = "-" if not found.timed else "interleaved" if found.interleaved else "across runs"
    return [
        found.name,
        how,
        _amount(found.name, found.first),
        _amount(found.name, found.second),
        f"{found.ratio:.2f}x",
        ends,
    ]


def _amount(name: str, value: float) -> str:
    if name == "cost":
        return f"{value:.3g} per million queries"
    return Budget(name, 1.0).shown(value)


def _changed_table(pair: ComparedSettings) -> Table:
    texts = any(each.text is not None for each in pair.changed)
    rows = [
        [
            cut(printable(each.query), _LONGEST_NAME),
            *([cut(printable(each.text or "-"), _LONGEST_TEXT)] if texts else []),
            number(each.first, ".2f"),
            number(each.second, ".2f"),
            f"{each.second - each.first:+.2f}",
        ]
        for each in pair.changed
    ]
    header = ["query", *(["text"] if texts else []), "first", "second", "difference"]
    return Table(f"Queries whose {pair.headline} changed most", header, rows, 2 if texts else 1)


def _changes(pair: ComparedSettings) -> str:
    lost = counted(pair.lost, "query", "queries")
    return f"{lost} lost {pair.headline}, {pair.gained:,} gained."


def _rest(each: SideComparison) -> list[Block]:
    """What differs between the sides, and settings that only one of them has."""
    blocks: list[Block] = []
    said = [f"{name}: {first} and {second}" for name, first, second in each.environment]
    versions = dict.fromkeys(pair.versions for pair in each.pairs if pair.versions is not None)
    said = [f"engine: {one} and {other}" for one, other in versions] + said
    blocks += [Heading("Different environment"), Items(said, "different")] if said else []
    blocks += [Heading("Not the same"), Items(each.different, "different")] if each.different else []
    for name, alone in ((each.first, each.only_first), (each.second, each.only_second)):
        if alone:
            shown = [cut(printable(setting), _LONGEST_SETTING) for setting in alone[:_MOST_ALONE]]
            more = len(alone) - len(shown)
            shown += [f"{more:,} more"] if more > 0 else []
            blocks += [Heading(f"Settings of {cut(printable(name), _LONGEST_NAME)} only"), Items(shown)]
    blocks += [Items(list(each.notes), "note")] if each.notes else []
    return blocks


def described_comparison(each: SideComparison) -> dict[str, Any]:
    """One comparison for JSON."""
    return {
        "first": each.first,
        "second": each.second,
        "paired": not each.different,
        "significant": each.significant,
        "different": list(each.different),
        "environment": {name: [first, second] for name, first, second in each.environment},
        "only_first": list(each.only_first),
        "only_second": list(each.only_second),
        "notes": list(each.notes),
        "settings": [_pair_described(pair) for pair in each.pairs],
    }


def _pair_described(pair: ComparedSettings) -> dict[str, Any]:
    return {
        "first": pair.first,
        "second": pair.second,
        "conclusion": conclusion(pair),
        "headline": pair.headline,
        "versions": None if pair.versions is None else list(pair.versions),
        "values": [
            {
                "measure": value.measure,
                "segment": value.segment or None,
                "first": value.first,
                "second": value.second,
                "difference": value.difference.difference,
                "low": value.difference.low,
                "high": value.difference.high,
                "p": value.difference.adjusted_p,
                "queries": value.difference.n,
                "differing": value.difference.differing,
                "paired": value.paired,
                "builds": list(value.builds),
                "verdict": value.verdict,
            }
            for value in pair.values
        ],
        "costs": [
            {
                "name": one.name,
                "first": one.first,
                "second": one.second,
                "ratio": one.ratio,
                "low": one.low,
                "high": one.high,
                "interleaved": one.interleaved,
            }
            for one in pair.costs
        ],
        "lost": pair.lost,
        "gained": pair.gained,
        "changed": [
            {"query": one.query, "text": one.text, "first": one.first, "second": one.second}
            for one in pair.changed
        ],
    }


SECTIONS: Builders = ((Form.ALL, _verdicts), (Form.ALL, _details))
