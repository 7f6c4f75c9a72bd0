"""The parent's side of a worker: starts it, sends requests, enforces limits, and ends it."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.bench.child_process import starting
from recallatk.bench.job import queries_file, remember_secrets, result_file, write_job
from recallatk.bench.load.writes import OverlappedCalls
from recallatk.bench.messages import (
    NO_SPACE,
    AskRequest,
    BuildRequest,
    Built,
    Changed,
    ChangeRequest,
    Failed,
    Finished,
    MeasureRequest,
    OrderRequest,
    OverlapRequest,
    Ready,
    Weighed,
    WeighRequest,
    from_line,
    to_line,
)
from recallatk.bench.process_log import ProcessLog
from recallatk.bench.process_usage import BETWEEN, UsageWatch
from recallatk.bench.trial_result import Answered, TrialResult, load_arrays
from recallatk.errors import EngineError, UsageError
from recallatk.scratch import reclaim, scratch_writing, temporary_below

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from recallatk.bench.job import Job
    from recallatk.bench.messages import Event, ProbeRequest, Request
    from recallatk.bench.probe_answers import ProbedAnswers

_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "RAYON_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
# Polling interval: short compared with any build, long compared with the cost of a poll.
_LOOK_SECONDS = 0.05
# Servers that an engine started may need this long to notice that it has ended.
_LEAVE_SECONDS = 10.0
# A worker without requests has this long to close its engine and end.
_CLOSE_SECONDS = 60.0


class TrialFailed(EngineError):  # noqa: N818 - a result of a trial rather than an error of ours
    """A build or a search failed."""

    def __init__(self, kind: str, phase: str, message: str, log: str = "") -> None:
        super().__init__(f"{kind} in {phase}: {message}")
        self.kind, self.phase, self.message, self.log = kind, phase, message, log


class WorkerProcess:
    """One worker process with one index at a time; it ends with this object or with the parent process.

    Args:
        data: the folder that `write_data` filled.
        folder: the worker's scratch folder.
        job: the engine, its trial settings, and the trials.
        log: the log file; by default in its folder.
    """

    def __init__(self, data: Path, folder: Path, job: Job, log: Path | None = None) -> None:
        self.folder, self.job = folder, job
        self.limits = job.settings.limits
        """Limits of a build or a trial; may be changed between requests."""
        self.alive = False
        self._number = 0
        folder.mkdir(parents=True, exist_ok=True)
        remember_secrets(job.engine, *(task.search for task in job.tasks))
        write_job(folder, job)
        self._log = ProcessLog(folder / "log.txt" if log is None else log)
        try:
            with starting():
                self._process = _started(data, folder, job, self._log)
                self._watch = UsageWatch(self._process.pid)
                self._lines = _lines_of(self._process)
                self.alive = True
            self._log.handed_over()
        except BaseException:
            self.close()
            raise

    def building(
        self, parameters: Mapping[str, Any], rows: NDArray[np.int64] | None = None
    ) -> Iterator[Event]:
        """Build an index of all rows, or of these rows in order, and yield the events."""
        remember_secrets(self.job.engine, parameters)
        if rows is None:
            yield from self._send(BuildRequest(dict(parameters)))
            return
        self._number += 1
        path = self.folder / f"rows-{self._number}.npy"
        _save(path, rows)
        yield from self._send(BuildRequest(dict(parameters), path.name))
        path.unlink()

    def measuring(self, numbers: Sequence[int]) -> Iterator[Event | TrialResult]:
        """Measure trials of the job, all of one load, and yield the events and results."""
        for event in self._send(MeasureRequest(list(numbers))):
            if isinstance(event, Finished):
                path = result_file(self.folder, event.number)
                yield TrialResult.load(path)
                path.unlink()
            else:
                yield event

    def build(self, parameters: Mapping[str, Any], rows: NDArray[np.int64] | int | None = None) -> Built:
        """Drop the previous index and build one of all rows, of the first `rows`, or of these rows.

        Raises:
            TrialFailed: the build failed, or the process ended.
        """
        chosen = np.arange(rows) if isinstance(rows, int) else rows
        built: Built = self._expected(Built, list(self.building(parameters, chosen)))
        return built

    def ask(
        self,
        search: Mapping[str, Any],
        queries: NDArray[np.int64],
        *,
        warm: bool = False,
        pace: bool = False,
        proven: bool = True,
    ) -> Answered:
        """Send these queries one at a time under these search parameters, after a warm-up if `warm`.

        With `proven`, missing evidence that the index answered is a failure.

        Raises:
            TrialFailed: the search failed, or the process ended.
        """
        remember_secrets(self.job.engine, search)
        self._number += 1
        sent, result = queries_file(self.folder, self._number), result_file(self.folder, self._number)
        _save(sent, queries)
        self._expected(Finished, list(self._send(AskRequest(self._number, dict(search), warm, pace, proven))))
        answered = Answered.load(result)
        sent.unlink()
        result.unlink()
        return answered

    def probe(self, request: ProbeRequest, misses: NDArray[np.int64]) -> ProbedAnswers:
        """Ask about the neighbors that a trial missed; the number of the request is set here.

        Raises:
            TrialFailed: the engine or its process failed.
        """
        from recallatk.bench.probe_answers import ProbedAnswers

        remember_secrets(self.job.engine, request.search)
        self._number += 1
        sent, result = queries_file(self.folder, self._number), result_file(self.folder, self._number)
        _save(sent, misses)
        self._expected(Finished, list(self._send(replace(request, number=self._number))))
        probed = ProbedAnswers.load(result)
        sent.unlink()
        result.unlink()
        return probed

    def change(self, change: str, rows: NDArray[np.int64]) -> float:
        """Delete index rows, insert corpus rows, or maintain the index; returns the seconds that it took.

        Raises:
            TrialFailed: the engine or its process failed.
        """
        self._number += 1
        sent = queries_file(self.folder, self._number)
        _save(sent, rows)
        changed: Changed = self._expected(Changed, list(self._send(ChangeRequest(self._number, change))))
        sent.unlink()
        return changed.seconds

    def weigh(self) -> Weighed:
        """Memory and size of the index.

        Raises:
            TrialFailed: the engine or its process failed.
        """
        weighed: Weighed = self._expected(Weighed, list(self._send(WeighRequest())))
        return weighed

    def overlap(
        self, search: Mapping[str, Any], writes: Sequence[tuple[str, NDArray[np.int64]]], seed: int
    ) -> OverlappedCalls:
        """Search under these parameters while these writes run one after the other.

        Raises:
            TrialFailed: the engine or its process failed.
        """
        remember_secrets(self.job.engine, search)
        self._number += 1
        sent, result = queries_file(self.folder, self._number), result_file(self.folder, self._number)
        _save(sent, np.concatenate([rows for _, rows in writes]))
        counts = [(change, len(rows)) for change, rows in writes]
        request = OverlapRequest(self._number, dict(search), counts, seed)
        self._expected(Finished, list(self._send(request)))
        found = OverlappedCalls.load(result)
        sent.unlink()
        result.unlink()
        return found

    def order(
        self, stage: str, queries: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> NDArray[np.int64] | Failed:
        """The rows of each query in the order of a stage's function; or how and at which query it failed."""
        self._number += 1
        sent, result = queries_file(self.folder, self._number), result_file(self.folder, self._number)
        _save(sent, np.column_stack([queries, rows]))
        for event in self._send(OrderRequest(self._number, stage)):
            if isinstance(event, Failed):
                return event
        if not result.exists():
            return Failed(None, "crash", "start", "the process ended without a message", self._log.tail())
        ordered: NDArray[np.int64] = load_arrays(result)[0]["rows"]
        sent.unlink()
        result.unlink()
        return ordered

    def _expected(self, kind: type[Any], events: list[Event]) -> Any:
        for event in events:
            if isinstance(event, Failed):
                if event.kind == NO_SPACE:
                    raise UsageError(event.message)
                raise TrialFailed(event.kind, event.phase, event.message, event.log)
            if isinstance(event, kind):
                return event
        self.close()
        phase = "build" if kind is Built else "search"
        message = f"the process ended with {_ending(self._process.wait())}"
        raise TrialFailed("crash", phase, message, self._log.tail())

    def _send(self, request: Request) -> Iterator[Event]:
        """Send a request and yield events until the worker is ready for the next.

        An exceeded limit, or a process that ends too early, becomes a Failed event.
        """
        if not self.alive or self._process.stdin is None:
            return
        self._watch.begin(build=isinstance(request, BuildRequest))
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(to_line(request).encode())
        build_failed = False
        for line in self._lines:
            if line is None:
                failed = self._watch.exceeded(self.limits)
                if failed is not None:
                    self.close()
                    yield replace(failed, log=self._log.tail())
                    return
                continue
            event = self._watch.seen(from_line(line))
            if isinstance(event, Ready):
                return
            if isinstance(event, Failed):
                build_failed |= event.number is None
                event = replace(event, log=self._log.tail())
            yield event
        code = self._ended()
        self.close()
        if not build_failed and self._watch.unfinished(code):
            message = f"the process ended with {_ending(code)}"
            yield Failed(self._watch.number, "crash", self._watch.phase, message, self._log.tail())

    def _ended(self) -> int:
        """Exit code; a process that closed its output but keeps running is killed."""
        try:
            return self._process.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def finish(self, seconds: float = _CLOSE_SECONDS) -> None:
        """Give an idle worker up to `seconds` to close its engine, then end it."""
        try:
            if self.alive and self._watch.phase == BETWEEN and self._process.stdin is not None:
                self._process.stdin.close()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(seconds)
        finally:
            self.close()

    def close(self) -> None:
        """Kill the process and its descendants; may be called twice."""
        if self.alive:
            self.alive = False
            process = self._process
            process.kill()
            process.wait()
            _clear_group(process.pid)
            reclaim(process.pid, _LEAVE_SECONDS)
            self._lines.close()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
        self._log.close()

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _started(data: Path, folder: Path, job: Job, log: ProcessLog) -> subprocess.Popen[bytes]:
    # -P: a file in the user's folder must not be imported in place of a library.
    module = [sys.executable, "-P", "-m", "recallatk.bench.worker"]
    # Counts the cores of this process, so it must be built before the thread is pinned.
    environment = _environment(job, folder)
    with _on_cores(job.settings.affinity):
        return subprocess.Popen(
            [*module, str(data), str(folder), str(os.getpid())],
            # Unbuffered: data that an ended process did not read must not be flushed again on close.
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log.descriptor,
            env=environment,
            # A new session: the parent handles Ctrl-C, and can find every process that the worker starts.
            start_new_session=True,
        )


def _environment(job: Job, folder: Path) -> dict[str, str]:
    """Environment of a worker: thread counts for every library, and a folder for temporary files."""
    threads = str(max(job.settings.threads_to_build, job.settings.search_threads))
    return {
        **os.environ,
        **dict.fromkeys(_THREAD_VARIABLES, threads),
        # If the process is killed, its temporary files are removed with the folder.
        **temporary_below(folder / "tmp"),
    }


@contextlib.contextmanager
def _on_cores(affinity: Sequence[int] | None) -> Iterator[None]:
    """Pin this thread temporarily: a process started in this context inherits its cores."""
    if affinity is None or sys.platform != "linux":
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, affinity)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _lines_of(worker: subprocess.Popen[bytes]) -> Generator[str | None]:
    """Whole lines as they arrive, and None whenever it is time to poll the process."""
    pipe = worker.stdout
    if pipe is None:
        return
    held = b""
    looked = time.monotonic()
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while True:
            if selector.select(_LOOK_SECONDS):
                some = os.read(pipe.fileno(), 1 << 16)
                if not some:
                    return
                *whole, held = (held + some).split(b"\n")
                yield from (line.decode("utf-8", "replace") for line in whole)
            if time.monotonic() - looked >= _LOOK_SECONDS:
                looked = time.monotonic()
                yield None


def _clear_group(group: int) -> None:
    """Wait for the descendants of the process to end, and kill those that remain."""
    if not hasattr(os, "killpg"):
        return
    until = time.monotonic() + _LEAVE_SECONDS
    with contextlib.suppress(ProcessLookupError, PermissionError):
        while time.monotonic() < until:
            os.killpg(group, 0)
            time.sleep(0.02)
        os.killpg(group, signal.SIGKILL)


def _ending(code: int) -> str:
    """How a process ended, in words."""
    try:
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"code {code}"
    except ValueError:
        return f"code {code}"


def _save(path: Path, numbers: NDArray[np.int64]) -> None:
    with scratch_writing(path):
        np.save(path, np.asarray(numbers, np.int64), allow_pickle=False)
