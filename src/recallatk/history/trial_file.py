"""One finished trial as a Parquet file that says everything about it, readable by pyarrow or pandas alone."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from recallatk.core import Measurement
from recallatk.errors import FormatError
from recallatk.files import atomic_file, reading, require_version
from recallatk.history.call_columns import NAMES, call_columns, lists, read_calls, read_others
from recallatk.history.format_two import OLDEST_VERSION, upgraded
from recallatk.history.records import (
    Record,
    measurement_record,
    read_build,
    read_score,
    read_trial_record,
    read_warm_up,
    summary,
)
from recallatk.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from recallatk.core import Dataset

FORMAT_VERSION = 3
_KEY = b"recallatk.trial"
_KIND = "trial of a run"


@dataclass(frozen=True, eq=False)
class TrialFile:
    """A trial file that was read whole: what was measured, and what the file says of itself."""

    path: Path
    measurement: Measurement
    header: Record

    @property
    def identity(self) -> str:
        """Of the run that it belongs to."""
        return str(self.header["run"]["identity"])

    @property
    def summary(self) -> Record:
        """What run.json says of it."""
        return file_summary(self.path, self.measurement)


def file_summary(path: Path, measurement: Measurement) -> Record:
    """What run.json says of a finished trial."""
    others = measurement.others
    differing = 0 if others is None else len(others)
    return summary(measurement_record(measurement), path.name, len(measurement.calls), differing)


def write_trial(path: Path, measurement: Measurement, dataset: Dataset, run: Mapping[str, Any]) -> None:
    """Write a trial with the head of its run, whole or not at all."""
    table = _table(measurement, dataset).replace_schema_metadata(
        {_KEY: json.dumps(_header(measurement, run))}
    )
    with atomic_file(path) as scratch:
        pq.write_table(table, scratch, compression="zstd", write_page_checksum=True)


def _header(measurement: Measurement, run: Mapping[str, Any]) -> Record:
    versions = {"format_version": FORMAT_VERSION, "tool_version": __version__}
    return {**versions, **measurement_record(measurement), "run": dict(run)}


def _table(measurement: Measurement, dataset: Dataset) -> pa.Table:
    answers = measurement.answers
    queries, width = answers.shape
    # An answer is proof enough that somebody asked.
    present = measurement.asked | (answers >= 0).any(axis=1)
    lengths = np.where(present, width, 0)
    rows = answers[present].reshape(-1)
    ids = dataset.corpus.ids
    named = ids.take(pa.array(rows, mask=(rows < 0) | (rows >= len(ids))))
    columns = {
        "query_id": dataset.queries.ids,
        "neighbors": lists(named, lengths, present),
        "rows": lists(pa.array(rows, pa.int64()), lengths, present),
        "times": pa.array(_times(measurement), pa.int32()),
    }
    return pa.table(columns | call_columns(measurement.calls, measurement.others, queries))


def _times(measurement: Measurement) -> NDArray[np.int64]:
    """How often each query was asked."""
    if measurement.times is not None:
        return measurement.times
    return np.bincount(measurement.calls.query, minlength=len(measurement.answers))


def read_header(path: Path) -> Record | None:
    """What a trial file says of itself; None where it is a sound file and none of ours."""
    with reading(str(path), _KIND):
        return _header_of(pq.read_schema(path))


def _header_of(schema: pa.Schema) -> Record | None:
    text = (schema.metadata or {}).get(_KEY)
    return None if text is None else upgraded(dict(json.loads(text)))


def read_trial(path: Path, *, every_column: bool = False) -> TrialFile:
    """Read a trial file; a damaged one is refused, and its ids are only looked at with every column."""
    with reading(str(path), _KIND), pq.ParquetFile(path, page_checksum_verification=True) as file:
        header = _header_of(file.schema_arrow)
        if header is None or int(header["format_version"]) < OLDEST_VERSION:
            accepted = f"a trial file of format {OLDEST_VERSION} to {FORMAT_VERSION}"
            raise FormatError(str(path), "no record of a trial in its metadata", accepted)
        require_version(str(path), "trial", int(header["format_version"]), FORMAT_VERSION)
        columns = None if every_column else ["rows", "times", *NAMES]
        table = file.read(columns)
        return TrialFile(path, _measurement(table, header), header)


def _measurement(table: pa.Table, header: Record) -> Measurement:
    sentinel, rate = header["sentinel_ns"], header["highest_rate"]
    return Measurement(
        trial=read_trial_record(header["trial"]),
        build=read_build(header["build"]),
        k=header["k"],
        answers=_answers(table["rows"].combine_chunks(), header["k"]),
        calls=read_calls(table, header["round_ns"], header["batch"], header["clients"]),
        exercised=header["exercised"],
        score=read_score(header["score"]),
        others=read_others(table["others"]),
        warm_up=read_warm_up(header["warm_up"]),
        sentinel_ns=None if sentinel is None else np.array(sentinel, np.int64),
        highest_rate=None if rate is None else float(rate),
        times=table["times"].to_numpy().astype(np.int64),
    )


def _answers(rows: pa.ListArray, k: int) -> NDArray[np.int64]:
    """One line a query; those that were not asked have -1 all along."""
    present = rows.is_valid().to_numpy(zero_copy_only=False)
    flat = rows.flatten().to_numpy()
    width = len(flat) // int(present.sum()) if present.any() else k
    answers = np.full((len(rows), width), -1, np.int64)
    answers[present] = flat.reshape(-1, width)
    return answers
