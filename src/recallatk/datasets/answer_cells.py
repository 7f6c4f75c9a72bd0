"""Answers in cells of text: lists such as [3, 5] or 3;5 become lists that Arrow knows."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from recallatk.datasets.answer_tables import table_answers
from recallatk.errors import BadValueError, DataError, FormatError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recallatk.core import Answers
    from recallatk.datasets.answer_tables import Roles

# JSON escapes control characters, so these are free to use as separators.
_BETWEEN, _MISSING, _EMPTY = "\x1f", "\x1e", "\x1d"
_CONTROL = r"[\x1d-\x1f]"
_WHOLE = r"-?(?:0|[1-9][0-9]*)"
_DECIMAL = rf"(?:{_WHOLE}(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|NaN|-?Infinity)"
_TEXT = r'"[^"\\\x00-\x1f]*"'
_SPACE = r"[ \t\r\n]*"
_ACCEPTED_CELLS = "a JSON list, or values separated by spaces, semicolons or |"
_LARGEST_EXACT = 1 << 53


def cell_answers(
    cells: pa.Table, columns: Mapping[str, pa.ChunkedArray], roles: Roles, where: str
) -> Answers:
    """Answers in a table of text; `columns` are the other columns of each query."""
    made = dict(zip(cells.column_names, cells.columns, strict=True))
    if not roles.long:
        made[roles.neighbors] = _lists(cells[roles.neighbors], roles.neighbors, where, numbers=False)
        if roles.scores is not None:
            made[roles.scores] = _lists(cells[roles.scores], roles.scores, where, numbers=True)
    return table_answers(pa.table({**made, **columns}), roles, where, untyped=True)


def _lists(cells: pa.ChunkedArray, column: str, where: str, *, numbers: bool) -> pa.ChunkedArray:
    """Every cell as a list of texts; an empty cell is an empty list."""
    made, first_row = [], 0
    for chunk in cells.chunks:
        try:
            made.append(_split(chunk, numbers=numbers))
        except _BadCell as problem:
            found = f"{problem} in the column {column!r}"
            raise problem.kind(where, found, _ACCEPTED_CELLS, row=first_row + problem.row) from problem
        first_row += len(chunk)
    return pa.chunked_array(made, pa.list_(pa.string()))


class _BadCell(Exception):  # noqa: N818 - becomes a DataError once its column is known
    def __init__(self, row: int, found: str, kind: type[DataError] = FormatError) -> None:
        super().__init__(found)
        self.row, self.kind = row, kind


def _split(cells: pa.Array, *, numbers: bool) -> pa.Array:
    """The cells of one chunk as lists, by way of one text form for every way to write a list."""
    trimmed = pc.utf8_trim_whitespace(cells).fill_null("")
    bracketed = pc.starts_with(trimmed, "[")
    bare = _are_lists_of(trimmed, rf"(?:{_DECIMAL if numbers else _WHOLE}|null)")
    quoted = pc.and_not(_are_lists_of(trimmed, _TEXT), bare)
    odd = pc.and_not(bracketed, pc.or_(bare, quoted))
    joined = trimmed
    for mask, form in ((pc.invert(bracketed), _free), (bare, _bare), (quoted, _quoted)):
        if pc.any(mask).as_py():
            joined = pc.replace_with_mask(joined, mask, form(trimmed, mask))
    if pc.any(odd).as_py():
        joined = pc.replace_with_mask(joined, odd, _parsed(trimmed, odd, numbers=numbers))
    lists = pc.split_pattern(pc.if_else(pc.equal(joined, ""), pa.scalar(None, pa.string()), joined), _BETWEEN)
    values = lists.flatten()
    values = pc.if_else(pc.equal(values, _MISSING), pa.scalar(None, pa.string()), values)
    values = pc.if_else(pc.equal(values, _EMPTY), "", values)
    return pa.ListArray.from_arrays(lists.offsets, values, mask=lists.is_null())


def _are_lists_of(cells: pa.Array, one: str) -> pa.Array:
    between = f"{_SPACE},{_SPACE}"
    return pc.match_substring_regex(cells, rf"^\[{_SPACE}(?:{one}(?:{between}{one})*{_SPACE})?\]$")


def _free(cells: pa.Array, mask: pa.Array) -> pa.Array:
    """Cells such as `3 5`, `3;5` and `3|5`."""
    for pattern, found in ((",", "a comma outside of a JSON list"), (_CONTROL, "a control character")):
        wrong = pc.and_(mask, pc.match_substring_regex(cells, pattern))
        if pc.any(wrong).as_py():
            raise _BadCell(pc.index(wrong, pa.scalar(True)).as_py(), found)
    inner = pc.utf8_trim(cells.filter(mask), characters=" \t\r\n;|")
    return pc.replace_substring_regex(inner, r"[\s;|]+", _BETWEEN)


def _bare(cells: pa.Array, mask: pa.Array) -> pa.Array:
    """Cells such as `[3, 5, null]`."""
    inner = pc.replace_substring_regex(cells.filter(mask), r"[\[\] \t\r\n]", "")
    return pc.replace_substring(pc.replace_substring(inner, ",", _BETWEEN), "null", _MISSING)


def _quoted(cells: pa.Array, mask: pa.Array) -> pa.Array:
    """Cells such as `["a", "b"]` in which nothing is escaped."""
    inner = pc.replace_substring_regex(cells.filter(mask), rf'^\[{_SPACE}"|"{_SPACE}\]$', "")
    inner = pc.replace_substring_regex(inner, rf'"{_SPACE},{_SPACE}"', _BETWEEN)
    return pc.if_else(pc.equal(inner, ""), _EMPTY, inner)


def _parsed(cells: pa.Array, mask: pa.Array, *, numbers: bool) -> pa.Array:
    """Cells that need a parser: escapes, floats, or text mixed with numbers."""
    rows = pc.indices_nonzero(mask).to_pylist()
    texts = []
    for row, cell in zip(rows, cells.filter(mask).to_pylist(), strict=True):
        try:
            values = json.loads(cell)
        except (ValueError, RecursionError):
            raise _BadCell(row, f"{cell[:60]!r} is not a JSON list") from None
        texts.append(
            _BETWEEN.join([_token(value, row, numbers) for value in values]) or (_EMPTY if values else "")
        )
    return pa.array(texts, pa.string())


def _token(value: Any, row: int, numbers: bool) -> str:
    if value is None:
        return _MISSING
    if isinstance(value, str):
        if any(sign in value for sign in (_BETWEEN, _MISSING, _EMPTY)):
            raise _BadCell(row, "a control character")
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _BadCell(row, f"{str(value)[:60]!r} within the list")
    if numbers or isinstance(value, int):
        return str(value)
    if math.isnan(value):
        return _MISSING
    if not value.is_integer() or abs(value) > _LARGEST_EXACT:
        raise _BadCell(row, f"{value} is not an id", BadValueError)
    return str(int(value))
