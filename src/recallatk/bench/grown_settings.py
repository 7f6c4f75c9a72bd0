"""The bench file of a run folder: its settings with the trials that it kept from earlier settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recallatk.bench.plan import make_plan
from recallatk.bench.settings.models import EngineSettings, OutputSettings, PathSettings
from recallatk.errors import RecallError
from recallatk.pipeline.knobs import PathKnobs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from recallatk.bench.settings import Settings
    from recallatk.core import Dataset
    from recallatk.core.trials import Trial


def settings_of_folder(
    settings: Settings, folder: Path, finished: Iterable[Trial], dataset: Dataset
) -> Settings:
    """Settings that repeat all trials of a run folder, written to that folder.

    Args:
        settings: the settings of this command.
        folder: the run folder.
        finished: trials that are in the folder, of these settings or earlier ones.
        dataset: the data, whose shape constrains parameters.
    """
    output = OutputSettings(folder=str(folder.absolute()))
    settings = settings.model_copy(update={"output": output})
    planned = _trials(settings, dataset)
    kept = [each for each in finished if each not in planned]
    for name in dict.fromkeys(each.engine for each in kept):
        settings = _with_kept(settings, [each for each in kept if each.engine == name], dataset)
    return settings


def _with_kept(settings: Settings, kept: Sequence[Trial], dataset: Dataset) -> Settings:
    """The settings with the kept trials of one engine: in its entry, else in entries of their own."""
    wanted = _trials(settings, dataset) | set(kept)
    if any(each.name == kept[0].engine for each in settings.path):
        updates: list[dict[str, Any]] = [{"path": _joined_paths(settings, kept)}]
    else:
        updates = [
            {"engine": entries} for entries in (_joined(settings, kept), (*settings.engine, *_apart(kept)))
        ]
    for update in updates:
        grown = settings.model_copy(update=update)
        try:
            if _trials(grown, dataset) == wanted:
                return grown
        except RecallError:
            # A redacted or outdated parameter cannot be written as a setting.
            continue
    return settings


def _trials(settings: Settings, dataset: Dataset) -> set[Trial]:
    corpus = dataset.corpus
    return set(make_plan(settings, rows=corpus.rows, dimension=corpus.dimension).trials)


def _joined(settings: Settings, kept: Sequence[Trial]) -> tuple[EngineSettings, ...]:
    """The entries, with the values of the kept trials added to the first entry of their engine."""
    entries = list(settings.engine)
    for place, entry in enumerate(entries):
        if entry.name == kept[0].engine:
            entries[place] = EngineSettings(
                name=entry.name,
                build=_united(entry.build, entry.axes.build, [each.build for each in kept]),
                search=_united(entry.search, entry.axes.search, [each.search for each in kept]),
            )
            break
    return tuple(entries)


def _joined_paths(settings: Settings, kept: Sequence[Trial]) -> tuple[PathSettings, ...]:
    """The paths, with the values of the kept trials added to theirs."""
    entries = list(settings.path)
    for place, entry in enumerate(entries):
        if entry.name == kept[0].engine:
            knobs = PathKnobs(entry.path)
            build, search = knobs.given()
            grown = knobs.restated(
                _united(build, entry.axes.build, [each.build for each in kept]),
                _united(search, entry.axes.search, [each.search for each in kept]),
            )
            entries[place] = PathSettings(
                name=entry.name, k=entry.k, stages=tuple(dict(each) for each in grown.stages)
            )
    return tuple(entries)


def _united(given: dict[str, Any], axes: dict[str, Any], others: Sequence[Any]) -> dict[str, Any]:
    """The parameters of an entry, each with the values that others add to it, in ascending order."""
    united = dict(given)
    for name, axis in axes.items():
        values = list(axis.values)
        new = [dict(each)[name] for each in others if name in dict(each)]
        added = [value for value in dict.fromkeys(new) if value not in values]
        if added:
            united[name] = _sorted([*values, *added])
    return united


def _sorted(values: list[Any]) -> list[Any]:
    numbers = all(isinstance(each, int | float) and not isinstance(each, bool) for each in values)
    return sorted(values) if numbers else values


def _apart(kept: Sequence[Trial]) -> list[EngineSettings]:
    """One entry for every kept setting."""
    distinct = dict.fromkeys((each.engine, each.build, each.search) for each in kept)
    return [EngineSettings(name=name, build=_stated(b), search=_stated(s)) for name, b, s in distinct]


def _stated(parameters: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in parameters if value != ""}
