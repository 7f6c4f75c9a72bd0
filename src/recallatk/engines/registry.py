"""The engines by name, ours and everybody's: entry points, imported when they are asked for."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING

from recallatk.errors import EngineError, UsageError, choices

if TYPE_CHECKING:
    from recallatk.engines.base import Engine

GROUP = "recallatk.engines"


@dataclass(frozen=True)
class Registered:
    """One engine that some package declares."""

    name: str
    path: str
    """`module:Class`."""
    package: str
    """The distribution that declares it."""


@cache
def registered() -> dict[str, Registered]:
    """Every engine by its name, in alphabetical order; ours win over others of the same name."""
    found: dict[str, Registered] = {}
    points = [
        Registered(point.name, point.value, "recallatk" if point.dist is None else point.dist.name)
        for point in metadata.entry_points(group=GROUP)
    ]
    for point in sorted(points, key=lambda each: (each.name, each.package != "recallatk", each.package)):
        found.setdefault(point.name, point)
    return found


def get_engine(name: str) -> type[Engine]:
    """The class of the engine of that name."""
    known = registered()
    if name not in known:
        raise UsageError(f"no engine {name!r}. Accepted: {choices(known)}")
    module, _, attribute = known[name].path.partition(":")
    try:
        found: type[Engine] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as problem:
        raise EngineError(
            f"the engine {name} of {known[name].package} cannot be imported: {problem}"
        ) from problem
    return found
