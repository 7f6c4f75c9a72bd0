"""The calls of a trial as columns of lists, one row a query, and back.

A call stands with its first query. `calls` numbers them in the order in which they were sent, so that the
order comes back whatever the clock said, and so that an answer that differed can name its call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from recallatk.core import Calls, Others

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_COLUMNS = {
    "latencies_ns": ("latency_ns", np.int64),
    "sent_ns": ("sent_ns", np.int64),
    "late_ns": ("late_ns", np.int64),
    "rounds": ("round", np.int16),
    "clients": ("client", np.int16),
    "sizes": ("size", np.int32),
}
NAMES = ("calls", *_COLUMNS, "others")


def call_columns(calls: Calls, others: Others | None, queries: int) -> dict[str, pa.Array]:
    """The columns of a trial's calls."""
    order = np.argsort(calls.query, kind="stable")
    lengths = np.bincount(calls.query, minlength=queries)
    columns = {"calls": _lists(order.astype(np.int64), lengths)}
    for column, (name, dtype) in _COLUMNS.items():
        values = getattr(calls, name)
        values = np.ones(len(order), dtype) if values is None else values[order]
        columns[column] = _lists(values.astype(dtype, copy=False), lengths)
    return columns | {"others": _other_lists(others, queries)}


def _other_lists(others: Others | None, queries: int) -> pa.ListArray:
    if others is None:
        others = Others(np.empty(0, np.int64), np.empty(0, np.int32), np.empty((0, 1), np.int64))
    order = np.lexsort((others.call, others.query))
    width = others.rows.shape[1]
    rows = _lists(others.rows[order].astype(np.int64, copy=False).reshape(-1), np.full(len(order), width))
    answers = pa.StructArray.from_arrays([pa.array(others.call[order], pa.int64()), rows], ["call", "rows"])
    return _lists(answers, np.bincount(others.query, minlength=queries))


def _lists(flat: Any, lengths: NDArray[np.int64]) -> pa.ListArray:
    return lists(pa.array(flat) if isinstance(flat, np.ndarray) else flat, lengths)


def lists(
    flat: pa.Array, lengths: NDArray[np.int64], present: NDArray[np.bool_] | None = None
) -> pa.ListArray:
    """Lists of these lengths; null where they are not present."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    absent = None if present is None else np.append(~present, False)
    return pa.ListArray.from_arrays(pa.array(offsets, mask=absent), flat)


def read_calls(table: pa.Table, round_ns: Sequence[int], batch: int, clients: int | None) -> Calls:
    """The calls in their order."""
    numbers, lengths = _flat(table["calls"])
    order = np.empty(len(numbers), np.int64)
    order[numbers] = np.arange(len(numbers))
    if not np.array_equal(np.sort(numbers), np.arange(len(numbers))):
        raise ValueError("the numbers of its calls are not 0, 1, 2 and so on")
    parts = {}
    for column, (name, dtype) in _COLUMNS.items():
        values, found = _flat(table[column])
        if not np.array_equal(found, lengths):
            raise ValueError(f"{column} and calls have different lengths")
        parts[name] = values[order].astype(dtype, copy=False)
    query = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)[order]
    return Calls(query=query, round_ns=np.array(round_ns, np.int64), batch=batch, clients=clients, **parts)


def read_others(column: pa.ChunkedArray) -> Others | None:
    """The answers that differed, in the order of their calls; None where none did."""
    array = _one(column)
    lengths = array.value_lengths().to_numpy().astype(np.int64)
    answers = array.flatten()
    if not len(answers):
        return None
    call = answers.field("call").to_numpy()
    rows, _ = _flat(pa.chunked_array([answers.field("rows")]))
    query = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    order = np.lexsort((query, call))
    return Others(call[order], query[order], rows.reshape(len(call), -1)[order])


def _flat(column: pa.ChunkedArray) -> tuple[NDArray[Any], NDArray[np.int64]]:
    array = _one(column)
    return array.flatten().to_numpy(), array.value_lengths().to_numpy().astype(np.int64)


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
