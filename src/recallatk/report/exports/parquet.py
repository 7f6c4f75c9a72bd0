"""A run as Parquet: one row per trial, with what holds for all of them in the file's metadata."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recallatk.files import atomic_file
from recallatk.redaction import writable
from recallatk.report.as_dict import run_to_dict
from recallatk.report.exports.exported import Exported
from recallatk.report.exports.rows import TEXTS, flat_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from recallatk.core import Run
    from recallatk.files import PathLike

_LARGEST = 1 << 63


def write(run: Run, out: PathLike) -> Exported:
    """Write the trials as typed columns."""
    import pyarrow.parquet as pq

    with atomic_file(out) as scratch:
        pq.write_table(arrow_table(run), scratch, compression="zstd", write_page_checksum=True)
    return Exported((Path(out),))


def arrow_table(run: Run) -> pa.Table:
    """The trials as typed columns in memory."""
    import pyarrow as pa

    columns, rows = flat_rows(run)
    arrays = {writable(name): _column(name, [row[name] for row in rows]) for name in columns}
    about = {name: value for name, value in run_to_dict(run).items() if name != "trials"}
    return pa.table(arrays).replace_schema_metadata({b"recallatk.run": json.dumps(about).encode()})


def _column(name: str, values: list[Any]) -> pa.Array:
    """One type for the whole column: a parameter may be a number in one engine and a word in another."""
    import pyarrow as pa

    kinds = {type(value) for value in values if value is not None}
    if not kinds:
        return pa.nulls(len(values), pa.string() if name in TEXTS else pa.float64())
    if kinds == {bool}:
        return pa.array(values, pa.bool_())
    if kinds == {int} and all(value is None or -_LARGEST <= value < _LARGEST for value in values):
        return pa.array(values, pa.int64())
    if kinds <= {int, float}:
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    texts = [None if value is None else writable(str(value)) for value in values]
    return pa.array(texts, pa.string())
