"""A static site of results: every report, leaderboards at equal recall, trends and data files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from recallatk.bench.recorded_benchmark import RecordedBenchmark
from recallatk.errors import RecallError
from recallatk.files import reading
from recallatk.linter import audit_run
from recallatk.publishing.addresses import BOARDS, INDEX, REPORTS, TRENDS, page_addresses
from recallatk.publishing.board_page import board_page
from recallatk.publishing.comparable_data import LeftOut, comparable_data
from recallatk.publishing.data_files import FILES, write_data_files
from recallatk.publishing.index_page import SiteContent, index_page
from recallatk.publishing.leaderboards import LEVELS, checked_levels
from recallatk.publishing.machine_names import MachineNames
from recallatk.publishing.published_run import PublishedRun, published_run
from recallatk.publishing.published_tuning import PublishedTuning, published_tuning
from recallatk.publishing.run_search import find_folders, open_found_run, open_found_tuning
from recallatk.publishing.site_folder import NO_JEKYLL, SiteFolder
from recallatk.reporting.charts.theme import unchecked_charts
from recallatk.reporting.history import history_to_html
from recallatk.reporting.html.page import render_html
from recallatk.reporting.run_report import RunReport
from recallatk.reporting.tuned import tuned_to_html
from recallatk.storage import history as trends_of_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from recallatk.analysis.trend import Trend
    from recallatk.files import PathLike
    from recallatk.publishing.run_search import FoundFolder

TITLE = "Results"
_HOME = f"../{INDEX}"
_MOST_TRENDS = 100
_NO_DATA = "published without the data of the run, which recallatk publish --details opens"


@dataclass(frozen=True)
class PublishedSite:
    """What was published."""

    folder: Path
    pages: int
    runs: int
    """Number of runs in the tables."""
    tunings: int
    leaderboards: int
    """Number of data sets with leaderboards."""
    left_out: tuple[LeftOut, ...]
    """Folders that are in no table, and why."""
    removed: int
    """Number of files of an older site that this one does not have."""

    def to_dict(self) -> dict[str, Any]:
        """What was published, for JSON."""
        return {
            "folder": str(self.folder),
            "pages": self.pages,
            "runs": self.runs,
            "tunings": self.tunings,
            "leaderboards": self.leaderboards,
            "left_out": [each.to_dict() for each in self.left_out],
            "removed": self.removed,
        }


def publish(
    runs: PathLike | Sequence[PathLike],
    out: PathLike,
    *,
    history: PathLike | None = None,
    title: str = TITLE,
    levels: Sequence[float] = LEVELS,
    details: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> PublishedSite:
    """Write runs as a static site that needs no server: leaderboards, trends, every report, data files.

    Args:
        runs: run folders, folders of tunings, or folders that hold such folders.
        out: the folder of the site: new, or that of an older site, whose files are replaced.
        history: a history whose trends are shown.
        title: the title of the site.
        levels: levels of recall that leaderboards compare at.
        details: open the data and the truth that runs name, and show the worst queries with their texts.
        progress: called with the number of folders done and of all folders.
    """
    checked = checked_levels(levels)
    paths = [runs] if isinstance(runs, str) or hasattr(runs, "__fspath__") else list(runs)
    found = find_folders(paths)
    trends = [] if history is None else trends_of_file(history)
    with SiteFolder(out) as folder:
        maker = _SiteMaker(folder, page_addresses(REPORTS, [each.name for each in found]), details)
        for place, each in enumerate(found):
            maker.add(each)
            if progress is not None:
                progress(place + 1, len(found))
        content = maker.content(title, checked, trends, shown_trends=history is not None)
        pages = maker.write(content)
        removed = folder.exchange()
    return PublishedSite(
        folder.target,
        pages,
        len(content.runs),
        len(content.tunings),
        len(content.compared),
        content.left_out,
        removed,
    )


class _SiteMaker:
    """Takes one folder after the other, so that only one run is in memory at a time."""

    def __init__(self, folder: SiteFolder, addresses: dict[str, str], details: bool) -> None:
        self.folder, self.addresses, self.details = folder, addresses, details
        self.runs: list[PublishedRun] = []
        self.tunings: list[PublishedTuning] = []
        self.left_out: list[LeftOut] = []

    def add(self, found: FoundFolder) -> None:
        """Write the report of a folder, or say why there is none."""
        try:
            if found.tuning:
                self._add_tuning(found)
            else:
                self._add_run(found)
        except RecallError as problem:
            self.left_out.append(LeftOut(found.name, str(problem)))

    def _add_run(self, found: FoundFolder) -> None:
        run, address = open_found_run(found), self.addresses[found.name]
        # Whatever a crafted run makes fail costs its own page only.
        with reading(str(found.folder), "run"):
            data = RecordedBenchmark(run, found.folder)
            truth, dataset = (data.truth, data.judged_dataset) if self.details else (None, None)
            findings = audit_run(run, dataset=dataset, truth=truth, settings=data.settings)
            no_truth = data.no_truth if self.details else _NO_DATA
            report = RunReport(run, truth, dataset, findings=findings, no_truth=no_truth)
            kept = published_run(run, found.name, address, findings)
            page = render_html(replace(report.page, home=_HOME))
        self.folder.write(address, page)
        self.runs.append(kept)

    def _add_tuning(self, found: FoundFolder) -> None:
        tuned, findings = open_found_tuning(found)
        address = self.addresses[found.name]
        with reading(str(found.folder), "tuning"):
            kept = published_tuning(tuned, found.name, address)
            page = tuned_to_html(tuned, findings=findings, home=_HOME)
        self.folder.write(address, page)
        self.tunings.append(kept)

    def content(
        self, title: str, levels: tuple[float, ...], trends: Sequence[Trend], *, shown_trends: bool
    ) -> SiteContent:
        """What the pages show, once every folder was added."""
        compared, others = comparable_data(self.runs, levels)
        in_tables = [run for data in compared for run in data.runs]
        return SiteContent(
            title,
            levels,
            tuple(compared),
            tuple(self.tunings),
            tuple(sorted([*self.left_out, *others], key=lambda each: each.name)),
            tuple(trends) if shown_trends else (),
            MachineNames(in_tables),
            page_addresses(BOARDS, [each.title for each in compared]),
            FILES,
        )

    def write(self, site: SiteContent) -> int:
        """Write all pages but the reports, and the data files; the number of all pages."""
        reports = {run.name: f"../{run.page}" for run in self.runs}
        for data in site.compared:
            document = replace(board_page(data, site.machines, site.levels, reports), home=_HOME)
            with unchecked_charts():
                self.folder.write(site.board_pages[data.title], render_html(document))
        if site.trends:
            self.folder.write(TRENDS, _trends_page(site.trends))
        write_data_files(self.folder, site)
        self.folder.write(INDEX, render_html(index_page(site)))
        self.folder.write(NO_JEKYLL, "")
        return len(self.runs) + len(self.tunings) + len(site.compared) + (2 if site.trends else 1)


def _trends_page(trends: Sequence[Trend]) -> str:
    """The trends, those that changed first; a page has no room for the charts of thousands."""
    repeated = sorted((each for each in trends if len(each.entries) > 1), key=lambda each: not each.changes)
    once = [each for each in trends if len(each.entries) == 1]
    shown = repeated[:_MOST_TRENDS]
    about = [] if len(shown) == len(repeated) else [f"{len(shown):,} of {len(repeated):,} trends are shown."]
    return history_to_html([*shown, *once], about=about, home=INDEX)
