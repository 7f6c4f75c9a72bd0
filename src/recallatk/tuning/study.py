"""A tuning study: the data, goals and time limit that all steps share, and the trail that they extend."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from recallatk.core import Metric
from recallatk.core.tuned import Attempt, Candidate
from recallatk.tuning.candidates import front_of
from recallatk.tuning.index_client import IndexClient, IndexPool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from recallatk.adapters import Engine
    from recallatk.bench.journal import Journal
    from recallatk.goals import Budget, Target
    from recallatk.tuning.query_split import Side
    from recallatk.tuning.search_space import Shape

# The rest of the time limit is for finalists and validation.
_SHARE_FOR_CHOOSING = 0.85
# Seconds of screening per engine without a time limit, for 2,000 rows of dimension 384.
_SCREEN_SECONDS, _SCREEN_NUMBERS = 1.5, 2_000 * 384


@dataclass(frozen=True)
class TuningProgress:
    """Progress of a tuning."""

    phase: str
    """filter, build, effort, finalists, validation or timing."""
    engine: str | None
    best: Candidate | None
    front: tuple[Candidate, ...]
    elapsed: float
    seconds_left: float | None
    """Seconds until the time limit; None without a limit."""
    said: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Study:
    """Everything that the steps of one tuning share, deliberately without the held-out queries."""

    pool: IndexPool
    journal: Journal
    side: Side
    """The queries to choose by."""
    parts: Sequence[Side]
    """The same queries on samples of the corpus: the first for every build, the second for the best few."""
    targets: Sequence[Target]
    budgets: Sequence[Budget]
    prefer: str
    shape: Shape
    engines: Sequence[type[Engine]]
    seed: int
    seconds: float | None
    """The time limit; None without one."""
    watch: Callable[[TuningProgress], None] | None
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Named engines that are not tried, with the reason."""

    @property
    def metric(self) -> Metric:
        """The metric of the dataset."""
        return Metric(self.side.dataset.metric)

    @property
    def part(self) -> Side:
        """The first sample."""
        return self.parts[0]

    @property
    def larger(self) -> Side | None:
        """The second sample; None if the corpus is too small for two."""
        return self.parts[1] if len(self.parts) > 1 else None

    @property
    def elapsed(self) -> float:
        """Seconds that the steps took so far, including those of interrupted calls."""
        return self.journal.elapsed

    @property
    def screen_seconds(self) -> float:
        """Seconds of screening per engine, beyond the builds that every engine gets."""
        if self.seconds is not None:
            return 0.3 * self.seconds / max(1, len(self.engines))
        return _SCREEN_SECONDS * max(
            1.0, self.part.dataset.corpus.rows * self.shape.dimension / _SCREEN_NUMBERS
        )

    def left(self) -> float | None:
        """Seconds left for choosing; None without a time limit."""
        if self.seconds is None:
            return None
        return max(0.1, _SHARE_FOR_CHOOSING * self.seconds - self.elapsed)

    def over(self) -> bool:
        """Whether the time for choosing is over."""
        return self.seconds is not None and self.elapsed >= _SHARE_FOR_CHOOSING * self.seconds

    def index(self, engine: type[Engine], build: dict[str, Any], part: Side | None = None) -> IndexClient:
        """An index of the full corpus or of a sample, built on first use."""
        if part is None:
            return IndexClient(self.pool, self.journal, engine.name, build, self.shape.rows)
        return IndexClient(self.pool, self.journal, engine.name, build, part.dataset.corpus.rows, part.rows)


@dataclass(frozen=True)
class Trail:
    """Everything that the steps so far tried and measured, in order."""

    attempts: tuple[Attempt, ...] = ()
    measured: tuple[Candidate, ...] = ()
    """Every setting measured on the full corpus; a setting measured twice occurs twice."""
    best: Candidate | None = None
    """The cheapest proven setting."""


class Log:
    """The trail while one step extends it; progress goes to the `watch` callback."""

    def __init__(self, study: Study, before: Trail) -> None:
        self.study, self.best = study, before.best
        self.attempts, self.measured = list(before.attempts), list(before.measured)

    @property
    def trail(self) -> Trail:
        """The extended trail, for the step to return."""
        return Trail(tuple(self.attempts), tuple(self.measured), self.best)

    def note(
        self, engine: type[Engine], build: dict[str, Any], verdict: str, why: str = "", *,
        search: dict[str, Any] | None = None, rows: int | None = None, began: float | None = None,
        bound: float | None = None,
    ) -> None:  # fmt: skip
        """Add an attempt: by default a build of the full corpus that took no time.

        `began` is `Study.elapsed` at the start of the attempt.
        """
        whole = self.study.shape.rows
        seconds = 0.0 if began is None else round(self.study.elapsed - began, 3)
        setting = None if search is None else tuple(search.items())
        parameters, built_from = tuple(build.items()), whole if rows is None else rows
        self.attempts.append(
            Attempt(engine.name, parameters, setting, built_from, verdict, why, bound, seconds=seconds)
        )
        phase = "filter" if built_from < whole else "effort"
        self.say(phase, engine.name, f"{verdict}{': ' + why if why else ''}")

    def say(self, phase: str, engine: str | None = None, said: str = "") -> None:
        """Report progress to the `watch` callback."""
        study = self.study
        if study.watch is None:
            return
        left = None if study.seconds is None else max(0.0, study.seconds - study.elapsed)
        front = front_of(self.measured, study.prefer)
        study.watch(TuningProgress(phase, engine, self.best, front, study.elapsed, left, said))
