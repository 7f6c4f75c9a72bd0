"""Progress on standard error: one updated line in a terminal, plain lines elsewhere, nothing if quick."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from recallatk.cli.volume import Volume

# Work that takes less than this prints nothing.
_SILENT_SECONDS = 2.0
_PLAIN_EVERY_SECONDS = 5.0
_MOVING_EVERY_SECONDS = 0.1


@contextmanager
def progress(what: str, operations: int = 0) -> Iterator[Line]:
    """A line that is called with the steps done and the steps there are, and shows them with an ETA.

    Args:
        what: what is going on.
        operations: how many floating-point operations a step is, to show their rate.
    """
    from recallatk.reporting.text import printable

    line = Line(printable(what), operations)
    try:
        yield line
    finally:
        line.end()


class Line:
    """One thing that may take long, and how far it is."""

    def __init__(self, what: str, operations: int = 0) -> None:
        self.what, self.operations = what, operations
        self.moving = sys.stderr.isatty()
        self.started = self.shown = time.monotonic()
        self.first: tuple[float, int] | None = None
        self.width = 0
        # The first step may take long.
        self.timer = threading.Timer(_SILENT_SECONDS, self._show, [f"{what} …"])
        self.timer.daemon = True
        self.timer.start()

    def __call__(self, done: int, total: int) -> None:
        """Show how far it is, not too often."""
        now = time.monotonic()
        self.first = self.first or (now, done)
        every = _MOVING_EVERY_SECONDS if self.moving else _PLAIN_EVERY_SECONDS
        if now - self.started < _SILENT_SECONDS or now - self.shown < every or not total:
            return
        self._show(f"{self.what}: {done:,} of {total:,} ({done / total:.0%}){self._left(now, done, total)}")

    def _left(self, now: float, done: int, total: int) -> str:
        """How long the rest takes at the pace since the first step, which may have come late."""
        begun, before = self.first or (now, done)
        if done <= before:
            return ""
        pace = (done - before) / (now - begun)
        rate = f", {pace * self.operations / 1e9:,.0f} GFLOP/s" if self.operations else ""
        return f", {(total - done) / pace:,.0f} s left{rate}"

    def _show(self, text: str) -> None:
        self.timer.cancel()
        if Volume.quiet:
            return
        self.shown = time.monotonic()
        if self.moving:
            text = text[: shutil.get_terminal_size().columns - 1]
            sys.stderr.write("\r" + text.ljust(self.width))
            self.width = len(text)
        else:
            sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def end(self) -> None:
        """Nothing more is said of it; may be called twice."""
        self.timer.cancel()
        if self.width:
            sys.stderr.write("\r" + " " * self.width + "\r")
            sys.stderr.flush()
            self.width = 0
