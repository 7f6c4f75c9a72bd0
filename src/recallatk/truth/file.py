"""Truth on disk: Parquet with one row per query, which any tool can read, and a JSON header.

Format history:
1. `query_id`, `neighbors` (the user's ids), `rows`, `scores`, `eligible`, `tied_beyond` (rows beyond
   the depth that tie with the last neighbour).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from recallatk.core import Metric, Origin, Truth
from recallatk.errors import FormatError, MismatchError
from recallatk.files import PathLike, atomic_file, locate
from recallatk.version import __version__

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Dataset

FORMAT_VERSION = 1
_HEADER_KEY = b"recallatk.truth"


def save_truth(truth: Truth, dataset: Dataset, path: PathLike) -> None:
    """Write a truth with the ids of the dataset that it belongs to."""
    if len(truth) != dataset.queries.rows:
        raise MismatchError(f"a truth of {len(truth)} queries, and a dataset of {dataset.queries.rows}")
    header = {
        "format_version": FORMAT_VERSION,
        "tool_version": __version__,
        "metric": truth.metric,
        "depth": truth.depth,
        "origin": truth.origin,
        "fingerprints": dict(truth.fingerprints),
    }
    table = pa.table(_columns(truth, dataset))
    table = table.replace_schema_metadata({_HEADER_KEY: json.dumps(header).encode()})
    with atomic_file(path) as scratch:
        pq.write_table(table, scratch, compression="zstd", write_page_checksum=True)


def _columns(truth: Truth, dataset: Dataset) -> dict[str, Any]:
    valid = truth.rows >= 0
    offsets = pa.array(np.concatenate([[0], np.cumsum(valid.sum(axis=1))]), pa.int32())
    flat = truth.rows[valid]
    columns: dict[str, Any] = {
        "query_id": dataset.queries.ids,
        "neighbors": pa.ListArray.from_arrays(offsets, dataset.corpus.ids.take(pa.array(flat))),
        "rows": pa.ListArray.from_arrays(offsets, pa.array(flat)),
    }
    if truth.scores is not None:
        columns["scores"] = pa.ListArray.from_arrays(offsets, pa.array(truth.scores[valid]))
    if truth.eligible is not None:
        columns["eligible"] = pa.array(truth.eligible)
    if truth.overflow is not None:
        bounds, rows = truth.overflow
        columns["tied_beyond"] = pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), pa.array(rows))
    return columns


def load_truth(path: PathLike) -> Truth:
    """Read a truth that `save_truth` wrote."""
    location = locate(path)
    try:
        with location.open() as file:
            table = pq.read_table(file, page_checksum_verification=True)
        header = json.loads((table.schema.metadata or {})[_HEADER_KEY])
        version = int(header["format_version"])
        truth = _truth(table, header) if version <= FORMAT_VERSION else None
    # Damaged bytes make Arrow, numpy and the checks below raise errors with no common ancestor.
    except Exception as problem:
        raise FormatError(
            location.text, "it is damaged, or no truth file of this tool", "a file of save_truth"
        ) from problem
    if truth is None:
        raise FormatError(
            location.text,
            f"truth format {version}",
            f"format {FORMAT_VERSION} or older",
            hint="Upgrade: pip install --upgrade recallatk",
        )
    return truth


def _truth(table: pa.Table, header: dict[str, Any]) -> Truth:
    names = table.column_names
    lengths = table["rows"].combine_chunks().value_lengths().to_numpy()
    there = np.arange(header["depth"]) < lengths[:, None]
    rows = np.full(there.shape, -1)
    rows[there] = _flat(table, "rows")
    scores = None
    if "scores" in names:
        scores = np.full(there.shape, np.nan)
        scores[there] = _flat(table, "scores")
    overflow = None
    if "tied_beyond" in names:
        sizes = table["tied_beyond"].combine_chunks().value_lengths().to_numpy()
        overflow = np.concatenate([[0], np.cumsum(sizes)]), _flat(table, "tied_beyond")
    return Truth(
        rows=rows,
        scores=scores,
        eligible=table["eligible"].to_numpy() if "eligible" in names else None,
        metric=None if header["metric"] is None else Metric(header["metric"]),
        origin=Origin(header["origin"]),
        overflow=overflow,
        fingerprints=header["fingerprints"],
    )


def _flat(table: pa.Table, name: str) -> NDArray[Any]:
    values: NDArray[Any] = table[name].combine_chunks().flatten().to_numpy()
    return values
