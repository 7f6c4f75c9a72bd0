"""A conversation with an index in a process of its own: build it, ask it, build another, ask on."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.bench.environment import usable_cores
from recallatk.bench.events import NO_SPACE, Began, Built, Event, Failed, Finished, from_line
from recallatk.bench.job import Job, remember_secrets, write_job
from recallatk.bench.parentage import starting
from recallatk.bench.process_log import ProcessLog
from recallatk.bench.supervising import (
    LEAVE_SECONDS,
    Limits,
    Watch,
    clear_group,
    ending,
    environment_of,
    lines_of,
    on_cores,
)
from recallatk.errors import EngineError, RecallError, UsageError
from recallatk.scratch import reclaim, scratch_writing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

# A process that is told to go has this long to close its engine.
_CLOSE_SECONDS = 5.0


class TrialFailed(EngineError):  # noqa: N818 - it is a fact about a trial more than an error of ours
    """A build or a search could not be done."""

    def __init__(self, kind: str, phase: str, message: str, log: str = "") -> None:
        super().__init__(f"{kind} in {phase}: {message}")
        self.kind, self.phase, self.message, self.log = kind, phase, message, log


@dataclass(frozen=True)
class Speaker:
    """Who is talked to, and what every answer has in common."""

    engine: str
    metric: str
    k: int
    seed: int = 0
    build_threads: int | None = None
    """None: as many as there are cores."""
    search_threads: int = 1

    def job(self) -> Job:
        """The same for the process."""
        threads = self.build_threads or usable_cores()
        return Job(self.engine, self.metric, {}, (), self.k, 1, self.seed, threads, self.search_threads)


@dataclass(frozen=True, eq=False)
class Answered:
    """What came back for some queries, in the order in which they were asked."""

    rows: NDArray[np.int64]
    """(queries, k) rows of what the index was built from; -1 where there was no answer."""
    latencies_ns: NDArray[np.int64]
    seconds: float
    evidence: str
    pace_ns: int | None = None
    """What a fixed piece of work took right after the calls; None where nobody asked for it."""


@dataclass(eq=False)
class Conversation:
    """One process that holds one index at a time; it ends with this object, or with this process.

    Args:
        data: the folder that `write_data` filled.
        folder: a scratch folder of its own.
        speaker: the engine and how it is asked.
        limits: what a build or a request may take; may be changed between requests.
        affinity: the cores to run on.
    """

    data: Path
    folder: Path
    speaker: Speaker
    limits: Limits = field(default_factory=Limits)
    affinity: Sequence[int] | None = None

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        job = self.speaker.job()
        write_job(self.folder, job)
        self._log = ProcessLog(self.folder / "log.txt")
        self._number = 0
        try:
            with starting():
                self._process = self._started(job)
                self._watch = Watch(self._process.pid, self.limits)
                self._said = lines_of(self._process)
                self.alive = True
            self._log.handed_over()
        except (KeyboardInterrupt, SystemExit):
            self.close()
            raise

    def _started(self, job: Job) -> subprocess.Popen[bytes]:
        module = [sys.executable, "-P", "-m", "recallatk.bench.asker"]
        with on_cores(self.affinity):
            return subprocess.Popen(
                [*module, str(self.data), str(self.folder), str(os.getpid())],
                # Unbuffered: what a process that has gone did not take must not be tried again.
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log.descriptor,
                env=environment_of(job, self.folder),
                start_new_session=True,
            )

    def build(self, parameters: Mapping[str, Any], rows: NDArray[np.int64] | int | None = None) -> Built:
        """Build anew, of all rows, of the first so many, or of these; the index before is let go."""
        remember_secrets(self.speaker.engine, parameters)
        self._watch.peak = 0
        named = None
        if rows is not None:
            self._number += 1
            named = f"rows-{self._number}.npy"
            chosen = np.arange(rows) if isinstance(rows, int) else np.asarray(rows, np.int64)
            _save(self.folder / named, chosen)
        self._watch.phase, self._watch.number = "build", None
        event = self._asked({"do": "build", "parameters": dict(parameters), "rows": named})
        if named is not None:
            (self.folder / named).unlink()
        if not isinstance(event, Built):
            raise self._broken(f"it said {event} when it was to build")
        return event

    def ask(
        self,
        search: Mapping[str, Any],
        queries: NDArray[np.int64],
        *,
        warm: bool = False,
        pace: bool = False,
    ) -> Answered:
        """Ask these queries one at a time under these search parameters, after a warm-up if wanted."""
        remember_secrets(self.speaker.engine, search)
        self._number += 1
        number = self._number
        asked, answers = self.folder / f"queries-{number}.npy", self.folder / f"answers-{number}.npz"
        _save(asked, np.asarray(queries, np.int64))
        request = {"do": "ask", "number": number, "search": dict(search), "warm": warm, "pace": pace}
        self._watch.phase, self._watch.number = "search", number
        event = self._asked(request)
        if event != Finished(number):
            raise self._broken(f"it said {event} when it was asked")
        with np.load(answers, allow_pickle=False) as found:
            said = json.loads(found["said"].tobytes())
            result = Answered(
                found["rows"], found["latencies_ns"], said["seconds"], said["evidence"], said["pace_ns"]
            )
        asked.unlink()
        answers.unlink()
        return result

    def _asked(self, request: dict[str, Any]) -> Event:
        if not self.alive or self._process.stdin is None:
            raise TrialFailed("crash", "start", "the process has ended", self._log.tail())
        self._watch.limits, self._watch.since = self.limits, time.monotonic()
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write((json.dumps(request) + "\n").encode())
            self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Event:
        for line in self._said:
            if line is None:
                failed = self._watch.exceeded()
                if failed is not None:
                    self.close()
                    raise self._failed(failed)
                continue
            event = self._watch.seen(from_line(line))
            if isinstance(event, Failed):
                raise self._failed(event)
            if not isinstance(event, Began):
                return event
        code = self._process.wait()
        phase = self._watch.phase
        self.close()
        raise TrialFailed("crash", phase, f"the process ended with {ending(code)}", self._log.tail())

    def _failed(self, event: Failed) -> RecallError:
        if event.kind == NO_SPACE:
            return UsageError(event.message)
        return TrialFailed(event.kind, event.phase, event.message, self._log.tail())

    def _broken(self, message: str) -> TrialFailed:
        self.close()
        return TrialFailed("crash", self._watch.phase, message, self._log.tail())

    def close(self) -> None:
        """End the process and all that it started; may be called twice."""
        if not self.alive:
            return
        self.alive = False
        process = self._process
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
        if self._watch.phase == "between":
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_CLOSE_SECONDS)
        process.kill()
        process.wait()
        clear_group(process.pid)
        reclaim(process.pid, LEAVE_SECONDS)
        if isinstance(self._said, Generator):
            self._said.close()
        if process.stdout is not None:
            process.stdout.close()
        self._log.close()

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _save(path: Path, numbers: NDArray[np.int64]) -> None:
    with scratch_writing(path):
        np.save(path, numbers, allow_pickle=False)
