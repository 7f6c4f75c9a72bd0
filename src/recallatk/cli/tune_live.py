"""A tuning while it goes on: what is tried, the best so far, the front and the time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from recallatk.cli.live import View, duration, view

if TYPE_CHECKING:
    from recallatk.core.tuned import Candidate
    from recallatk.tune.search import Progress

# Nothing is said of what takes less than this.
_SILENT_SECONDS = 2.0
_PLAIN_EVERY_SECONDS = 5.0
_SHOWN = 8


@contextmanager
def live() -> Iterator[View]:
    """A view of a tuning on standard error."""
    with view(Lines, headline, _front) as found:
        yield found


class Lines:
    """A line now and then, and one whenever there is a new best."""

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self.said = self.begun + _SILENT_SECONDS - _PLAIN_EVERY_SECONDS
        self.best: Candidate | None = None

    def show(self, progress: Progress) -> None:
        """Print what is new."""
        now = time.monotonic()
        new = progress.best is not None and progress.best is not self.best
        due = now - self.said >= (_SILENT_SECONDS if new else _PLAIN_EVERY_SECONDS)
        if not due or now - self.begun < _SILENT_SECONDS:
            return
        self.said, self.best = now, progress.best
        sys.stderr.write(headline(progress) + "\n")
        sys.stderr.flush()


def _front(progress: Progress) -> list[tuple[str, str]]:
    """The front as it grows."""
    return [(_named(each), described(each)) for each in progress.front[-_SHOWN:]]


def headline(progress: Progress) -> str:
    """What is going on, the best so far, and how long it may still take."""
    from recallatk.report.text import printable

    parts = [f"tune, {progress.phase}{'' if progress.engine is None else f' of {progress.engine}'}"]
    if progress.said:
        parts.append(progress.said)
    if progress.best is not None:
        parts.append(f"best so far {_named(progress.best)}: {described(progress.best)}")
    if len(progress.front) > 1:
        parts.append(f"{len(progress.front)} settings on the front")
    parts.append(duration(progress.elapsed))
    if progress.seconds_left is not None:
        parts.append(f"at most {duration(progress.seconds_left)} left")
    return printable("; ".join(parts))


def described(candidate: Candidate) -> str:
    """The first measure and the p95, in a few words."""
    name = next(iter(candidate.measures), None)
    mean = None if name is None else candidate.measures[name].value
    slow = candidate.latency_ms.get("p95")
    return ", ".join(
        [
            "no recall" if mean is None else f"{name} {mean:.4f}",
            "no p95" if slow is None else f"p95 {slow:.3f} ms",
        ]
    )


def _named(candidate: Candidate) -> str:
    from recallatk.report.labels import listed
    from recallatk.report.text import printable

    return printable(f"{candidate.engine}({listed(candidate.build)})[{listed(candidate.search)}]")
