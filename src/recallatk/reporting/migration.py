"""A migration as text, Markdown and HTML: the recommendation, and the tables that it rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.reporting.document import (
    Document,
    Form,
    Items,
    Lead,
    Section,
    Sentences,
    Table,
    build_sections,
)
from recallatk.reporting.html.page import render_html
from recallatk.reporting.labels import cut, number, with_margin
from recallatk.reporting.markdown import render_markdown
from recallatk.reporting.text import for_console, printable, render_text, terminal_width
from recallatk.reporting.verdict_words import goal_said
from recallatk.units import counted, mebibytes

if TYPE_CHECKING:
    from recallatk.core.migrated import CostChange, EmbeddingSide, Migrated
    from recallatk.core.tuned import Candidate
    from recallatk.reporting.document import Block, Builders

_LONGEST = 120
_SHOWN_IDS = 5


def migration_to_text(found: Migrated, *, width: int | None = None, ascii_only: bool | None = None) -> str:
    """The migration for the terminal.

    Args:
        found: the result.
        width: columns of the terminal; by default those of the current one.
        ascii_only: draw with ASCII; by default if the encoding of standard output needs it.
    """
    columns = terminal_width() if width is None else width
    sections = build_sections(SECTIONS, found, Form.TEXT)
    return for_console(render_text(Document("", sections), columns), ascii_only=ascii_only)


def migration_to_markdown(found: Migrated) -> str:
    """The migration as Markdown."""
    return render_markdown(Document("Migration", build_sections(SECTIONS, found, Form.MARKDOWN)))


def migration_to_html(found: Migrated) -> str:
    """The migration as a self-contained page."""
    sections = build_sections(SECTIONS, found, Form.HTML)
    return render_html(Document("Migration", sections, window_title="Migration - recallatk"))


def _advice(found: Migrated) -> Section:
    changed = f"New vectors: {found.change}."
    lead = f"{found.outcome} for the new embedding. {changed}" if found.outcome else changed
    goals = [] if found.verdict is None else [goal_said(each) for each in found.verdict.goals]
    blocks: list[Block] = [Lead(lead), Sentences([printable(each) for each in goals])]
    return Section("Recommendation", [*blocks, Items([printable(each) for each in found.advice])], "advice")


def _overlap(found: Migrated) -> Section:
    rows = [
        [f"top {each.k}", with_margin(each.mean), f"{each.unlike:.1%}", f"{each.mean.n:,}"]
        for each in found.overlaps
    ]
    header = ["exact neighbors", "in common", "queries with none in common", "queries"]
    notes = [f"Note: {each}." for each in found.notes]
    return Section("Overlap", [Table("Overlap", header, rows, 1), Sentences(notes)], "overlap")


def _relevance(found: Migrated) -> Section:
    rows = [
        [
            each.measure,
            with_margin(each.old),
            with_margin(each.new),
            f"{each.difference:+.4f}",
            "-" if each.low is None or each.high is None else f"{each.low:+.4f} to {each.high:+.4f}",
        ]
        for each in found.relevance
    ]
    header = ["exact search", "old", "new", "difference", "95 % interval"]
    return Section("Relevance", [Table("Relevance", header, rows, 1)], "relevance")


def _mixed(found: Migrated) -> Section:
    mixed = found.mixed
    looked = counted(mixed.looked, "row", "rows")
    if mixed.share is None:
        said = f"Not told whether other models made some of the new rows: {mixed.why}."
    elif not mixed.found:
        most = "" if mixed.high is None else f" (at most {mixed.high:.2%} of all, with 95 % confidence)"
        said = f"All of {looked} that were looked at follow one change of model{most}."
    else:
        ends = "" if mixed.low is None or mixed.high is None else f" ({mixed.low:.1%} to {mixed.high:.1%})"
        some = ", ".join(cut(str(each), _LONGEST) for each in mixed.ids[:_SHOWN_IDS])
        ids = f", such as {some}" if some else ""
        said = f"{mixed.share:.1%}{ends} of {looked} were made by another model than the rest{ids}."
    return Section("Mixed spaces", [Sentences([printable(said)])], "mixed")


def _settings(found: Migrated) -> Section:
    rows = []
    for name, tuned in found.tuned.items():
        chosen = tuned.choice or tuned.nearest
        rows.append([name, "yes" if tuned.met else "no", _setting(chosen)])
    said = "Held-out queries of each embedding judged its own setting."
    header = ["embedding", "meets the target", "setting"]
    notes = [said] if found.tuned else []
    return Section("Settings", [Table("Settings", header, rows, 3), Sentences(notes)], "settings")


def _setting(chosen: Candidate | None) -> str:
    if chosen is None:
        return "-"
    return " ".join([chosen.engine, *(f"{key}={value}" for key, value in (*chosen.build, *chosen.search))])


def _costs(found: Migrated) -> Section:
    rows = [
        [each.name, _cost(each, each.old), _cost(each, each.new), number(each.ratio, ".2f")]
        for each in found.costs
    ]
    table = Table("Costs", ["cost", "old", "new", "new / old"], rows, 1)
    noisy = [
        "Times come from two separate tunings: what else the machine did is in their ratio. "
        "Measure both in one run before you rely on it."
    ]
    return Section("Costs", [table, Sentences(noisy if found.tuned else [])], "costs")


def _cost(each: CostChange, value: float | None) -> str:
    if value is None:
        return "-"
    if each.unit == "bytes":
        return mebibytes(value)
    return f"{value:,.3g} {each.unit}" if value < 1_000 else f"{value:,.0f} {each.unit}"


def _sides(found: Migrated) -> Section:
    lines = [f"Old: {_side(found.old)}.", f"New: {_side(found.new)}."]
    return Section("Embeddings", [Sentences([printable(each) for each in lines])], "embeddings")


def _side(side: EmbeddingSide) -> str:
    model = f", {', '.join(side.models)}" if side.models else ""
    shape = f"{side.rows:,} x {side.dimension:,} {side.dtype}, {side.metric}"
    return f"{cut(side.name, _LONGEST)}, {shape}{model}"


SECTIONS: Builders = (
    (Form.ALL, _advice),
    (Form.ALL, _overlap),
    (Form.ALL, _relevance),
    (Form.ALL, _mixed),
    (Form.ALL, _settings),
    (Form.ALL, _costs),
    (Form.ALL, _sides),
)
