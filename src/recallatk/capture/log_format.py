"""The files of a query log: names, columns and version, and the Parquet bytes of some calls."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any

from recallatk.errors import FilterError
from recallatk.filters import Filter, filter_from_json, parse_filter
from recallatk.redaction import public, writable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from recallatk.capture.call_record import CallRecord

# History: 1, the first.
VERSION = 1
METADATA_KEY = b"recallatk.query_log"
RETURNED, FAILED = "calls", "failed"
_NAME = re.compile(rf"({RETURNED}|{FAILED})-\d{{8}}T\d{{6}}-\d+-[0-9a-f]{{8}}-\d+\.parquet\Z")

QUERY_ID, VECTOR, NEIGHBORS, ERROR = "query_id", "vector", "neighbors", "error"
FILTER, RAW_FILTER = "filter", "filter_raw"
K, PARAMETERS, LATENCY, TIME, BATCH = "k", "parameters", "latency_ms", "time", "batch"
# A filter of more text than this is a list of ids in disguise, and would dwarf its vector.
_LONGEST_FILTER = 1 << 20


def file_name(kind: str, process: int, token: str, number: int) -> str:
    """The name of a new file, which no other process and no other writer gives."""
    return f"{kind}-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{process}-{token}-{number:06d}.parquet"


def is_log_file(name: str) -> bool:
    """Whether a file has the name of one in a query log."""
    return _NAME.match(name) is not None


def holds_failed(name: str) -> bool:
    """Whether a file of a query log holds calls that raised."""
    return name.startswith(f"{FAILED}-")


def log_version(schema: pa.Schema) -> int | None:
    """The version of a query log's file; None for any other Parquet file."""
    try:
        found = json.loads((schema.metadata or {})[METADATA_KEY])["version"]
    except (KeyError, TypeError, ValueError):
        return None
    return found if isinstance(found, int) else None


def log_schema(element: pa.DataType, dimension: int, identifier: pa.DataType) -> pa.Schema:
    """The columns of a file whose vectors and ids are of one type."""
    import pyarrow as pa

    return pa.schema(
        {
            QUERY_ID: pa.string(),
            TIME: pa.timestamp("us", "UTC"),
            VECTOR: pa.list_(element, dimension),
            FILTER: pa.string(),
            RAW_FILTER: pa.string(),
            K: pa.int64(),
            PARAMETERS: pa.string(),
            NEIGHBORS: pa.list_(identifier),
            LATENCY: pa.float64(),
            BATCH: pa.int64(),
            ERROR: pa.string(),
        },
        metadata={METADATA_KEY: json.dumps({"version": VERSION}).encode()},
    )


def log_table(records: Sequence[CallRecord], query_ids: Sequence[str]) -> pa.Table:
    """Calls with vectors of one type and dimension as a table."""
    import numpy as np
    import pyarrow as pa

    vectors = np.stack([each.vector for each in records])
    integers = not any(isinstance(found, str) for each in records for found in each.ids or ())
    flat = pa.array(np.ascontiguousarray(vectors).reshape(-1))
    schema = log_schema(flat.type, vectors.shape[1], pa.int64() if integers else pa.string())
    read: dict[str, tuple[str | None, str | None]] = {}
    texts = [_texts_of(each.filter, read) for each in records]
    lists = [each.ids if integers or each.ids is None else list(map(_text, each.ids)) for each in records]
    columns: dict[str, Any] = {
        QUERY_ID: query_ids,
        TIME: [each.time for each in records],
        VECTOR: pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1]),
        FILTER: [text for text, _ in texts],
        RAW_FILTER: [raw for _, raw in texts],
        K: [each.k for each in records],
        PARAMETERS: [parameters_text(each.parameters) for each in records],
        NEIGHBORS: lists,
        LATENCY: [each.latency_ms for each in records],
        BATCH: [each.batch for each in records],
        ERROR: [None if each.error is None else writable(each.error) for each in records],
    }
    return pa.table(columns, schema=schema)


def parquet_bytes(table: pa.Table) -> Any:
    """The table as a Parquet file in memory, with checksums so that damage shows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    others = [name for name in table.column_names if name != VECTOR]
    sink = pa.BufferOutputStream()
    # Vectors repeat no value, and compressing them would cost the service that is being watched.
    pq.write_table(
        table,
        sink,
        compression={f"{VECTOR}.list.element": "none"} | dict.fromkeys(others, "zstd"),
        use_dictionary=others,
        write_page_checksum=True,
    )
    return sink.getvalue()


def parameters_text(parameters: Mapping[str, Any]) -> str:
    """Canonical JSON of parameters without secrets: equal parameters have equal texts."""
    return json.dumps(public(dict(parameters)), sort_keys=True, ensure_ascii=False)


def filter_texts(condition: Any) -> tuple[str | None, str | None]:
    """A filter as recallatk's text, or, if it is another system's, as JSON that is only kept."""
    if condition is None or condition == "" or condition == {}:
        return None, None
    try:
        if isinstance(condition, str):
            parse_filter(condition)
            return writable(condition), None
        read = condition if isinstance(condition, Filter) else filter_from_json(condition)
        return writable(read.key), None
    except (FilterError, RecursionError):
        text = json.dumps(condition, ensure_ascii=False, default=lambda value: type(value).__name__)
        return None, writable(text if len(text) <= _LONGEST_FILTER else json.dumps("too long to keep"))


def _texts_of(
    condition: Any, read: dict[str, tuple[str | None, str | None]]
) -> tuple[str | None, str | None]:
    """The texts of a filter; the same text is parsed once a file."""
    if not isinstance(condition, str):
        return filter_texts(condition)
    if condition not in read:
        read[condition] = filter_texts(condition)
    return read[condition]


def _text(identifier: object) -> str | None:
    return None if identifier is None else writable(str(identifier))
