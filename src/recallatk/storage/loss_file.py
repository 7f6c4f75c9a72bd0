"""Loss files: the evidence on what a finished trial missed, as Parquet beside the trial file."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from recallatk.core.losses import COLUMNS, NOT_ASKED, LossEvidence
from recallatk.errors import FormatError, UsageError
from recallatk.files import atomic_file, reading, require_ordinary, require_version
from recallatk.redaction import public
from recallatk.storage.checksums import (
    CHECKSUM,
    column_checksum,
    column_checksums,
    require_columns,
    text_checksum,
)
from recallatk.storage.checksums import sealed as sealed_header
from recallatk.storage.records import read_trial_record, trial_record, written
from recallatk.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from recallatk.core import Measurement
    from recallatk.storage.records import Record

# 1: the rank of every missed neighbor in each list.
# 2: `returned` and `removed`, what the filter of the query did.
FORMAT_VERSION = 2
_ADDED = ("returned", "removed")
_KEY = b"recallatk.loss"
_KIND = "evidence of a run"
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
_HINT = "Delete the file, or collect the evidence again: recallatk run --explain"
_NAME = re.compile(r"loss-([1-9][0-9]*)\.parquet")


def loss_name(number: int) -> str:
    """File name of the evidence on a trial."""
    return f"loss-{number}.parquet"


def loss_number(name: str) -> int | None:
    """The number in the name of a loss file; None for any other name."""
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else None


def write_loss(path: Path, measurement: Measurement, evidence: LossEvidence, run: Mapping[str, Any]) -> None:
    """Write the evidence on a trial, atomically; a file that no run wrote is not overwritten."""
    if path.exists() and _is_foreign(path):
        raise UsageError(
            f"{path}: not a file of a run, but the run would overwrite it. Move it away, or "
            "choose another folder (--out)"
        )
    columns = {name: getattr(evidence, name).astype(_TYPES.get(name, np.int64)) for name in COLUMNS}
    table = pa.table({name: pa.array(column) for name, column in columns.items()})
    # Booleans have no checksum of their own.
    table = table.set_column(COLUMNS.index("filtered"), "filtered", table["filtered"].cast(pa.int8()))
    header = {
        "format_version": FORMAT_VERSION,
        "tool_version": __version__,
        "identity": run["identity"],
        "trial": trial_record(measurement.trial),
        "answers": _answers_checksum(measurement),
        "evidence": public({name: _plain(getattr(evidence, name)) for name in _FACTS}),
        "columns": column_checksums(table),
    }
    with atomic_file(path) as scratch:
        table = table.replace_schema_metadata({_KEY: sealed_header(header)})
        pq.write_table(table, scratch, compression="zstd", write_page_checksum=True)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else dict(value) if isinstance(value, dict) else value


def _answers_checksum(measurement: Measurement) -> str:
    """Identity of the answers that the evidence is about."""
    return column_checksum(pa.chunked_array([pa.array(measurement.answers.reshape(-1), pa.int64())]))


def _is_foreign(path: Path) -> bool:
    """Whether a file is readable Parquet that is no evidence; a damaged one counts as ours."""
    try:
        return _KEY not in (pq.read_schema(path).metadata or {})
    except (OSError, pa.ArrowException):
        return False


def with_loss(path: Path, measurement: Measurement, identity: str) -> Measurement:
    """The measurement with the evidence of a file; without, if there is no such file of a run.

    Damaged files, and evidence on other answers or of another run, are refused.
    """
    if not path.exists():
        return measurement
    require_ordinary(path)
    with reading(str(path), _KIND), pq.ParquetFile(path, page_checksum_verification=True) as file:
        text = (file.schema_arrow.metadata or {}).get(_KEY)
        if text is None:
            return measurement
        header = _checked(path, dict(json.loads(text)))
        if header["identity"] != identity:
            raise _unfit(path, "the file belongs to another run")
        if read_trial_record(header["trial"]) != written(measurement.trial):
            raise _unfit(path, "the file belongs to another trial")
        if header["answers"] != _answers_checksum(measurement):
            raise _unfit(path, "the trial was measured again since")
        table = file.read()
        require_columns(str(path), table, header["columns"])
        if int(header["format_version"]) == 1:
            for name in _ADDED:
                table = table.append_column(name, pa.array(np.full(len(table), NOT_ASKED)))
        return replace(measurement, loss=_evidence(table, header["evidence"], len(measurement.answers)))


def _checked(path: Path, header: Record) -> Record:
    require_version(str(path), "evidence", int(header["format_version"]), FORMAT_VERSION)
    rest = {name: value for name, value in header.items() if name != CHECKSUM}
    if header.get(CHECKSUM) != text_checksum(json.dumps(rest)):
        raise _unfit(path, "its checksum does not match its content")
    return header


def _unfit(path: Path, found: str) -> FormatError:
    return FormatError(str(path), found, "the evidence as originally written", hint=_HINT)


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
