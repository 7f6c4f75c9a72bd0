"""Progress on standard error: a line that moves in a terminal, plain lines elsewhere, silence if quick."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Nothing is said of what takes less than this.
_SILENT_SECONDS = 2.0
_PLAIN_EVERY_SECONDS = 5.0
_MOVING_EVERY_SECONDS = 0.1


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A callable that takes the steps done and the steps there are, and shows them with an ETA."""
    line = _Line(what)
    try:
        yield line.step
    finally:
        line.end()


class _Line:
    def __init__(self, what: str) -> None:
        self.what = what
        self.moving = sys.stderr.isatty()
        self.started = time.monotonic()
        self.shown = self.started
        self.width = 0

    def step(self, done: int, total: int) -> None:
        now = time.monotonic()
        every = _MOVING_EVERY_SECONDS if self.moving else _PLAIN_EVERY_SECONDS
        spent = now - self.started
        if spent < _SILENT_SECONDS or now - self.shown < every or not total:
            return
        self.shown = now
        left = f", {spent * (total - done) / done:,.0f} s left" if done else ""
        text = f"{self.what}: {done:,} of {total:,} ({done / total:.0%}){left}"
        if self.moving:
            sys.stderr.write("\r" + text.ljust(self.width))
            self.width = len(text)
        else:
            sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def end(self) -> None:
        if self.width:
            sys.stderr.write("\r" + " " * self.width + "\r")
            sys.stderr.flush()
