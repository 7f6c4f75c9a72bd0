"""Truth on disk: Parquet with one row per query, which any tool can read, and a JSON header.

Format history:
1. `query_id`, `neighbors` (the user's ids) and `rows` (their row numbers), `scores`, `eligible`;
   `tied_neighbors` and `tied_rows`: what ties with the last neighbour beyond the depth.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from recallatk.core import Metric, Origin, Truth
from recallatk.files import PathLike, atomic_file, locate, reading, require_version
from recallatk.ids import RowIds, row_numbers
from recallatk.version import __version__

if TYPE_CHECKING:
    from numpy.typing import NDArray

FORMAT_VERSION = 1
_HEADER_KEY = b"recallatk.truth"
_KIND = "truth file of this tool"


def save_truth(truth: Truth, path: PathLike) -> None:
    """Write a truth with its ids."""
    header = {
        "format_version": FORMAT_VERSION,
        "tool_version": __version__,
        "metric": truth.metric,
        "depth": truth.depth,
        "origin": truth.origin,
        "corpus_rows": truth.corpus_rows,
        "fingerprints": dict(truth.fingerprints),
    }
    table = pa.table(_columns(truth))
    table = table.replace_schema_metadata({_HEADER_KEY: json.dumps(header).encode()})
    with atomic_file(path) as scratch:
        pq.write_table(table, scratch, compression="zstd", write_page_checksum=True)


def _columns(truth: Truth) -> dict[str, Any]:
    there = truth.rows >= 0
    offsets = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
    rows = truth.rows[there]
    columns: dict[str, Any] = {
        "query_id": row_numbers(0, len(truth)) if truth.query_ids is None else truth.query_ids,
        "neighbors": _lists(offsets, _ids(truth, rows)),
        "rows": _lists(offsets, rows),
    }
    if truth.scores is not None:
        columns["scores"] = _lists(offsets, truth.scores[there])
    if truth.eligible is not None:
        columns["eligible"] = pa.array(truth.eligible)
    if truth.overflow is not None:
        bounds, tied = truth.overflow
        columns["tied_neighbors"] = _lists(bounds, _ids(truth, tied))
        columns["tied_rows"] = _lists(bounds, tied)
    return columns


def _ids(truth: Truth, rows: NDArray[np.int64]) -> pa.Array:
    return pa.array(rows) if truth.row_ids is None else truth.row_ids.of(rows)


def _lists(offsets: NDArray[np.int64], values: Any) -> pa.Array:
    return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), pa.array(values))


def load_truth(path: PathLike) -> Truth:
    """Read a truth that `save_truth` wrote."""
    location = locate(path)
    with reading(location.text, _KIND), location.open() as file:
        table = pq.read_table(file, page_checksum_verification=True)
        header = json.loads((table.schema.metadata or {})[_HEADER_KEY])
        require_version(location.text, "truth", int(header["format_version"]), FORMAT_VERSION)
        return _truth(table, header)


def _truth(table: pa.Table, header: dict[str, Any]) -> Truth:
    names = table.column_names
    lengths = _lengths(table, "rows")
    there = np.arange(header["depth"]) < lengths[:, None]
    rows = np.full(there.shape, -1, np.int64)
    rows[there] = flat = _flat(table, "rows")
    ids = table["neighbors"].combine_chunks().flatten()
    scores = overflow = None
    if "scores" in names:
        scores = np.full(there.shape, np.nan)
        scores[there] = _flat(table, "scores")
    if "tied_rows" in names:
        tied = _flat(table, "tied_rows")
        overflow = np.concatenate([[0], np.cumsum(_lengths(table, "tied_rows"))]), tied
        flat = np.concatenate([flat, tied])
        ids = pa.concat_arrays([ids, table["tied_neighbors"].combine_chunks().flatten()])
    return Truth(
        rows=rows,
        scores=scores,
        eligible=table["eligible"].to_numpy() if "eligible" in names else None,
        metric=None if header["metric"] is None else Metric[header["metric"].upper()],
        origin=Origin(header["origin"]),
        overflow=overflow,
        query_ids=table["query_id"].combine_chunks(),
        row_ids=_row_ids(flat, ids),
        corpus_rows=header["corpus_rows"],
        fingerprints=header["fingerprints"],
    )


def _row_ids(rows: NDArray[np.int64], ids: pa.Array) -> RowIds:
    distinct, first = np.unique(rows, return_index=True)
    return RowIds(distinct, ids.take(pa.array(first)))


def _lengths(table: pa.Table, name: str) -> NDArray[np.int64]:
    lengths: NDArray[np.int64] = table[name].combine_chunks().value_lengths().to_numpy()
    return lengths


def _flat(table: pa.Table, name: str) -> NDArray[Any]:
    values: NDArray[Any] = table[name].combine_chunks().flatten().to_numpy()
    return values
