"""Dataset profiles for a first bench file: shape, metric, columns and example filters."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from recallatk.core import Metric
from recallatk.datasets import inspect, open_corpus, open_queries
from recallatk.errors import UsageError
from recallatk.filters import Equals, Filter, Range

if TYPE_CHECKING:
    from collections.abc import Callable

    from recallatk.core import Records
    from recallatk.files import PathLike

_ROWS = 10_000
_MOST_GROUPS = 50
_LONGEST = 40


@dataclass(frozen=True)
class DataProfile:
    """Shape, metric, columns and example filters of a dataset."""

    rows: int
    dimension: int
    queries: int
    metric: Metric
    stated: bool
    """Whether the user or the file states the metric."""
    groups: list[str]
    """Query columns that can define segments."""
    own_filters: int
    """Number of queries with their own filter in the column `filter`."""
    filters: list[tuple[str, str]]
    """Example conditions with values from the corpus, each with the share of rows that pass."""


def profile_data(
    corpus: PathLike,
    queries: PathLike | None,
    metric: Metric | str | None,
    *,
    progress: Callable[[int, int], None] | None = None,
    **opening: str | None,
) -> DataProfile:
    """Profile the data in one pass."""
    found = inspect(corpus, progress=progress, **opening)
    asked = found.get("queries") if queries is None else inspect(queries, progress=progress, **opening)
    if asked is None:
        raise UsageError(
            f"{found['file']} holds one matrix and no queries. Name the file of the queries after the corpus"
        )
    if asked["dimension"] != found["dimension"]:
        raise UsageError(
            f"the corpus has {found['dimension']} dimensions and the queries have {asked['dimension']}"
        )
    opened = open_queries(corpus if queries is None else queries, **opening)
    unit = found["norm"]["unit_share"] == 1 and asked["norm"]["unit_share"] == 1
    stated = metric if metric is not None else found["metric"]
    if stated is None and not unit:
        raise UsageError(f"{found['file']} does not state its metric. State it: --metric cosine, ip or l2")
    return DataProfile(
        rows=found["rows"],
        dimension=found["dimension"],
        queries=asked["rows"],
        metric=Metric(stated or Metric.COSINE),
        stated=stated is not None,
        groups=_groups(opened),
        own_filters=sum(each is not None for each in opened.filters or ()),
        filters=_filters(open_corpus(corpus, **opening)),
    )


def _values(records: Records) -> dict[str, list[Any]]:
    """First values of every text, number or Boolean column, without nulls."""
    import pyarrow as pa

    found = {}
    for name in records.metadata_names:
        kind = records.columns.schema.field(name).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
        if text or number:
            column = records.columns.read([name], 0, min(records.rows, _ROWS))[name]
            found[name] = [value for value in column.to_pylist() if value is not None]
    return found


def _groups(queries: Records) -> list[str]:
    """Columns with few distinct values, and numeric columns, which segments split into quartiles."""
    return [
        name
        for name, values in _values(queries).items()
        if name != "filter"
        and len(set(values)) > 1
        and (isinstance(values[0], int | float) or len(set(values)) <= min(_MOST_GROUPS, len(values) // 2))
    ]


def _filters(corpus: Records) -> list[tuple[str, str]]:
    """A condition on each of a few columns, with its most common value or its median."""
    made = []
    for name, values in _values(corpus).items():
        condition = _condition(name, values)
        if condition is not None:
            passing = sum(condition[1](value) for value in values) / min(corpus.rows, _ROWS)
            of = "rows" if corpus.rows <= _ROWS else f"the first {_ROWS:,} rows"
            made.append((str(condition[0]), f"{passing:.0%} of {of}"))
    return made[:3]


def _condition(name: str, values: list[Any]) -> tuple[Filter, Callable[[Any], bool]] | None:
    counted = Counter(values)
    if len(counted) < 2:
        return None
    if isinstance(values[0], str | bool):
        value, count = counted.most_common(1)[0]
        if count < 2 or (isinstance(value, str) and len(value) > _LONGEST):
            return None
        return Equals(name, value), lambda each: each == value
    finite = sorted(each for each in values if math.isfinite(each))
    if not finite:
        return None
    middle = finite[len(finite) // 2]
    return Range(name, gte=middle), lambda each: each >= middle
