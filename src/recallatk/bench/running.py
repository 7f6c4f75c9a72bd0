"""A plan carried out: build after build, every trial kept as soon as it is finished."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from recallatk.analysis.measures import parse_measure
from recallatk.analysis.score import score_repeated
from recallatk.bench.environment import load_average, usable_cores
from recallatk.bench.events import NO_SPACE, Began, Blocked, Built, Failed, Finished
from recallatk.bench.job import Job, Task, write_data, write_job
from recallatk.bench.raw import Raw
from recallatk.bench.session import Done, measure_build
from recallatk.bench.supervising import Limits, supervise
from recallatk.bench.watching import Progress
from recallatk.bench.worker import result_file
from recallatk.core import Build, Failure, Measurement
from recallatk.engines import Engine, get_engine
from recallatk.errors import UsageError
from recallatk.scratch import ScratchFolder, sweep

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from recallatk.bench.events import Event
    from recallatk.bench.keeping import Keeper
    from recallatk.bench.load import Questions
    from recallatk.bench.plan import Plan, PlannedBuild
    from recallatk.bench.watching import Watch
    from recallatk.core import Dataset, Trial, Truth


@dataclass(frozen=True)
class Manner:
    """How trials are measured, whichever they are."""

    at: tuple[int, ...] = (1, 10, 100)
    """The values of k to score."""
    measures: tuple[str, ...] = ()
    rounds: int = 5
    seed: int = 0
    build_threads: int | None = None
    """None: as many as there are cores."""
    search_threads: int = 1
    affinity: tuple[int, ...] | None = None
    limits: Limits = field(default_factory=Limits)

    @property
    def k(self) -> int:
        """How many neighbours every call asks for."""
        return max(*self.at, *(parse_measure(each).k for each in self.measures), 1)


class Runner:
    """Carries a plan out."""

    def __init__(
        self,
        plan: Plan,
        dataset: Dataset,
        truth: Truth,
        keeper: Keeper,
        manner: Manner,
        *,
        logs: Path | None = None,
        watch: Watch | None = None,
    ) -> None:
        self.plan, self.dataset, self.truth = plan, dataset, truth
        self.keeper, self.manner, self.logs = keeper, manner, logs
        self.watch = watch or (lambda _: None)
        self.numbers = {trial: number for number, trial in enumerate(plan.trials)}
        self.trials = plan.trials
        self.k = min(manner.k, dataset.corpus.rows)
        self.seconds = {"building": 0.0, "searching": 0.0}
        self.loads: list[float | None] = []
        self.worked = False
        """Whether there was anything left to do."""
        failed = len(keeper.failed)
        self.progress = Progress(len(self.trials), len(keeper.finished) + failed, failed)
        self.progress.pace.plan(list(plan.builds), set(keeper.missing()), manner.rounds)

    def run(self) -> None:
        """Measure all that is missing, each build in a process of its own."""
        self.worked = bool(self.keeper.missing())
        if not self.worked:
            return
        self.watch(self.progress)
        needs_ids = any(get_engine(each.engine).abilities.attaches for each in self.plan.builds)
        sweep()
        with ScratchFolder() as folder:
            data = folder / "data"
            data.mkdir()
            write_data(data, self.dataset, needs_ids=needs_ids)
            for number, planned in enumerate(self.plan.builds, 1):
                self._measure(planned, data, folder / f"build-{number}")

    def run_here(self, engine: Engine, questions: Questions) -> None:
        """Measure the only build of the plan in this very process, where nothing can limit it."""
        (planned,) = self.plan.builds
        job = self.job(planned, self._missing(planned))
        self._take(planned, measure_build(engine, job, self.dataset.corpus, questions))

    def _measure(self, planned: PlannedBuild, data: Path, folder: Path) -> None:
        """Until every trial of the build is settled; a trial that ends its process costs only itself."""
        while wanted := self._missing(planned):
            self._take(planned, self._supervised(data, folder, self.job(planned, wanted)))
            for trial in wanted if self._missing(planned) == wanted else ():
                self._failed(trial, Failed(None, "crash", "start", "the process ended without a word"))

    def _supervised(self, data: Path, folder: Path, job: Job) -> Iterator[Event | Done]:
        folder.mkdir(exist_ok=True)
        write_job(folder, job)
        log = (folder if self.logs is None else self.logs) / f"{folder.name}.txt"
        log.parent.mkdir(parents=True, exist_ok=True)
        said = supervise(data, folder, job, log, limits=self.manner.limits, affinity=self.manner.affinity)
        with contextlib.closing(said) as events:
            for event in events:
                if isinstance(event, Finished):
                    path = result_file(folder, event.number)
                    yield Done(event.number, Raw.load(path))
                    path.unlink()
                else:
                    yield event

    def _missing(self, planned: PlannedBuild) -> list[Trial]:
        finished, failed = self.keeper.finished, self.keeper.failed
        return [trial for trial in planned.trials if trial not in finished and trial not in failed]

    def job(self, planned: PlannedBuild, wanted: Sequence[Trial]) -> Job:
        """What one process is to do."""
        return Job(
            engine=planned.engine,
            metric=self.dataset.metric,
            build=dict(planned.parameters),
            tasks=tuple(Task(self.numbers[each], dict(each.search), each.load) for each in wanted),
            k=self.k,
            rounds=self.manner.rounds,
            seed=self.manner.seed,
            build_threads=self.manner.build_threads or usable_cores(),
            search_threads=self.manner.search_threads,
            repeat=planned.repeat,
        )

    def _take(self, planned: PlannedBuild, events: Iterator[Event | Done]) -> None:
        for event in events:
            match event:
                case Began(phase, number):
                    self.progress.phase = phase
                    self.progress.trial = None if number is None else self.trials[number]
                    self.watch(self.progress)
                case Built():
                    self._built(planned, event)
                case Blocked():
                    self._blocked(event)
                case Done(number, raw):
                    self._finished(number, raw)
                case Failed(kind=kind) if kind == NO_SPACE:
                    raise UsageError(event.message)
                case Failed(None):
                    for trial in self._missing(planned):
                        self._failed(trial, event)
                case Failed(int(number)):
                    self._failed(self.trials[number], event)

    def _built(self, planned: PlannedBuild, event: Built) -> None:
        self.keeper.require_version(planned.engine, event.version)
        self.seconds["building"] += event.seconds or 0.0
        self.progress.pace.step(build=True)
        self.loads.append(load_average())
        self.built = Build(
            engine=planned.engine,
            version=event.version,
            parameters=planned.parameters,
            threads=self.manner.build_threads or usable_cores(),
            seconds=event.seconds,
            memory_bytes=event.memory_bytes,
            size_bytes=event.size_bytes,
            cpu_seconds=event.cpu_seconds,
            peak_bytes=event.peak_bytes,
            search_threads=self.manner.search_threads,
            call=event.call,
            repeat=planned.repeat,
        )

    def _blocked(self, event: Blocked) -> None:
        self.seconds["searching"] += event.seconds
        self.progress.p95_ms = event.p95_ms
        self.progress.pace.step(build=False)
        self.watch(self.progress)

    def _finished(self, number: int, raw: Raw) -> None:
        trial = self.trials[number]
        measurement = Measurement(
            trial=trial,
            build=self.built,
            k=self.k,
            answers=raw.answers,
            calls=raw.calls,
            exercised=raw.exercised,
            score=score_repeated(
                raw.answers,
                raw.times,
                raw.others,
                self.truth,
                self.dataset,
                self.manner.at,
                self.manner.measures,
            ),
            others=raw.others,
            warm_up=raw.warm_up,
            sentinel_ns=raw.sentinel_ns,
            highest_rate=raw.highest_rate,
            times=raw.times,
        )
        self.keeper.add(measurement)
        self.progress.add(measurement)
        self.watch(self.progress)

    def _failed(self, trial: Trial, event: Failed) -> None:
        failure = Failure(trial, event.kind, event.phase, event.message, event.log)
        self.keeper.fail(failure)
        self.progress.add(failure)
        self.progress.failed += 1
        self.watch(self.progress)
