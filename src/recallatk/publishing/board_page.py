"""The page of one data set: leaderboards at equal recall for every load and machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.analysis.latency import Spread
from recallatk.analysis.sides import part_names
from recallatk.publishing.board_chart import contest_chart
from recallatk.reporting.charts.theme import legend, unchecked_charts
from recallatk.reporting.document import (
    Details,
    Document,
    Figure,
    Items,
    Section,
    Sentences,
    Table,
    Widget,
)
from recallatk.reporting.labels import cut, interval, megabytes, number, with_margin
from recallatk.reporting.text import printable
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from recallatk.publishing.leaderboards import ComparedData, Contest, Leaderboard, Standing
    from recallatk.publishing.machine_names import MachineNames
    from recallatk.publishing.published_run import Conditions
    from recallatk.reporting.document import Block

LONGEST_NAME, LONGEST_SETTING = 60, 120
HOW_RANKED = (
    "A setting counts at a level if the lower 95 % bound of its recall, which holds for any distribution, "
    "reaches the level. Every engine is shown with its cheapest such setting. Nothing is interpolated.",
    "Engines share a rank unless their intervals are apart: a rank is 1 plus the number of engines that are "
    "surely better. A latency has the 95 % interval of its percentile over calls, QPS the range over rounds.",
    "If several runs measured a setting, the newest counts; of several builds in one run, the worst.",
    "Costs are compared on one machine, under one load, with the same k and number of search threads.",
)


def board_page(
    data: ComparedData, machines: MachineNames, levels: Sequence[float], pages: Mapping[str, str]
) -> Document:
    """The page with all leaderboards of a data set.

    Args:
        data: its runs and contests.
        machines: what machines are called.
        levels: levels of recall.
        pages: the address of the report of every run, from this page.
    """
    with unchecked_charts():
        sections = [
            _contest(contest, place, machines, levels, pages) for place, contest in enumerate(data.contests)
        ]
    about = [_about(data)]
    notes = list(data.unranked)
    sections += (
        [Section("In no leaderboard", [Items(notes)], "unranked", "In no leaderboard")] if notes else []
    )
    sections.append(Section("How ranks are made", [Items(HOW_RANKED)], "ranks", "Ranks"))
    sections.append(_identity(data, pages))
    return Document(
        data.title, sections, about, window_title=f"{cut(data.title, LONGEST_NAME)}: leaderboards"
    )


def _about(data: ComparedData) -> str:
    queries = max(each.queries for each in data.runs)
    runs = counted(len(data.runs), "run", "runs")
    return f"{runs}, {counted(queries, 'query', 'queries')}, {data.question.metric}."


def conditions_in_words(conditions: Conditions, machines: MachineNames) -> str:
    """What the settings of a contest share."""
    threads = counted(conditions.search_threads, "search thread", "search threads")
    return f"{conditions.load}, top {conditions.k}, {threads}, machine {machines[conditions.machine]}"


def _contest(
    contest: Contest, place: int, machines: MachineNames, levels: Sequence[float], pages: Mapping[str, str]
) -> Section:
    title = conditions_in_words(contest.conditions, machines)
    curve, chart = contest_chart(contest, levels)
    first, *others = contest.measures
    gain = "Up" if contest.axis.gain else "Down"
    caption = (
        f"{gain} and to the right is better. Thin lines: intervals. Lines: the Pareto front of each engine. "
        "Dashed: the levels."
    )
    blocks: list[Block] = [
        Sentences([f"Machine {machines[contest.conditions.machine]}: {contest.conditions.machine}."], "note"),
        Widget("legend", {"entries": legend(list(curve.engines.values()))}),
        Figure(f"contest-{place}", caption, chart),
        *_tables(contest, first, pages),
    ]
    blocks += [Details(measure, _tables(contest, measure, pages)) for measure in others]
    return Section(title, blocks, f"contest-{place}", cut(title, LONGEST_NAME))


def _tables(contest: Contest, measure: str, pages: Mapping[str, str]) -> list[Block]:
    blocks: list[Block] = []
    for board in contest.boards:
        if board.measure == measure:
            title = level_title(board)
            said = Sentences(_too_few(board), "note")
            blocks.append(Details(title, [said, board_table(board, title, pages)], open=True))
    return blocks


def _too_few(board: Leaderboard) -> list[str]:
    """A sentence if the queries are too few to show that any recall reaches the level."""
    best = board.out_of_reach
    if best is None:
        return []
    return [
        f"No recall can be shown to reach {board.level:g} by so few queries: the bound of 1 is {best:.3f}."
    ]


def level_title(board: Leaderboard) -> str:
    """The level of a leaderboard."""
    return f"{board.measure} ≥ {board.level:g}"


def board_table(board: Leaderboard, title: str, pages: Mapping[str, str]) -> Table:
    """A leaderboard; engines that do not reach the level come last, without a rank."""
    ranks = rank_texts(board.standings)
    rows = [_row(board, standing, rank) for standing, rank in zip(board.standings, ranks, strict=True)]
    names = ["engine", "setting", "library", "run", "rank", board.measure, "at least"]
    header = [*names, *_cost_columns(board), "memory MB", "build s"]
    links = [pages.get(each.contender.first.run, "") for each in board.standings]
    return Table(title, header, rows, 4, links=links)


def _cost_columns(board: Leaderboard) -> list[str]:
    """The cost that ranks, its interval, and what readers ask for beside it."""
    axis = board.axis
    beside = [each for each in ("p50 ms", "p95 ms" if axis.gain else "QPS") if each != axis.title]
    return [axis.title, "over rounds" if axis.name == "qps" else "95 %", *beside]


def _cost_cells(board: Leaderboard, standing: Standing) -> list[str]:
    columns, cost = _cost_columns(board), standing.cost
    if cost is None:
        return ["-"] * len(columns)
    shape = ",.0f" if board.axis.gain else ".3f"
    shown = standing.contender.worst_recall(board.measure)
    known = {f"{name} ms": number(shown.latency_ms[name].value, ".3f") for name in ("p50", "p95")}
    known["QPS"] = number(shown.qps.median, ",.0f")
    ends = interval(Spread(cost.value, cost.low, cost.high), shape)
    return [number(cost.value, shape), ends, *(known[name] for name in columns[2:])]


def rank_texts(standings: Sequence[Standing]) -> list[str]:
    """The rank of every standing, with an equals sign where several share it."""
    ranks = [each.rank for each in standings]
    return ["-" if rank is None else f"{rank}{'=' if ranks.count(rank) > 1 else ''}" for rank in ranks]


def _row(board: Leaderboard, standing: Standing, rank: str) -> list[str]:
    contender, measure = standing.contender, board.measure
    shown = contender.worst_recall(measure)
    return [
        cut(printable(standing.engine), LONGEST_NAME),
        cut(printable(contender.parameters or "-"), LONGEST_SETTING),
        cut(printable(standing.version), LONGEST_NAME),
        cut(printable(shown.run), LONGEST_NAME),
        rank,
        with_margin(shown.means[measure]),
        number(contender.bound(measure), ".3f"),
        *_cost_cells(board, standing),
        megabytes(shown.memory_bytes),
        number(shown.build_seconds, ".2f"),
    ]


def _identity(data: ComparedData, pages: Mapping[str, str]) -> Section:
    """The fingerprints that all runs share, and the runs."""
    question = data.question
    rows = [
        [f"Fingerprint of the {name}", text] for name, text in zip(_parts(data), _prints(data), strict=True)
    ]
    runs = Table(
        "Runs",
        ["run", "started (UTC)"],
        [[cut(printable(each.name), LONGEST_NAME), started(each.begun)] for each in data.runs],
        2,
        links=[pages.get(each.name, "") for each in data.runs],
    )
    blocks = [Table("What all of them share", ["", ""], [["Metric", question.metric], *rows], 2), runs]
    return Section("Runs", blocks, "runs", "Runs")


def _parts(data: ComparedData) -> list[str]:
    return part_names([*(name for name, _ in data.question.data), "truth"])


def _prints(data: ComparedData) -> list[str]:
    return [*(text for _, text in data.question.data), data.question.truth]


def started(begun: str) -> str:
    """When a run began, to the minute."""
    return printable(begun[:16].replace("T", " ")) or "-"
