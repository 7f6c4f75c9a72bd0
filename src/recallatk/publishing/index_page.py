"""The first page of a site: leaderboards in brief, trends, every run, and what was left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from recallatk.publishing.addresses import TRENDS
from recallatk.publishing.board_page import (
    HOW_RANKED,
    LONGEST_NAME,
    LONGEST_SETTING,
    conditions_in_words,
    rank_texts,
    started,
)
from recallatk.reporting.document import Document, Heading, Items, Links, Section, Sentences, Table
from recallatk.reporting.history import sparkline
from recallatk.reporting.labels import cut, number
from recallatk.reporting.text import printable
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from recallatk.analysis.trend import Trend
    from recallatk.publishing.comparable_data import LeftOut
    from recallatk.publishing.leaderboards import ComparedData, Contest
    from recallatk.publishing.machine_names import MachineNames
    from recallatk.publishing.published_run import PublishedRun
    from recallatk.publishing.published_tuning import PublishedTuning
    from recallatk.reporting.document import Block

_MOST_BOARDS, _MOST_CONTESTS, _MOST_TRENDS = 8, 4, 50
_LONGEST_REASON = 400


@dataclass(frozen=True, eq=False)
class SiteContent:
    """Everything that the pages of a site show."""

    title: str
    levels: tuple[float, ...]
    compared: tuple[ComparedData, ...]
    tunings: tuple[PublishedTuning, ...]
    left_out: tuple[LeftOut, ...]
    trends: tuple[Trend, ...]
    machines: MachineNames
    board_pages: Mapping[str, str]
    """The address of the leaderboards of every data set, by its title."""
    data_files: Sequence[str]

    @property
    def runs(self) -> list[PublishedRun]:
        """Every run that is in the tables, by name."""
        return sorted((run for data in self.compared for run in data.runs), key=lambda each: each.name)


def index_page(site: SiteContent) -> Document:
    """The first page of a site."""
    sections = [
        *_boards(site),
        *_trends(site),
        *_runs(site),
        *_tunings(site),
        *_left_out(site),
        *_machines(site),
        _files(site),
    ]
    return Document(
        site.title,
        [each for each in sections if not each.empty],
        [_about(site)],
        window_title=site.title,
        brand="recallatk site",
    )


def _about(site: SiteContent) -> str:
    counts = [
        counted(len(site.runs), "run", "runs"),
        counted(len(site.compared), "data set", "data sets"),
        *([counted(len(site.tunings), "tuning", "tunings")] if site.tunings else []),
        *([f"{len(site.left_out):,} left out"] if site.left_out else []),
    ]
    newest = max((each.begun for each in site.runs), default="")
    return f"{', '.join(counts)}{f'; the newest run is of {newest[:10]}' if newest else ''}."


def _boards(site: SiteContent) -> list[Section]:
    """The cost at every level of recall, one table per contest; only a list if there are many data sets."""
    if len(site.compared) > _MOST_BOARDS:
        return [_data_sets(site)]
    blocks: list[Block] = []
    for data in site.compared:
        blocks.append(Heading(cut(printable(data.title), LONGEST_NAME)))
        blocks += [_brief(site, contest) for contest in data.contests[:_MOST_CONTESTS]]
        more = len(data.contests) - _MOST_CONTESTS
        blocks += [Sentences([f"{more:,} more loads and machines are on its page."])] if more > 0 else []
        if not data.contests:
            blocks.append(Sentences(["No setting can be ranked."]))
        blocks.append(Links([("All leaderboards of this data set", site.board_pages[data.title])]))
    note = f"Rank in brackets. {HOW_RANKED[1]} {HOW_RANKED[0]}"
    blocks += [Sentences([note], "note")] if site.compared else []
    return [Section("Leaderboards at equal recall", blocks, "leaderboards", "Leaderboards")]


def _brief(site: SiteContent, contest: Contest) -> Table:
    boards = [each for each in contest.boards if each.measure == contest.measures[0]]
    engines: dict[tuple[str, str], list[str]] = {}
    for place, board in enumerate(boards):
        for standing, rank in zip(board.standings, rank_texts(board.standings), strict=True):
            cells = engines.setdefault((standing.engine, standing.version), ["-"] * len(boards))
            if standing.cost is not None:
                cells[place] = f"{number(standing.cost.value, ',.0f' if board.axis.gain else '.3f')} ({rank})"
    shared = conditions_in_words(contest.conditions, site.machines)
    title = f"{contest.axis.title} by {contest.measures[0]}; {shared}"
    header = ["engine", "library", *(f"≥ {level:g}" for level in site.levels)]
    rows = [
        [*(cut(printable(part), LONGEST_NAME) for part in engine), *cells]
        for engine, cells in engines.items()
    ]
    return Table(title, header, rows, 2, "narrow")


def _data_sets(site: SiteContent) -> Section:
    rows = [
        [
            cut(printable(each.title), LONGEST_NAME),
            f"{len(each.runs):,}",
            f"{max(run.queries for run in each.runs):,}",
            f"{len({one.engine for contest in each.contests for one in contest.contenders}):,}",
        ]
        for each in site.compared
    ]
    links = [site.board_pages[each.title] for each in site.compared]
    table = Table("Data sets", ["data set", "runs", "queries", "engines"], rows, 1, links=links)
    return Section("Leaderboards at equal recall", [table], "leaderboards", "Leaderboards")


def _trends(site: SiteContent) -> list[Section]:
    """Trends with more than one entry, those that changed first."""
    repeated = sorted(
        (each for each in site.trends if len(each.entries) > 1), key=lambda each: not each.changes
    )
    if not site.trends:
        return []
    rows = [_trend(each) for each in repeated[:_MOST_TRENDS]]
    header = ["collection", "setting", "measure", "trend", "last change", "entries", "last"]
    blocks: list[Block] = [Table("Trends", header, rows, 5)] if rows else []
    if len(repeated) > _MOST_TRENDS:
        blocks.append(Sentences([f"{_MOST_TRENDS} of {len(repeated):,} trends are shown."], "note"))
    return [Section("Trends", [*blocks, Links([("Every trend", TRENDS)])], "trends", "Trends")]


def _trend(trend: Trend) -> list[str]:
    change = trend.changes[-1] if trend.changes else None
    return [
        cut(printable(trend.collection), LONGEST_NAME),
        cut(printable(trend.subject), LONGEST_SETTING),
        cut(printable(trend.measure), LONGEST_NAME),
        sparkline([each.value for each in trend.entries]),
        "none" if change is None else f"{change.when[:10]}: {change.before:.3f} to {change.after:.3f}",
        f"{len(trend.entries):,}",
        number(trend.entries[-1].value, ".3f"),
    ]


def _runs(site: SiteContent) -> list[Section]:
    rows = [_run(each, site.machines) for each in site.runs]
    header = [
        "run",
        "data",
        "engines",
        "started (UTC)",
        "machine",
        "findings",
        "remarks",
        "queries",
        "trials",
    ]
    table = Table("Runs", header, rows, 7, "tall", links=[each.page for each in site.runs])
    return [Section("Runs", [table], "runs", "Runs")]


def _run(run: PublishedRun, machines: MachineNames) -> list[str]:
    engines = dict.fromkeys(each.trial.engine for each in run.settings)
    findings = [
        counted(count, severity, f"{severity}s")
        for severity, count in run.findings.items()
        if severity != "note"
    ]
    planned = "" if run.planned is None else f" of {run.planned:,}"
    return [
        cut(printable(run.name), LONGEST_NAME),
        cut(printable(f"{run.dataset}, {run.metric}"), LONGEST_NAME),
        cut(printable(", ".join(engines)) or "-", LONGEST_SETTING),
        started(run.begun),
        machines[run.machine],
        ", ".join(findings) or "none",
        ", ".join(run.remarks) or "-",
        f"{run.queries:,}",
        f"{run.finished:,}{planned}{f', {run.failed:,} failed' if run.failed else ''}",
    ]


def _tunings(site: SiteContent) -> list[Section]:
    rows = [
        [cut(printable(each.name), LONGEST_NAME), each.outcome, cut(printable(each.setting), LONGEST_SETTING),
         cut(printable(each.goals), LONGEST_SETTING)]
        for each in site.tunings
    ]  # fmt: skip
    table = Table(
        "Tunings", ["tuning", "outcome", "setting", "goals"], rows, 4, links=[x.page for x in site.tunings]
    )
    return [Section("Tunings", [table], "tunings", "Tunings")]


def _left_out(site: SiteContent) -> list[Section]:
    rows = [
        [cut(printable(each.name), LONGEST_NAME), cut(printable(each.why), _LONGEST_REASON)]
        for each in site.left_out
    ]
    table = Table("Left out", ["folder", "why"], rows, 2, links=[each.page for each in site.left_out])
    said = Sentences(["These folders are in no table, leaderboard or data file of this site."], "note")
    return [Section("Left out", [said, table], "left-out", "Left out")] if rows else []


def _machines(site: SiteContent) -> list[Section]:
    said = Items(["Machines are told apart by what they report; two that report the same count as one."])
    return [Section("Machines", [site.machines.table(), said], "machines", "Machines")] if site.runs else []


def _files(site: SiteContent) -> Section:
    links = [(address.rpartition("/")[2], address) for address in site.data_files]
    said = Sentences(
        ["Every trial of every run in the tables, one row each; leaderboards.json has the ranks."]
    )
    # The page keeps the anchor "data" for its own.
    return Section("Data", [said, Links(links)], "data-files", "Data")
