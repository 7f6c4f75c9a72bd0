"""The combinations that an engine entry stands for, without those whose parameters cannot be together."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from recallatk.bench.settings.axes import Axes, Axis
    from recallatk.core.trials import Parameters
    from recallatk.engines import Engine

MOST = 100_000


@dataclass(frozen=True)
class Combined:
    """What is left of an entry, what was left out, and what cannot be."""

    builds: tuple[tuple[Parameters, tuple[Parameters, ...]], ...]
    """Each build with the searches on it."""
    dropped: Mapping[str, int]
    """Why combinations of a grid were left out, and how many."""
    refused: tuple[str, ...]
    """What is wrong with values that were given alone."""


def combine(engine: type[Engine], axes: Axes, known: Mapping[str, Any]) -> Combined:
    """All combinations that hold, given what is known of `k`, `rows` and `dimension`."""
    count = math.prod(len(axis.values) for part in (axes.build, axes.search) for axis in part.values())
    if count > MOST:
        return Combined((), {}, (f"{count:,} combinations of its parameters. Accepted: up to {MOST:,}",))
    dropped: Counter[str] = Counter()
    refused: dict[str, None] = {}
    builds = []
    for build in _product(axes.build):
        searches = []
        for search in _product(axes.search):
            alone, among = violations(engine, {**known, **build, **search}, axes.grids)
            refused |= dict.fromkeys(alone)
            dropped.update(among[:1])
            if not alone and not among:
                searches.append(tuple(search.items()))
        if searches:
            builds.append((tuple(build.items()), tuple(searches)))
    if not builds and not refused:
        refused["no combination is left: " + "; ".join(dropped)] = None
    return Combined(tuple(builds), dropped, tuple(refused))


def _product(part: Mapping[str, Axis]) -> Iterator[dict[str, Any]]:
    for values in itertools.product(*(axis.values for axis in part.values())):
        yield dict(zip(part, values, strict=True))


def violations(
    engine: type[Engine], known: Mapping[str, Any], grids: frozenset[str] = frozenset()
) -> tuple[list[str], list[str]]:
    """What does not hold among values given alone, and what does not where one of them is of a grid."""
    alone: list[str] = []
    among: list[str] = []
    for constraint in engine.constraints:
        values = {name: known[name] for name in constraint.names if name in known}
        if len(values) == len(constraint.names) and not constraint.holds(**values):
            listed = ", ".join(f"{name} = {value}" for name, value in values.items())
            said = f"{engine.name} needs {constraint.text}, and has {listed}"
            (among if grids & values.keys() else alone).append(said)
    return alone, among
