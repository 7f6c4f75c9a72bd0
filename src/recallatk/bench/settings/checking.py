"""What a bench file says of engines, checked against the engines that there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.bench.settings.axes import read_axes
from recallatk.bench.settings.combining import combine
from recallatk.bench.settings.problems import Problems, unknown
from recallatk.engines import get_engine, registered
from recallatk.engines.base import require_installed, require_metric
from recallatk.errors import RecallError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recallatk.bench.settings.axes import Axes
    from recallatk.bench.settings.combining import Combined
    from recallatk.bench.settings.models import EngineSettings, LoadSettings
    from recallatk.bench.settings.problems import Place
    from recallatk.core import Metric
    from recallatk.core.trials import Load
    from recallatk.engines import Engine


def find_engine(name: str, place: Place, problems: Problems) -> type[Engine] | None:
    """The engine of that name; one that is unknown or not installed is a problem."""
    if name not in registered():
        problems.add((*place, "name"), f"{name!r}: {unknown('engine', name, registered())}")
        return None
    try:
        engine = get_engine(name)
    except RecallError as problem:
        problems.add((*place, "name"), str(problem))
        return None
    try:
        require_installed(engine)
    except RecallError as problem:
        # Its parameters are known nevertheless.
        problems.add((*place, "name"), str(problem))
    return engine


def check_engine(
    entry: EngineSettings,
    place: Place,
    problems: Problems,
    *,
    metric: Metric | None,
    filtered: str | None,
    k: int | None,
) -> None:
    """Everything about an entry that can be told without the data."""
    engine = find_engine(entry.name, place, problems)
    if engine is None:
        return
    require_able(engine, place, problems, metric=metric, filtered=filtered)
    before = len(problems.found)
    axes = read_axes(engine, entry, place, problems)
    if len(problems.found) == before:
        for each in combine(engine, axes, {} if k is None else {"k": k}).refused:
            problems.add(place, each)


def require_able(
    engine: type[Engine],
    place: Place,
    problems: Problems,
    *,
    metric: Metric | None,
    filtered: str | None,
) -> None:
    """See that the engine can search by the metric, and filter where something asks it to."""
    if metric is not None:
        try:
            require_metric(engine, metric)
        except RecallError as problem:
            problems.add(place, str(problem))
    if filtered and not engine.abilities.filters:
        problems.add(place, f"{engine.name} cannot filter while it searches, and {filtered}")


def entry_axes(entry: EngineSettings) -> Axes:
    """The axes of an entry that has been checked."""
    return read_axes(get_engine(entry.name), entry, (), Problems())


def combined(entry: EngineSettings, known: Mapping[str, int]) -> Combined:
    """The combinations of an entry that has been checked."""
    return combine(get_engine(entry.name), entry_axes(entry), known)


def every_load(given: tuple[LoadSettings, ...]) -> tuple[Load, ...]:
    """All loads, each once."""
    return tuple(dict.fromkeys(load for each in given for load in each.loads()))
