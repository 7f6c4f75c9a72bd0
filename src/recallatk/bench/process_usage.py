"""Memory and time of a worker, and the limits on them."""

from __future__ import annotations

import ctypes
import gc
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from recallatk.bench.messages import Began, Blocked, Built, Changed, Failed, Finished, Ready
from recallatk.units import mebibytes

if TYPE_CHECKING:
    from recallatk.bench.messages import Event

_ROLLUP = Path("/proc/self/smaps_rollup")
_BUILDING = ("start", "preparing", "build")
BETWEEN = "between"
"""Phase of an idle worker."""


@dataclass(frozen=True)
class Limits:
    """Limits of a trial; None: no limit."""

    trial_seconds: float | None = None
    build_seconds: float | None = None
    memory_bytes: int | None = None
    """Private memory of the process and its descendants."""
    explain_seconds: float | None = None
    """Time for the evidence on what one trial missed; None: as long as the trial took."""


def private_bytes() -> int:
    """Anonymous memory of this process in bytes, after releasing the allocator's free memory.

    Mapped files are not counted: they belong to the page cache. Systems without /proc report the
    unique set size, which is the nearest they have.
    """
    gc.collect()
    if sys.platform == "linux" and _ROLLUP.exists():
        library = ctypes.CDLL(None)
        # Not every C library has malloc_trim.
        if hasattr(library, "malloc_trim"):
            library.malloc_trim(0)
        lines = (line.split() for line in _ROLLUP.read_text().splitlines())
        sizes = {words[0]: int(words[1]) for words in lines if len(words) == 3}
        return (sizes["Anonymous:"] + sizes["Swap:"]) * 1024
    import psutil

    return int(psutil.Process().memory_full_info().uss)


def held_bytes(pid: int, *, family: bool) -> int:
    """Anonymous memory of a process, including descendants if `family`; 0 if it has ended.

    Cheap enough to poll: the allocator's free memory is not released first.
    """
    import psutil

    try:
        children = psutil.Process(pid).children(recursive=True) if family else []
        return sum(_held(each) for each in (pid, *(child.pid for child in children)))
    except psutil.Error:
        return 0


def _held(pid: int) -> int:
    status = Path(f"/proc/{pid}/status")
    if sys.platform != "linux":
        import psutil

        return int(psutil.Process(pid).memory_info().rss)
    try:
        lines = (line.split() for line in status.read_text().splitlines())
        return 1024 * sum(int(words[1]) for words in lines if words and words[0] in ("RssAnon:", "VmSwap:"))
    except OSError:
        return 0


class UsageWatch:
    """The phase of a worker, its duration, and the worker's memory."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.phase = "start"
        self.number: int | None = None
        self.peak = 0
        self._since = time.monotonic()
        self._spent: dict[int, float] = {}
        self._looks = 0
        self._open: set[int] = set()

    def begin(self, *, build: bool) -> None:
        """Start the clock: the worker is about to receive a request."""
        self._since, self.peak = time.monotonic(), 0
        if build and self.phase == BETWEEN:
            self.phase = "build"

    def seen(self, event: Event) -> Event:
        """Process an event; a finished build gets its peak memory."""
        now = time.monotonic()
        if self.number is not None:
            self._spent[self.number] = self._spent.get(self.number, 0.0) + now - self._since
        self._since = now
        match event:
            case Began(phase, number):
                self.phase, self.number = phase, number
                if number is not None:
                    self._open.add(number)
            case Built():
                self.phase = BETWEEN
                return replace(event, peak_bytes=self._peak_of(event))
            case Blocked() | Ready():
                self.phase, self.number = BETWEEN, None
            case Finished(number) | Changed(number) | Failed(number):
                self._open.discard(-1 if number is None else number)
                self.number = None
        return event

    def _peak_of(self, built: Built) -> int | None:
        if built.memory_bytes is None:
            return None
        self._look()
        return max(self.peak - built.before_bytes, built.memory_bytes)

    def _look(self) -> int:
        # Finding descendants is expensive, so it is done less often.
        self._looks += 1
        held = held_bytes(self.pid, family=self._looks % 10 == 0)
        self.peak = max(self.peak, held)
        return held

    def exceeded(self, limits: Limits) -> Failed | None:
        """Description of an exceeded limit; None if there is none."""
        if self.phase == "build" or limits.memory_bytes is not None:
            held = self._look()
            if limits.memory_bytes is not None and held > limits.memory_bytes:
                said = (
                    f"the process used {mebibytes(held, 0)}; the limit is {mebibytes(limits.memory_bytes, 0)}"
                )
                return Failed(self.number, "memory limit", self.phase, said)
        running = time.monotonic() - self._since
        limit = limits.trial_seconds
        if self.number is not None:
            running += self._spent.get(self.number, 0.0)
        elif self.phase in _BUILDING:
            limit = limits.build_seconds
        if limit is not None and running > limit:
            return Failed(self.number, "time limit", self.phase, f"it took more than {limit:g} s")
        return None

    def unfinished(self, code: int) -> bool:
        """Whether the worker ended before its work was done; False if it was idle."""
        return bool(self._open) or self.phase in _BUILDING or (code != 0 and not self._spent)
