"""What a run was to reach: targets and budgets that its settings state."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recallatk.core import Run

_STATED = re.compile(r"\s*([^\s<>=]+)\s*(>=|<=)\s*([0-9.eE+-]+)\s*(ms|s|us|%)?\s*")
_MILLISECONDS = {"ms": 1.0, "s": 1000.0, "us": 0.001}
_KEYS = ("target", "targets", "budget", "budgets")


@dataclass(frozen=True)
class Goal:
    """A number that a measure is to reach, or not to exceed."""

    measure: str
    at_least: bool
    value: float
    """A share, or milliseconds for a percentile of latencies."""

    def __str__(self) -> str:
        shown = f"{self.value:g}" if self.at_least else f"{self.value:g} ms"
        return f"{self.measure} {'≥' if self.at_least else '≤'} {shown}"


def goals_of(run: Run) -> tuple[Goal, ...]:
    """Every goal in the settings of a run that can be read; most runs have none."""
    found = []
    for place in (run.settings, run.settings.get("tune") or {}):
        for key in _KEYS:
            found += [_goal(each) for each in _listed(place.get(key))]
    return tuple(dict.fromkeys(goal for goal in found if goal is not None))


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _goal(text: Any) -> Goal | None:
    stated = _STATED.fullmatch(text) if isinstance(text, str) else None
    if stated is None:
        return None
    try:
        value = float(stated[3])
    except ValueError:
        return None
    unit = stated[4] or ""
    scale = 0.01 if unit == "%" else _MILLISECONDS.get(unit, 1.0)
    return Goal(stated[1], stated[2] == ">=", value * scale)
