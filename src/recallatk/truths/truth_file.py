"""Truth files: Parquet with one row per query and a JSON header."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from recallatk.core import Metric, Origin, Truth
from recallatk.core.truth import Certificate, Decision
from recallatk.files import PathLike, atomic_file, locate, reading, require_version
from recallatk.ids import RowIds, row_numbers
from recallatk.truths.truth_file_checks import TruthColumns
from recallatk.truths.truth_summary import boundary_gaps
from recallatk.version import __version__

if TYPE_CHECKING:
    from numpy.typing import NDArray

FORMAT_VERSION = 5
_HEADER_KEY = b"recallatk.truth"
_QUERY_PREFIX = "query."
_NAMES = frozenset(
    [
        "query_id",
        "neighbors",
        "rows",
        "scores",
        "eligible",
        "tied",
        "tied_neighbors",
        "tied_rows",
        "tied_count",
        "decided",
        "bound",
        "gap",
        "next_row",
        "next_score",
        "corpus_ids",
    ]
)
_KIND = "truth file of this tool"


def save_truth(truth: Truth, path: PathLike) -> None:
    """Write a truth with its ids."""
    header = {
        # What an older certificate says keeps its meaning.
        "format_version": truth.older_format or FORMAT_VERSION,
        "tool_version": __version__,
        "metric": truth.metric,
        "depth": truth.depth,
        "origin": truth.origin,
        "corpus_rows": truth.corpus_rows,
        "sampled_from": truth.sampled_from,
        "fingerprints": dict(truth.fingerprints),
        **({"models": {part: list(each) for part, each in truth.models.items()}} if truth.models else {}),
    }
    table = pa.table(_columns(truth))
    table = table.replace_schema_metadata({_HEADER_KEY: json.dumps(header).encode()})
    with atomic_file(path) as scratch:
        leaves = _leaves(table)
        # Scores hardly compress, and hardly repeat.
        compression = dict.fromkeys(leaves, "zstd") | {"scores.list.element": "none"}
        pq.write_table(
            table,
            scratch,
            compression=compression,
            use_dictionary=["decided"],
            # Row numbers have few digits, which this finds in less time than compression takes.
            column_encoding=dict.fromkeys(
                (name for name, kind in leaves.items() if kind == pa.int64()), "DELTA_BINARY_PACKED"
            ),
            write_page_checksum=True,
        )


def _leaves(table: pa.Table) -> dict[str, pa.DataType]:
    """The columns as the file names them, and their types."""
    return {
        f"{each.name}.list.element" if pa.types.is_large_list(each.type) else each.name: (
            each.type.value_type if pa.types.is_large_list(each.type) else each.type
        )
        for each in table.schema
    }


def _columns(truth: Truth) -> dict[str, Any]:
    there = truth.rows >= 0
    offsets = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
    rows = truth.rows[there]
    columns: dict[str, Any] = {
        "query_id": row_numbers(0, len(truth)) if truth.query_ids is None else truth.query_ids,
        "neighbors": _lists(offsets, truth.ids_of(rows)),
        "rows": _lists(offsets, rows),
    }
    if truth.scores is not None:
        columns["scores"] = _lists(offsets, truth.scores[there])
    if truth.eligible is not None:
        columns["eligible"] = pa.array(truth.eligible)
    if truth.tied is not None:
        columns["tied"] = _lists(offsets, truth.tied[there])
    if truth.overflow is not None:
        bounds, tied = truth.overflow
        columns["tied_neighbors"] = _lists(bounds, truth.ids_of(tied))
        columns["tied_rows"] = _lists(bounds, tied)
    if truth.tie_counts is not None:
        columns["tied_count"] = pa.array(truth.tie_counts)
    if truth.certificate is not None:
        columns |= _certificate_columns(truth)
    if truth.query_columns is not None:
        beside = truth.query_columns
        columns |= {f"{_QUERY_PREFIX}{name}": beside[name] for name in beside.column_names}
    if truth.corpus_ids is not None:
        ends = np.full(len(truth) + 1, len(truth.corpus_ids))
        ends[0] = 0
        columns["corpus_ids"] = _lists(ends, truth.corpus_ids)
    return columns


def _certificate_columns(truth: Truth) -> dict[str, Any]:
    certificate, gaps = truth.certificate, boundary_gaps(truth)
    assert certificate is not None  # noqa: S101 - asked by the caller
    return {
        "decided": pa.array(np.asarray([each.text for each in Decision])[certificate.decided]),
        "bound": _nullable(certificate.bounds),
        "gap": _nullable(gaps),
        "next_row": pa.array(certificate.next_rows, mask=certificate.next_rows < 0),
        "next_score": _nullable(certificate.next_scores),
    }


def _nullable(values: NDArray[np.float64]) -> pa.Array:
    return pa.array(values, mask=np.isnan(values))


def _lists(offsets: NDArray[np.int64], values: Any) -> pa.Array:
    return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), pa.array(values))


def is_truth_file(path: PathLike) -> bool:
    """Whether the header says that `save_truth` wrote the file."""
    location = locate(path)
    if location.is_folder or location.read_at(0, 4) != b"PAR1":
        return False
    with reading(location.text, "Parquet file"), location.open() as file:
        return _HEADER_KEY in (pq.read_schema(file).metadata or {})


def load_truth(path: PathLike) -> Truth:
    """Read a truth that `save_truth` wrote."""
    location = locate(path)
    with reading(location.text, _KIND), location.open() as file:
        table = pq.read_table(file, page_checksum_verification=True)
        header = json.loads((table.schema.metadata or {})[_HEADER_KEY])
        require_version(location.text, "truth", int(header["format_version"]), FORMAT_VERSION)
        contents = TruthColumns(location.text, table, header)
        contents.require_consistent()
        truth = _truth(table, header)
        contents.require_gaps(boundary_gaps(truth))
        return truth


def _truth(table: pa.Table, header: dict[str, Any]) -> Truth:
    names, version = table.column_names, int(header["format_version"])
    strange = [name for name in names if name not in _NAMES and not name.startswith(_QUERY_PREFIX)]
    if strange:
        # Names have no checksum, and without the scores, say, a truth would seem to be somebody else's.
        raise ValueError(f"a truth has no column {strange[0]!r}")
    lengths = _lengths(table, "rows")
    there = np.arange(header["depth"]) < lengths[:, None]
    rows = np.full(there.shape, -1, np.int64)
    rows[there] = flat = _flat(table, "rows")
    ids = table["neighbors"].combine_chunks().flatten()
    scores = overflow = tied_before = None
    if "scores" in names:
        scores = np.full(there.shape, np.nan)
        scores[there] = _flat(table, "scores")
    if "tied_rows" in names:
        tied = _flat(table, "tied_rows")
        overflow = np.concatenate([[0], np.cumsum(_lengths(table, "tied_rows"))]), tied
        flat = np.concatenate([flat, tied])
        ids = pa.concat_arrays([ids, table["tied_neighbors"].combine_chunks().flatten()])
    if "tied" in names:
        tied_before = np.zeros(there.shape, bool)
        tied_before[there] = table["tied"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return Truth(
        rows=rows,
        scores=scores,
        eligible=table["eligible"].to_numpy() if "eligible" in names else None,
        tied=tied_before,
        tie_counts=table["tied_count"].to_numpy() if "tied_count" in names else None,
        certificate=_certificate(table) if "decided" in names else None,
        older_format=version if "decided" in names and version < FORMAT_VERSION else None,
        sampled_from=header.get("sampled_from"),
        metric=None if header["metric"] is None else Metric[header["metric"].upper()],
        origin=Origin(header["origin"]),
        overflow=overflow,
        query_ids=table["query_id"].combine_chunks(),
        query_columns=_query_columns(table),
        corpus_ids=table["corpus_ids"].combine_chunks().flatten() if "corpus_ids" in names else None,
        row_ids=_row_ids(flat, ids),
        corpus_rows=header["corpus_rows"],
        fingerprints=header["fingerprints"],
        models={str(part): tuple(map(str, each)) for part, each in header.get("models", {}).items()},
    )


def _query_columns(table: pa.Table) -> pa.Table | None:
    names = [name for name in table.column_names if name.startswith(_QUERY_PREFIX)]
    if not names:
        return None
    return table.select(names).rename_columns([name.removeprefix(_QUERY_PREFIX) for name in names])


def _certificate(table: pa.Table) -> Certificate:
    codes = {decision.text: int(decision) for decision in Decision}
    return Certificate(
        np.asarray([codes[text] for text in table["decided"].to_pylist()], np.uint8),
        _filled(table, "bound"),
        table["next_row"].fill_null(-1).to_numpy(),
        _filled(table, "next_score"),
    )


def _filled(table: pa.Table, name: str) -> NDArray[np.float64]:
    values: NDArray[np.float64] = table[name].fill_null(np.nan).to_numpy()
    return values


def _row_ids(rows: NDArray[np.int64], ids: pa.Array) -> RowIds | None:
    if pa.types.is_int64(ids.type) and not ids.null_count and (ids.to_numpy() == rows).all():
        return None
    distinct, first = np.unique(rows, return_index=True)
    return RowIds(distinct, ids.take(pa.array(first)))


def _lengths(table: pa.Table, name: str) -> NDArray[np.int64]:
    lengths: NDArray[np.int64] = table[name].combine_chunks().value_lengths().to_numpy()
    return lengths


def _flat(table: pa.Table, name: str) -> NDArray[Any]:
    values: NDArray[Any] = table[name].combine_chunks().flatten().to_numpy()
    return values
