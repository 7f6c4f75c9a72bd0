"""Execution of a plan: build by build, saving every trial as soon as it is finished."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from recallatk.adapters import get_engine
from recallatk.adapters.registry import declaration_of
from recallatk.analysis.filtered import violations
from recallatk.analysis.measures import parse_measure
from recallatk.analysis.remedy import costlier
from recallatk.analysis.score import score_repeated
from recallatk.analysis.weighting import query_columns, weights_by_query
from recallatk.bench.downstream import Panel
from recallatk.bench.environment import load_average
from recallatk.bench.full_effort import effort_knobs
from recallatk.bench.job import Job, Task, insertion_order, write_data
from recallatk.bench.loss_evidence import Inquiry
from recallatk.bench.messages import NO_SPACE, Began, Blocked, Built, Failed
from recallatk.bench.path_truths import PathTruths
from recallatk.bench.progress import Progress
from recallatk.bench.rerank_process import RerankProcess
from recallatk.bench.session import Session
from recallatk.bench.supervisor import TrialFailed, WorkerProcess
from recallatk.bench.trial_result import TrialResult
from recallatk.core import Build, Failure, Measurement
from recallatk.errors import EngineError, RecallError, UsageError
from recallatk.pipeline.path_engine import PathEngine
from recallatk.scratch import ScratchFolder, sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from pathlib import Path

    from recallatk.adapters import Engine
    from recallatk.bench.downstream import Judge
    from recallatk.bench.job import TrialSettings
    from recallatk.bench.load import Questions
    from recallatk.bench.loss_evidence import Ask
    from recallatk.bench.messages import Event
    from recallatk.bench.plan import Plan, PlannedBuild
    from recallatk.bench.progress import Watch
    from recallatk.bench.run_sink import RunSink
    from recallatk.core import Dataset, FilterFacts, Trial, Truth
    from recallatk.core.stages import MeasuredStages


def _until_lost(
    job: Job, measure: Callable[[Sequence[int]], Iterator[Event | TrialResult]]
) -> Generator[Event | TrialResult]:
    """Measure load by load; stop after a failure that ends all remaining trials."""
    for numbers in job.by_load():
        lost = False
        for event in measure(numbers):
            lost |= isinstance(event, Failed) and event.number is None
            yield event
        if lost:
            return


class Runner:
    """Execute a plan.

    Args:
        plan: the builds and trials.
        dataset: corpus and queries.
        truth: the ground truth for scoring.
        sink: receives finished trials, and holds those from before a resume.
        settings: settings shared by all builds and trials.
        logs: the folder for worker logs; by default they are discarded.
        watch: called with the progress.
        filters: what the filters of the queries admit, to be recorded with every trial.
        judges: judges of the answers of every trial and of exact search.
    """

    def __init__(
        self,
        plan: Plan,
        dataset: Dataset,
        truth: Truth,
        sink: RunSink,
        settings: TrialSettings,
        *,
        logs: Path | None = None,
        watch: Watch | None = None,
        filters: FilterFacts | None = None,
        judges: Sequence[Judge] = (),
    ) -> None:
        self.plan, self.dataset, self.truth = plan, dataset, truth
        self.sink, self.settings, self.logs, self.filters = sink, settings, logs, filters
        self.watch = watch or (lambda _: None)
        self.trials = plan.trials
        self.numbers = {trial: number for number, trial in enumerate(plan.trials)}
        self.k = min(settings.k, dataset.corpus.rows)
        self.panel = Panel(judges, truth, self.k) if judges else None
        columns = query_columns(truth, dataset)
        self.weights = weights_by_query(columns, settings.weight, dataset.queries.rows)
        self.engines: dict[str, type[Engine]] = {}
        """Classes of the engines of the plan."""
        self.path_truths = PathTruths(dataset, truth)
        self.seconds = {"building": 0.0, "searching": 0.0}
        self.spent: dict[Trial, float] = {}
        """Seconds that each trial took, warm-up included."""
        self.loads: list[float | None] = []
        self.problem: Exception | None = None
        """The first exception in this process that cost a trial."""
        self.worked = False
        """Whether there was anything left to measure."""
        failed = len(sink.failed)
        # The folder may hold trials that the plan no longer names.
        finished = sum(trial in sink.finished for trial in self.trials)
        self.progress = Progress(len(self.trials), finished + failed, failed)
        self.progress.pace.plan(list(plan.builds), set(sink.missing()), settings.rounds)

    def run(self) -> None:
        """Measure all missing trials, each build in its own process."""
        # Stored answers are judged without an index.
        self._judge()
        self.worked = bool(self.sink.missing() or self._unexplained(self.trials))
        if not self.worked:
            return
        self.watch(self.progress)
        self.engines = {each.engine: get_engine(each.engine) for each in self.plan.builds}
        self._require_depth()
        sweep()
        with ScratchFolder() as folder:
            data = folder / "data"
            data.mkdir()
            write_data(data, self.dataset, self.engines.values())
            self.path_truths.process = RerankProcess(
                data, folder / "truth", self.dataset.metric, self.k, self.settings
            )
            for number, planned in enumerate(self.plan.builds, 1):
                self._measure(planned, data, folder / f"build-{number}")
                # After the process of the build ended: a judge may take longer than the trials.
                self._judge()

    def run_here(self, engine: type[Engine], questions: Questions) -> None:
        """Measure the builds of the plan in this process, without limits."""
        self.engines = {each.engine: engine for each in self.plan.builds}
        self._require_depth()
        for planned in self.plan.builds:
            with closing(self._in_this_process(engine, planned, questions)) as events:
                self._take(planned, events)
        self._judge()

    def _judge(self) -> None:
        """Judge the answers of all finished trials that were not judged by the same judges."""
        if self.panel is None:
            return
        for each in self.panel.judges:
            each.watch = self._judging
        for trial in self.sink.unjudged(self.panel.identity):
            self.progress.trial = trial
            self.sink.judge(trial, self.panel.judged(self.sink.finished[trial]))

    def _judging(self, done: int, of: int) -> None:
        self.progress.phase = f"judging, {done:,} of {of:,}"
        self.watch(self.progress)

    def _in_this_process(
        self, engine: type[Engine], planned: PlannedBuild, questions: Questions
    ) -> Generator[Event | TrialResult]:
        job = self.job(planned, self._missing(planned))
        with Session(engine, job, questions, has_log=False) as session:
            yield from session.build(self.dataset.corpus, dict(planned.parameters))
            yield from _until_lost(job, session.measure)
            vectors = self.dataset.corpus.vectors
            ask = partial(session.probe, vector_of=lambda row: vectors.read(row, row + 1))
            yield from self._explain(planned, job, engine, ask)
            self.problem = self.problem or session.problem

    def _measure(self, planned: PlannedBuild, data: Path, folder: Path) -> None:
        """Rebuild until every trial has a result; a trial that crashes its process fails alone."""
        while wanted := self._missing(planned):
            with closing(self._in_worker(planned, self.job(planned, wanted), data, folder)) as events:
                self._take(planned, events)
            for trial in wanted if self._missing(planned) == wanted else ():
                self._failed(trial, Failed(None, "crash", "start", "the process ended without a message"))
        unexplained = self._unexplained(planned.trials)
        if unexplained:
            job = self.job(planned, unexplained)
            with closing(self._in_worker(planned, job, data, folder, measure=False)) as events:
                self._take(planned, events)

    def _in_worker(
        self, planned: PlannedBuild, job: Job, data: Path, folder: Path, *, measure: bool = True
    ) -> Generator[Event | TrialResult]:
        log = (folder if self.logs is None else self.logs) / f"{folder.name}.txt"
        log.parent.mkdir(parents=True, exist_ok=True)
        order = insertion_order(self.settings.seed, planned.repeat, self.dataset.corpus.rows)
        with WorkerProcess(data, folder, job, log) as worker:
            built = False
            for event in worker.building(dict(planned.parameters), order):
                built |= isinstance(event, Built)
                yield event
            if built and measure:
                yield from _until_lost(job, worker.measuring)
            if built and worker.alive:
                engine = get_engine(planned.engine)
                yield from self._explain(planned, job, engine, worker.probe, rebuilt=not measure)
            worker.finish()

    def _unexplained(self, trials: Sequence[Trial]) -> list[Trial]:
        """Finished trials that evidence is to be collected for."""
        waiting = set(self.sink.unexplained()) if self.settings.explain else set()
        return [trial for trial in trials if trial in waiting and self._explainable(trial)]

    def _explainable(self, trial: Trial) -> bool:
        """Whether evidence on vectors explains a trial; a fusion is explained by its stages."""
        engine = get_engine(trial.engine) if trial.engine not in self.engines else self.engines[trial.engine]
        return not issubclass(engine, PathEngine) or engine.path.by_vectors

    def _explain(
        self, planned: PlannedBuild, job: Job, engine: type[Engine], ask: Ask, *, rebuilt: bool = False
    ) -> Iterator[Event]:
        """Collect evidence on what the trials of a job missed, after all of them were timed."""
        for trial in self._unexplained([self.trials[task.number] for task in job.tasks]):
            yield Began("explain", self.numbers[trial])
            measured = self.sink.finished[trial]
            others = [self.sink.finished[each] for each in planned.trials if each in self.sink.finished]
            names = [each.name for each in effort_knobs(engine, dict(trial.search))]
            inquiry = Inquiry(
                measured,
                engine,
                self.truth,
                self.dataset,
                self._seconds_to_explain(measured),
                rebuilt,
                tuple(costlier(measured, others, names)),
                self.settings.seed,
            )
            try:
                evidence = inquiry.collect(ask)
            except EngineError as problem:
                evidence = inquiry.failed(f"no evidence was collected: {problem}")
            if evidence is not None:
                self.seconds["explaining"] = self.seconds.get("explaining", 0.0) + evidence.seconds
                self.sink.explain(trial, evidence)

    def _seconds_to_explain(self, measured: Measurement) -> float:
        """Time for the evidence on a trial: its limit, or as long as the trial took."""
        limit = self.settings.limits.explain_seconds
        if limit is not None:
            return limit
        return float(self.spent.get(measured.trial, measured.calls.round_ns.sum() / 1e9))

    def _missing(self, planned: PlannedBuild) -> list[Trial]:
        finished, failed = self.sink.finished, self.sink.failed
        return [trial for trial in planned.trials if trial not in finished and trial not in failed]

    def job(self, planned: PlannedBuild, wanted: Sequence[Trial]) -> Job:
        """The job of one process."""
        tasks = tuple(Task(self.numbers[each], dict(each.search), each.load) for each in wanted)
        metric, declaration = self.dataset.metric, declaration_of(planned.engine)
        return Job(planned.engine, metric, self.k, self.settings, tasks, declaration)

    def _take(self, planned: PlannedBuild, events: Iterator[Event | TrialResult]) -> None:
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
                case TrialResult():
                    self._finished(event)
                case Failed(kind=kind) if kind == NO_SPACE:
                    raise UsageError(event.message)
                case Failed(None):
                    for trial in self._missing(planned):
                        self._failed(trial, event)
                case Failed(int(number)):
                    self._failed(self.trials[number], event)

    def _built(self, planned: PlannedBuild, event: Built) -> None:
        self.sink.require_version(planned.engine, event.version)
        self.seconds["building"] += event.seconds or 0.0
        self.progress.pace.step(build=True)
        self.loads.append(load_average())
        self.built = Build(
            engine=planned.engine,
            version=event.version,
            parameters=planned.parameters,
            threads=self.settings.threads_to_build,
            seconds=event.seconds,
            memory_bytes=event.memory_bytes,
            size_bytes=event.size_bytes,
            cpu_seconds=event.cpu_seconds,
            peak_bytes=event.peak_bytes,
            search_threads=self.settings.search_threads,
            call=event.call,
            repeat=planned.repeat,
        )

    def _blocked(self, event: Blocked) -> None:
        self.seconds["searching"] += event.seconds
        trial = self.trials[event.number]
        self.spent[trial] = self.spent.get(trial, 0.0) + event.seconds
        self.progress.p95_ms = event.p95_ms
        self.progress.pace.step(build=False)
        self.watch(self.progress)

    def _require_depth(self) -> None:
        """Before any build, refuse a truth that is too shallow for a path."""
        for trial in self.plan.trials:
            engine = self.engines[trial.engine]
            if issubclass(engine, PathEngine):
                self.path_truths.require_depth(engine, trial, self.k)

    def _finished(self, result: TrialResult) -> None:
        trial = self.trials[result.number]
        truth, measures = self.truth, self.settings.measures
        engine = self.engines.get(trial.engine)
        if engine is not None and issubclass(engine, PathEngine):
            try:
                truth = self.path_truths.of(engine, trial, self.k)
            except TrialFailed as problem:
                self._failed(
                    trial, Failed(result.number, problem.kind, "truth", problem.message, problem.log)
                )
                return
            except RecallError as problem:
                # The function of a stage may fail on exact lists alone: that costs its trial, and no other.
                self._failed(trial, Failed(result.number, "exception", "truth", str(problem)))
                return
            if truth is not self.truth:
                # Fused scores are no distances.
                measures = tuple(each for each in measures if not parse_measure(each).needs_scores)
        measurement = Measurement(
            trial=trial,
            build=self.built,
            k=self.k,
            answers=result.answers,
            calls=result.calls,
            exercised=result.exercised,
            score=score_repeated(
                result.answers,
                result.times,
                result.others,
                truth,
                self.dataset,
                self.settings.at,
                measures,
                self.weights,
            ),
            others=result.others,
            warm_up=result.warm_up,
            sentinel_ns=result.sentinel_ns,
            highest_rate=result.highest_rate,
            times=result.times,
            refused=result.refused,
            filters=self.filters,
            violations=None if self.filters is None else violations(self.dataset, result.answers),
            stages=self._stages(trial, result),
            own_truth=truth is not self.truth,
        )
        self.sink.add(measurement)
        self.progress.add(measurement)
        self.watch(self.progress)

    def _stages(self, trial: Trial, result: TrialResult) -> MeasuredStages | None:
        engine = self.engines.get(trial.engine)
        if result.trace is None or engine is None or not issubclass(engine, PathEngine):
            return None
        return self.path_truths.results(engine, trial, result.trace, self.k)

    def _failed(self, trial: Trial, event: Failed) -> None:
        failure = Failure(trial, event.kind, event.phase, event.message, event.log)
        self.sink.fail(failure)
        self.progress.add(failure)
        self.progress.failed += 1
        self.watch(self.progress)
