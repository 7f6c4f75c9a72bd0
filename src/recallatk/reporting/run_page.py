"""The sections of a run's page, in reading order."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from recallatk.analysis.row_segments import MOST_NAMED
from recallatk.reporting import provenance
from recallatk.reporting.charts import breakdowns
from recallatk.reporting.charts.curve import latency_curve, qps_curve
from recallatk.reporting.charts.heat_maps import segment_heat_map, selectivity_heat_map
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
    from recallatk.reporting.filtered import GroupedRecall
    from recallatk.reporting.run_report import RunReport

# Longer tables are closed until a reader opens them.
_OPEN_ROWS = 12
_MOST_LISTED = 100


def window_title(run: Run) -> str:
    """The title of the browser window."""
    return f"{cut(printable(run.dataset), 120)}: recall and cost"


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
    load = "" if len(loads) < 2 else f"The verdict is for the load {loads[0]}; other loads are below."
    if found.goals:
        said = (
            "A goal on recall is decided by two bounds. Each holds with 95 % confidence for any "
            "distribution, so they differ from ±, the 95 % interval over queries. A latency is "
            "decided by the interval of its percentile; figures without bounds are as measured."
        )
    else:
        said = (
            "The run has no target, so no setting is recommended. The knee is the point of the Pareto front "
            "beyond which recall gets more expensive: log latency against nines of recall."
        )
    if found.goals or chosen is not None:
        blocks.append(Sentences([f"{said} {load}"], "note"))
    return Section("Verdict", blocks, "verdict")


def _tiles(report: RunReport, chosen: Row) -> Tiles:
    tail = report.curve.tail
    ends = "no interval" if chosen["recallLow"] == chosen["recallHigh"] else "95 % interval over queries"
    return Tiles(
        [
            (report.curve.measure or "", chosen["recallText"], ends),
            (f"{tail} latency", chosen[f"{tail}Text"], f"p50 {chosen['p50Text']}"),
            ("Throughput", chosen["qpsText"], "queries per second"),
            ("Memory", chosen["memoryText"], f"build {chosen['buildText']}"),
        ]
    )


def curves(report: RunReport) -> Section:
    """Recall against latency and throughput."""
    curve, number = report.curve, report.verdict.number
    title = "Recall and cost"
    if number is None:
        said = Sentences(["No setting has both recall and latency, so there is no chart."])
        return Section(title, [said], "curves", "Curves")
    latency = (
        "Down and to the right is better. Thin lines: 95 % intervals. Gray band: the Pareto front by recall "
        f"and {curve.tail}. Ring: the chosen setting. Timed: {report.run.timed or '-'}."
    )
    throughput = (
        "Up and to the right is better. Vertical lines: the slowest and the fastest round. For one client, "
        "only time inside calls counts."
    )
    blocks: list[Block] = [
        Sentences(
            [
                "Each point is a setting. Hover over it to see its parameters. Click it to show its details "
                "below."
            ]
        ),
        *_left_out(report),
        *([Widget("load_choice", {"loads": curve.loads})] if len(curve.loads) > 1 else []),
        _legend(report),
        Heading("Recall and latency"),
        Figure("recall-latency", latency, latency_curve(curve, number)),
        Heading("Recall and throughput"),
        Figure("recall-qps", throughput, qps_curve(curve, number)),
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
        return Section(title, [Sentences(["No trial was measured."])], "settings", "Settings")
    caption = (
        f"The Pareto front of each load by recall and {curve.tail} comes first, by rising recall. Click a "
        "setting to show its details below."
    )
    made = replace(settings_table(curve), title=title)
    table = Widget("settings", {"made": made, "numbers": order, "caption": caption})
    return Section(title, [*_left_out(report), table], "settings", "Settings")


def setting_choice(report: RunReport) -> Section | None:
    """The list that selects the setting shown below."""
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
    caption = "The chosen setting with 95 % intervals. Thin lines: the other settings of the front."
    blocks: list[Block] = [
        _said("diagnosis", part),
        Figure("recall-across-k", caption, breakdowns.recall_across_k(report.curve, number)),
        _followed("measures", part),
        Details("All parameters of the chosen setting", [_followed("facts", part)]),
    ]
    return Section("Recall by k", blocks, "recall", "Recall")


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
    title = "Recall per query"
    if not report.facts:
        said = f"No distribution, segments or worst queries: {report.untold}."
        return Section(title, [Sentences([said])], "queries")
    part = report.parts[number]
    blocks: list[Block] = [*_spread(report, part), *_segments(report, part)]
    if "worst" in part:
        blocks += [
            Heading("The worst queries"),
            Sentences(["A row that ties at rank k may be missing without lowering recall."], "note"),
            Widget("worst_queries", {"queries": part["worst"]}),
        ]
    if report.untold:
        blocks.append(Sentences([f"No segments or worst queries: {report.untold}."]))
    return Section(title, blocks, "queries", "Queries")


def _spread(report: RunReport, part: dict[str, Any]) -> list[Block]:
    spreads = {place: each.spread for place, each in report.facts.items() if each.spread is not None}
    absent = (
        f"The page has per-query details of {len(report.facts)} settings, the front first. This setting is "
        "not among them."
    )
    caption = "Share of queries by their recall. The last bar has the queries with recall 1."
    number = report.verdict.number or 0
    chart = breakdowns.recall_distribution(spreads, report.curve.measure or "", number)
    return [
        Widget("absent", {"key": "tails", "text": absent}),
        Heading("Distribution of recall"),
        _said("spread", part),
        Figure("distribution", caption, chart),
        _followed("tails", part),
    ]


def _segments(report: RunReport, part: dict[str, Any]) -> list[Block]:
    from recallatk.reporting.per_query import heat_map

    rows, settings, segments = heat_map(report.curve, report.facts)
    measure, several = report.curve.measure or "", len(settings) > 1
    caption = "Settings of the front by rising recall, left to right. Dark is worse."
    chart = segment_heat_map(rows, measure, settings, segments)
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


def effort(report: RunReport) -> Section | None:
    """The worst segment of every grouping that the settings name, and what segments gain from effort."""
    found, missing = report.segments
    blocks: list[Block] = []
    for each in found:
        blocks += [Heading(each.title), Sentences(each.said)]
        blocks += [] if each.gains is None else [each.gains.table()]
        if each.efforts is not None:
            table = replace(each.efforts.table(), title="Recall at every effort")
            blocks.append(Details(table.title, [table], len(table.rows) <= _OPEN_ROWS))
    if not blocks and not missing:
        return None
    said = (
        "Gains are differences per query between the settings of one index with the lowest and the highest "
        "recall, with 95 % intervals. Segments of fewer than 10 queries are not ranked."
    )
    about = [Sentences([said], "note")] if any(each.gains is not None for each in found) else []
    blocks = [*about, *blocks, Sentences(missing)]
    return Section("Segments and effort", blocks, "effort", "Effort")


def rows(report: RunReport) -> list[Section]:
    """True neighbors found by corpus column, and the rows that are lost."""
    if not report.run.by_row:
        return []
    from recallatk.reporting.row_segments import row_sections

    return row_sections(report.rows, report.no_rows, ids=MOST_NAMED, name="rows")


def filtered(report: RunReport) -> Section | None:
    """Recall of every engine by filter, selectivity (as a heat map too) and correlation, with rates."""
    made = report.grouped_recall
    if not made:
        return None
    blocks: list[Block] = []
    for each in made.values():
        blocks += [Heading(each.title), Sentences([each.said])]
        blocks += [_selectivity_map(each)] if each.ordered_by_share else []
        rates = [Sentences([each.rates_said], "note"), each.rates()]
        blocks += [each.table(), Items(each.changes), Details("Rates and latency", rates)]
    return Section("Filtered queries", blocks, "filters", "Filters")


def _selectivity_map(found: GroupedRecall) -> Figure:
    rows = found.cells()
    engines, groups = [each.label for each in found.rows], list(dict.fromkeys(row["group"] for row in rows))
    chart = selectivity_heat_map(rows, found.measure, groups, engines)
    return Figure("selectivity", "One row per engine, broad filters to the left. Dark is worse.", chart)


def cost(report: RunReport) -> Section:
    """Build time, memory and size of each index."""
    caption = "Memory: growth of the engine's process during the build."
    blocks: list[Block] = [
        _legend(report),
        Figure("cost", caption, breakdowns.build_costs(report.curve)),
        cost_table(report.curve),
    ]
    return Section("Build time, memory and size", blocks, "cost", "Cost")


def loads(report: RunReport) -> Section | None:
    """A table for each load besides the first."""
    curve = report.curve
    members = [line for line in curve.lines if line.trial.load != curve.loads[0]]
    found = [_with_words(each) for each in tables(report.run, members, curve.names)]
    if not found:
        return None
    said = "Each load has its own Pareto front, among the settings measured under it."
    blocks = [Details(each.title, [each], len(each.rows) <= _OPEN_ROWS) for each in found]
    return Section("Under load", [Sentences([said]), *blocks], "loads", "Loads")


def _with_words(table: Table) -> Table:
    """The table with words in place of signs."""
    rows = [["front" if cell == FRONT else cell for cell in row] for row in table.rows]
    return replace(table, header=[name or "Front" for name in table.header], rows=rows)


def runs(report: RunReport) -> Section | None:
    """Comparison with other runs."""
    found = report.comparison
    if found is None:
        return None
    from recallatk.reporting.comparison import COMPARED, comparison_blocks

    caption = "Every setting of every run under its first load. Lines: Pareto fronts."
    chart = breakdowns.run_comparison(found.curves) if len(found.curves) > 1 else None
    refused, *compared = comparison_blocks(found)
    blocks: list[Block] = [refused, Figure("comparison", caption, chart), *compared]
    return Section(COMPARED, blocks, "runs", "Runs")


def care(report: RunReport) -> Section:
    """Findings of the linter, failures, cautions and notes."""
    run, names = report.run, report.labels
    blocks: list[Block] = [] if report.findings is None else [linted(report.findings)]
    for title, said in (("Failed trials", failures(run, names)), ("Cautions", cautions(run))):
        blocks += [Heading(title), Items(_first(said))] if said else []
    blocks += [Heading("Notes"), Items(notes(run, report.lines, names))]
    return Section("Caveats", blocks, "care", "Caveats")


def _first(said: list[str]) -> list[str]:
    """The first lines, and the number of the others."""
    more = len(said) - _MOST_LISTED
    return [*said[:_MOST_LISTED], *([f"{more:,} more in run.json, under Data"] if more > 0 else [])]


def origin(report: RunReport) -> Section:
    """The data, the machine, and the command that repeats the run."""
    run = report.run
    bench = provenance.bench_file(run)
    saved = {"trials.csv": "Trials as CSV", "run.json": "All results as JSON"}
    blocks: list[Block] = [
        Columns([provenance.identity(run), provenance.environment(run)]),
        Heading("Repeat this run"),
        Code(provenance.command(run)),
    ]
    if bench:
        blocks.append(Details("bench.toml", [Code(bench)]))
        saved["bench.toml"] = "bench.toml"
    elif run.settings:
        blocks.append(Details("Settings", [Code(provenance.settings_text(run))]))
    blocks += [Heading("Data", "data-files"), Widget("downloads", {"files": saved})]
    return Section("Provenance", blocks, "origin", "Provenance")
