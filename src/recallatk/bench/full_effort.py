"""Full effort: the highest search parameters that an engine accepts and that can make a difference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recallatk.bench.settings.grid import violations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from recallatk.adapters import Engine
    from recallatk.core import Knob


def is_effort(knob: Knob) -> bool:
    """Whether a higher value of the knob costs time and loses no recall."""
    return knob.effort and not isinstance(knob.default, str)


def highest_effort(knob: Knob, rows: int, allows: Callable[[float], bool]) -> float:
    """The highest value of an effort knob that can make a difference in a corpus of this many rows.

    Args:
        knob: the knob.
        rows: number of corpus rows; a search cannot visit more.
        allows: whether the constraints of the engine allow a value.
    """
    high = min(knob.high, max(rows, float(knob.default)))
    while not allows(high) and high > max(knob.low, 1):
        high = _highest_below(high, max(knob.low, 1), allows)
    return high


def _highest_below(high: float, low: float, allows: Callable[[float], bool]) -> float:
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if allows(middle) else (low, middle)
    return low


def effort_knobs(engine: type[Engine], search: Mapping[str, Any]) -> Iterator[Knob]:
    """The effort knobs that a search sets to a number."""
    for knob in (*engine.search_knobs, *engine.stated_search_knobs):
        if is_effort(knob) and isinstance(search.get(knob.name), int | float):
            yield knob


def rerank_knobs(engine: type[Engine], search: Mapping[str, Any]) -> Iterator[Knob]:
    """The knobs for the number of reranked candidates that a search sets to a number."""
    for knob in (*engine.search_knobs, *engine.stated_search_knobs):
        if knob.reranks and isinstance(search.get(knob.name), int | float):
            yield knob


def raised(
    engine: type[Engine], knobs: Iterator[Knob], search: Mapping[str, Any], known: Mapping[str, Any]
) -> dict[str, Any]:
    """The search with each of these knobs as high as the constraints allow, one after the other.

    Args:
        engine: its class.
        knobs: knobs that the search sets.
        search: the search parameters.
        known: build parameters, `k`, `rows` and `dimension`.
    """
    found = dict(search)
    for knob in knobs:

        def allows(value: float, knob: Knob = knob) -> bool:
            return not any(violations(engine, {**known, **found, knob.name: knob.plain(value)}))

        high = knob.plain(highest_effort(knob, known["rows"], allows))
        if allows(float(high)) and float(high) > found[knob.name]:
            found[knob.name] = high
    return found
