"""Indexes in worker processes: built on first use, and queried only for steps missing from the journal."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.adapters.registry import declaration_of, get_engine
from recallatk.analysis.relevance import relevance_loss
from recallatk.bench.job import Job, TrialSettings, write_data
from recallatk.bench.messages import Built
from recallatk.bench.path_truths import PathTruths
from recallatk.bench.process_usage import Limits
from recallatk.bench.rerank_process import RerankProcess
from recallatk.bench.supervisor import TrialFailed, WorkerProcess
from recallatk.core import Trial
from recallatk.datasets.sampling import take_queries
from recallatk.errors import RecallError
from recallatk.pipeline.path_engine import PathEngine

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from recallatk.adapters import Engine
    from recallatk.bench.journal import Journal
    from recallatk.bench.trial_result import Answered
    from recallatk.core import Dataset, Truth
    from recallatk.goals import Target
    from recallatk.tuning.query_split import Side

# Seconds for an idle worker to close its engine; short, because a tuning may hold several.
_CLOSE_SECONDS = 5.0


@dataclass(frozen=True, eq=False)
class ScoredAnswers:
    """Answers to some queries of a side: a value for each target, and latencies."""

    which: NDArray[np.int64]
    values: tuple[NDArray[np.float64], ...]
    """Value per query for each target, from 0 to 1; NaN where the target does not apply."""
    raw: tuple[NDArray[np.float64], ...]
    """The same in units of the target, as measure or loss."""
    latencies_ns: NDArray[np.int64]
    measured: NDArray[np.float64]
    """The first target's measure per query, whether or not the target applies."""
    pace_ns: int | None = None
    """Time of a fixed piece of work right after the calls; None if not requested."""
    weights: NDArray[np.float64] | None = None
    """How much each query counts; None if all count the same."""


@dataclass
class IndexPool:
    """The workers that hold indexes, as few as possible."""

    dataset: Dataset
    folder: Path
    k: int
    seed: int
    limits: Limits = field(default_factory=Limits)
    engines: Sequence[type[Engine]] = ()
    """The engines that will be built."""
    settings: TrialSettings | None = None
    """Threads and cores of builds and searches; by default those of a tuning."""

    def __post_init__(self) -> None:
        self._data: Path | None = None
        self._truths: dict[str, PathTruths] = {}
        self._open: list[tuple[WorkerProcess, IndexClient | None]] = []

    @property
    def data(self) -> Path:
        """The folder with the data for all workers, written on first use."""
        if self._data is None:
            self._data = self.folder / "data"
            self._data.mkdir()
            write_data(self._data, self.dataset, self.engines)
        return self._data

    def start(self, engine: str) -> None:
        """Start a worker early, so that it loads its library in the background."""
        if not any(each.job.engine == engine for each, _ in self._open):
            self._open.append((self._started(engine), None))

    def _started(self, engine: str) -> WorkerProcess:
        metric, settings = str(self.dataset.metric), self.settings or TrialSettings(seed=self.seed)
        job = Job(engine, metric, self.k, settings, declaration=declaration_of(engine))
        return WorkerProcess(self.data, self.folder / f"process-{len(self._open)}", job)

    def holding(self, index: IndexClient) -> WorkerProcess | None:
        """The worker that holds this index or an equal one; None if there is none."""
        for place, (worker, held) in enumerate(self._open):
            if worker.alive and held is not None and held.name == index.name:
                self._open[place] = (worker, index)
                return worker
        return None

    def build(self, index: IndexClient, seconds: float | None) -> Built:
        """Build an index in a worker of its engine whose index is not needed anymore."""
        place = self._free(index.engine)
        worker = self._open[place][0]
        self._open[place] = (worker, None)
        worker.limits = Limits(build_seconds=seconds, memory_bytes=self.limits.memory_bytes)
        built = worker.build(index.build, index.side_rows)
        self._open[place] = (worker, index)
        return built

    def _free(self, engine: str) -> int:
        for place, (worker, held) in enumerate(self._open):
            if worker.job.engine == engine and worker.alive and (held is None or not held.kept):
                return place
        self._open.append((self._started(engine), None))
        return len(self._open) - 1

    def truth_of(self, side: Side, engine: str, build: dict[str, Any], search: dict[str, Any]) -> Truth:
        """The truth of a setting: of the side, or of the fusion and reranking of a path."""
        kind = get_engine(engine)
        if not issubclass(kind, PathEngine):
            return side.truth
        if side.name not in self._truths:
            settings = TrialSettings(seed=self.seed, limits=self.limits)
            process = RerankProcess(self.data, self.folder / "truth", self.dataset.metric, self.k, settings)
            self._truths[side.name] = PathTruths(side.dataset, side.truth, side.numbers, side.rows, process)
        trial = Trial(engine, tuple(build.items()), tuple(search.items()))
        try:
            return self._truths[side.name].of(kind, trial, self.k)
        except TrialFailed:
            raise
        except RecallError as problem:
            # A function that fails on exact lists costs its setting.
            raise TrialFailed("exception", "truth", str(problem)) from problem

    def close(self) -> None:
        """Stop all workers."""
        for worker, _ in self._open:
            worker.finish(_CLOSE_SECONDS)


class IndexClient:
    """One build of the corpus or a sample; every request goes through the journal."""

    def __init__(
        self, pool: IndexPool, journal: Journal, engine: str, build: dict[str, Any], rows: int,
        part: NDArray[np.int64] | None = None,
    ) -> None:  # fmt: skip
        self.pool, self.journal, self.engine, self.build, self.rows = pool, journal, engine, build, rows
        self.side_rows = part
        self.kept = False
        """Whether its worker must not be reused for another build."""
        self.seconds_left: float | None = None

    @property
    def name(self) -> list[Any]:
        """Key in the journal."""
        return [self.engine, self.build, self.rows]

    def built(self) -> Built:
        """Cost of the build, from the first time it was built."""
        found = self.journal.step(["build", *self.name], self._build, self.seconds_left)
        return Built(**found["built"])

    def _build(self) -> dict[str, Any]:
        return {"built": asdict(self.pool.build(self, self.seconds_left))}

    def ask(
        self, side: Side, targets: Sequence[Target], search: dict[str, Any], which: NDArray[np.int64],
        *, warm: bool = False, pace: bool = False, purpose: str = "",
    ) -> ScoredAnswers:  # fmt: skip
        """Send some queries of a side and score the answers."""
        numbers = side.asked(which)
        key = ["ask", *self.name, side.name, search, purpose, warm, _digest(numbers)]
        found = self.journal.step(key, lambda: self._ask(side, targets, search, which, numbers, warm, pace))
        raw = tuple(_floats(each) for each in found["raw"])
        return ScoredAnswers(
            which,
            tuple(target.shaped(each) for target, each in zip(targets, raw, strict=True)),
            raw,
            np.asarray(found["latency_ns"], np.int64),
            _floats(found["measured"]),
            found["pace_ns"],
            None if side.weights is None else side.weights.values[which],
        )

    def answers(self, side: Side, search: dict[str, Any], which: NDArray[np.int64]) -> NDArray[np.int64]:
        """The corpus rows that this build of the whole corpus returns for some queries of a side."""
        numbers = side.asked(which)
        key = ["answers", *self.name, side.name, search, _digest(numbers)]
        found = self.journal.step(key, lambda: {"rows": self._sent(search, numbers).rows.tolist()})
        return np.asarray(found["rows"], np.int64).reshape(len(which), -1)

    def _sent(
        self, search: dict[str, Any], numbers: NDArray[np.int64], *, warm: bool = False, pace: bool = False
    ) -> Answered:
        """Send queries by number to the worker that holds this index; if none does, it is built again."""
        worker = self.pool.holding(self)
        if worker is None:
            self.pool.build(self, self.seconds_left)
            worker = self.pool.holding(self)
            if worker is None:
                raise TrialFailed("crash", "start", "the worker process ended without an error message")
        return worker.ask(search, numbers, warm=warm, pace=pace)

    def _ask(
        self, side: Side, targets: Sequence[Target], search: dict[str, Any], which: NDArray[np.int64],
        numbers: NDArray[np.int64], warm: bool, pace: bool,
    ) -> dict[str, Any]:  # fmt: skip
        answered = self._sent(search, numbers, warm=warm, pace=pace)
        truth = self.pool.truth_of(side, self.engine, self.build, search)
        raw, measured = _scored(side, targets, which, answered.rows, truth)
        return {
            "raw": [_plain(each) for each in raw],
            "measured": _plain(measured),
            "latency_ns": answered.latencies_ns.tolist(),
            "evidence": answered.evidence,
            "pace_ns": answered.pace_ns,
        }


def _scored(
    side: Side,
    targets: Sequence[Target],
    which: NDArray[np.int64],
    rows: NDArray[np.int64],
    truth: Truth,
) -> tuple[list[NDArray[np.float64]], NDArray[np.float64]]:
    scores = any(each.measure.needs_scores for each in targets)
    compared = side.compared(which, rows, truth, scores=scores)
    raw = []
    for target in targets:
        if target.relevance:
            found = _losses(side, which, rows, target.relevance)
        else:
            found = target.measure.per_query(compared)
        members = target.members(side.columns, len(side), side.facts)[which]
        raw.append(np.where(members, found, np.nan))
    return raw, targets[0].measure.per_query(compared)


def _losses(
    side: Side, which: NDArray[np.int64], rows: NDArray[np.int64], measure: str
) -> NDArray[np.float64]:
    """Relevance loss per query; NaN for queries without judgments."""
    asked = replace(side.dataset, queries=take_queries(side.dataset.queries, which))
    known = side.dataset.qrels or {}
    if not any(known.get(str(each)) for each in asked.queries.ids.to_pylist()):
        return np.full(len(which), np.nan)
    return relevance_loss(rows, side.truth.take(which), asked, measure)


def _plain(values: NDArray[np.float64]) -> list[float | None]:
    return [None if np.isnan(each) else each for each in values.tolist()]


def _floats(values: Sequence[float | None]) -> NDArray[np.float64]:
    return np.array([np.nan if each is None else each for each in values], np.float64)


def _digest(numbers: NDArray[np.int64]) -> str:
    return blake2b(np.ascontiguousarray(numbers).tobytes(), digest_size=8).hexdigest()
