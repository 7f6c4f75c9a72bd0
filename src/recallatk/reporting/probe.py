"""A probe as text: the verdict, recall with its bound, and what the number is based on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recallatk.analysis.intervals import share_interval
from recallatk.analysis.segments import FEWEST
from recallatk.reporting.document import Code, Document, Form, Section, Sentences, Table, build_sections
from recallatk.reporting.drift import fired_in_words
from recallatk.reporting.labels import cut, number, with_margin
from recallatk.reporting.text import for_console, printable, render_text, terminal_width
from recallatk.units import counted, format_duration, share_of

if TYPE_CHECKING:
    from recallatk.core.judgments import GoalResult
    from recallatk.core.probed import Discovery, Probed, TunedEffort, WatchLook
    from recallatk.reporting.document import Block, Builders

_LONGEST = 300
_SHOWN_COLUMNS = 12
_LOW = (0.5, 0.8, 1.0)


def discovery_to_text(found: Discovery) -> str:
    """What a collection reports about itself, in a few lines."""
    rows = "unknown number of rows" if found.rows is None else counted(found.rows, "row", "rows")
    size = "" if found.dimension is None else f", {found.dimension:,} dimensions"
    metric = "metric unknown" if found.metric is None else str(found.metric)
    lines = [f"{found.target}: {found.engine}, {rows}{size}, {metric}"]
    lines.append(f"index: {cut(found.index or 'none', _LONGEST)}")
    if found.settings:
        lines.append("settings: " + ", ".join(f"{name}={value}" for name, value in found.settings.items()))
    if found.columns:
        names = list(found.columns)
        more = f" and {len(names) - _SHOWN_COLUMNS:,} more" if len(names) > _SHOWN_COLUMNS else ""
        lines.append("columns: " + ", ".join(names[:_SHOWN_COLUMNS]) + more)
    lines += [f"note: {each}" for each in found.notes]
    return for_console(render_text(Document("", [Section("", [Sentences(lines)])]), terminal_width()))


def probe_to_text(probed: Probed, *, width: int | None = None, ascii_only: bool | None = None) -> str:
    """A probe for the terminal.

    Args:
        probed: the result.
        width: columns of the terminal; by default those of the current one.
        ascii_only: draw with ASCII; by default if the encoding of standard output needs it.
    """
    columns = terminal_width() if width is None else width
    sections = build_sections(SECTIONS, probed, Form.SCREEN)
    return for_console(render_text(Document("", sections), columns), ascii_only=ascii_only)


def look_to_text(look: WatchLook, *, last: bool = False) -> str:
    """One line of a watch: when, verdict, recall and when the next look is due.

    Args:
        look: a probe, or why there is none.
        last: whether no other follows.
    """
    next_look = "" if last else f" Next in {_rounded(look.wait)}."
    if look.skipped:
        many = counted(len(look.shifts.triggers) if look.shifts else 0, "trigger", "triggers")
        return for_console(f"{look.when}: no probe needed, none of {many} fired.{next_look}")
    if look.probed is None:
        return for_console(f"{look.when}: no probe: {printable(look.problem).rstrip('.')}.{next_look}")
    found = look.probed
    outcome = f"{look.outcome}. " if look.outcome else ""
    bound = "" if found.bound is None else f", at least {found.bound:.3f}"
    queries = counted(found.recall.n, "query", "queries")
    said = f"{outcome}recall@{found.k} {with_margin(found.recall)}{bound}, {queries}"
    said = ". ".join([said, *_beyond_recall(found)])
    problem = f" {printable(look.problem)}." if look.problem else ""
    fired = "" if look.shifts is None else f" Fired: {printable(fired_in_words(look.shifts.triggers))}."
    return for_console(f"{look.when}: {said}.{fired}{problem}{next_look}")


def _beyond_recall(found: Probed) -> list[str]:
    """What mean recall does not say of the verdict: other figures, and why it is undecided."""
    said = [
        printable(_goal(each))
        for each in found.verdict.goals
        if each.note or each.value != found.recall.value
    ]
    return [*said, _more_queries(found)] if _more_queries(found) else said


def look_to_dict(look: WatchLook) -> dict[str, Any]:
    """One look of a watch for JSON: the probe, or the problem."""
    probed = None if look.probed is None else look.probed.to_dict()
    triggers = None if look.shifts is None else look.shifts.to_dict()
    return {
        "when": look.when,
        "probe": probed,
        "problem": look.problem or None,
        "triggers": triggers,
        "wait_s": look.wait,
    }


def _rounded(seconds: float) -> str:
    return format_duration(float(max(1, round(seconds))))


def _heading(probed: Probed) -> Section:
    name, counts = f"recall@{probed.k}", probed.counts
    bound = "" if probed.bound is None else f", at least {probed.bound:.3f} with 95 % confidence"
    asked = counted(probed.recall.n, "query", "queries")
    if probed.proxy_worth is not None:
        asked += f", {counts.exact:,} with exact neighbors, worth about {probed.proxy_worth:,.0f}"
    lead = f"{name} {with_margin(probed.recall)}{bound}. {probed.engine}: {asked}."
    outcome = probed.verdict.outcome
    lines = [lead if outcome is None else f"{outcome}. {lead}"]
    lines += [_goal(each) for each in probed.verdict.goals]
    if _more_queries(probed):
        lines.append(f"{_more_queries(probed)}.")
    if probed.sampled:
        lines.append(
            "Optimistic: rows of the collection served as queries, and they are easier than real ones. "
            "Measure real queries: --queries FILE"
        )
    blocks: list[Block] = [Sentences(lines)]
    for step in probed.next_steps:
        blocks.append(Sentences([step.advice]))
        blocks += [Code(step.command)] if step.command else []
    return Section("", blocks)


def _more_queries(probed: Probed) -> str:
    """How many more queries would decide; empty if it is decided, or if nobody knows."""
    if probed.verdict.outcome != "UNDECIDED" or probed.more_queries is None:
        return ""
    more = counted(probed.more_queries, "more query", "more queries")
    return f"About {more} would decide, if recall stays as it is"


def _goal(result: GoalResult) -> str:
    value = "" if result.value is None else f": {result.value:.4g}"
    bounds = "" if result.low is None or result.high is None else f" ({result.low:.4g} to {result.high:.4g})"
    note = f"; {result.note}" if result.note else ""
    return f"{result.text}: {result.outcome}{value}{bounds}{note}"


def _tails(probed: Probed) -> Section:
    values = probed.per_query["recall"]
    rows = []
    for limit in _LOW:
        count = int((values >= limit).sum())
        low, high = share_interval(count, len(values)) or (0.0, 1.0)
        rows.append(
            [f"queries with recall >= {limit:g}", f"{count / len(values):.1%}", f"{low:.1%} to {high:.1%}"]
        )
    rows.append(["queries with recall 0", f"{(values == 0).mean():.1%}", ""])
    return Section("", [Table("", ["", "share", "95 % interval"], rows, 1)])


def _basis(probed: Probed) -> Section:
    counts = probed.counts
    lines = [f"Truth: {probed.truth_source}."]
    if probed.agreement is not None:
        lines.append(
            f"Check: the engine's own exact search has recall {probed.agreement:.3f} against this truth."
        )
    if counts.index_known:
        used = share_of(counts.index_used, counts.index_known, "calls", "used", "used")
        lines.append(f"Index: {used} it. {probed.index or 'There is none'}.")
    else:
        lines.append("Index: the engine does not tell whether a call used it.")
    times = ", ".join(f"{name} {number(each, '.3g', 'ms')}" for name, each in probed.latency_ms.items())
    lines.append(f"Latency as this client saw it: {times}.")
    if probed.settings:
        lines.append("Settings: " + ", ".join(f"{name}={value}" for name, value in probed.settings.items()))
    return Section("", [Sentences([*lines, *_left_out(probed)])])


def _left_out(probed: Probed) -> list[str]:
    counts, lines = probed.counts, []
    if counts.short:
        lines.append(f"{counted(counts.short, 'answer', 'answers')} had fewer than {probed.k} rows, "
                     "although more pass.")  # fmt: skip
    if counts.discarded:
        lines.append(
            f"Discarded: {counted(counts.discarded, 'pair', 'pairs')} with a write between answer and truth."
        )
    if counts.refused:
        lines.append(
            f"Left out: {counted(counts.refused, 'query', 'queries')} whose filter cannot run natively: "
            f"{cut(probed.refusals[0], _LONGEST)}"
        )
    if counts.no_eligible:
        lines.append(f"Left out: {counted(counts.no_eligible, 'query', 'queries')} without an eligible row.")
    if counts.cut_ties:
        lines.append(
            f"{counted(counts.cut_ties, 'query has', 'queries have')} more ties at rank {probed.k} than were "
            "compared: their recall may be too low."
        )
    return lines + [f"Note: {each}." for each in probed.notes]


def _segments(probed: Probed) -> Section:
    """Recall of groups of queries, each way of grouping in a table of its own."""
    tables: list[Block] = []
    for name, groups in probed.by.items():
        rows = []
        for each in groups:
            few = " (few)" if each.recall.n < FEWEST else ""
            rows.append([each.name, with_margin(each.recall), f"{each.recall.n:,}{few}"])
        tables.append(Table(f"By {name}", [name, f"recall@{probed.k}", "queries"], rows, 1))
    return Section("", tables)


def effort_to_text(found: TunedEffort, *, width: int | None = None, ascii_only: bool | None = None) -> str:
    """A tuning of an existing collection for the terminal."""
    columns = terminal_width() if width is None else width
    sections = build_sections(EFFORT_SECTIONS, found, Form.SCREEN)
    return for_console(render_text(Document("", sections), columns), ascii_only=ascii_only)


def _choice(found: TunedEffort) -> Section:
    held_out = ""
    if found.recall is not None:
        queries = counted(found.recall.n, "query", "queries")
        held_out = f"Held out: recall@{found.k} {with_margin(found.recall)} ({queries})"
        p95 = found.latency_ms.get("p95")
        held_out += "." if p95 is None else f", p95 {p95:.3g} ms."
    if not found.met:
        why = found.why[:1].upper() + found.why[1:]
        return Section("", [Sentences([f"Not met: {', '.join(found.goals)}. {why}.", held_out])])
    listed = ", ".join(f"{name}={value}" for name, value in found.search.items())
    lines = [f"Met: run {found.engine} with {listed}. {held_out}"]
    return Section("", [Sentences(lines), Code(found.snippet)])


def _tried(found: TunedEffort) -> Section:
    rows = [
        [
            ", ".join(f"{name}={value}" for name, value in each.search.items()),
            f"{each.mean:.3f}",
            number(each.p50_ms, ".3g"),
            f"{each.queries:,}",
            "yes" if each.passed else "no",
        ]
        for each in found.looks
    ]
    table = Table("Tried", ["search", "mean", "p50 ms", "queries", "meets the targets"], rows, 1)
    sent = f"{counted(found.sent, 'query', 'queries')} sent. Truth: {found.truth_source}."
    return Section("", [table, Sentences([sent])])


def _buckets(found: TunedEffort) -> Section:
    """One setting per filter selectivity, where one cannot serve all."""
    if not found.buckets:
        return Section("", [])
    rows = []
    for each in found.buckets:
        listed = ", ".join(f"{name}={value}" for name, value in each.search.items())
        recall = "" if each.recall is None else with_margin(each.recall)
        rows.append([each.name, f"{each.queries:,}", listed or "none", recall, each.why])
    said = "One setting does not serve every selectivity. Set the effort by the filter of the call:"
    names = ["selectivity", "queries", "search", f"held-out recall@{found.k}", "why none"]
    return Section("", [Sentences([said]), Table("By selectivity", names, rows, 1)])


EFFORT_SECTIONS: Builders = ((Form.SCREEN, _choice), (Form.SCREEN, _buckets), (Form.SCREEN, _tried))
SECTIONS: Builders = (
    (Form.SCREEN, _heading),
    (Form.SCREEN, _tails),
    (Form.SCREEN, _segments),
    (Form.SCREEN, _basis),
)
