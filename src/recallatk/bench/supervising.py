"""Watching over a measuring process: its limits, its memory, its end."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from recallatk.bench.events import Began, Blocked, Built, Event, Failed, Finished, Paused, from_line
from recallatk.bench.memory import held_bytes
from recallatk.bench.parentage import starting
from recallatk.bench.process_log import ProcessLog
from recallatk.scratch import reclaim, temporary_below

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from pathlib import Path

    from recallatk.bench.job import Job

_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "RAYON_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
# Short against any build, long against what a look costs.
_LOOK_SECONDS = 0.05
_BUILDING = ("start", "preparing", "build")
# Servers that an engine started may need a moment to notice that it has gone.
LEAVE_SECONDS = 10.0


@dataclass(frozen=True)
class Limits:
    """What a trial may take; None: as much as it needs."""

    trial_seconds: float | None = None
    build_seconds: float | None = None
    memory_bytes: int | None = None
    """Private memory of the process and of those that it started."""


def supervise(
    data: Path,
    folder: Path,
    job: Job,
    log: Path,
    *,
    limits: Limits,
    affinity: Sequence[int] | None = None,
) -> Generator[Event]:
    """Start a process on a job and pass on what it says; its end, if too early, becomes a Failed."""
    with contextlib.ExitStack() as stack:
        said = stack.enter_context(ProcessLog(log))
        with starting():
            worker = stack.enter_context(_started(data, folder, job, said, affinity))
            stack.callback(_end, worker)
        said.handed_over()
        yield from _followed(worker, Watch(worker.pid, limits), said)


def _end(worker: subprocess.Popen[bytes]) -> None:
    worker.kill()
    worker.wait()
    clear_group(worker.pid)
    reclaim(worker.pid, LEAVE_SECONDS)


def _followed(worker: subprocess.Popen[bytes], watch: Watch, log: ProcessLog) -> Iterator[Event]:
    for line in lines_of(worker):
        if line is None:
            failed = watch.exceeded()
            if failed is not None:
                worker.kill()
                yield replace(failed, log=log.tail())
                return
            continue
        event = watch.seen(from_line(line))
        yield event if not isinstance(event, Failed) else replace(event, log=log.tail())
        if isinstance(event, Failed) and event.number is None:
            return
        if isinstance(event, Paused) and worker.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                worker.stdin.write(b"\n")
    code = _waited(worker)
    if watch.unfinished(code):
        message = f"the process ended with {ending(code)}"
        yield Failed(watch.number, "crash", watch.phase, message, log.tail())


def _waited(worker: subprocess.Popen[bytes]) -> int:
    """How it ended; one that has said all and stays is ended."""
    try:
        return worker.wait(LEAVE_SECONDS * 6)
    except subprocess.TimeoutExpired:
        worker.kill()
        return worker.wait()


def _started(
    data: Path, folder: Path, job: Job, log: ProcessLog, affinity: Sequence[int] | None
) -> subprocess.Popen[bytes]:
    # -P: a file in the user's folder must not be imported in place of a library.
    module = [sys.executable, "-P", "-m", "recallatk.bench.worker"]
    with on_cores(affinity):
        return subprocess.Popen(
            [*module, str(data), str(folder), str(os.getpid())],
            # Unbuffered: what a process that has gone did not take must not be tried again at the end.
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log.descriptor,
            env=environment_of(job, folder),
            # Ctrl-C is for us to answer, and all that the process starts can be found again.
            start_new_session=True,
        )


def environment_of(job: Job, folder: Path) -> dict[str, str]:
    """The environment of a measuring process: threads for every library, and a place for their files."""
    threads = str(max(job.build_threads, job.search_threads))
    return {
        **os.environ,
        **dict.fromkeys(_THREAD_VARIABLES, threads),
        # What a library had there when the process was killed goes with the folder.
        **temporary_below(folder / "tmp"),
    }


@contextlib.contextmanager
def on_cores(affinity: Sequence[int] | None) -> Iterator[None]:
    """A process started in here inherits the cores from the thread that starts it."""
    if affinity is None or sys.platform != "linux":
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, affinity)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def lines_of(worker: subprocess.Popen[bytes]) -> Iterator[str | None]:
    """Whole lines as they come, and None whenever it is time to look."""
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


class Watch:
    """What the process is doing, for how long, and how much it holds."""

    def __init__(self, pid: int, limits: Limits) -> None:
        self.pid, self.limits = pid, limits
        self.phase = "start"
        self.number: int | None = None
        self.since = time.monotonic()
        self.spent: dict[int, float] = {}
        self.peak = 0
        self.looks = 0
        self.paused = False
        self.open: set[int] = set()

    def seen(self, event: Event) -> Event:
        """Take an event in; a build learns its peak here."""
        now = time.monotonic()
        if self.number is not None:
            self.spent[self.number] = self.spent.get(self.number, 0.0) + now - self.since
        self.since = now
        match event:
            case Began(phase, number):
                self.phase, self.number = phase, number
                self.paused = False
                if number is not None:
                    self.open.add(number)
            case Built():
                self.phase = "between"
                return replace(event, peak_bytes=self._peak_of(event))
            case Blocked() | Paused():
                self.phase, self.number = "between", None
                self.paused = isinstance(event, Paused)
            case Finished(number) | Failed(number, _, _, _, _):
                self.open.discard(-1 if number is None else number)
                self.number = None
        return event

    def _peak_of(self, built: Built) -> int | None:
        if built.memory_bytes is None:
            return None
        self._look()
        return max(self.peak - built.before_bytes, built.memory_bytes)

    def _look(self) -> int:
        # Other processes are few and cost more to find.
        self.looks += 1
        held = held_bytes(self.pid, family=self.looks % 10 == 0)
        self.peak = max(self.peak, held)
        return held

    def exceeded(self) -> Failed | None:
        """The limit that was passed, if any."""
        if self.phase == "build" or self.limits.memory_bytes is not None:
            held = self._look()
            if self.limits.memory_bytes is not None and held > self.limits.memory_bytes:
                allowed = self.limits.memory_bytes
                said = f"it held {held / 2**20:,.0f} MiB; the limit is {allowed / 2**20:,.0f} MiB"
                return Failed(self.number, "memory limit", self.phase, said)
        running = time.monotonic() - self.since
        limit = self.limits.trial_seconds
        if self.number is not None:
            running += self.spent.get(self.number, 0.0)
        elif self.phase in _BUILDING:
            limit = self.limits.build_seconds
        if limit is not None and running > limit and not self.paused:
            return Failed(self.number, "time limit", self.phase, f"it took more than {limit:g} s")
        return None

    def unfinished(self, code: int) -> bool:
        """Whether the process ended before its work did."""
        return bool(self.open) or (code != 0 and not self.paused) or self.phase in _BUILDING


def clear_group(group: int) -> None:
    """Wait until all that the process had started are gone, and end what stays."""
    if not hasattr(os, "killpg"):
        return
    until = time.monotonic() + LEAVE_SECONDS
    with contextlib.suppress(ProcessLookupError, PermissionError):
        while time.monotonic() < until:
            os.killpg(group, 0)
            time.sleep(0.02)
        os.killpg(group, signal.SIGKILL)


def ending(code: int) -> str:
    """How a process ended, in words."""
    try:
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"code {code}"
    except ValueError:
        return f"code {code}"
