"""The sections of a run's page, in the order in which a reader asks for them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from recallatk.reporting import provenance
from recallatk.reporting.charts import breakdowns
from recallatk.reporting.charts.curve import latency_curve, qps_curve
from recallatk.reporting.charts.theme import legend
from recallatk.reporting.document import (
    Code,
    Columns,
    Details,
    Figure,
    Heading,
    Items,
    Lead,
    Section,
    Sentences,
    Table,
    Tiles,
    Widget,
)
from recallatk.reporting.findings import linted
from recallatk.reporting.labels import cut
from recallatk.reporting.run_notes import cautions, failures, notes
from recallatk.reporting.run_tables import FRONT, cost_table, setting_order, settings_table, tables
from recallatk.reporting.text import printable

if TYPE_CHECKING:
    from recallatk.core import Run
    from recallatk.reporting.charts.theme import Row
    from recallatk.reporting.document import Block
    from recallatk.reporting.run_report import RunReport

# Longer tables are closed until a reader opens them.
_OPEN_ROWS = 12
_MOST_LISTED = 100


def window_title(run: Run) -> str:
    """What a browser calls the page."""
    return f"{cut(printable(run.dataset), 120)}: recall and its cost"


def files(run: Run) -> dict[str, str]:
    """The files that the page can save."""
    from recallatk.reporting.as_dict import run_to_dict
    from recallatk.reporting.exports.tabular import csv_text

    bench = provenance.bench_file(run)
    return {
        "trials.csv": csv_text(run),
        "run.json": json.dumps(run_to_dict(run), indent=1, allow_nan=False) + "\n",
        **({} if bench is None else {"bench.toml": bench}),
    }


def _chosen(report: RunReport) -> Row | None:
    """The point of the verdict."""
    number = report.verdict.number
    return None if number is None else report.curve.points[number]


def verdict(report: RunReport) -> Section:
    """The verdict, its numbers, and each goal with its outcome."""
    found, chosen = report.verdict, _chosen(report)
    lead = Lead(found.sentence, found.word, bool(found.met), found.why)
    blocks: list[Block] = [lead, *([] if chosen is None else [_tiles(report, chosen)]), Items(found.goals)]
    loads = report.curve.loads
    load = "" if len(loads) < 2 else f"It is about the load {loads[0]}; other loads are below."
    if found.goals:
        said = (
            "A goal on recall is decided by bounds that each hold with 95 % confidence, a latency by the "
            "interval of its percentile; figures without bounds are as measured."
        )
    else:
        said = (
            "The run states no target, so no setting is recommended. A knee is where more recall begins to "
            "cost more than it did: latency by its logarithm, recall by its number of nines."
        )
    if found.goals or chosen is not None:
        blocks.append(Sentences([f"{said} {load}"], "note"))
    return Section("Verdict", blocks, "verdict")


def _tiles(report: RunReport, chosen: Row) -> Tiles:
    tail = report.curve.tail
    low, high = chosen["recallLow"], chosen["recallHigh"]
    ends = "no interval" if low == high else f"95 %: {low:.4f} to {high:.4f}"
    return Tiles(
        [
            (report.curve.measure or "", f"{chosen['recall']:.4f}", ends),
            (f"{tail} latency", chosen[f"{tail}Text"], f"p50 {chosen['p50Text']}"),
            ("Throughput", chosen["qpsText"], "queries a second"),
            ("Memory", chosen["memoryText"], f"built in {chosen['buildText']}"),
        ]
    )


def curves(report: RunReport) -> Section:
    """Recall against latency and throughput."""
    curve, number = report.curve, report.verdict.number
    title = "What recall costs"
    if number is None:
        said = Sentences(["Nothing was measured that could be drawn."])
        return Section(title, [said], "curves", "Curves")
    latency = (
        "Down and to the right is better. Thin lines: 95 % intervals. Grey band: the Pareto front by recall "
        f"and {curve.tail}. Ring: the chosen setting. Timed: {report.run.timed or '-'}."
    )
    throughput = (
        "Up and to the right is better. Upright lines: the lowest and the highest round. For one client, "
        "time inside calls only."
    )
    blocks: list[Block] = [
        Sentences(
            [
                "Each point is a setting. Point at it to see its parameters; choose it, and everything below "
                "follows."
            ]
        ),
        *_left_out(report),
        *([Widget("load_choice", {"loads": curve.loads})] if len(curve.loads) > 1 else []),
        _legend(report),
        Heading("Recall and latency"),
        Figure("recall-latency", latency, latency_curve(curve, number)),
        Heading("Recall and queries a second"),
        Figure("recall-qps", throughput, qps_curve(curve, number)),
        Sentences(["The table of settings has the same numbers."], "note"),
        Sentences(["The charts need JavaScript; the tables have the same numbers."], "noscript"),
    ]
    return Section(title, blocks, "curves", "Curves")


def _legend(report: RunReport) -> Widget:
    return Widget("legend", {"entries": legend(list(report.curve.engines.values()))})


def _left_out(report: RunReport) -> list[Block]:
    """How many settings of a large run the page shows."""
    count = len(report.curve.points)
    if not report.curve.left_out:
        return []
    return [Widget("left_out", {"shown_count": count, "count": count + report.curve.left_out})]


def settings(report: RunReport) -> Section:
    """Every setting, with a button that shows it in the rest of the page."""
    curve = report.curve
    title = "Settings" if curve.left_out else "All settings"
    order = setting_order(curve)
    if not order:
        return Section(title, [Sentences(["Nothing was measured."])], "settings", "Settings")
    caption = (
        f"The Pareto front of each load by recall and {curve.tail} first, by rising recall. A button shows a "
        "setting in the rest of the page."
    )
    made = replace(settings_table(curve), title=title)
    table = Widget("settings", {"made": made, "numbers": order, "caption": caption})
    return Section(title, [*_left_out(report), table], "settings", "Settings")


def setting_choice(report: RunReport) -> Section | None:
    """The list that says, and changes, which setting is shown below."""
    chosen, curve = _chosen(report), report.curve
    if chosen is None:
        return None
    values = {"points": curve.points, "chosen": chosen, "several_loads": len(curve.loads) > 1}
    return Section("", [Widget("setting_choice", values)])


def recall(report: RunReport) -> Section | None:
    """The measures of the chosen setting."""
    number = report.verdict.number
    if number is None:
        return None
    part = report.parts[number]
    caption = "The chosen setting with 95 % intervals; thin lines are the other settings of the front."
    blocks: list[Block] = [
        _said("diagnosis", part),
        Figure("recall-across-k", caption, breakdowns.recall_across_k(report.curve, number)),
        _followed("measures", part),
        Details("The chosen setting, in full", [_followed("facts", part)]),
    ]
    return Section("Recall across K", blocks, "recall", "Recall")


def _said(key: str, part: dict[str, Any]) -> Widget:
    return Widget("said", {"key": key, "text": part.get(key, "")})


def _followed(key: str, part: dict[str, Any]) -> Widget:
    """The tables of the chosen setting under a key, none where it has none."""
    made = part.get(key, [])
    return Widget("followed", {"key": key, "made": [made] if isinstance(made, Table) else made})


def queries(report: RunReport) -> Section | None:
    """The spread of recall over queries, segments and the worst queries."""
    number = report.verdict.number
    if number is None:
        return None
    title = "Query by query"
    if not report.facts:
        said = f"The spread over queries, segments and the worst queries are left out: {report.untold}."
        return Section(title, [Sentences([said])], "queries")
    part = report.parts[number]
    blocks: list[Block] = [*_spread(report, part), *_segments(report, part)]
    if "worst" in part:
        blocks += [
            Heading("The worst queries"),
            Sentences(["Ties at the boundary may be missing from a list without lowering recall."], "note"),
            Widget("worst_queries", {"queries": part["worst"]}),
        ]
    if report.untold:
        blocks.append(Sentences([f"Segments and the worst queries are left out: {report.untold}."]))
    return Section(title, blocks, "queries", "Queries")


def _spread(report: RunReport, part: dict[str, Any]) -> list[Block]:
    spreads = {place: each.spread for place, each in report.facts.items() if each.spread is not None}
    absent = (
        "Single queries of this setting are not kept in the page: it tells those of the front first, "
        f"{len(report.facts)} in all."
    )
    caption = "The share of queries by their own recall; queries that found everything stand apart."
    number = report.verdict.number or 0
    chart = breakdowns.recall_distribution(spreads, report.curve.measure or "", number)
    return [
        Widget("absent", {"key": "tails", "text": absent}),
        Heading("How recall is spread"),
        _said("spread", part),
        Figure("distribution", caption, chart),
        _followed("tails", part),
    ]


def _segments(report: RunReport, part: dict[str, Any]) -> list[Block]:
    from recallatk.reporting.per_query import heat_map

    rows, settings, segments = heat_map(report.curve, report.facts)
    measure, several = report.curve.measure or "", len(settings) > 1
    caption = "From left to right the settings of the front by rising recall. Dark is worse."
    chart = breakdowns.segment_heat_map(rows, measure, settings, segments)
    figure = Figure("segments", caption, chart, on_page=several and "segments" in part)
    if "segments" not in part:
        return [figure]
    cells = [[row["segment"], row["setting"], row["text"], f"{row['queries']:,}"] for row in rows]
    header = ["Segment", "Setting", measure, "Queries"]
    table = Table("Segments at the settings of the front", header, cells, 2)
    return [
        Heading("Segments"),
        _said("segmentsSaid", part),
        figure,
        *([Details("The heat map as a table", [table])] if several else []),
        _followed("segments", part),
    ]


def cost(report: RunReport) -> Section:
    """What each index took to build and to hold."""
    caption = "Memory is what the build added to its own process."
    blocks: list[Block] = [
        _legend(report),
        Figure("cost", caption, breakdowns.build_costs(report.curve)),
        cost_table(report.curve),
    ]
    return Section("Build time, memory and size", blocks, "cost", "Cost")


def loads(report: RunReport) -> Section | None:
    """What was measured under load: a table for each mode but plain latency."""
    curve = report.curve
    members = [line for line in curve.lines if line.trial.load != curve.loads[0]]
    found = [_with_words(each) for each in tables(report.run, members, curve.names)]
    if not found:
        return None
    said = "Each load is a question of its own: its front is marked among the settings under the same load."
    blocks = [Details(each.title, [each], len(each.rows) <= _OPEN_ROWS) for each in found]
    return Section("Under load", [Sentences([said]), *blocks], "loads", "Loads")


def _with_words(table: Table) -> Table:
    """The table with words for what a terminal shows by a sign."""
    rows = [["front" if cell == FRONT else cell for cell in row] for row in table.rows]
    return replace(table, header=[name or "Front" for name in table.header], rows=rows)


def runs(report: RunReport) -> Section | None:
    """The other runs beside this one."""
    found = report.comparison
    if found is None:
        return None
    caption = "Every setting of every run under its first load; lines join the fronts."
    chart = breakdowns.run_comparison(found.curves) if len(found.curves) > 1 else None
    blocks: list[Block] = [
        Sentences(found.refusals, "bad"),
        Figure("comparison", caption, chart),
        found.table,
    ]
    if found.paired is not None:
        said = (
            "Recall is compared query by query; the p values take all pairs into account. A latency ratio "
            "above 1 is slower than the first run."
        )
        blocks += [Sentences([said]), found.paired]
    return Section("Runs side by side", blocks, "runs", "Runs")


def care(report: RunReport) -> Section:
    """What speaks against the numbers, and what a reader needs to judge them."""
    run, names = report.run, report.labels
    blocks: list[Block] = [] if report.findings is None else [linted(report.findings)]
    for title, said in (("What failed", failures(run, names)), ("Cautions", cautions(run))):
        blocks += [Heading(title), Items(_first(said))] if said else []
    blocks += [Heading("Notes"), Items(notes(run, report.lines, names))]
    return Section("Before you believe it", blocks, "care", "Care")


def _first(said: list[str]) -> list[str]:
    """As many as can be read, and how many there are beside them."""
    more = len(said) - _MOST_LISTED
    return [*said[:_MOST_LISTED], *([f"{more:,} more; run.json, under Data, has all"] if more > 0 else [])]


def origin(report: RunReport) -> Section:
    """The machine, the data, and how to have the numbers again."""
    run = report.run
    bench = provenance.bench_file(run)
    saved = {"trials.csv": "Trials as CSV", "run.json": "Everything as JSON"}
    blocks: list[Block] = [
        Columns([provenance.identity(run), provenance.environment(run)]),
        Heading("Measure it again"),
        Code(provenance.command(run)),
    ]
    if bench:
        blocks.append(Details("bench.toml", [Code(bench)]))
        saved["bench.toml"] = "bench.toml"
    elif run.settings:
        blocks.append(Details("Settings", [Code(provenance.settings_text(run))]))
    blocks += [Heading("Data", "data-files"), Widget("downloads", {"files": saved})]
    return Section("Where it comes from", blocks, "origin", "Origin")
