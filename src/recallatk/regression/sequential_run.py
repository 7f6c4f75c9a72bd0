"""The settings of a bench file, asked in random order until every goal is decided."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from recallatk.adapters import get_engine
from recallatk.analysis.betting import lower_bound, upper_bound
from recallatk.analysis.distribution import mean_of
from recallatk.analysis.measures import Recall, parse_measure
from recallatk.analysis.query_groupings import KnownQueries
from recallatk.analysis.sides import ComparedSide, SideBuild, SideKind, SideSetting
from recallatk.analysis.weighting import query_columns, weights_by_query
from recallatk.bench.environment import describe_environment
from recallatk.bench.measurement import require_measurable, trial_settings_of
from recallatk.fingerprint import fingerprint_truth, fingerprints
from recallatk.goals.target import Target
from recallatk.regression.run_side import described_queries
from recallatk.scratch import ScratchFolder, sweep
from recallatk.tuning.index_client import IndexClient, IndexPool
from recallatk.tuning.journal import Journal
from recallatk.tuning.query_split import Side

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from recallatk.bench.benchmark import Benchmark
    from recallatk.bench.plan import PlannedBuild
    from recallatk.core import Mean, Truth
    from recallatk.regression.setting_tests import SettingTests

    Progress = Callable[[int, int], None]

# Small, because a good index needs few queries; each batch takes one message to the worker.
_BATCH = 32


def batch_size(asked: int) -> int:
    """The number of queries to ask next: a quarter more, so that few are asked in vain."""
    return max(_BATCH, asked // 4)


class NeedsTrials(Exception):  # noqa: N818 - not an error
    """Some queries cannot be asked one by one, so that full trials have to be measured."""


class AskedSetting(NamedTuple):
    """One setting with the answers that were needed."""

    setting: SideSetting
    asked: int


@dataclass
class SequentialRun:
    """Settings of a benchmark, each asked only as much as its goals need.

    Args:
        benchmark: the data, truth and plan.
        name: as the user named it.
        progress: called with the number of queries asked, and of all.
    """

    benchmark: Benchmark
    name: str
    progress: Progress | None = None

    def __post_init__(self) -> None:
        benchmark = self.benchmark
        dataset, self.timing = benchmark.dataset, trial_settings_of(benchmark.settings)
        self.truth: Truth = benchmark.truth(self.progress)
        require_measurable(dataset, self.truth, self.timing.at)
        facts = benchmark.filter_facts(self.progress)
        weights = weights_by_query(
            query_columns(self.truth, dataset), self.timing.weight, dataset.queries.rows
        )
        numbers = np.arange(dataset.queries.rows)
        self.side = Side("all", numbers, dataset, self.truth, None, weights, facts)
        names = dict.fromkeys([*(str(Recall(k)) for k in self.timing.at), *self.timing.measures])
        # The value of these targets means nothing: they say what to measure.
        self.measures = [Target(parse_measure(each), 0.5) for each in names]

    @property
    def queries(self) -> int:
        """Number of queries."""
        return len(self.side)

    def described(self) -> ComparedSide:
        """The settings to measure, without values, and what is known of the queries."""
        dataset, side, settings = self.benchmark.dataset, self.side, self.benchmark.settings
        queries = dataset.queries
        known = KnownQueries(self.truth, queries.metadata, queries, side.scored_weights, side.facts)
        found = described_queries(
            self.truth, known, queries.text_column or "text", tuple(settings.measure.by or ())
        )
        return ComparedSide(
            self.name,
            SideKind.RUN,
            tuple(
                SideSetting(each.engine, each.parameters, search, str(each.loads[0]), ())
                for each in self.benchmark.plan.builds
                for search in each.searches
            ),
            dataset.metric,
            {**fingerprints(dataset), "truth": fingerprint_truth(self.truth)},
            self.queries,
            found.ids,
            found.texts,
            queries.metadata,
            side.facts,
            found.groupings,
            side.scored_weights,
            describe_environment(),
            dataset.models,
            data=dataset.name,
        )

    @property
    def possible(self) -> bool:
        """Whether every setting has one build and one load, as it is asked here."""
        return all(each.repeat == 0 and len(each.loads) == 1 for each in self.benchmark.plan.builds)

    def asked(self, tests: Mapping[Any, Sequence[SettingTests]]) -> dict[Any, AskedSetting]:
        """The settings with tests, by their keys; the others are not measured.

        Args:
            tests: the tests of each setting, by its key.

        Raises:
            NeedsTrials: an index refuses filters of some queries.
        """
        dataset = self.benchmark.dataset
        engines = [get_engine(name) for name in dict.fromkeys(each[0] for each in tests)]
        found: dict[Any, AskedSetting] = {}
        total = len(tests) * self.queries
        sweep()
        with ScratchFolder() as folder:
            pool = IndexPool(
                dataset, folder, self.timing.k, self.timing.seed, self.timing.limits, engines, self.timing
            )
            for planned in self.benchmark.plan.builds:
                # Each build has a process of its own, so that memory is that of one index.
                with closing(pool):
                    for each in self._of_build(pool, planned, tests):
                        found[each.setting.key] = each
                        self._tell(len(found) * self.queries, total)
        return found

    def _tell(self, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(done, total)

    def _of_build(
        self, pool: IndexPool, planned: PlannedBuild, tests: Mapping[Any, Sequence[SettingTests]]
    ) -> Iterator[AskedSetting]:
        rows = self.benchmark.dataset.corpus.rows
        client = IndexClient(pool, Journal(None), planned.engine, dict(planned.parameters), rows)
        client.seconds_left = self.timing.limits.build_seconds
        for search in planned.searches:
            empty = SideSetting(planned.engine, planned.parameters, search, str(planned.loads[0]), ())
            if empty.key in tests:
                yield self._asked(client, empty, tests[empty.key])

    def _asked(self, client: IndexClient, empty: SideSetting, tests: Sequence[SettingTests]) -> AskedSetting:
        built = client.built()
        if built.refused is not None:
            raise NeedsTrials
        costs = {"memory": built.memory_bytes, "size": built.size_bytes, "build": built.seconds}
        values: dict[str, NDArray[np.float64]] = {
            str(each.measure): np.full(self.queries, np.nan) for each in self.measures
        }
        order, asked = self.side.order(self.timing.seed), 0
        setting = replace(empty, version=built.version, builds=(SideBuild({}, values, {}, costs),))
        while asked < len(order) and not all(each.decided for each in tests):
            which = order[asked : asked + batch_size(asked)]
            answers = client.ask(self.side, self.measures, dict(empty.search), which)
            for target, raw in zip(self.measures, answers.raw, strict=True):
                values[str(target.measure)][which] = raw
            for each in tests:
                each.take(setting, which)
            asked += len(which)
        sent = order[:asked]
        means = {name: self._mean(found, name, sent) for name, found in values.items()}
        build = SideBuild(means, values, {}, costs)
        return AskedSetting(replace(setting, builds=(build,)), asked)

    def _mean(self, values: NDArray[np.float64], name: str, sent: NDArray[np.int64]) -> Mean:
        """The mean of what was asked; its interval holds although the answers decided when to stop."""
        found = mean_of(values, name)
        scored = values[sent][~np.isnan(values[sent])]
        if len(sent) == self.queries or not len(scored) or not parse_measure(name).bounded:
            return found
        low, high = (bound(scored, 0.975, in_order=True) for bound in (lower_bound, upper_bound))
        return replace(found, low=low, high=high)
