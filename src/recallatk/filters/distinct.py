"""The distinct filters of a query set: queries often share one, and a filter may be long."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from recallatk.filters.expression import Filter


class DistinctFilters(NamedTuple):
    """Every filter once, and which of them each query has."""

    filters: tuple[Filter | None, ...]
    """In the order of their first query; None lets every row pass."""
    numbers: NDArray[np.int64]
    """For each query, the number of its filter."""

    def columns(self) -> frozenset[str]:
        """The names of all columns that some filter reads."""
        return frozenset[str]().union(*(each.columns() for each in self.filters if each is not None))


def distinct_filters(filters: Sequence[Filter | None]) -> DistinctFilters:
    """Filters are the same where their keys are."""
    places: dict[str | None, int] = {}
    first: list[Filter | None] = []
    numbers = np.empty(len(filters), np.int64)
    for query, each in enumerate(filters):
        key = None if each is None else each.key
        if key not in places:
            places[key] = len(first)
            first.append(each)
        numbers[query] = places[key]
    return DistinctFilters(tuple(first), numbers)
