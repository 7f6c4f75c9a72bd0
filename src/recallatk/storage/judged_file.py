"""Judged files: how good the answers of a finished trial are downstream, beside the trial file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from recallatk.core.judged import Judged
from recallatk.files import reading
from recallatk.redaction import public
from recallatk.storage.sidecar import Sidecar

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from recallatk.core import Measurement
    from recallatk.storage.records import Record

JUDGED = Sidecar(
    "judged", 1, "judged values", "Delete the file, or run the same command again: it judges stored answers"
)
_OF_TRIAL, _OF_EXACT = "trial ", "exact "


def write_judged(path: Path, measurement: Measurement, judged: Judged, run: Mapping[str, Any]) -> None:
    """Write the judged values of a trial, atomically; a file that no run wrote is not overwritten."""
    columns = {f"{_OF_TRIAL}{name}": values for name, values in judged.values.items()}
    columns |= {f"{_OF_EXACT}{name}": values for name, values in judged.exact.items()}
    table = pa.table({name: pa.array(values, pa.float64()) for name, values in columns.items()})
    facts = {
        "judged_by": judged.identity,
        "names": list(judged.names),
        "notes": [public(each) for each in judged.notes],
    }
    JUDGED.write(path, measurement, table, facts, run)


def with_judged(path: Path, measurement: Measurement, identity: str) -> Measurement:
    """The measurement with the judged values of a file; without, if there is no such file of a run."""
    found = JUDGED.read(path, measurement, identity)
    if found is None:
        return measurement
    table, header = found
    with reading(str(path), f"{JUDGED.content} of a run"):
        return replace(measurement, judged=_judged(table, header, len(measurement.answers)))


def _judged(table: pa.Table, header: Record, queries: int) -> Judged:
    names, notes = _texts(header, "names"), _texts(header, "notes")
    if not isinstance(header["judged_by"], str):
        raise ValueError("judged_by is not text")
    if table.num_rows != queries:
        raise ValueError(f"it has {table.num_rows:,} values, but the trial has {queries:,} queries")
    return Judged(
        header["judged_by"],
        {name: _values(table, f"{_OF_TRIAL}{name}") for name in names},
        {name: _values(table, f"{_OF_EXACT}{name}") for name in names},
        notes,
    )


def _texts(header: Record, key: str) -> tuple[str, ...]:
    listed = header[key]
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        raise ValueError(f"{key} is not a list of texts")
    if len(set(listed)) < len(listed):
        raise ValueError(f"{key} has an entry twice")
    return tuple(listed)


def _values(table: pa.Table, name: str) -> NDArray[np.float64]:
    column = table[name]
    if not pa.types.is_floating(column.type) or column.null_count:
        raise ValueError(f"column {name!r} does not hold one number per query")
    values: NDArray[np.float64] = column.to_numpy().astype(np.float64)
    if np.isinf(values).any():
        raise ValueError(f"column {name!r} has an infinite value")
    return values
