"""Measurements: builds, calls, scores, failures, runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from recallatk.core.trials import TimedCall, describe_calls
from recallatk.display import renderer
from recallatk.errors import UsageError
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.core.data import Metric
    from recallatk.core.filtering import FilterFacts, Refusals
    from recallatk.core.judged import Judged
    from recallatk.core.losses import LossEvidence
    from recallatk.core.stages import MeasuredStages
    from recallatk.core.trials import Parameters, Trial
    from recallatk.core.weights import Weights


@dataclass(frozen=True)
class Build:
    """One built index, and its cost."""

    engine: str
    version: str | None
    """Name and version of the engine's library."""
    parameters: Parameters
    threads: int
    seconds: float | None
    memory_bytes: int | None
    """Private memory that the build added to its process; None if not measured."""
    size_bytes: int | None
    """Size of the stored index; None if not measured."""
    cpu_seconds: float | None = None
    """CPU time summed over all cores."""
    peak_bytes: int | None = None
    """Peak memory of the process during the build, beyond what it held before."""
    search_threads: int = 1
    call: str = "library call"
    """Kind of timed call."""
    repeat: int = 0
    """Number of the build; each build after the first inserts the rows in a different order."""


@dataclass(frozen=True)
class Mean:
    """The mean of a measure over queries."""

    value: float | None
    """None if no query could be scored."""
    ids: float | None
    """The same by strict ids: ties at rank k are broken by row number."""
    n: int
    """Number of queries in the mean."""
    low: float | None = None
    """Lower end of the 95 % confidence interval over queries; None if there is none."""
    high: float | None = None
    unweighted: float | None = None
    """The mean with equal weights; None if the queries have no weights."""
    effective: float | None = None
    """Effective number of queries in a weighted mean; None if the queries have no weights."""


@dataclass(frozen=True, eq=False)
class Score:
    """Score of an answer set: means by measure, and counts of anomalies."""

    queries: int
    scored: int
    measures: Mapping[str, Mean]
    anomalies: Mapping[str, int | None]
    """Counts by kind; None if not checked."""
    per_query: Mapping[str, NDArray[np.float64]] = field(default_factory=dict, repr=False)
    """Each measure for every query sent; empty in scores from run formats 1 and 2."""
    sampled_from: int | None = None
    """If the truth is for a sample, the number of rows of the full corpus."""
    missing: tuple[Any, ...] = ()
    """Ids of queries without answers; they score 0."""
    synthetic: bool = False
    """Whether the filters of the queries are synthetic."""
    unreached: tuple[int, ...] = ()
    """Default values of k that the truth has, left out because no query has that many answers."""
    weights: Weights | None = field(default=None, repr=False)
    """The weight of every query sent; None if all count the same."""

    def __repr__(self) -> str:
        missing = f", {len(self.missing):,} without answers" if self.missing else ""
        left_out = f", no query has {self.unreached[0]} answers" if self.unreached else ""
        return f"<Score of {counted(self.scored, 'query', 'queries')}{missing}{left_out}: {_means(self)}>"

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        shown: str = renderer().score_repr_html(self)
        return shown

    def to_arrow(self) -> pa.Table:
        """One row per measure."""
        return renderer().score_to_arrow(self)

    def to_pandas(self) -> Any:
        """The same as a pandas DataFrame."""
        return _data_frame(self.to_arrow())

    def __getitem__(self, measure: str) -> float | None:
        """The mean of a measure, for example `score["recall@10"]`."""
        if measure not in self.measures:
            raise UsageError(f"no measure {measure!r}. Scored: {', '.join(self.measures)}")
        return self.measures[measure].value


@dataclass(frozen=True, eq=False)
class Calls:
    """Every timed call of a trial, in sending order, without averaging."""

    query: NDArray[np.int32]
    """The first query of each call."""
    round: NDArray[np.int16]
    client: NDArray[np.int16]
    sent_ns: NDArray[np.int64]
    """Scheduled sending time since the start of the round; in a closed loop, the actual time."""
    latency_ns: NDArray[np.int64]
    """Time from the scheduled sending to the answer."""
    late_ns: NDArray[np.int64]
    """Delay of the actual sending; 0 in a closed loop."""
    round_ns: NDArray[np.int64]
    """Duration of each round."""
    batch: int = 1
    """Queries per call; the last call of a round may have fewer."""
    size: NDArray[np.int32] | None = None
    """Number of queries per call; None: one."""
    clients: int | None = None
    """Number of clients; None if not recorded."""

    def __len__(self) -> int:
        return len(self.query)

    @property
    def answered(self) -> NDArray[np.int64]:
        """Number of queries answered per round."""
        import numpy as np

        return np.bincount(self.round, self.size, self.rounds).astype(np.int64)

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return len(self.round_ns)


@dataclass(frozen=True, eq=False)
class Others:
    """Repeated answers to a query that differ from its first answer."""

    call: NDArray[np.int64]
    """Call of each answer."""
    query: NDArray[np.int32]
    rows: NDArray[np.int64]
    """(answers, k) corpus rows."""

    def __len__(self) -> int:
        return len(self.call)


@dataclass(frozen=True)
class WarmUp:
    """Warm-up calls before timing."""

    calls: int
    settled: bool
    """Whether successive medians came within the tolerance before the limit."""
    cold_ns: int | None = None
    """Latency of the first call after the build; None if others came before it."""


@dataclass(frozen=True, eq=False)
class Measurement:
    """Answers and call latencies of one trial, without averaging."""

    trial: Trial
    build: Build
    k: int
    """Number of neighbors requested per query."""
    answers: NDArray[np.int64]
    """(queries, k) corpus rows as first returned; -1 without an answer."""
    calls: Calls
    exercised: str | None
    """The engine's evidence that its index answered."""
    score: Score
    """Score over all timed calls and all queries sent."""
    others: Others | None = None
    """Answers that changed between calls; None if none did."""
    warm_up: WarmUp | None = None
    sentinel_ns: NDArray[np.int64] | None = None
    """Time of a fixed piece of work with each round, which shows the machine's pace."""
    highest_rate: float | None = None
    """Highest arrival rate within the p99 limit, if searched for."""
    times: NDArray[np.int64] | None = None
    """How often each query was sent; None: as often as calls begin with it."""
    loss: LossEvidence | None = None
    """Evidence on the neighbors that it missed; None if none was collected."""
    refused: Refusals | None = None
    """Queries that were not sent because the engine refused their filters; None if it refused none."""
    filters: FilterFacts | None = None
    """What the filters of the queries admit; None without filters, and in run formats before 4."""
    violations: NDArray[np.int64] | None = None
    """Number of rows in the first answer to each query that its filter does not admit."""
    stages: MeasuredStages | None = None
    """What the stages of a path returned and took; None for an engine without stages."""
    judged: Judged | None = None
    """How good its first answers are downstream; None if nothing judged them."""
    own_truth: bool = False
    """Whether its score is against the truth of its own path, which is stored with the stages."""

    @property
    def truth_lost(self) -> bool:
        """Whether the truth of its own path is not known any more, as if its stage file was lost."""
        return self.own_truth and (self.stages is None or self.stages.truth is None)

    @property
    def asked(self) -> NDArray[np.bool_]:
        """Which queries were sent at least once."""
        import numpy as np

        begun = np.bincount(self.calls.query, minlength=len(self.answers))
        return (begun if self.times is None else self.times) > 0

    def __repr__(self) -> str:
        return f"<Measurement of {self.trial}: {_means(self.score)}>"

    def values(self, measure: str) -> NDArray[np.float64] | None:
        """A measure for every query, NaN for queries not sent; None if unknown."""
        import numpy as np

        known = self.score.per_query.get(measure)
        if known is None or len(known) == len(self.answers):
            return known
        everywhere = np.full(len(self.answers), np.nan)
        everywhere[self.asked] = known
        return everywhere

    @property
    def weights(self) -> NDArray[np.float64] | None:
        """The weight of every query, 0 for queries not sent; None if all count the same."""
        import numpy as np

        known = self.score.weights
        if known is None or len(known) == len(self.answers):
            return None if known is None else known.values
        everywhere = np.zeros(len(self.answers))
        everywhere[self.asked] = known.values
        return everywhere

    @property
    def timed_call(self) -> TimedCall:
        """What each latency of the trial covers."""
        built = self.build
        threads = None if built.seconds is None else built.threads
        return TimedCall(self.trial.engine, built.call, self.k, built.search_threads, threads)

    @property
    def latencies_ns(self) -> NDArray[np.int64]:
        """One latency per call."""
        return self.calls.latency_ns


@dataclass(frozen=True)
class Failure:
    """A trial that could not be measured, with the reason."""

    trial: Trial
    kind: str
    """exception, crash, time limit, memory limit, no evidence, refused."""
    phase: str
    """build, warm-up, search, or truth if the truth of a path could not be made."""
    message: str
    log: str = ""
    """The last lines of the process output."""


@dataclass(frozen=True)
class Caution:
    """Something a reader must know before trusting a number."""

    kind: str
    message: str
    value: float | None = None
    limit: float | None = None


LARGE_K, FEW_EFFECTIVE = "large k", "weights"
"""Kinds of cautions: k beyond the corpus, and a few queries that carry a weighted mean."""
SHOWN_FIRST = (LARGE_K, FEW_EFFECTIVE)
"""Kinds that a terminal always shows: no rule of the linter repeats them."""
SYNTHETIC_FILTERS = Caution(
    "synthetic filters",
    "the filters were made by recallatk workload and were not taken from real queries",
)


@dataclass(frozen=True, eq=False)
class Run:
    """Measurements that belong together: one dataset, one truth, one machine."""

    dataset: str
    metric: Metric
    fingerprints: Mapping[str, str]
    """Fingerprints of the data and of the truth."""
    environment: Mapping[str, Any]
    measurements: tuple[Measurement, ...]
    sampled_from: int | None = None
    """For a sampled corpus, the number of rows of the full corpus, to which recall does not carry over."""
    failures: tuple[Failure, ...] = ()
    cautions: tuple[Caution, ...] = ()
    planned: tuple[Trial, ...] | None = None
    """All planned trials; None if unknown."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The bench file as plain values, redacted."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Where the time went: building, searching, and everything else."""
    begun: str | None = None
    """Start time, ISO 8601 in UTC."""
    checked: bool = True
    """False if it was read from files without checksums, where damage goes unnoticed."""
    models: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The embedding models of `corpus` and `queries`, as far as they are known."""

    def __str__(self) -> str:
        shown: str = renderer().run_text(self)
        return shown

    def __repr__(self) -> str:
        count = counted(len(self.measurements), "measurement", "measurements")
        failed = f", {counted(len(self.failures), 'failure', 'failures')}" if self.failures else ""
        return f"<Run on {self.dataset}, {self.metric}: {count}{failed}>"

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        shown: str = renderer().run_repr_html(self)
        return shown

    def to_arrow(self) -> pa.Table:
        """One row per trial with every number of it."""
        return renderer().run_to_arrow(self)

    def to_pandas(self) -> Any:
        """The same as a pandas DataFrame: engine, `build.*`, `search.*`, measures, intervals, latencies."""
        return _data_frame(self.to_arrow())

    def plot(self, against: str = "latency") -> Any:
        """The recall curve as an Altair chart, which a notebook shows and `save` writes.

        Args:
            against: `latency` or `qps`.
        """
        return renderer().run_chart(self, against)

    def best(self, target: str | Sequence[str], *, budget: str | Sequence[str] = ()) -> Measurement:
        """The cheapest measured setting that meets every goal, by p95 latency.

        Trials kept from earlier settings of the run are not considered.

        Args:
            target: one or more targets, such as `"recall@10 >= 0.95"`; intervals decide, not means alone.
            budget: limits to stay within, such as `"p95 <= 5ms"`.

        Raises:
            UsageError: no measured setting meets the goals; the message says what the nearest one reaches.
        """
        found: Measurement = renderer().best_measurement(self, target, budget)
        return found

    @property
    def synthetic(self) -> bool:
        """Whether the filters of the queries are synthetic."""
        return any(each.kind == SYNTHETIC_FILTERS.kind for each in self.cautions)

    @property
    def timed(self) -> str | None:
        """What a latency covers, as the built engines report; None if nothing was measured."""
        return describe_calls(each.timed_call for each in self.measurements)

    @property
    def complete(self) -> bool:
        """Whether every planned trial was measured or has failed."""
        done = {each.trial for each in self.measurements} | {each.trial for each in self.failures}
        return self.planned is None or done >= set(self.planned)

    @property
    def by(self) -> tuple[str, ...]:
        """Query columns that its settings name for segments."""
        return self._named("by")

    @property
    def by_row(self) -> tuple[str, ...]:
        """Corpus columns that its settings group true neighbors by."""
        return self._named("by_row")

    def _named(self, key: str) -> tuple[str, ...]:
        measure = self.settings.get("measure")
        named = measure.get(key) if isinstance(measure, Mapping) else None
        return tuple(map(str, named)) if isinstance(named, list | tuple) else ()

    @property
    def kept(self) -> tuple[Trial, ...]:
        """Measured trials of earlier settings that the plan no longer names."""
        if self.planned is None:
            return ()
        planned = set(self.planned)
        return tuple(each.trial for each in self.measurements if each.trial not in planned)

    @property
    def candidates(self) -> tuple[Measurement, ...]:
        """Measurements that a verdict may choose: those of planned trials, or all if no plan is known."""
        kept = set(self.kept)
        return tuple(each for each in self.measurements if each.trial not in kept)


def _means(score: Score) -> str:
    means = ((name, each.value) for name, each in score.measures.items())
    return ", ".join(f"{name} {'-' if value is None else f'{value:.4f}'}" for name, value in means)


def _data_frame(table: pa.Table) -> Any:
    try:
        return table.to_pandas()
    except ModuleNotFoundError as problem:
        raise UsageError("pandas is not installed. Install it: pip install pandas") from problem
