"""What was measured: builds, calls, scores, measurements, failures, runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from recallatk.core.trials import TimedCall, describe_calls
from recallatk.display import renderer
from recallatk.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.core.data import Metric
    from recallatk.core.trials import Parameters, Trial


@dataclass(frozen=True)
class Build:
    """One index as it was built, and what that cost."""

    engine: str
    version: str | None
    """Of the library behind the engine."""
    parameters: Parameters
    threads: int
    seconds: float | None
    memory_bytes: int | None
    """Private memory that the build added to its process; None when it was not measured."""
    size_bytes: int | None
    """The index as it would be stored; None when it was not measured."""
    cpu_seconds: float | None = None
    """Time on all cores together."""
    peak_bytes: int | None = None
    """The most that the process held while it built, beyond what it held before."""
    search_threads: int = 1
    call: str = "library call"
    """What one timed search is."""
    repeat: int = 0
    """Which of several builds; each but the first inserts the rows in another order."""


@dataclass(frozen=True)
class Mean:
    """The mean of a measure over queries."""

    value: float | None
    """None when no query could be scored."""
    ids: float | None
    """The same by strict ids, where ties at the boundary are cut by row number."""
    n: int
    """How many queries the mean is over."""
    low: float | None = None
    """The lower end of the 95 % interval over queries; None where there is none."""
    high: float | None = None


@dataclass(frozen=True, eq=False)
class Score:
    """What an answer set is worth: means by name, and counts of what was odd."""

    queries: int
    scored: int
    measures: Mapping[str, Mean]
    anomalies: Mapping[str, int | None]
    """Counts by kind; None where it could not be told."""
    per_query: Mapping[str, NDArray[np.float64]] = field(default_factory=dict, repr=False)
    """Each measure of every query that was asked; empty in a score that was read from run format 1 or 2."""
    sampled_from: int | None = None
    """Set when the truth is of a corpus sample: of how many rows."""
    missing: tuple[Any, ...] = ()
    """The ids of queries that the answers do not have; they score 0."""

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
    """Every timed call of a trial, in the order in which they were sent; nothing here is averaged."""

    query: NDArray[np.int32]
    """The first query of each call."""
    round: NDArray[np.int16]
    client: NDArray[np.int16]
    sent_ns: NDArray[np.int64]
    """When it was to be sent, since its round began; in a closed loop that is when it was."""
    latency_ns: NDArray[np.int64]
    """From then until the answer was there."""
    late_ns: NDArray[np.int64]
    """How much later than it was to be it was sent; 0 in a closed loop."""
    round_ns: NDArray[np.int64]
    """How long each round took."""
    batch: int = 1
    """Queries in a call; the last call of a round may have fewer."""
    size: NDArray[np.int32] | None = None
    """How many queries each call had; None: one."""
    clients: int | None = None
    """How many clients there were to send them; None where it was not recorded."""

    def __len__(self) -> int:
        return len(self.query)

    @property
    def answered(self) -> NDArray[np.int64]:
        """How many queries each round answered."""
        import numpy as np

        return np.bincount(self.round, self.size, self.rounds).astype(np.int64)

    @property
    def rounds(self) -> int:
        """How many rounds there were."""
        return len(self.round_ns)


@dataclass(frozen=True, eq=False)
class Others:
    """Answers that a query got when it was asked again and that differ from its first."""

    call: NDArray[np.int64]
    """Which call each stands for."""
    query: NDArray[np.int32]
    rows: NDArray[np.int64]
    """(answers, k) corpus rows."""

    def __len__(self) -> int:
        return len(self.call)


@dataclass(frozen=True)
class WarmUp:
    """What was asked before the clock counted."""

    calls: int
    settled: bool
    """Whether successive medians came within the tolerance before the bound was reached."""
    cold_ns: int | None = None
    """The very first call after the build; None where others came before it."""


@dataclass(frozen=True, eq=False)
class Measurement:
    """What one trial answered and how long each call took; nothing here is averaged."""

    trial: Trial
    build: Build
    k: int
    """How many neighbors each call asked for."""
    answers: NDArray[np.int64]
    """(queries, k) corpus rows as first returned; -1 where there was no answer."""
    calls: Calls
    exercised: str | None
    """The engine's evidence that its index answered."""
    score: Score
    """Of all timed calls, over the queries that were asked."""
    others: Others | None = None
    """Answers that changed from call to call; None where none did."""
    warm_up: WarmUp | None = None
    sentinel_ns: NDArray[np.int64] | None = None
    """What a fixed piece of work took beside each round: the machine's own pace."""
    highest_rate: float | None = None
    """Arrivals a second that were found to stay within the limit, where that was looked for."""
    times: NDArray[np.int64] | None = None
    """How often each query was asked; None: as often as calls begin with it."""

    @property
    def asked(self) -> NDArray[np.bool_]:
        """Which queries were asked at all."""
        import numpy as np

        begun = np.bincount(self.calls.query, minlength=len(self.answers))
        return (begun if self.times is None else self.times) > 0

    def values(self, measure: str) -> NDArray[np.float64] | None:
        """A measure of every query in the set, NaN where it was not asked; None where it is not known."""
        import numpy as np

        known = self.score.per_query.get(measure)
        if known is None or len(known) == len(self.answers):
            return known
        everywhere = np.full(len(self.answers), np.nan)
        everywhere[self.asked] = known
        return everywhere

    @property
    def timed_call(self) -> TimedCall:
        """What each latency of the trial covers."""
        built = self.build
        threads = None if built.seconds is None else built.threads
        return TimedCall(self.trial.engine, built.call, self.k, built.search_threads, threads)

    @property
    def latencies_ns(self) -> NDArray[np.int64]:
        """One number per call."""
        return self.calls.latency_ns


@dataclass(frozen=True)
class Failure:
    """A trial that could not be measured, and why."""

    trial: Trial
    kind: str
    """exception, crash, time limit, memory limit, no evidence."""
    phase: str
    """What was going on: build, warm-up, search."""
    message: str
    log: str = ""
    """The end of what the process had said."""


@dataclass(frozen=True)
class Caution:
    """Something that a reader must know before believing a number."""

    kind: str
    message: str
    value: float | None = None
    limit: float | None = None


@dataclass(frozen=True, eq=False)
class Run:
    """Measurements that belong together: one dataset, one truth, one machine."""

    dataset: str
    metric: Metric
    fingerprints: Mapping[str, str]
    """Of the data that was measured, and of the truth that it was scored against."""
    environment: Mapping[str, Any]
    measurements: tuple[Measurement, ...]
    sampled_from: int | None = None
    """Set when the corpus was a sample: of how many rows. Recall on it does not carry over to them."""
    failures: tuple[Failure, ...] = ()
    cautions: tuple[Caution, ...] = ()
    planned: tuple[Trial, ...] | None = None
    """All trials that were to be measured; None where nobody said."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The bench file that it follows, as plain values and without secrets."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Where the time went: building, searching, and everything else."""
    begun: str | None = None
    """When it was begun, ISO 8601 in UTC."""
    checked: bool = True
    """False where it was read from files without checksums, in which damage goes unnoticed."""

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

        Args:
            target: one or more targets, such as `"recall@10 >= 0.95"`; intervals decide, not means alone.
            budget: limits to stay within, such as `"p95 <= 5ms"`.

        Raises:
            UsageError: no measured setting meets the goals; the message says what the nearest one reaches.
        """
        found: Measurement = renderer().best_measurement(self, target, budget)
        return found

    @property
    def timed(self) -> str | None:
        """What a latency covers, as the built engines said; None where nothing was measured."""
        return describe_calls(each.timed_call for each in self.measurements)

    @property
    def complete(self) -> bool:
        """Whether every planned trial was measured or has failed."""
        done = {each.trial for each in self.measurements} | {each.trial for each in self.failures}
        return self.planned is None or done >= set(self.planned)


def _data_frame(table: pa.Table) -> Any:
    try:
        return table.to_pandas()
    except ModuleNotFoundError as problem:
        raise UsageError("pandas is not installed. Install it: pip install pandas") from problem
