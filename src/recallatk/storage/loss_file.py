"""Loss files: the evidence on what a finished trial missed, as Parquet beside the trial file."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from recallatk.core.losses import COLUMNS, NOT_ASKED, LossEvidence
from recallatk.files import reading
from recallatk.redaction import public
from recallatk.storage.sidecar import Sidecar

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from recallatk.core import Measurement
    from recallatk.storage.records import Record

# 1: the rank of every missed neighbor in each list.
# 2: `returned` and `removed`, what the filter of the query did.
LOSSES = Sidecar(
    "loss", 2, "evidence", "Delete the file, or collect the evidence again: recallatk run --explain"
)
_ADDED = ("returned", "removed")
_TYPES = {"share": np.float64, "filtered": np.bool_, "held": np.int8, "visited": np.int8}
_FACTS = tuple(each.name for each in fields(LossEvidence) if each.name not in COLUMNS)
_OPTIONAL = ("full_search", "enough_search", "enough_p95_ms")
_FACT_TYPES: dict[str, Any] = {
    "k": int,
    **dict.fromkeys(("scans", "full_scans", "whole", "stopped"), bool),
    **dict.fromkeys(("full_search", "enough_search"), dict),
    **dict.fromkeys(("enough_p95_ms", "seconds", "budget_seconds"), (int, float)),
    **dict.fromkeys(("effort_knobs", "rerank_knobs", "build_knobs", "notes"), tuple),
}


def write_loss(path: Path, measurement: Measurement, evidence: LossEvidence, run: Mapping[str, Any]) -> None:
    """Write the evidence on a trial, atomically; a file that no run wrote is not overwritten."""
    columns = {name: getattr(evidence, name).astype(_TYPES.get(name, np.int64)) for name in COLUMNS}
    table = pa.table({name: pa.array(column) for name, column in columns.items()})
    # Booleans have no checksum of their own.
    table = table.set_column(COLUMNS.index("filtered"), "filtered", table["filtered"].cast(pa.int8()))
    facts = {"evidence": public({name: _plain(getattr(evidence, name)) for name in _FACTS})}
    LOSSES.write(path, measurement, table, facts, run)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else dict(value) if isinstance(value, dict) else value


def with_loss(path: Path, measurement: Measurement, identity: str) -> Measurement:
    """The measurement with the evidence of a file; without, if there is no such file of a run.

    Damaged files, and evidence on other answers or of another run, are refused.
    """
    found = LOSSES.read(path, measurement, identity)
    if found is None:
        return measurement
    table, header = found
    with reading(str(path), f"{LOSSES.content} of a run"):
        if int(header["format_version"]) == 1:
            for name in _ADDED:
                table = table.append_column(name, pa.array(np.full(len(table), NOT_ASKED)))
        return replace(measurement, loss=_evidence(table, header["evidence"], len(measurement.answers)))


def _evidence(table: pa.Table, facts: Record, queries: int) -> LossEvidence:
    columns: dict[str, Any] = {
        name: table[name].to_numpy().astype(_TYPES.get(name, np.int64)) for name in COLUMNS
    }
    if any(table[name].null_count for name in COLUMNS):
        raise ValueError("its columns have missing values")
    if not ((columns["share"] >= 0) & (columns["share"] <= 1)).all():
        raise ValueError("a share of lost recall is not between 0 and 1")
    returned, removed = columns["returned"], columns["removed"]
    uncounted = (returned == NOT_ASKED) & (removed == NOT_ASKED)
    if not (uncounted | ((removed >= 0) & (removed <= returned))).all():
        raise ValueError("a filter removed fewer than 0 rows, or more than the index returned")
    query = columns["query"]
    if len(query) and not 0 <= query.min() <= query.max() < queries:
        raise ValueError(f"it names queries beyond the {queries:,} of the trial")
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in facts.items()
    }
    for name in _FACTS:
        if not _fits(name, values[name]):
            raise ValueError(f"{name} has a value of the wrong type")
    return LossEvidence(**columns, **{name: values[name] for name in _FACTS})


def _fits(name: str, value: Any) -> bool:
    """Whether a fact has the type that the evidence gives it."""
    if value is None:
        return name in _OPTIONAL
    kind = _FACT_TYPES[name]
    if isinstance(value, bool) != (kind is bool) or not isinstance(value, kind):
        return False
    return all(isinstance(each, str) for each in value) if kind is tuple else True
