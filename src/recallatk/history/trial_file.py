"""One finished trial as a Parquet file that says everything about it, readable by pyarrow or pandas alone."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from recallatk.core import Measurement
from recallatk.errors import FormatError
from recallatk.files import atomic_file, reading, require_ordinary, require_version
from recallatk.history.call_columns import NAMES, call_columns, lists, read_calls, read_others
from recallatk.history.checksums import (
    CHECKED_VERSION,
    CHECKSUM,
    column_checksums,
    require_columns,
    require_sound,
    sealed,
)
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
_VALUES = "value:"


@dataclass(frozen=True, eq=False)
class TrialFile:
    """A trial file that was read whole: what was measured, and what the file says of itself."""

    path: Path
    measurement: Measurement
    header: Record

    @property
    def checked(self) -> bool:
        """Whether the file has checksums, which were compared."""
        return int(self.header["format_version"]) >= CHECKED_VERSION

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
    table = _table(measurement, dataset)
    header = {**_header(measurement, run), "columns": column_checksums(table)}
    table = table.replace_schema_metadata({_KEY: sealed(header)})
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
    columns |= call_columns(measurement.calls, measurement.others, queries)
    return pa.table(columns | _value_columns(measurement, queries))


def _value_columns(measurement: Measurement, queries: int) -> dict[str, pa.Array]:
    """Each measure of every query, null where it was not asked; NaN where it has no value."""
    columns = {}
    for name, values in measurement.score.per_query.items():
        asked = np.ones(queries, bool) if len(values) == queries else measurement.asked
        spread = np.zeros(queries)
        spread[asked] = values
        columns[f"{_VALUES}{name}"] = pa.array(spread, mask=~asked)
    return columns


def _times(measurement: Measurement) -> NDArray[np.int64]:
    """How often each query was asked."""
    if measurement.times is not None:
        return measurement.times
    return np.bincount(measurement.calls.query, minlength=len(measurement.answers))


def read_header(path: Path) -> Record | None:
    """What a trial file says of itself; None where it is a sound file and none of ours."""
    with reading(str(path), _KIND):
        require_ordinary(path)
        return _header_of(str(path), pq.read_schema(path))


def _header_of(where: str, schema: pa.Schema) -> Record | None:
    text = (schema.metadata or {}).get(_KEY)
    if text is None:
        return None
    header = dict(json.loads(text))
    if int(header["format_version"]) <= FORMAT_VERSION:
        rest = {name: value for name, value in header.items() if name != CHECKSUM}
        require_sound(where, header, json.dumps(rest))
    return upgraded(header)


def read_trial(path: Path, *, every_column: bool = False) -> TrialFile:
    """Read a trial file; a damaged one is refused, and its ids are only looked at with every column."""
    require_ordinary(path)
    with reading(str(path), _KIND), pq.ParquetFile(path, page_checksum_verification=True) as file:
        header = _header_of(str(path), file.schema_arrow)
        if header is None or int(header["format_version"]) < OLDEST_VERSION:
            raise FormatError(str(path), "no record of a trial in its metadata", "a trial file")
        require_version(str(path), "trial", int(header["format_version"]), FORMAT_VERSION)
        stated = header.get("columns")
        values = [name for name in stated or () if name.startswith(_VALUES)]
        table = file.read(None if every_column else ["rows", "times", *NAMES, *values])
        if stated is not None:
            require_columns(str(path), table, stated)
        return TrialFile(path, _measurement(table, header, values), header)


def _measurement(table: pa.Table, header: Record, values: list[str]) -> Measurement:
    sentinel, rate = header["sentinel_ns"], header["highest_rate"]
    return Measurement(
        trial=read_trial_record(header["trial"]),
        build=read_build(header["build"]),
        k=header["k"],
        answers=_answers(table["rows"].combine_chunks(), header["k"]),
        calls=read_calls(table, header["round_ns"], header["batch"], header["clients"]),
        exercised=header["exercised"],
        score=replace(read_score(header["score"]), per_query=_per_query(table, values)),
        others=read_others(table["others"]),
        warm_up=read_warm_up(header["warm_up"]),
        sentinel_ns=None if sentinel is None else np.array(sentinel, np.int64),
        highest_rate=None if rate is None else float(rate),
        times=table["times"].to_numpy().astype(np.int64),
    )


def _per_query(table: pa.Table, names: list[str]) -> dict[str, NDArray[np.float64]]:
    """Each measure of every query that was asked."""
    return {name.removeprefix(_VALUES): table[name].drop_null().to_numpy() for name in names}


def _answers(rows: pa.ListArray, k: int) -> NDArray[np.int64]:
    """One line a query; those that were not asked have -1 all along."""
    present = rows.is_valid().to_numpy(zero_copy_only=False)
    flat = rows.flatten().to_numpy()
    width = len(flat) // int(present.sum()) if present.any() else k
    answers = np.full((len(rows), width), -1, np.int64)
    answers[present] = flat.reshape(-1, width)
    return answers
