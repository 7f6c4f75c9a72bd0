"""What every step of one tuning shares: the data to choose by, the targets, the time, and what was tried."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from recallatk.core import Metric
from recallatk.tune.halving import attempt

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from recallatk.core.trials import Parameters
    from recallatk.core.tuned import Attempt, Candidate
    from recallatk.engines import Engine
    from recallatk.goals import Budget, Target
    from recallatk.tune.index_client import IndexClient, IndexPool
    from recallatk.tune.journal import Journal
    from recallatk.tune.sides import Side
    from recallatk.tune.space import Shape

# What is left when choosing has to end, for the finalists and the validation.
_FOR_CHOOSING = 0.85
# Seconds of filtering for each engine where nobody limits the time, on 2,000 rows of 384 numbers.
_FILTER_SECONDS, _FILTER_NUMBERS = 1.5, 2_000 * 384


@dataclass(frozen=True)
class Progress:
    """How far a tuning is."""

    phase: str
    """filter, build, effort, finalists or validation."""
    engine: str | None
    best: Candidate | None
    front: tuple[Candidate, ...]
    elapsed: float
    seconds_left: float | None
    """Of the time that it was given; None where it may take as long as it needs."""
    said: str = ""


@dataclass
class Search:
    """One tuning; the queries to validate on are no part of it."""

    room: IndexPool
    journal: Journal
    side: Side
    parts: Sequence[Side]
    """The same side over parts of the corpus: the first for all builds, the second for the best of them."""
    targets: Sequence[Target]
    budgets: Sequence[Budget]
    prefer: str
    shape: Shape
    engines: int
    seed: int = 0
    seconds: float | None = None
    watch: Callable[[Progress], None] | None = None
    attempts: list[Attempt] = field(default_factory=list)
    measured: list[Candidate] = field(default_factory=list)
    """Every setting at full size."""
    indexes: dict[tuple[str, Parameters], IndexClient] = field(default_factory=dict)
    """The whole builds."""
    best: Candidate | None = None
    contradicted: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Engines whose whole build took more memory than was predicted, beyond what the two can differ by."""
    corrected: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Engines that were measured to take less memory than what they hold: as measured, and as believed."""

    @property
    def metric(self) -> Metric:
        """How vectors are compared."""
        return Metric(self.side.dataset.metric)

    @property
    def part(self) -> Side:
        """The first part."""
        return self.parts[0]

    @property
    def larger(self) -> Side | None:
        """The second part."""
        return self.parts[1] if len(self.parts) > 1 else None

    @property
    def filter_seconds(self) -> float:
        """What filtering may take for one engine, before the builds that it is sure to get."""
        if self.seconds is not None:
            return 0.3 * self.seconds / max(1, self.engines)
        return _FILTER_SECONDS * max(
            1.0, self.part.dataset.corpus.rows * self.shape.dimension / _FILTER_NUMBERS
        )

    def left(self) -> float | None:
        """Seconds for choosing that are left."""
        if self.seconds is None:
            return None
        return max(0.1, _FOR_CHOOSING * self.seconds - self.journal.elapsed)

    def over(self) -> bool:
        """Whether choosing has to end."""
        return self.seconds is not None and self.journal.elapsed >= _FOR_CHOOSING * self.seconds

    def note(
        self, engine: type[Engine], build: dict[str, Any], search: dict[str, Any] | None, rows: int,
        verdict: str, why: str, began: float, bound: float | None = None,
    ) -> None:  # fmt: skip
        """Write down what was tried."""
        new = attempt(engine, build, search, rows, verdict, why, self.journal.elapsed - began, bound)
        places = [place for place, each in enumerate(self.attempts) if _is_same(each, new)]
        if places:
            # What is known later of the same build or setting takes the place of what was.
            before = self.attempts[places[0]]
            found = new.bound if new.bound is not None else before.bound
            self.attempts[places[0]] = replace(new, seconds=before.seconds + new.seconds, bound=found)
        else:
            self.attempts.append(new)
        phase = "filter" if rows < self.shape.rows else "effort"
        self.say(phase, engine.name, f"{verdict}{': ' + why if why else ''}")

    def say(self, phase: str, engine: str | None = None, said: str = "") -> None:
        """Let whoever watches know."""
        if self.watch is None:
            return
        from recallatk.tune.explaining import front_of

        left = None if self.seconds is None else max(0.0, self.seconds - self.journal.elapsed)
        front = front_of(self.measured, self.prefer)
        self.watch(Progress(phase, engine, self.best, front, self.journal.elapsed, left, said))


def _is_same(one: Attempt, other: Attempt) -> bool:
    return (one.engine, one.build, one.search, one.rows) == (
        other.engine, other.build, other.search, other.rows,
    )  # fmt: skip
