"""One benchmark: its settings, data, truth and plan, each opened once, on first use."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from recallatk import api
from recallatk.analysis.filtered import DEPTH, filter_facts
from recallatk.analysis.measures import parse_measure
from recallatk.bench.downstream import judges_of
from recallatk.bench.plan import Plan, make_plan
from recallatk.bench.settings import open_data
from recallatk.bench.settings.data import require_measurable_data
from recallatk.bench.settings.problems import SettingsError
from recallatk.bench.settings.values import filled
from recallatk.bench.truth_lookup import TruthFile, stored_truths
from recallatk.goals import require_answerable, sort_goals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from recallatk.bench.downstream import Judge
    from recallatk.bench.settings import Settings
    from recallatk.core import Dataset, FilterFacts, Truth
    from recallatk.errors import UsageError
    from recallatk.files import PathLike

_RUNS = "runs"


class Benchmark:
    """The data, truth, goals and engines of one benchmark; a tuning or an audit needs no engines.

    Paths and URLs in the settings are opened, and `${NAME}` is expanded. A run folder may come from anybody:
    open it with `RecordedBenchmark` instead.

    Args:
        settings: `read_settings` reads them from a bench file, `implied` makes them for a corpus.
        dataset: the data, if open already.
        truth: the ground truth, if known already.
        reworded: makes the error that is raised for problems of the settings, where no bench file has them.
    """

    def __init__(
        self,
        settings: Settings,
        dataset: Dataset | None = None,
        truth: Truth | None = None,
        *,
        reworded: Callable[[SettingsError], UsageError] | None = None,
    ) -> None:
        self.settings = settings
        self._given, self._truth, self._reworded = dataset, truth, reworded

    @cached_property
    def dataset(self) -> Dataset:
        """The data, split and sampled, after checking that every engine can search them."""
        if self._given is None:
            with self._rewording():
                return open_data(self.settings)
        require_measurable_data(self.settings, self._given)
        return self._given

    def find_truth(self, *depths: int) -> Truth | None:
        """The truth if it exists: given, in the file of the settings, or in the store; None otherwise.

        A truth file that cannot be used is an error, as it is for a run.

        Args:
            depths: depths to look for in the store before the one that a run uses.
        """
        asked, data = self.settings.truth, self.dataset
        if self._truth is None and asked.file is not None:
            self._truth = TruthFile(filled(asked.file, "truth.file")).read(data.corpus, data.metric)
        if self._truth is not None:
            return self._truth
        found = next(stored_truths(asked.store, data, [*depths, self._depth]), None)
        if not depths:
            self._truth = found
        return found

    def truth(self, progress: Callable[[int, int], None] | None = None) -> Truth:
        """The truth, computed and stored if it does not exist."""
        from recallatk.truths import obtain_truth

        asked, found = self.settings.truth, self.find_truth()
        if found is None:
            found = self._truth = obtain_truth(
                self.dataset, depth=self._depth, store=asked.store, memory=asked.memory, progress=progress
            ).truth
        return found

    def filter_facts(self, progress: Callable[[int, int], None] | None = None) -> FilterFacts | None:
        """What the filters of the queries admit; None without filters.

        The truth of the same queries without filters is computed and stored beside the other. Where the truth
        comes from a file, it is only looked up, because the corpus may be too large to scan.
        """
        if not self.dataset.queries.filtered:
            return None
        asked, rows = self.settings.truth, self.dataset.corpus.rows
        depth = min(rows, max(DEPTH, self.settings.measure.largest_k))
        if asked.file is None:
            return api.filter_facts(
                self.dataset, depth=depth, store=asked.store, memory=asked.memory, progress=progress
            )
        without = replace(self.dataset, queries=self.dataset.queries.where(None))
        return filter_facts(self.dataset, next(stored_truths(asked.store, without, [depth]), None))

    @cached_property
    def judges(self) -> tuple[Judge, ...]:
        """Judges of answers; judgments that the settings name and that fit no data are refused."""
        named = self.settings.data.qrels is not None
        return judges_of(self.dataset, self.settings.measure.at, required=named)

    @property
    def _depth(self) -> int:
        return self.settings.depth(self.dataset.corpus.rows)

    @cached_property
    def plan(self) -> Plan:
        """Every build and trial; goals and measures that these data cannot decide are refused."""
        targets, _ = sort_goals([*self.settings.tune.target, *self.settings.tune.budget])
        require_answerable(targets, self.dataset)
        for each in self.settings.measure.measures:
            parse_measure(each).require_metric(self.dataset.metric)
        # Judgments of other data are found before anything is measured.
        _ = self.judges
        corpus = self.dataset.corpus
        with self._rewording():
            return make_plan(self.settings, rows=corpus.rows, dimension=corpus.dimension)

    @contextmanager
    def _rewording(self) -> Iterator[None]:
        try:
            yield
        except SettingsError as problem:
            if self._reworded is None:
                raise
            raise self._reworded(problem) from None

    def folder(self, out: PathLike | None = None) -> Path:
        """The run folder, relative to the current folder if it is below it."""
        settings = self.settings
        folder = Path(out if out is not None else settings.output.folder or Path(_RUNS) / settings.name)
        here = Path.cwd()
        return folder.relative_to(here) if folder.is_relative_to(here) else folder
