"""One build and all its trials, in the process that runs it."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import random
import tempfile
import time
import traceback
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.latency import percentile
from recallatk.bench.events import Began, Blocked, Built, Event, Failed, Paused
from recallatk.bench.load import highest_rate, require_supported, run_block
from recallatk.bench.memory import private_bytes
from recallatk.bench.raw import Collected, Raw
from recallatk.bench.sentinel import Sentinel
from recallatk.bench.warming import warm_up
from recallatk.core import Metric, Mode
from recallatk.engines.base import importing
from recallatk.errors import EngineError, RecallError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from recallatk.bench.job import Job, Task
    from recallatk.bench.load import Questions
    from recallatk.core import Corpus, Load
    from recallatk.engines import Engine

# A small index first, so that loading a library or compiling it is no part of a build.
_FEW_ROWS = 1_000


@dataclass(frozen=True, eq=False)
class Done:
    """A trial is done; what it gave is still in memory."""

    number: int
    raw: Raw


def measure_build(
    engine: Engine,
    job: Job,
    corpus: Corpus,
    questions: Questions,
    order: NDArray[np.int64] | None = None,
) -> Iterator[Event | Done]:
    """Build, then measure load by load, and say what happens.

    Args:
        engine: what to build with.
        job: what to do.
        corpus: what to build from, in the order of insertion.
        questions: what to ask.
        order: the row of the whole corpus that stands at each place of this one; None: the same.
    """
    yield Began("preparing")
    load_library(engine, job, corpus)
    yield Began("build")
    yield build_index(engine, job, corpus)
    engine.set_threads(job.search_threads)
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        for number, (load, tasks) in enumerate(_by_load(job)):
            turns = _Turns(engine, job, load, tasks, questions, order, untouched=number == 0)
            yield from turns.all()
            yield Paused()
    finally:
        gc.enable()
        gc.unfreeze()


def _by_load(job: Job) -> list[tuple[Load, list[Task]]]:
    loads = dict.fromkeys(task.load for task in job.tasks)
    return [(load, [task for task in job.tasks if task.load == load]) for load in loads]


def load_library(engine: Engine, job: Job, corpus: Corpus) -> None:
    """Load the library and start what runs beside it; a build of few rows may be impossible."""
    from recallatk.datasets.opening import make_corpus

    if engine.abilities.attaches or corpus.rows <= _FEW_ROWS:
        return
    few = make_corpus(corpus.vectors.read(0, _FEW_ROWS))
    try:
        with importing(type(engine)), type(engine)() as small:
            small.set_threads(job.build_threads)
            small.build(few, Metric(job.metric), **job.build)
    except (RecallError, RuntimeError, ValueError):
        return


def build_index(engine: Engine, job: Job, corpus: Corpus) -> Built:
    """Build, and measure what that takes."""
    engine.set_threads(job.build_threads)
    before = private_bytes()
    used = time.process_time()
    started = time.perf_counter()
    with importing(type(engine)):
        engine.build(corpus, Metric(job.metric), **job.build)
    seconds, used = time.perf_counter() - started, time.process_time() - used
    attached = engine.abilities.attaches
    inside = engine.in_process() and not attached
    return Built(
        seconds=None if attached else seconds,
        cpu_seconds=used if inside else None,
        before_bytes=before,
        memory_bytes=max(0, private_bytes() - before) if inside else engine.memory_bytes(),
        size_bytes=engine.size_bytes(),
        version=engine.version(),
        call=engine.call(),
    )


class _Turns:
    """All trials of one load: every round asks each of them the same queries, in an order drawn anew."""

    def __init__(
        self,
        engine: Engine,
        job: Job,
        load: Load,
        tasks: list[Task],
        questions: Questions,
        order: NDArray[np.int64] | None,
        *,
        untouched: bool,
    ) -> None:
        self.engine, self.job, self.load, self.tasks = engine, job, load, tasks
        self.questions, self.order = questions, order
        self.sentinel = Sentinel(job.seed)
        queries = len(questions.vectors)
        self.collected = {task.number: Collected(queries, job.k, load.batch) for task in tasks}
        self.rates: dict[int, float] = {}
        self.untouched = untouched

    def all(self) -> Iterator[Event | Done]:
        shuffled = random.Random(self.job.seed)  # noqa: S311
        for turn in range(self.job.rounds):
            asked = np.random.default_rng([self.job.seed, turn]).permutation(len(self.questions.vectors))
            for task in shuffled.sample(self.tasks, len(self.tasks)):
                if task.number in self.collected:
                    yield from self._block(task, turn, asked)
        for number, collected in self.collected.items():
            yield Done(number, collected.raw())

    def _block(self, task: Task, turn: int, asked: NDArray[np.int64]) -> Iterator[Event]:
        phase = "warm-up"
        yield Began(phase, task.number)
        try:
            with importing(type(self.engine)):
                seconds = self._ready(task, asked)
            phase = "search"
            yield Began(phase, task.number)
            started = time.perf_counter()
            with importing(type(self.engine)):
                load = self._settled(task, asked)
                block = run_block(self.engine, load, self.questions, asked, seed=self.job.seed + turn)
            seconds += time.perf_counter() - started
            collected = self.collected[task.number]
            collected.add(block, self.order)
            collected.exercised = self._evidence()
            collected.sentinel_ns.append(self.sentinel.pace_ns())
            yield Blocked(task.number, turn, seconds, percentile(block.latency_ns, 0.95))
        except _NoEvidenceError as problem:
            yield self._dropped(task, "no evidence", phase, str(problem))
        except Exception as problem:
            log_traceback()
            yield self._dropped(task, "exception", phase, in_words(problem))

    def _dropped(self, task: Task, kind: str, phase: str, message: str) -> Failed:
        del self.collected[task.number]
        return Failed(task.number, kind, phase, message)

    def _ready(self, task: Task, asked: NDArray[np.int64]) -> float:
        """Configure and warm up, and see that the index answers, before anything counts."""
        require_supported(self.engine, self.load)
        self.engine.configure(**task.search)
        started = time.perf_counter()
        collected = self.collected[task.number]
        collected.warmed(warm_up(self.engine, self.questions, asked, first=self.untouched))
        self.untouched = False
        seconds = time.perf_counter() - started
        collected.exercised = self._evidence()
        return seconds

    def _evidence(self) -> str:
        try:
            return self.engine.exercised()
        except EngineError as problem:
            raise _NoEvidenceError(str(problem)) from problem

    def _settled(self, task: Task, asked: NDArray[np.int64]) -> Load:
        """The load, with the rate that was looked for where it states none."""
        if self.load.mode is not Mode.RATE or self.load.rate is not None:
            return self.load
        if task.number not in self.rates:
            found, tried = highest_rate(self.engine, self.load, self.questions, asked, seed=self.job.seed)
            self.collected[task.number].highest_rate = found
            self.rates[task.number] = min(rate for rate, _ in tried) if found is None else found
        return replace(self.load, rate=self.rates[task.number], p99_ms=None)


class _NoEvidenceError(EngineError):
    """The index did not show that it answered."""


def in_words(problem: Exception) -> str:
    """What went wrong; the kind of error too where it is not one of ours."""
    if isinstance(problem, RecallError):
        return str(problem)
    said = f"{type(problem).__name__}: {problem}"
    named = getattr(problem, "filename", None) is not None
    if os.strerror(errno.ENOSPC) in said and not named:
        said += f"; temporary files of engines go to {tempfile.gettempdir()}"
    return said


def log_traceback() -> None:
    """Print the traceback of the exception that is being handled, if there is room for it in the log."""
    with contextlib.suppress(OSError):
        traceback.print_exc()
