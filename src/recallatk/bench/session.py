"""One engine in the process that measures it: builds an index, measures trials on it, answers queries."""

from __future__ import annotations

import contextlib
import gc
import random
import time
import traceback
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.adapters.installation import importing
from recallatk.analysis.latency import percentile
from recallatk.bench.load import highest_rate, require_supported, run_block, warm_up
from recallatk.bench.load.writes import search_during_writes
from recallatk.bench.messages import Began, Blocked, Built, Changed, Failed, Weighed, in_words
from recallatk.bench.process_usage import private_bytes
from recallatk.bench.sentinel import Sentinel
from recallatk.bench.trial_result import Answered, TrialBlocks
from recallatk.core import Load, Metric, Mode, Refusals, RefusedFilter
from recallatk.errors import EngineError, RecallError
from recallatk.filters.eligibility import distinct_filters
from recallatk.redaction import redact_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from recallatk.adapters import Engine
    from recallatk.bench.job import Job, Task
    from recallatk.bench.load import Questions
    from recallatk.bench.load.writes import OverlappedCalls, Write
    from recallatk.bench.messages import AskRequest, Event, OverlapRequest, ProbeRequest
    from recallatk.bench.probe_answers import ProbedAnswers
    from recallatk.bench.trial_result import TrialResult
    from recallatk.core import Corpus

# A small index is built first, so that loading or compiling a library does not count as build time.
_FEW_ROWS = 1_000


class NoEvidenceError(EngineError):
    """The engine gave no evidence that its index answered."""


class Session:
    """Builds and searches of one engine, one index at a time.

    Args:
        kind: the class of the engine.
        job: settings and the trials to measure on each build.
        questions: the queries.
        has_log: whether this process prints to a log, which is where tracebacks go.
    """

    def __init__(self, kind: type[Engine], job: Job, questions: Questions, *, has_log: bool = True) -> None:
        self.kind, self.job, self.questions, self.has_log = kind, job, questions, has_log
        self.problem: Exception | None = None
        """The first exception that cost a trial."""
        self.engine: Engine | None = None
        self.order: NDArray[np.int64] | None = None
        """Corpus row of each index row; None if they are equal."""
        self.untouched = True
        """Whether no query has been sent since the build."""
        self.empty_bytes = 0
        """Private memory of the process before the build."""
        self.refused: Refusals | None = None
        """Queries that the index cannot answer because of their filters; never sent."""
        self._prepared = False
        self._frozen = False
        self.probed: dict[tuple[str, int], dict[int, tuple[NDArray[np.int64], int]]] = {}
        """Lists of this index that probes requested with filters, by search, length and query."""
        self.rows_held: dict[int, int] = {}
        """Corpus rows that were searched for by their own vectors, and whether the index has them."""

    @cached_property
    def sentinel(self) -> Sentinel:
        """The fixed piece of work that measures machine drift."""
        return Sentinel(self.job.settings.seed)

    @property
    def built(self) -> Engine:
        """The engine with its index."""
        if self.engine is None:
            raise EngineError(f"{self.job.engine}: no index is built")
        return self.engine

    def build(
        self, corpus: Corpus, parameters: dict[str, Any], order: NDArray[np.int64] | None = None
    ) -> Iterator[Event]:
        """Drop the previous index and build one from a corpus; `order` maps its rows to the whole corpus."""
        self.close()
        self.engine, self.order = self.kind(), order
        self.probed, self.rows_held = {}, {}
        if not self._prepared:
            yield Began("preparing")
            self._load_library(corpus, parameters)
            self._prepared = True
        yield Began("build")
        event = self._build(self.engine, corpus, parameters)
        self.engine.set_threads(self.job.settings.search_threads)
        self.refused, self.untouched = refusals_of(self.engine, self.questions), True
        if self.refused is not None:
            event = replace(event, refused=self.refused.in_words)
        gc.collect()
        # A heap that the caller froze stays frozen: unfreezing releases everything at once.
        if not gc.get_freeze_count():
            gc.freeze()
            self._frozen = True
        gc.disable()
        yield event

    def _load_library(self, corpus: Corpus, parameters: dict[str, Any]) -> None:
        """Load the library and start its servers with a small build; ignore a failure."""
        from recallatk.datasets.opening import make_corpus

        if self.kind.abilities.attaches or corpus.rows <= _FEW_ROWS:
            return
        few = make_corpus(corpus.vectors.read(0, _FEW_ROWS))
        try:
            with importing(self.kind), self.kind() as small:
                small.set_threads(self.job.settings.threads_to_build)
                small.build(few, Metric(self.job.metric), **parameters)
        except (RecallError, RuntimeError, ValueError):
            return

    def _build(self, engine: Engine, corpus: Corpus, parameters: dict[str, Any]) -> Built:
        engine.set_threads(self.job.settings.threads_to_build)
        before = self.empty_bytes = private_bytes()
        used = time.process_time()
        started = time.perf_counter()
        with importing(self.kind):
            engine.build(corpus, Metric(self.job.metric), **parameters)
        seconds, used = time.perf_counter() - started, time.process_time() - used
        attached = engine.abilities.attaches
        inside = engine.in_process() and not attached
        weight = self.weigh()
        return Built(
            seconds=None if attached else seconds,
            cpu_seconds=used if inside else None,
            before_bytes=before,
            memory_bytes=weight.memory_bytes,
            size_bytes=weight.size_bytes,
            version=engine.version(),
            call=engine.call(),
        )

    def weigh(self) -> Weighed:
        """Memory and size of the index."""
        engine = self.built
        inside = engine.in_process() and not engine.abilities.attaches
        memory = max(0, private_bytes() - self.empty_bytes) if inside else engine.memory_bytes()
        return Weighed(memory, engine.size_bytes())

    def change(self, number: int, write: Write) -> Changed:
        """Apply one write with the threads of a build, and time it."""
        engine = self.built
        engine.set_threads(self.job.settings.threads_to_build)
        try:
            with importing(self.kind):
                seconds = write.apply(engine)
        finally:
            engine.set_threads(self.job.settings.search_threads)
        return Changed(number, seconds)

    def overlap(self, request: OverlapRequest, writes: Sequence[Write]) -> OverlappedCalls:
        """Search in one thread while another writes."""
        engine = self.built
        if not engine.abilities.reads_during_writes:
            raise engine.unable("search while it writes")
        with importing(self.kind):
            engine.configure(**request.search)
            return search_during_writes(engine, self.questions, writes, request.seed)

    def measure(self, numbers: Sequence[int]) -> Iterator[Event | TrialResult]:
        """Measure trials of the job, all of one load, in randomized complete blocks."""
        if self.refused is not None and self.refused.queries == len(self.questions):
            yield Failed(None, "refused", "search", self.refused.in_words)
            return
        yield from _Rounds(self, [task for task in self.job.tasks if task.number in numbers]).all()

    def ask(self, request: AskRequest, order: NDArray[np.int64]) -> Answered:
        """Send these queries once, one at a time; a refused one among them is an error."""
        if self.refused is not None and self.refused.refused[order].any():
            raise EngineError(f"{self.job.engine}: {self.refused.in_words}")
        with importing(self.kind):
            engine = self.built
            engine.configure(**request.search)
            if request.warm:
                warm_up(engine, self.questions, order, first=self.untouched)
            self.untouched = False
            started = time.perf_counter()
            block = run_block(engine, Load(), self.questions, order)
            seconds = time.perf_counter() - started
            evidence, unused = self._evidence(required=request.proven)
            pace = self.sentinel.pace_ns() if request.pace else None
            return Answered(block.rows, block.calls.latency_ns, seconds, evidence, pace, unused)

    def probe(
        self, request: ProbeRequest, misses: NDArray[np.int64], vector_of: Callable[[int], NDArray[Any]]
    ) -> ProbedAnswers:
        """Ask about the neighbors that a trial missed; its arguments are those of `LossProbe`."""
        from recallatk.bench.loss_probe import LossProbe

        try:
            return LossProbe(self, request, misses, vector_of).run()
        except RecallError:
            raise
        except Exception as problem:
            raise EngineError(in_words(problem)) from problem

    def _evidence(self, *, required: bool) -> tuple[str, str]:
        """Evidence that the index answered, or why there is none."""
        try:
            return redact_text(self.evidence()), ""
        except NoEvidenceError as problem:
            if required:
                raise
            return "", redact_text(str(problem))

    def evidence(self) -> str:
        """Evidence that the index answered; without it, the trial fails."""
        try:
            return self.built.exercised()
        except EngineError as problem:
            raise NoEvidenceError(str(problem)) from problem

    def close(self) -> None:
        """Drop the index and release its memory; may be called twice."""
        gc.enable()
        if self._frozen:
            gc.unfreeze()
            self._frozen = False
        if self.engine is not None:
            with contextlib.suppress(EngineError):
                self.engine.close()
        self.engine = None
        gc.collect()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Rounds:
    """All trials of one load; every round sends the same queries to each, in a new random order."""

    def __init__(self, session: Session, tasks: list[Task]) -> None:
        self.session, self.tasks = session, tasks
        self.settings, self.questions, self.load = session.job.settings, session.questions, tasks[0].load
        self.engine, self.sentinel = session.built, session.sentinel
        self.blocks = {
            task.number: TrialBlocks(task.number, len(self.questions), session.job.k, session.refused)
            for task in tasks
        }
        self.rates: dict[int, float] = {}

    def all(self) -> Iterator[Event | TrialResult]:
        shuffled = random.Random(self.settings.seed)  # noqa: S311
        for turn in range(self.settings.rounds):
            order = self._order(turn)
            for task in shuffled.sample(self.tasks, len(self.tasks)):
                if task.number in self.blocks:
                    yield from self._block(task, turn, order)
        for blocks in self.blocks.values():
            yield blocks.result()

    def _order(self, turn: int) -> NDArray[np.int64]:
        """The queries of a round in random order, without those that are refused."""
        order = np.random.default_rng([self.settings.seed, turn]).permutation(len(self.questions))
        refused = self.session.refused
        return order if refused is None else order[~refused.refused[order]]

    def _block(self, task: Task, turn: int, order: NDArray[np.int64]) -> Iterator[Event]:
        phase = "warm-up"
        yield Began(phase, task.number)
        try:
            with importing(type(self.engine)):
                seconds = self._ready(task, order)
            phase = "search"
            yield Began(phase, task.number)
            started = time.perf_counter()
            with importing(type(self.engine)):
                load = self._settled(task, order)
                self.engine.begin_trace()
                block = run_block(self.engine, load, self.questions, order, seed=self.settings.seed + turn)
            seconds += time.perf_counter() - started
            blocks = self.blocks[task.number]
            blocks.add(block, self.session.order, self.engine.end_trace())
            blocks.exercised = self.session.evidence()
            blocks.sentinel_ns.append(self.sentinel.pace_ns())
            yield Blocked(task.number, turn, seconds, percentile(block.calls.latency_ns, 0.95))
        except Exception as problem:
            del self.blocks[task.number]
            self.session.problem = self.session.problem or problem
            yield failure_of(problem, phase, task.number, has_log=self.session.has_log)

    def _ready(self, task: Task, order: NDArray[np.int64]) -> float:
        """Configure, warm up, and check that the index answers, before timing starts."""
        require_supported(self.engine, self.load)
        self.engine.configure(**task.search)
        started = time.perf_counter()
        blocks = self.blocks[task.number]
        blocks.add_warm_up(warm_up(self.engine, self.questions, order, first=self.session.untouched))
        self.session.untouched = False
        seconds = time.perf_counter() - started
        blocks.exercised = self.session.evidence()
        return seconds

    def _settled(self, task: Task, order: NDArray[np.int64]) -> Load:
        """The load; if it states no rate, with the highest sustained rate."""
        if self.load.mode is not Mode.RATE or self.load.rate is not None:
            return self.load
        if task.number not in self.rates:
            found, tried = highest_rate(
                self.engine, self.load, self.questions, order, seed=self.settings.seed
            )
            self.blocks[task.number].highest_rate = found
            self.rates[task.number] = min(rate for rate, _ in tried) if found is None else found
        return replace(self.load, rate=self.rates[task.number], p99_ms=None)


def refusals_of(engine: Engine, questions: Questions) -> Refusals | None:
    """Queries whose filters a built engine refuses, asked once per distinct filter; None without any."""
    distinct = distinct_filters(questions.filters or ())
    places = np.full(len(distinct.filters), -1, np.int32)
    refused: list[RefusedFilter] = []
    for number, condition in enumerate(distinct.filters):
        reason = None if condition is None else engine.refusal(condition)
        if reason is not None:
            places[number] = len(refused)
            queries = int((distinct.numbers == number).sum())
            refused.append(RefusedFilter(redact_text(str(condition)), queries, redact_text(reason)))
    return Refusals(places[distinct.numbers], tuple(refused)) if refused else None


def failure_of(problem: Exception, phase: str, number: int | None = None, *, has_log: bool = True) -> Failed:
    """The current exception as an event; its traceback goes to the log unless the disk is full."""
    if isinstance(problem, NoEvidenceError):
        return Failed(number, "no evidence", phase, str(problem))
    if not has_log:
        return Failed(number, "exception", phase, in_words(problem), traceback.format_exc())
    with contextlib.suppress(OSError):
        traceback.print_exc()
    return Failed(number, "exception", phase, in_words(problem))
