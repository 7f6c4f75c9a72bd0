"""Suggested parameters: a sweep of the effort around its default, and builds that fit the data."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from recallatk.bench.settings.grid import violations

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from recallatk.adapters import Engine
    from recallatk.core import Knob

USUAL_K = (1, 10, 100)
# A sweep doubles from a quarter of the default to eight times the default.
_BELOW, _ABOVE, _STEPS = 4, 8, 6
# Faiss asks for at least this many training rows per list.
_ROWS_A_LIST = 39
# A second build of more vector components than this takes long.
_SMALL = 50_000_000


def suitable_k(rows: int) -> tuple[int, ...]:
    """The usual values of k that the corpus has enough rows for."""
    return tuple(k for k in USUAL_K if k * 10 <= rows) or (1,)


def defaults(engine: type[Engine]) -> dict[str, Any]:
    """Every parameter with its default."""
    return {knob.name: knob.default for knob in (*engine.build_knobs, *engine.search_knobs)}


def effort_sweep(engine: type[Engine], known: Mapping[str, Any]) -> dict[str, Any]:
    """The engine's first effort knob with a range around its default; empty if it has none.

    Args:
        engine: its class.
        known: `k`, and build parameters, `rows` and `dimension` if known.
    """
    knob = next((each for each in engine.search_knobs if each.effort), None)
    if knob is None or isinstance(knob.default, str):
        return {}

    def holds(value: float) -> bool:
        return not any(violations(engine, {**defaults(engine), **known, knob.name: knob.plain(value)}))

    low, high = _ends(knob)
    if not holds(low) and holds(min(max(low, known["k"]), knob.high)):
        low = min(max(low, known["k"]), knob.high)
        high = min(knob.high, max(high, low * _ABOVE))
    if not holds(low):
        low = knob.low
    if isinstance(knob.default, int):
        high = _highest(holds, int(low), int(high))
    ends = {"from": knob.plain(low), "to": knob.plain(high), "steps": _STEPS}
    return {knob.name: ends["from"] if ends["from"] == ends["to"] else ends}


def _ends(knob: Knob) -> tuple[float, float]:
    default = float(knob.default)
    if knob.scale != "log":
        return knob.low, min(knob.high, _BELOW * default or knob.high)
    low = max(knob.low, default / _BELOW, 1 if isinstance(knob.default, int) else 0)
    return low, min(knob.high, max(default * _ABOVE, low * _BELOW * _ABOVE))


def _highest(holds: Callable[[float], bool], low: int, high: int) -> int:
    """The highest valid value, if all values up to some bound are valid."""
    if holds(high) or not holds(low):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def build_values(engine: type[Engine], rows: int, dimension: int) -> dict[str, Any]:
    """Every build parameter with a value that fits data of this shape; the first is a grid of two."""
    shape = {"rows": rows, "dimension": dimension}
    values: dict[str, Any] = {}
    for knob in engine.build_knobs:
        value: Any = knob.default
        if knob.name == engine.list_knob:
            usual = 2 ** round(math.log2(4 * math.sqrt(rows)))
            value = int(min(max(usual, knob.low), knob.high, max(1, rows // _ROWS_A_LIST)))
        values[knob.name] = _fitting(engine, knob, value, shape)
    first = next((knob for knob in engine.build_knobs if _doubles(engine, knob, values, shape)), None)
    if first is not None and rows * dimension <= _SMALL:
        values[first.name] = [values[first.name], 2 * values[first.name]]
    return values


def _doubles(engine: type[Engine], knob: Knob, values: dict[str, Any], shape: dict[str, int]) -> bool:
    value = values[knob.name]
    if not isinstance(value, int) or knob.scale != "log" or not knob.accepts(2 * value):
        return False
    return not any(violations(engine, {**shape, **values, knob.name: 2 * value}))


def _fitting(engine: type[Engine], knob: Knob, value: Any, shape: dict[str, int]) -> Any:
    """The value, or the nearest one that the shape of the data allows."""

    def holds(each: Any) -> bool:
        return not any(violations(engine, {**shape, knob.name: each}))

    if not isinstance(value, int) or holds(value):
        return value
    others = range(int(knob.low), int(min(knob.high, max(shape.values()))) + 1)
    near = sorted(others, key=lambda each: abs(math.log((each or 0.5) / (value or 0.5))))
    return next((each for each in near if holds(each)), value)
