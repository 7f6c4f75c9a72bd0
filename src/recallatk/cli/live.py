"""Live progress of a run or a tuning: a moving table in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from recallatk.analysis.headline import headline_of
from recallatk.analysis.latency import percentile
from recallatk.cli.volume import Volume
from recallatk.core import Failure
from recallatk.core.trials import called
from recallatk.reporting.labels import cut, listed
from recallatk.reporting.text import printable

if TYPE_CHECKING:
    from recallatk.bench.progress import Progress
    from recallatk.core import Measurement
    from recallatk.core.tuned import Candidate
    from recallatk.tuning.study import TuningProgress

# Work that takes less than this prints nothing.
_SILENT_SECONDS = 2.0
_PLAIN_EVERY_SECONDS = 5.0
_MOVING_EVERY_SECONDS = 0.5
_LATEST, _ON_FRONT = 6, 8
_LONGEST_REASON = 200


class View(Protocol):
    """Shows progress."""

    def show(self, progress: Any) -> None:
        """Show it."""


def run_view() -> AbstractContextManager[View]:
    """A view of a run on standard error."""
    return _view(RunLines, run_headline, _latest)


def tune_view() -> AbstractContextManager[View]:
    """A view of a tuning on standard error."""
    return _view(TuneLines, tune_headline, _front)


@contextmanager
def _view(
    lines: Callable[[], View],
    headline: Callable[[Any], str],
    rows: Callable[[Any], list[tuple[str, str]]],
) -> Iterator[View]:
    """Plain lines, or in a terminal a headline above a table of two columns, redrawn in place."""
    if Volume.quiet:
        yield Silence()
        return
    if not sys.stderr.isatty():
        yield lines()
        return
    from rich.console import Console
    from rich.live import Live

    # A refresh thread would take CPU time from the measurement.
    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as screen:
        yield MovingTable(screen, headline, rows)


class Silence:
    """No progress, as --quiet asks."""

    def show(self, progress: Any) -> None:
        """Print nothing."""


class RunLines:
    """A line for each finished trial, and one every few seconds during a long one."""

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
            _say(run_headline(progress))
        self.done, self.said = progress.done, now

    def _begin(self, progress: Progress) -> None:
        self.done = progress.done - len(progress.latest)
        if self.done:
            _say(f"{self.done} of {progress.trials} trials were finished before")


class MovingTable:
    """A headline with rows below it."""

    def __init__(
        self, screen: Any, headline: Callable[[Any], str], rows: Callable[[Any], list[tuple[str, str]]]
    ) -> None:
        self.screen, self.headline, self.rows = screen, headline, rows
        self.drawn = 0.0

    def show(self, progress: Any) -> None:
        """Redraw, at most twice a second."""
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
    """The latest trials."""
    latest = list(progress.latest)[-_LATEST:]
    return [(printable(str(each.trial)), printable(described(each))) for each in latest]


def run_headline(progress: Progress) -> str:
    """Trial k of n, its phase, and the estimated time left."""
    number = min(progress.done + 1, progress.trials)
    parts = [f"trial {number} of {progress.trials}: {progress.phase}"]
    if progress.trial is not None:
        parts.append(printable(str(progress.trial)))
    if progress.p95_ms is not None:
        parts.append(f"p95 {progress.p95_ms:.3f} ms")
    if progress.failed:
        parts.append(f"{progress.failed} failed")
    left = progress.seconds_left
    if left is not None:
        parts.append(f"about {_duration(left)} left")
    return ", ".join(parts)


def described(outcome: Measurement | Failure) -> str:
    """The recall and p95 of a trial, or why it failed."""
    if isinstance(outcome, Failure):
        return cut(f"failed: {outcome.kind} in {outcome.phase}: {outcome.message}", _LONGEST_REASON)
    measures = outcome.score.measures
    name = headline_of(measures) or next(iter(measures), None)
    mean = None if name is None else measures[name].value
    slow = percentile(outcome.latencies_ns, 0.95)
    return _recall_and_p95(name, mean, slow, "too few calls for p95")


class TuneLines:
    """A line every few seconds, and one for each new best setting."""

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self.said = self.begun + _SILENT_SECONDS - _PLAIN_EVERY_SECONDS
        self.best: Candidate | None = None

    def show(self, progress: TuningProgress) -> None:
        """Print what is new."""
        now = time.monotonic()
        new = progress.best is not None and progress.best is not self.best
        due = now - self.said >= (_SILENT_SECONDS if new else _PLAIN_EVERY_SECONDS)
        if not due or now - self.begun < _SILENT_SECONDS:
            return
        self.said, self.best = now, progress.best
        _say(tune_headline(progress))


def _front(progress: TuningProgress) -> list[tuple[str, str]]:
    """The Pareto front so far."""
    return [(_named(each), _measured(each)) for each in progress.front[-_ON_FRONT:]]


def tune_headline(progress: TuningProgress) -> str:
    """The phase, the best setting so far, and the time left at most."""
    parts = [f"tune, {progress.phase}{'' if progress.engine is None else f' of {progress.engine}'}"]
    if progress.said:
        parts.append(progress.said)
    if progress.best is not None:
        parts.append(f"best so far {_named(progress.best)}: {_measured(progress.best)}")
    if len(progress.front) > 1:
        parts.append(f"{len(progress.front)} settings on the front")
    parts.append(_duration(progress.elapsed))
    if progress.seconds_left is not None:
        parts.append(f"at most {_duration(progress.seconds_left)} left")
    return printable("; ".join(parts))


def _measured(candidate: Candidate) -> str:
    """The first measure and the p95 of a setting."""
    name = next(iter(candidate.measures), None)
    mean = None if name is None else candidate.measures[name].value
    slow = candidate.latency_ms.get("p95")
    return _recall_and_p95(name, mean, slow, "no p95")


def _named(candidate: Candidate) -> str:
    return printable(called(candidate.engine, listed(candidate.build), listed(candidate.search)))


def _recall_and_p95(name: str | None, mean: float | None, p95: float | None, no_p95: str) -> str:
    recall = "no recall" if mean is None else f"{name} {mean:.4f}"
    return f"{recall}, {no_p95 if p95 is None else f'p95 {p95:.3f} ms'}"


def _duration(seconds: float) -> str:
    """Seconds rounded for reading."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _say(line: str) -> None:
    sys.stderr.write(printable(line) + "\n")
    sys.stderr.flush()
