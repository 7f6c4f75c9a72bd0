"""The search space of an engine: its builds, and its search efforts from lowest to highest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from recallatk.adapters.base import resolved
from recallatk.bench.full_effort import highest_effort, is_effort
from recallatk.bench.settings.grid import violations
from recallatk.bench.settings.sweeps import build_values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.adapters import Engine
    from recallatk.core import Knob

# Build knobs vary between a quarter and four times the usual value.
_AROUND = 4
_TRIES = 60
# First guess of full effort; a knob's maximum may be absurdly high.
_GENEROUS = 8
# Efforts closer than this factor cannot be distinguished by cost.
STEP = 1.04


@dataclass(frozen=True)
class Shape:
    """Size of the data, as engines need it."""

    rows: int
    dimension: int
    k: int

    @property
    def known(self) -> dict[str, int]:
        """Values by the names that constraints use."""
        return {"rows": self.rows, "dimension": self.dimension, "k": self.k}


def usual_build(engine: type[Engine], shape: Shape) -> dict[str, Any]:
    """The default build, adapted to the data."""
    values = build_values(engine, shape.rows, shape.dimension)
    first = {name: value[0] if isinstance(value, list) else value for name, value in values.items()}
    return dict(resolved(engine.name, engine.build_knobs, first))


class Builds:
    """Builds to try: the usual one first, then suggestions of Optuna's sampler."""

    def __init__(self, engine: type[Engine], shape: Shape, seed: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.engine, self.shape = engine, shape
        self.usual = usual_build(engine, shape)
        self.searched = {
            knob.name: found for knob in engine.build_knobs if (found := self._distribution(knob)) is not None
        }
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=4)
        self.study = optuna.create_study(sampler=sampler)
        self.seen: set[str] = set()

    def _distribution(self, knob: Knob) -> Any:
        from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

        usual = self.usual[knob.name]
        if isinstance(usual, str):
            return CategoricalDistribution(knob.choices) if len(knob.choices) > 1 else None
        low, high = max(knob.low, usual / _AROUND), min(knob.high, usual * _AROUND)
        if knob.scale != "log":
            low, high = max(knob.low, usual / 2), min(knob.high, usual * 1.5)
        if low >= high:
            return None
        if isinstance(knob.default, int):
            low = max(1, math.ceil(low)) if knob.scale == "log" else math.ceil(low)
            return IntDistribution(int(low), int(high), log=knob.scale == "log") if low < high else None
        return FloatDistribution(low, high, log=knob.scale == "log" and low > 0)

    def ask(self) -> tuple[Any, dict[str, Any]] | None:
        """The next untried build that the constraints allow; None if there is none."""
        from optuna.trial import TrialState

        if not self.seen:
            self.study.enqueue_trial({name: self.usual[name] for name in self.searched})
        for _ in range(_TRIES):
            trial = self.study.ask(self.searched)
            build = {**self.usual, **trial.params}
            key = repr(sorted(build.items()))
            if key not in self.seen and not any(violations(self.engine, {**self.shape.known, **build})):
                self.seen.add(key)
                return trial, build
            self.study.tell(trial, state=TrialState.FAIL)
            if not self.searched:
                return None
        return None

    def tell(self, trial: Any, cost: float | None) -> None:
        """Report the cost of a build; None if it did not reach the target."""
        from optuna.trial import TrialState

        if cost is None:
            self.study.tell(trial, state=TrialState.FAIL)
        else:
            self.study.tell(trial, cost)


@dataclass(frozen=True)
class Ladder:
    """Search settings of one build by ascending effort: one knob moves, all others stay fixed."""

    engine: type[Engine]
    build: dict[str, Any]
    shape: Shape
    others: dict[str, Any]
    """Values of the fixed knobs."""

    @property
    def knob(self) -> Knob | None:
        """The knob that moves; None if the engine has no effort knob."""
        return next((each for each in self.engine.search_knobs if is_effort(each)), None)

    def search(self, effort: float) -> dict[str, Any]:
        """Search parameters for an effort, in knob order."""
        knob = self.knob
        moved = {} if knob is None else {knob.name: knob.plain(effort)}
        return {each.name: {**self.others, **moved}[each.name] for each in self.engine.search_knobs}

    def allows(self, effort: float) -> bool:
        """Whether the constraints allow an effort."""
        known = {**self.shape.known, **self.build, **self.search(effort)}
        return not any(violations(self.engine, known))

    @property
    def most(self) -> float:
        """The highest effort that can make a difference."""
        knob = self.knob
        if knob is None:
            return 0.0
        return highest_effort(knob, self.shape.rows, self.allows)

    @property
    def least(self) -> float:
        """The lowest effort that is allowed."""
        knob = self.knob
        if knob is None:
            return 0.0
        low = max(knob.low, 1 if isinstance(knob.default, int) else 1e-6)
        return low if self.allows(low) else min(max(low, self.shape.k), self.most)

    @property
    def generous(self) -> float:
        """First guess of full effort."""
        knob = self.knob
        return 0.0 if knob is None else min(self.most, _GENEROUS * max(float(knob.default), self.shape.k))

    def between(self, low: float, high: float) -> float | None:
        """The geometric mean of two efforts; None if they are too close."""
        if high / low <= STEP:
            return None
        middle = math.sqrt(low * high)
        if isinstance(self.knob.default if self.knob else 0, int):
            middle = round(middle)
        return middle if low < middle < high else None

    def lower(self, effort: float) -> list[float]:
        """Efforts to try if full effort is not best: the usual one, and the middle of all below."""
        usual = float(self.knob.default) if self.knob is not None else 0.0
        found = {usual, self.between(self.least, max(self.least, effort)) if self.least else None}
        allowed = [each for each in found if each is not None and self.least <= each < effort]
        return sorted((each for each in allowed if self.allows(each)), reverse=True)

    def above(self, effort: float, factor: float = STEP) -> float | None:
        """The next effort up; None at the top."""
        if effort >= self.most:
            return None
        higher = effort * factor
        if self.knob is not None and isinstance(self.knob.default, int):
            higher = max(math.ceil(higher), effort + 1)
        return min(higher, self.most)


def ladders(engine: type[Engine], build: dict[str, Any], shape: Shape) -> Iterator[Ladder]:
    """One ladder for each of a few values of the other effort knobs, the default first."""
    usual = {each.name: each.default for each in engine.search_knobs}
    beside = [each for each in engine.search_knobs if is_effort(each)][1:]
    options: list[dict[str, Any]] = [usual]
    for knob in beside:
        options = [{**each, knob.name: value} for each in options for value in _few(knob)]
    for name, values in engine.search_choices.items():
        options = [{**each, name: value} for each in options for value in values]
    for others in options:
        ladder = Ladder(engine, build, shape, others)
        if ladder.allows(ladder.generous):
            yield ladder


def _few(knob: Knob) -> list[Any]:
    default = float(knob.default)
    values = [default, min(knob.high, _AROUND * default), max(knob.low, default / _AROUND), knob.low]
    return list(dict.fromkeys(knob.plain(value) for value in values))
