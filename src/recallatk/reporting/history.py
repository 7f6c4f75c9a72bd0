"""A history as text, page and JSON: each trend with its entries, its changes and what changed with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recallatk.core.history import EntryKind
from recallatk.core.measured import Mean
from recallatk.reporting.charts.theme import HEIGHT, QUIET, WIDTH, finished, inline, unchecked_charts
from recallatk.reporting.document import (
    Document,
    Drawing,
    Figure,
    Form,
    Section,
    Sentences,
    Table,
)
from recallatk.reporting.labels import cut, number, with_margin
from recallatk.reporting.text import for_console, printable, render_text, terminal_width
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.analysis.trend import LevelChange, Trend
    from recallatk.core.history import HistoryEntry
    from recallatk.reporting.charts.theme import Chart, Row
    from recallatk.reporting.document import Block

_BARS = "▁▂▃▄▅▆▇█"
_MOST_BARS = 40
_LONGEST = 300
# Recalls that differ by less look alike, so that noise is not drawn as a mountain range.
_LEAST_SPAN = 0.02


def history_to_text(
    trends: Sequence[Trend], *, width: int | None = None, ascii_only: bool | None = None
) -> str:
    """Trends for the terminal.

    Args:
        trends: what `history` found.
        width: columns of the terminal; by default those of the current one.
        ascii_only: draw with ASCII; by default if the encoding of standard output needs it.
    """
    columns = terminal_width() if width is None else width
    return for_console(
        render_text(Document("", _sections(trends, Form.SCREEN)), columns), ascii_only=ascii_only
    )


def history_to_html(trends: Sequence[Trend], *, about: Sequence[str] = (), home: str = "") -> str:
    """Trends as one HTML file that loads nothing.

    Args:
        trends: what `history` found.
        about: sentences that hold for all of them.
        home: address of the first page, on a site.
    """
    from recallatk.reporting.html.page import render_html

    title = "History of recall"
    with unchecked_charts():
        document = Document(title, _sections(trends, Form.HTML), about, window_title=title, home=home)
        return render_html(document)


def history_to_dict(trends: Sequence[Trend]) -> dict[str, Any]:
    """Trends for JSON."""
    return {"trends": [each.to_dict() for each in trends]}


def sparkline(values: Sequence[float]) -> str:
    """The last values as bars, from the least to the greatest of them."""
    shown = list(values)[-_MOST_BARS:]
    least, most = min(shown), max(shown)
    middle, span = (least + most) / 2, max(most - least, _LEAST_SPAN)
    places = [(each - middle) / span + 0.5 for each in shown]
    return "".join(_BARS[min(len(_BARS) - 1, int(each * len(_BARS)))] for each in places)


def _sections(trends: Sequence[Trend], form: Form) -> list[Section]:
    """Trends that changed come first, then those that did not, then a table of what was measured once."""
    if not trends:
        return [Section("", [Sentences(["no entries"])])]
    repeated = sorted((each for each in trends if len(each.entries) > 1), key=lambda each: not each.changes)
    sections = [_section(trend, place, form) for place, trend in enumerate(repeated)]
    once = [each for each in trends if len(each.entries) == 1]
    return [*sections, *([_measured_once(once)] if once else [])]


def _section(trend: Trend, place: int, form: Form) -> Section:
    title = f"{trend.collection}: {trend.subject}, {trend.measure}"
    drawn = (
        Figure(f"trend-{place}", "", _chart(trend)) if form is Form.HTML else Drawing([f"  {_drawn(trend)}"])
    )
    blocks: list[Block] = [
        Sentences([_now(trend), *_gates(trend)]),
        drawn,
        Sentences([_change(each) for each in trend.changes]),
    ]
    blocks += [_entries(trend)] if form is Form.HTML else []
    return Section(cut(printable(title), _LONGEST), blocks, f"trend-{place}", cut(title, 60))


def _measured_once(trends: Sequence[Trend]) -> Section:
    rows = [
        [each.collection, each.subject, each.measure, with_margin(_mean(last)), _minute(last.when)]
        for each in trends
        for last in each.entries
    ]
    header = ["collection", "setting", "measure", "value", "when (UTC)"]
    return Section("Measured once", [Table("", header, rows, 3)], "once", "Measured once")


def _now(trend: Trend) -> str:
    last = trend.entries[-1]
    entries = counted(len(trend.entries), "entry", "entries")
    verdict = f" {last.verdict}." if last.verdict else ""
    queries = counted(last.queries, "query", "queries")
    since = f"{entries} since {trend.entries[0].when[:10]}."
    return f"{with_margin(_mean(last))} on {last.when[:10]} ({queries}).{verdict} {since}"


def _gates(trend: Trend) -> list[str]:
    """How gates ended, as `Gates: 4 PASS, 1 FAIL, the last FAIL`."""
    found = [each.verdict for each in trend.entries if each.kind is EntryKind.GATE and each.verdict]
    if not found:
        return []
    counts = (f"{found.count(each)} {each}" for each in ("PASS", "FAIL", "UNDECIDED") if each in found)
    return [f"Gates: {', '.join(counts)}, the last {found[-1]}."]


def _drawn(trend: Trend) -> str:
    values = [each.value for each in trend.entries]
    shown = values[-_MOST_BARS:]
    return f"{min(shown):.3f} {sparkline(values)} {max(shown):.3f}"


def _change(change: LevelChange) -> str:
    because = "; ".join(cut(each, _LONGEST) for each in change.because)
    with_it = f"Changed with it: {because}." if because else "Nothing else that was recorded changed."
    return f"Change on {_minute(change.when)}: {change.before:.3f} to {change.after:.3f}. {with_it}"


def _minute(when: str) -> str:
    return when[:16].replace("T", " ")


def _mean(entry: HistoryEntry) -> Mean:
    return Mean(entry.value, None, entry.queries, entry.low, entry.high)


def _entries(trend: Trend) -> Table:
    changed = {each.place for each in trend.changes}
    rows = [
        [
            _minute(each.when),
            str(each.kind),
            each.verdict or "",
            "changed" if place in changed else "",
            with_margin(_mean(each)),
            f"{each.queries:,}",
            number(each.costs.get("p95_ms"), ".3g"),
        ]
        for place, each in enumerate(trend.entries)
    ]
    header = ["when (UTC)", "kind", "verdict", "level", trend.measure, "queries", "p95 ms"]
    return Table("Entries", header, rows[::-1], 4, "tall")


def _chart(trend: Trend) -> Chart:
    """Recall by time with intervals, and a line where the level changed."""
    import altair as alt

    rows = _points(trend)
    ends = [end for row in rows for end in (row["low"], row["high"])]
    room = max(0.02, 0.05 * (max(ends) - min(ends)))
    scale = alt.Scale(domain=[max(0.0, min(ends) - room), min(1.0, max(ends) + room)], nice=False, zero=False)
    x = alt.X("when:T", title="time (UTC)", scale=alt.Scale(type="utc"))
    y = alt.Y("value:Q", title=trend.measure, scale=scale)
    said = [alt.Tooltip(f"{name}:N", title=name) for name in ("time", "recall", "kind", "verdict")]
    base = alt.Chart()
    layers = [
        base.mark_rule(strokeDash=[6, 4], color=QUIET).transform_filter("datum.changed").encode(x=x),
        base.mark_rule(strokeWidth=1, opacity=0.7).encode(
            x=x, y=alt.Y("low:Q", title=trend.measure, scale=scale), y2="high:Q"
        ),
        base.mark_line(strokeWidth=1.5, opacity=0.6).encode(x=x, y=y),
        base.mark_point(filled=True, size=70, opacity=1).encode(x=x, y=y, tooltip=said),
    ]
    drawn = alt.layer(*layers, data=inline(rows)).properties(width=WIDTH, height=HEIGHT)
    return finished(drawn, f"{trend.measure} by time; dashed lines: changes of level.")


def _points(trend: Trend) -> list[Row]:
    changed = {each.place for each in trend.changes}
    return [
        {
            "when": each.when,
            "time": _minute(each.when),
            "value": each.value,
            "low": each.value if each.low is None else each.low,
            "high": each.value if each.high is None else each.high,
            "recall": with_margin(_mean(each)),
            "kind": str(each.kind),
            "verdict": each.verdict or "none",
            "changed": place in changed,
        }
        for place, each in enumerate(trend.entries)
    ]
