"""The search space of a path: parameters that its stages state are fixed, or range between their values."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from recallatk.adapters.registry import declare, get_engine
from recallatk.bench.settings.grid import read_axes
from recallatk.bench.settings.problems import SettingsError
from recallatk.errors import UsageError
from recallatk.pipeline.path import Path
from recallatk.pipeline.path_engine import PathEngine, path_engine, truth_depth

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from recallatk.adapters import Engine
    from recallatk.bench.settings.grid import Axis
    from recallatk.core import Knob


def engine_to_tune(given: str | Path) -> type[Engine]:
    """The engine of a name, or a path as an engine whose parameters stay within what its stages state."""
    if isinstance(given, Path):
        if not given.portable:
            raise UsageError(
                f"path {given.name}: a tuning builds indexes in other processes. Name the function of its "
                'rerank stage as "module:function"'
            )
        declare(path_engine(given))
        return engine_to_tune(given.name)
    found = get_engine(given)
    if found.inputs.sparse_files:
        raise UsageError(
            f"path {given}: a tuning builds samples of the corpus, so its sparse vectors must be in a "
            "column, not in a file"
        )
    return _narrowed(found) if issubclass(found, PathEngine) else found


def depth_for_paths(engines: Iterable[type[Engine]], k: int) -> int:
    """Depth of the truth by vectors that the paths among the engines need; 0 without any."""
    depths = []
    for each in engines:
        if issubclass(each, PathEngine):
            highest = {knob.name: max(knob.default, knob.high) for knob in each.search_knobs if knob.high}
            depths.append(k if each.path.by_vectors else truth_depth(each, highest, k))
    return max(depths, default=0)


def _narrowed(engine: type[PathEngine]) -> type[PathEngine]:
    stated = engine.knobs.given()
    axes, problems = read_axes(engine, *stated)
    if problems.found:
        raise SettingsError(f"path {engine.name}", problems.found)
    parts = (axes.build, axes.search)
    build, search = (
        tuple(_narrow(knob, part.get(knob.name) if knob.name in given else None, engine) for knob in knobs)
        for knobs, given, part in zip((engine.build_knobs, engine.search_knobs), stated, parts, strict=True)
    )
    made = {
        "build_knobs": build,
        "search_knobs": search,
        "search_choices": _choices(engine, stated[1], axes.search),
    }
    return type(engine.__name__, (engine,), made)


def _narrow(knob: Knob, axis: Axis | None, engine: type[PathEngine]) -> Knob:
    """The knob within the stated values; a knob with one value does not move."""
    if axis is None:
        # A truth of fused lists is only as deep as they are, so that their depth cannot grow in between.
        fixed = not engine.path.by_vectors and knob.name.rpartition(".")[2] in ("depth", "oversample")
        values: tuple[Any, ...] = (knob.default,) if fixed else ()
    else:
        values = axis.values
    if not values:
        return knob
    if isinstance(knob.default, str):
        return replace(knob, default=values[0], choices=tuple(str(each) for each in values))
    low, high = min(values), max(values)
    moves = low < high
    return replace(knob, default=values[0], low=low, high=high, effort=knob.effort and moves)


def _choices(
    engine: type[PathEngine], given: Mapping[str, Any], axes: Mapping[str, Axis]
) -> dict[str, tuple[Any, ...]]:
    """Search parameters without an effort that have several values, such as weights of a fusion."""
    effort = {knob.name for knob in engine.search_knobs if knob.effort}
    return {name: axes[name].values for name in given if name not in effort and len(axes[name].values) > 1}
