"""Groups of a probe's queries: by column, with and without a filter, and by what the filters admit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.distribution import mean_of_values
from recallatk.analysis.filtered import FILTER, SELECTIVE, named_grouping
from recallatk.analysis.segments import FEWEST, by_column
from recallatk.core.filtering import FilterFacts
from recallatk.core.probed import ProbeSegment
from recallatk.errors import EngineError, UsageError
from recallatk.probing.references import TruthReference

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.adapters.collection import Collection
    from recallatk.adapters.probe_limits import RateLimit
    from recallatk.analysis.segments import Grouping
    from recallatk.probing.probe_queries import ProbeQueries
    from recallatk.probing.references import Reference


def filter_counts(
    collection: Collection,
    queries: ProbeQueries,
    reference: Reference,
    places: NDArray[np.int64],
    pace: RateLimit,
) -> FilterFacts | None:
    """Rows that the filter of each query admits; None if no query has one or the number of rows is unknown.

    The truth knows them. An engine with an exact search counts them, once for each distinct filter.

    Args:
        collection: the collection.
        queries: its queries.
        reference: the source of truth.
        places: the queries to look at.
        pace: the rate limit.
    """
    filters = [queries.filters[place] for place in places]
    filtered = np.array([each is not None for each in filters], bool)
    if not filtered.any():
        return None
    if isinstance(reference, TruthReference):
        truth = reference.truth
        if truth.eligible is None or not truth.corpus_rows:
            return None
        return FilterFacts(filtered, truth.eligible[places], truth.corpus_rows)
    rows = collection.discovery().rows
    if rows is None:
        return None
    known: dict[str, int] = {}
    for each in filters:
        if each is not None and each.key not in known:
            if collection.refusal(each) is not None:
                known[each.key] = 0
                continue
            pace.wait()
            try:
                # Rows may have been written since the table was counted.
                known[each.key] = min(collection.passing(each), rows)
            except EngineError:
                # What the probe found stands without the selectivities.
                return None
    counts = [rows if each is None else known[each.key] for each in filters]
    return FilterFacts(filtered, np.array(counts, np.int64), rows)


def require_groups(queries: ProbeQueries, by: Sequence[str], *, proxy: bool) -> None:
    """Refuse a grouping that these queries cannot have, before the first is asked.

    Args:
        queries: the queries.
        by: query columns, or `filter` and `selectivity`.
        proxy: whether a proxy judges most queries.
    """
    if proxy and by:
        raise UsageError("--by cannot be combined with --proxy, whose groups have too few exact queries")
    filtered = any(each is not None for each in queries.filters)
    for name in by:
        if not (filtered and name in (FILTER, SELECTIVE)):
            by_column(queries.columns, name)


def segments_by(
    values: NDArray[np.float64], columns: pa.Table | None, facts: FilterFacts | None, by: Sequence[str]
) -> dict[str, tuple[ProbeSegment, ...]]:
    """Recall of groups: by filter and selectivity wherever there are filters, and by the names asked for.

    Args:
        values: recall of the scored queries.
        columns: their columns; those that are asked for come before groupings of the same name.
        facts: what their filters admit.
        by: query columns, or `filter` and `selectivity`.
    """
    found = {}
    for name in dict.fromkeys([*by, *((FILTER, SELECTIVE) if facts is not None else ())]):
        # The column `filter` of a log may have a text for every query.
        known = columns is not None and name in columns.column_names and name in by
        grouping = None if known else named_grouping(name, facts)
        found[name] = _recalls(values, by_column(columns, name) if grouping is None else grouping)
    return found


def _recalls(values: NDArray[np.float64], grouping: Grouping) -> tuple[ProbeSegment, ...]:
    labels = {each for each in grouping.labels if each is not None}
    found = [ProbeSegment(str(each), mean_of_values(values[grouping.labels == each])) for each in labels]
    if grouping.order is not None:
        order = {name: place for place, name in enumerate(grouping.order)}
        return tuple(sorted(found, key=lambda each: order.get(each.name, len(order))))
    # Groups too small to judge are not ranked: they come last.
    return tuple(sorted(found, key=lambda each: (each.recall.n < FEWEST, each.recall.value, each.name)))
