"""Answers of a system, read from a file of any format or taken from memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from recallatk.core import Answers, ArrayVectors
from recallatk.datasets.answer_tables import (
    LIST_NAMES,
    QUERY_NAMES,
    SINGLE_NAMES,
    first_of,
    matrix_answers,
    read_table_answers,
)
from recallatk.datasets.call_sets import split_calls
from recallatk.datasets.formats.query_log import is_query_log, log_answers
from recallatk.datasets.in_memory import (
    Frame,
    TableSource,
    array_of,
    as_column,
    as_frame,
    is_path,
    is_tensor,
    kind_of,
)
from recallatk.datasets.layout import VECTOR, numbered_columns
from recallatk.datasets.registry import detect, get_format
from recallatk.errors import FormatError
from recallatk.files import locate, reading

if TYPE_CHECKING:
    from collections.abc import Sequence

_ACCEPTED_OBJECTS = (
    "a path, a data frame with neighbors, a matrix of ids, one list of ids per query, or a mapping from "
    "query ids to lists"
)
_ACCEPTED_FILES = (
    "a table with neighbors (Parquet, Arrow, JSON Lines, CSV), a TREC run, a matrix of ids (npy, ivecs, "
    "ibin) or an ann-benchmarks result"
)


def read_answers(path: Any, *, format: str | None = None) -> Answers:
    """Read the answers of a system; ids stay as they were written, and none is looked up.

    Args:
        path: a Parquet, Arrow, JSON Lines or CSV table, npy, ivecs, ibin (also with distances), an
            ann-benchmarks result, a TREC run or a query log of `tap`. Or answers in memory: a data frame
            in the layout of such a table, a matrix of ids, one list of ids per query, or a mapping from query
            ids to lists.
        format: the file's format, if its ending and first bytes do not tell.
    """
    if isinstance(path, Answers):
        return path
    if not is_path(path):
        return held_answers(path)
    path, calls = split_calls(path)
    location = locate(path)
    if location.is_folder and is_query_log(location.children()):
        return log_answers(location, calls)
    if location.is_folder:
        raise FormatError(location.text, "a folder", f"one file: {_ACCEPTED_FILES}")
    if location.size == 0:
        raise FormatError(location.text, "the file is empty", _ACCEPTED_FILES)
    chosen = get_format(format) if format else detect(location)
    found = chosen.read_answers(location)
    if found is None:
        raise FormatError(location.text, f"no answers in a file of the format {chosen.name}", _ACCEPTED_FILES)
    return found


def held_answers(value: Any, name: str = "answers") -> Answers:
    """Answers, or a truth in the same form, that an object in memory holds.

    Args:
        value: a data frame, a matrix, one list of ids per query, or a mapping from query ids to lists.
        name: what messages call it.
    """
    if isinstance(value, Mapping) and not _has_roles([str(key) for key in value]):
        queries, lists = as_column(list(value), name), _lists_column(list(value.values()), name)
        return read_table_answers(
            TableSource(pa.table({QUERY_NAMES[0]: queries, LIST_NAMES[0]: lists}), name)
        )
    frame = as_frame(value, name)
    if frame is not None:
        return _frame_answers(frame, name)
    if isinstance(value, list | tuple):
        lists = _lists_column(value, name)
        return read_table_answers(TableSource(pa.table({LIST_NAMES[0]: lists}), name))
    if not is_tensor(value):
        raise FormatError(name, f"an object of type {kind_of(value)}", _ACCEPTED_OBJECTS)
    array = array_of(value, name)
    if array.dtype == object:
        return held_answers(array.tolist(), name)
    if array.ndim != 2:
        raise FormatError(name, f"an array of shape {array.shape}", "one row of ids per query")
    return matrix_answers(ArrayVectors(array), name)


def _frame_answers(frame: Frame, name: str) -> Answers:
    table, names = frame.table, frame.table.column_names
    wide = numbered_columns(names)
    if wide and set(names) <= {*wide, frame.index}:
        matrix = np.column_stack([table[column].to_numpy() for column in wide])
        return matrix_answers(ArrayVectors(matrix), name)
    if names == [VECTOR] or set(names) == {VECTOR, frame.index}:
        # A series has one column, whatever it is called.
        table = table.rename_columns([LIST_NAMES[0] if each == VECTOR else each for each in names])
    if frame.index is not None and first_of(QUERY_NAMES, table.column_names) is None:
        renamed = [QUERY_NAMES[0] if each == frame.index else each for each in table.column_names]
        table = table.rename_columns(renamed)
    return read_table_answers(TableSource(table, name))


def _has_roles(names: Sequence[str]) -> bool:
    """Whether these are names of columns and not ids of queries."""
    by_row = first_of(QUERY_NAMES, names) is not None and first_of(SINGLE_NAMES, names) is not None
    return first_of(LIST_NAMES, names) is not None or by_row


def _lists_column(lists: Sequence[Any], name: str) -> pa.Array:
    """One list of ids per query, as a column."""
    rows = [array_of(each, name).tolist() if is_tensor(each) else each for each in lists]
    odd = next((row for row, each in enumerate(rows) if not isinstance(each, list | tuple | None)), None)
    if odd is not None:
        raise FormatError(name, f"{rows[odd]!r:.60}, not a list of ids", _ACCEPTED_OBJECTS, row=odd)
    with reading(name, "lists of ids"):
        return pa.array(rows)
