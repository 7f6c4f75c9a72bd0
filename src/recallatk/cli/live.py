"""A run while it is measured: a small table that moves in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from recallatk.analysis.headline import headline_of
from recallatk.analysis.latency import percentile
from recallatk.core import Failure
from recallatk.report.labels import cut

if TYPE_CHECKING:
    from recallatk.bench.watching import Progress
    from recallatk.core import Measurement

_PLAIN_EVERY_SECONDS = 5.0
_MOVING_EVERY_SECONDS = 0.5
_LATEST = 6
_LONGEST_REASON = 200


class View(Protocol):
    """Whatever shows how far something is."""

    def show(self, progress: Any) -> None:
        """Show it."""


@contextmanager
def live() -> Iterator[View]:
    """A view of a run on standard error."""
    with view(Lines, headline, _latest) as found:
        yield found


@contextmanager
def view(
    lines: Callable[[], View],
    headline: Callable[[Any], str],
    rows: Callable[[Any], list[tuple[str, str]]],
) -> Iterator[View]:
    """Plain lines, or in a terminal a headline with a table of two columns that moves."""
    if not sys.stderr.isatty():
        yield lines()
        return
    from rich.console import Console
    from rich.live import Live

    # Drawing on its own would take time from what is measured.
    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as screen:
        yield Moving(screen, headline, rows)


class Lines:
    """A line for each trial that is done, and one now and then while one takes long."""

    def __init__(self) -> None:
        self.done: int | None = None
        self.said = time.monotonic()

    def show(self, progress: Progress) -> None:
        """Print what is new."""
        now = time.monotonic()
        if self.done is None:
            self._begin(progress)
        new = progress.done - (self.done or 0)
        if not new and now - self.said < _PLAIN_EVERY_SECONDS:
            return
        shown = list(progress.latest)[-new:] if new else []
        for number, each in enumerate(shown, progress.done - len(shown) + 1):
            _say(f"{number} of {progress.trials}: {each.trial}: {described(each)}")
        if not shown:
            _say(headline(progress))
        self.done, self.said = progress.done, now

    def _begin(self, progress: Progress) -> None:
        self.done = progress.done - len(progress.latest)
        if self.done:
            _say(f"{self.done} of {progress.trials} trials were finished before")


class Moving:
    """The headline, and the rows below it."""

    def __init__(
        self, screen: Any, headline: Callable[[Any], str], rows: Callable[[Any], list[tuple[str, str]]]
    ) -> None:
        self.screen, self.headline, self.rows = screen, headline, rows
        self.drawn = 0.0

    def show(self, progress: Any) -> None:
        """Draw it anew, not too often."""
        from rich.table import Table
        from rich.text import Text

        now = time.monotonic()
        if now - self.drawn < _MOVING_EVERY_SECONDS:
            return
        self.drawn = now
        title = Text(self.headline(progress))
        table = Table(box=None, title=title, title_justify="left", show_header=False)
        for name, said in self.rows(progress):
            table.add_row(Text(name, overflow="ellipsis"), Text(said))
        self.screen.update(table, refresh=True)


def _latest(progress: Progress) -> list[tuple[str, str]]:
    """The trials that were done last."""
    latest = list(progress.latest)[-_LATEST:]
    return [(_printable(str(each.trial)), _printable(described(each))) for each in latest]


def headline(progress: Progress) -> str:
    """Trial k of n, what is going on, and how long the rest may take."""
    number = min(progress.done + 1, progress.trials)
    parts = [f"trial {number} of {progress.trials}: {progress.phase}"]
    if progress.trial is not None:
        parts.append(_printable(str(progress.trial)))
    if progress.p95_ms is not None:
        parts.append(f"p95 {progress.p95_ms:.3f} ms")
    if progress.failed:
        parts.append(f"{progress.failed} failed")
    left = progress.seconds_left
    if left is not None:
        parts.append(f"about {duration(left)} left")
    return ", ".join(parts)


def described(outcome: Measurement | Failure) -> str:
    """The recall and the price of a trial, or why it failed, in a few words."""
    if isinstance(outcome, Failure):
        return cut(f"failed: {outcome.kind} in {outcome.phase}: {outcome.message}", _LONGEST_REASON)
    measures = outcome.score.measures
    name = headline_of(measures) or next(iter(measures), None)
    mean = None if name is None else measures[name].value
    slow = percentile(outcome.latencies_ns, 0.95)
    return ", ".join(
        [
            "no recall" if mean is None else f"{name} {mean:.4f}",
            "no p95 of so few calls" if slow is None else f"p95 {slow:.3f} ms",
        ]
    )


def duration(seconds: float) -> str:
    """Seconds as somebody would say them."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _say(line: str) -> None:
    sys.stderr.write(_printable(line) + "\n")
    sys.stderr.flush()


def _printable(text: str) -> str:
    from recallatk.report.text import printable

    return printable(text)
