"""The builds and trials of a run, in order, from its settings and the shape of its data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from recallatk.bench.settings.grid import combine
from recallatk.bench.settings.problems import NO_ENGINE, Problems, spelled
from recallatk.core.trials import Trial
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.adapters import Engine
    from recallatk.bench.settings import Settings
    from recallatk.bench.settings.models import EngineSettings, PathSettings
    from recallatk.bench.settings.problems import Place
    from recallatk.core.trials import Load, Parameters


@dataclass(frozen=True)
class PlannedBuild:
    """One index to build, with the searches and loads to measure on it."""

    engine: str
    parameters: Parameters
    repeat: int
    """Number of this build; each but the first inserts the rows in another order."""
    searches: tuple[Parameters, ...]
    loads: tuple[Load, ...]

    @property
    def trials(self) -> tuple[Trial, ...]:
        """Every search under every load."""
        return tuple(
            Trial(self.engine, self.parameters, search, load, self.repeat)
            for load in self.loads
            for search in self.searches
        )


@dataclass(frozen=True)
class Plan:
    """All builds and trials of a run."""

    builds: tuple[PlannedBuild, ...]
    dropped: tuple[str, ...] = ()
    """Combinations skipped from grids, with reasons."""

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All trials, in order."""
        return tuple(trial for build in self.builds for trial in build.trials)


def make_plan(settings: Settings, *, rows: int, dimension: int) -> Plan:
    """The distinct builds and trials for data of this shape."""
    problems = Problems()
    if not settings.entries:
        problems.add(("engine",), NO_ENGINE)
    known = {"k": min(settings.measure.largest_k, rows), "rows": rows, "dimension": dimension}
    found: dict[tuple[str, Parameters, int], PlannedBuild] = {}
    dropped: list[str] = []
    for place, entry in _places(settings):
        engine = entry.engine
        parts = combine(engine, entry.axes, known)
        for each in parts.refused:
            problems.add(place, each)
        dropped += [f"{spelled(place)}: {_times(count)}: {why}" for why, count in parts.dropped.items()]
        loads = _loads(engine, settings.loads)
        left_out = [str(load) for load in settings.loads if load not in loads]
        one_each = f"{entry.name} takes one query per call; skipped loads: {', '.join(left_out)}"
        if not loads:
            problems.add(place, one_each)
        elif left_out:
            dropped.append(f"{spelled(place)}: {one_each}")
        for parameters, searches in parts.builds:
            for repeat in range(settings.measure.builds):
                _add(found, PlannedBuild(entry.name, parameters, repeat, searches, loads))
    problems.require_none(settings.name)
    return Plan(tuple(found.values()), tuple(dict.fromkeys(dropped)))


def _places(settings: Settings) -> Iterator[tuple[Place, EngineSettings | PathSettings]]:
    """Every engine and path with its place in the bench file."""
    yield from ((("engine", number), entry) for number, entry in enumerate(settings.engine))
    yield from ((("path", number), entry) for number, entry in enumerate(settings.path))


def _times(count: int) -> str:
    return f"{counted(count, 'combination', 'combinations')} skipped"


def _loads(engine: type[Engine], loads: tuple[Load, ...]) -> tuple[Load, ...]:
    """The loads that the engine supports; batches need an engine that takes many queries per call."""
    return loads if engine.abilities.batch else tuple(load for load in loads if load.batch == 1)


def _add(found: dict[tuple[str, Parameters, int], PlannedBuild], planned: PlannedBuild) -> None:
    """Add a build, or its searches to a planned build of the same index."""
    key = (planned.engine, planned.parameters, planned.repeat)
    before = found.get(key)
    searches = planned.searches if before is None else (*before.searches, *planned.searches)
    found[key] = replace(planned, searches=tuple(dict.fromkeys(searches)))
