"""Which segments of the queries a page tells of: columns of few values, hardness, filters, length."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from recallatk.analysis.segments import Grouping, automatic, by_column
from recallatk.errors import RecallError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Dataset, Truth
    from recallatk.report.charts.points import Curve

# A segment of fewer queries is neither drawn nor called out: its recall is mostly chance.
FEWEST = 10
_MOST_SEGMENTS, _MOST_VALUES = 12, 30


def groupings_of(curve: Curve, truth: Truth, dataset: Dataset | None) -> list[Grouping]:
    """By the columns that the settings name, else by those of few values; then by what the truth tells."""
    columns = _query_columns(truth, dataset)
    text = None if dataset is None else dataset.queries.text_column
    asked = (curve.run.settings.get("measure") or {}).get("by") or _few_valued(columns)
    found = []
    for name in asked:
        try:
            found.append(by_column(columns, str(name)))
        except RecallError:
            continue
    return [*found, *automatic(truth, columns, text)]


def _query_columns(truth: Truth, dataset: Dataset | None) -> pa.Table | None:
    """Everything that is known beside the queries."""
    return truth.query_columns if dataset is None else dataset.queries.metadata


def _few_valued(columns: pa.Table | None) -> list[str]:
    """Columns of text that have several values, each of them more than once in the mean."""
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


def worst_groups(grouping: Grouping, values: NDArray[np.float64]) -> tuple[Grouping, int]:
    """The grouping cut to its worst segments, those of many queries first; and how many are left out."""
    names = [each for each in dict.fromkeys(grouping.labels) if each is not None]
    if grouping.order is not None or len(names) <= _MOST_SEGMENTS:
        return grouping, 0

    def place(name: Any) -> tuple[bool, float, str]:
        inside = values[grouping.labels == name]
        some = inside[~np.isnan(inside)]
        return len(some) < FEWEST, float(some.mean()) if len(some) else 2.0, str(name)

    names.sort(key=place)
    kept = set(names[:_MOST_SEGMENTS])
    labels = np.array([each if each in kept else None for each in grouping.labels], object)
    return Grouping(grouping.name, labels), len(names) - _MOST_SEGMENTS
