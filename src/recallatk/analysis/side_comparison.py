"""The comparison of sides: what may be compared, the settings that belong together, and Holm's correction."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from recallatk.analysis.compared_results import ComparedResults, ComparedValue, SideComparison
from recallatk.analysis.comparison import holm
from recallatk.analysis.paired_settings import PairedSettings
from recallatk.analysis.sides import different_parts, without_queries
from recallatk.errors import MismatchError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.analysis.sides import ComparedSide, SideSetting

SIGNIFICANT = 0.05
_MOST_NAMED = 5


def compare_sides(sides: Sequence[ComparedSide], *, across: bool = False) -> ComparedResults:
    """Compare every further side with the first; p values are corrected over all values (Holm).

    Args:
        sides: two or more.
        across: compare means without pairing queries where the sides differ in data, metric or queries.
    """
    first, *others = sides
    found = tuple(_compared(first, each, across=across) for each in others)
    values = [value for each in found for pair in each.pairs for value in pair.values]
    adjusted = iter(holm([each.difference.p_value for each in values]))
    return ComparedResults(
        tuple(
            replace(
                each,
                pairs=tuple(
                    replace(pair, values=tuple(_adjusted(value, next(adjusted)) for value in pair.values))
                    for pair in each.pairs
                ),
            )
            for each in found
        )
    )


def _adjusted(value: ComparedValue, p_value: float) -> ComparedValue:
    found = value.difference._replace(adjusted_p=p_value, significant=p_value < SIGNIFICANT)
    return replace(value, difference=found)


def _compared(first: ComparedSide, second: ComparedSide, *, across: bool) -> SideComparison:
    alone = [f"{each.name} has no values per query" for each in (first, second) if without_queries(each)]
    different = [*different_parts(first, second), *alone]
    if not across:
        require_comparable(first, second, alone)
    pairs = matched_settings(first, second)
    _require_shared_measures(first, second, pairs)
    matched = [{id(each) for each in side} for side in zip(*pairs, strict=True)]
    return SideComparison(
        first.name,
        second.name,
        tuple(PairedSettings(first, one, other).compared(paired=not different) for one, other in pairs),
        tuple(each.label for each in first.settings if id(each) not in matched[0]),
        tuple(each.label for each in second.settings if id(each) not in matched[1]),
        tuple(different),
        _environment(first, second),
        tuple(dict.fromkeys([*first.notes, *second.notes])),
    )


def require_comparable(first: ComparedSide, second: ComparedSide, others: Sequence[str] = ()) -> None:
    """Refuse sides that cannot be compared query by query, by naming what differs.

    Args:
        first: a side.
        second: the other one, which need not be measured yet.
        others: further reasons, in words.
    """
    different = [*different_parts(first, second), *others]
    if different:
        raise MismatchError(
            f"{first.name} and {second.name} cannot be compared query by query. Different: "
            f"{', '.join(dict.fromkeys(different))}. Their means, without pairing: recallatk compare --across"
        )


def matched_settings(first: ComparedSide, second: ComparedSide) -> list[tuple[SideSetting, SideSetting]]:
    """The settings that both sides have, or the only one of each."""
    if len(first.settings) == len(second.settings) == 1:
        return [(first.settings[0], second.settings[0])]
    known = {each.key: each for each in first.settings}
    pairs = [(known[each.key], each) for each in second.settings if each.key in known]
    if not pairs:
        raise MismatchError(
            f"{first.name} and {second.name} have no setting in common. {_listed(first)}; {_listed(second)}. "
            "Choose one of each by its number, such as RUN#1"
        )
    return pairs


def _listed(side: ComparedSide) -> str:
    named = [
        each.label if each.number is None else f"#{each.number} {each.label}"
        for each in side.settings[:_MOST_NAMED]
    ]
    more = len(side.settings) - len(named)
    return f"{side.name} has {', '.join(named)}{f' and {more:,} more' if more > 0 else ''}"


def _require_shared_measures(
    first: ComparedSide, second: ComparedSide, pairs: Sequence[tuple[SideSetting, SideSetting]]
) -> None:
    if any(set(one.measures) & set(other.measures) for one, other in pairs):
        return
    one, other = (", ".join(each.measures) or "no measure" for each in pairs[0])
    raise MismatchError(
        f"{first.name} and {second.name} have no measure in common, such as recall at the same k: "
        f"{first.name} has {one}; {second.name} has {other}. Measure both with the same --at"
    )


def _environment(first: ComparedSide, second: ComparedSide) -> tuple[tuple[str, str, str], ...]:
    names = ("recallatk", "python", "system", "machine", "processor", "cores", "memory_bytes")
    one, other = first.environment, second.environment
    return tuple(
        (name, str(one[name]), str(other[name]))
        for name in names
        if name in one and name in other and one[name] != other[name]
    )
