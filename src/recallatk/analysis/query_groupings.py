"""Groupings of queries by name: a column, an automatic segment, a filter, an expression, or a pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from recallatk.analysis.filtered import CORRELATED, by_correlation
from recallatk.analysis.segments import (
    AUTOMATIC,
    CONTRAST,
    CORRELATION,
    DIMENSION,
    FREQUENCY,
    SELECTIVITY,
    Grouping,
    automatic,
    by_column,
)
from recallatk.errors import FilterError, RecallError, UsageError, unknown
from recallatk.filters import parse_filter
from recallatk.filters.mask import mask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.core import FilterFacts, QuerySet, Truth, Weights
    from recallatk.filters import Filter

# The settings of a run are groups too, of calls and not of queries.
EFFORT = "effort"
FILTER = "filter"
_BOTH = "*"
_SHORT = {
    "hardness": DIMENSION,
    "contrast": CONTRAST,
    "selectivity": SELECTIVITY,
    CORRELATED: CORRELATION,
}
_NO_FILTER = "no filter"
# Categorical columns have at most this many values.
_MOST_VALUES = 30
_NO_QUERY_HAS_A_FILTER = "no query has a filter"


@dataclass(frozen=True, eq=False)
class KnownQueries:
    """What is known of the queries that are grouped."""

    truth: Truth | None = None
    columns: pa.Table | None = None
    queries: QuerySet | None = None
    """With the filters, if they are known."""
    weights: Weights | None = None
    """How much each query counts, if they are weighted."""
    facts: FilterFacts | None = None
    """What their filters admit, with the nearest rows without filters for the correlation."""

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [] if self.columns is None else self.columns.column_names


def query_grouping(name: str, known: KnownQueries) -> Grouping:
    """The grouping that a name stands for; names that stand for none are refused.

    Args:
        name: a query column; an automatic segment such as `selectivity`, `hardness` or `text length`;
            `filter` for each query's own filter; a filter expression over query columns; or two of these
            with `*` between them. Columns come first.
        known: the queries.
    """
    if name in known.names:
        return by_column(known.columns, name)
    usual = _SHORT.get(name, name)
    if usual in AUTOMATIC:
        return _automatic(usual, known)
    if name == FILTER:
        return _by_filter(known)
    if name == EFFORT:
        raise UsageError(f"{EFFORT!r} groups the settings of a run, and no query column has that name")
    condition = _expression(name)
    if condition is not None:
        return _by_expression(name, condition, known)
    first, _, second = (each.strip() for each in name.partition(_BOTH))
    if first and second:
        return _crossed(query_grouping(first, known), query_grouping(second, known))
    raise _unknown(name, known.names)


def automatic_groupings(known: KnownQueries) -> list[Grouping]:
    """All groupings that need no name: those that the truth, the queries and their filters support."""
    if known.truth is None:
        return []
    text = None if known.queries is None else known.queries.text_column
    correlation = None if known.facts is None else by_correlation(known.facts)
    found = automatic(known.truth, known.columns, text, known.weights)
    return found if correlation is None else [*found, correlation]


def usual_groupings(by: Sequence[str], known: KnownQueries) -> list[Grouping]:
    """Groupings by these names, or by categorical columns if there are none; then the automatic ones."""
    asked = without_effort(by, known.names)[0] or _few_valued(known.columns)
    found = []
    for name in asked:
        try:
            found.append(query_grouping(str(name), known))
        except RecallError:
            continue
    return [*found, *automatic_groupings(known)]


def _few_valued(columns: pa.Table | None) -> list[str]:
    """Categorical text columns."""
    names = []
    if columns is None:
        return []
    for name in columns.column_names:
        column = columns[name]
        if pa.types.is_string(column.type) or pa.types.is_dictionary(column.type):
            count = len(column.unique())
            if 1 < count <= min(_MOST_VALUES, len(column) // 2):
                names.append(name)
    return names


def names_correlation(names: Sequence[str], columns: Sequence[str] = ()) -> bool:
    """Whether a grouping by the correlation of filter and query is asked for, alone or in a pair."""
    parts = (each.strip() for name in names if name not in columns for each in name.split(_BOTH))
    return any(_SHORT.get(each, each) == CORRELATION and each not in columns for each in parts)


def require_groupable(
    name: str, columns: Sequence[str], *, weighted: bool = False, filtered: bool = True
) -> None:
    """Refuse a name that no query column and no form of grouping has, before anything is measured.

    Args:
        name: as in `query_grouping`.
        columns: names of the query columns.
        weighted: whether the queries have weights.
        filtered: whether a query has a filter.
    """
    if name == FREQUENCY and name not in columns and not weighted:
        raise _not_weighted()
    if names_correlation([name], columns) and not filtered:
        raise _no_correlation(_NO_QUERY_HAS_A_FILTER)
    if name in columns or _SHORT.get(name, name) in AUTOMATIC or name in (FILTER, EFFORT):
        return
    condition = _expression(name)
    if condition is not None:
        missing = sorted(condition.columns() - set(columns))
        if missing:
            raise _unknown(missing[0], columns)
        return
    first, _, second = (each.strip() for each in name.partition(_BOTH))
    if not (first and second):
        raise _unknown(name, columns)
    require_groupable(first, columns, weighted=weighted, filtered=filtered)
    require_groupable(second, columns, weighted=weighted, filtered=filtered)


def without_effort(names: Sequence[str], columns: Sequence[str] = ()) -> tuple[list[str], bool]:
    """The names that group queries, and whether the settings are asked for beside them."""
    if EFFORT in columns:
        return list(names), False
    split = [[each.strip() for each in name.split(_BOTH)] for name in names]
    kept = [
        _BOTH.join(each for each in parts if each != EFFORT) if EFFORT in parts else name
        for name, parts in zip(names, split, strict=True)
    ]
    return [each for each in dict.fromkeys(kept) if each], kept != list(names)


def _unknown(name: str, columns: Sequence[str]) -> UsageError:
    refused = (
        unknown("query column", name, columns) if columns else f"no query column {name!r}: there are none"
    )
    return UsageError(
        f"{refused}. {'Also accepted' if columns else 'Accepted'}: {', '.join(_SHORT)}, text length, "
        f"{FREQUENCY} with weights, {FILTER}, {EFFORT} in a run, an expression such as \"lang = 'de'\", and "
        "two with * between them"
    )


def _not_weighted() -> UsageError:
    return UsageError(
        f"the queries cannot be grouped by {FREQUENCY}: they have no weights. Name the query column that has "
        "them: --weight COLUMN, in a bench file [measure] weight, in Python weight=…"
    )


def _no_correlation(why: str) -> UsageError:
    return UsageError(f"the queries cannot be grouped by {CORRELATION}: {why}")


def _why_no_correlation(known: KnownQueries) -> str:
    if known.queries is not None and not known.queries.filtered:
        return _NO_QUERY_HAS_A_FILTER
    if known.facts is None:
        return (
            "it compares the filters with the nearest rows without them. To score with them: --corpus FILE "
            "--queries FILE, in Python dataset=…"
        )
    return (
        "the nearest rows without the filters were not measured, because the truth of the run comes from a "
        "file. Measure it without one"
    )


def _expression(text: str) -> Filter | None:
    try:
        return parse_filter(text)
    except FilterError:
        return None


def _automatic(name: str, known: KnownQueries) -> Grouping:
    if name == FREQUENCY and known.weights is None:
        raise _not_weighted()
    made = automatic_groupings(known)
    found = next((each for each in made if each.name == name), None)
    if found is None and name == CORRELATION:
        raise _no_correlation(_why_no_correlation(known))
    if found is None:
        others = ", ".join(each.name for each in made) or "none"
        raise UsageError(f"the queries cannot be grouped by {name}. Automatic groups here: {others}")
    return found


def _by_filter(known: KnownQueries) -> Grouping:
    filters = None if known.queries is None else known.queries.filters
    if filters is None:
        raise UsageError("the queries cannot be grouped by filter: no filters are known. Name the queries")
    return Grouping(FILTER, np.array([_NO_FILTER if each is None else str(each) for each in filters], object))


def _by_expression(text: str, condition: Filter, known: KnownQueries) -> Grouping:
    missing = sorted(condition.columns() - set(known.names))
    if known.columns is None or missing:
        raise _unknown((missing or [text])[0], known.names)
    passes = mask(condition, known.columns)
    return Grouping(text, np.where(passes, text, "other queries").astype(object), (text, "other queries"))


def _crossed(first: Grouping, second: Grouping) -> Grouping:
    """Every pair of groups that has queries; queries in no group of either are in none."""
    labels = np.array(
        [
            None if one is None or other is None else f"{one} × {other}"
            for one, other in zip(first.labels, second.labels, strict=True)
        ],
        object,
    )
    return Grouping(f"{first.name} × {second.name}", labels)
