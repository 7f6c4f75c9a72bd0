"""Trial files: one finished trial as self-contained Parquet, including its calls."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from recallatk.core import Calls, Measurement, Others, Weights
from recallatk.core.filtering import read_facts, read_refusals
from recallatk.errors import FormatError
from recallatk.files import atomic_file, reading, require_ordinary, require_version
from recallatk.storage.checksums import (
    CHECKED_VERSION,
    CHECKSUM,
    column_checksums,
    require_columns,
    require_sound,
    sealed,
)
from recallatk.storage.records import (
    OLDEST_VERSION,
    Record,
    measurement_record,
    read_build,
    read_score,
    read_trial_record,
    read_warm_up,
    summary,
    upgraded,
)
from recallatk.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from recallatk.core import Dataset, Score
    from recallatk.core.filtering import FilterFacts

_COLUMNS = {
    "latencies_ns": ("latency_ns", np.int64),
    "sent_ns": ("sent_ns", np.int64),
    "late_ns": ("late_ns", np.int64),
    "rounds": ("round", np.int16),
    "clients": ("client", np.int16),
    "sizes": ("size", np.int32),
}
NAMES = ("calls", *_COLUMNS, "others")


def call_columns(calls: Calls, others: Others | None, queries: int) -> dict[str, pa.Array]:
    """Columns of a trial's calls."""
    order = np.argsort(calls.query, kind="stable")
    lengths = np.bincount(calls.query, minlength=queries)
    columns = {"calls": _lists(order.astype(np.int64), lengths)}
    for column, (name, dtype) in _COLUMNS.items():
        values = getattr(calls, name)
        values = np.ones(len(order), dtype) if values is None else values[order]
        columns[column] = _lists(values.astype(dtype, copy=False), lengths)
    return columns | {"others": _other_lists(others, queries)}


def _other_lists(others: Others | None, queries: int) -> pa.ListArray:
    if others is None:
        others = Others(np.empty(0, np.int64), np.empty(0, np.int32), np.empty((0, 1), np.int64))
    order = np.lexsort((others.call, others.query))
    width = others.rows.shape[1]
    rows = _lists(others.rows[order].astype(np.int64, copy=False).reshape(-1), np.full(len(order), width))
    answers = pa.StructArray.from_arrays([pa.array(others.call[order], pa.int64()), rows], ["call", "rows"])
    return _lists(answers, np.bincount(others.query, minlength=queries))


def _lists(flat: Any, lengths: NDArray[np.int64]) -> pa.ListArray:
    return lists(pa.array(flat) if isinstance(flat, np.ndarray) else flat, lengths)


def lists(
    flat: pa.Array, lengths: NDArray[np.int64], present: NDArray[np.bool_] | None = None
) -> pa.ListArray:
    """Lists of the given lengths; null where not present."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    absent = None if present is None else np.append(~present, False)
    return pa.ListArray.from_arrays(pa.array(offsets, mask=absent), flat)


def read_calls(table: pa.Table, round_ns: Sequence[int], batch: int, clients: int | None) -> Calls:
    """The calls in order."""
    numbers, lengths = _flat(table["calls"])
    order = np.empty(len(numbers), np.int64)
    order[numbers] = np.arange(len(numbers))
    if not np.array_equal(np.sort(numbers), np.arange(len(numbers))):
        raise ValueError("its calls are not numbered 0, 1, 2 and so on")
    parts = {}
    for column, (name, dtype) in _COLUMNS.items():
        values, found = _flat(table[column])
        if not np.array_equal(found, lengths):
            raise ValueError(f"{column} and calls have different lengths")
        parts[name] = values[order].astype(dtype, copy=False)
    query = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)[order]
    return Calls(query=query, round_ns=np.array(round_ns, np.int64), batch=batch, clients=clients, **parts)


def read_others(column: pa.ChunkedArray) -> Others | None:
    """Answers that differed from the first, in call order; None if none did."""
    array = _one(column)
    lengths = array.value_lengths().to_numpy().astype(np.int64)
    answers = array.flatten()
    if not len(answers):
        return None
    call = answers.field("call").to_numpy()
    rows, _ = _flat(pa.chunked_array([answers.field("rows")]))
    query = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    order = np.lexsort((query, call))
    return Others(call[order], query[order], rows.reshape(len(call), -1)[order])


def _flat(column: pa.ChunkedArray) -> tuple[NDArray[Any], NDArray[np.int64]]:
    array = _one(column)
    return array.flatten().to_numpy(), array.value_lengths().to_numpy().astype(np.int64)


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


# 1: answers and latencies, described in run.json alone. 2: files that describe themselves, with every call.
# 3: checksums, values per query, the number of clients. 4: what filters admit, and which were refused.
FORMAT_VERSION = 4
_KEY = b"recallatk.trial"
_KIND = "trial of a run"
_VALUES = "value:"
# Only in files of weighted runs.
_WEIGHT = "weight"
_REFUSED, _FILTERED, _ELIGIBLE, _NEAR, _VIOLATIONS = "refused", "filtered", "eligible", "near", "violations"
_ABOUT_FILTERS = (_REFUSED, _FILTERED, _ELIGIBLE, _NEAR, _VIOLATIONS)


@dataclass(frozen=True, eq=False)
class TrialFile:
    """A trial file read in full: the measurement and the file's header."""

    path: Path
    measurement: Measurement
    header: Record

    @property
    def checked(self) -> bool:
        """Whether the file has checksums, which were verified."""
        return int(self.header["format_version"]) >= CHECKED_VERSION

    @property
    def identity(self) -> str:
        """Identity of the run that it belongs to."""
        return str(self.header["run"]["identity"])

    @property
    def staged(self) -> bool:
        """Whether the stages of a path were written beside it."""
        return bool((self.header.get("path") or {}).get("stages"))

    @property
    def summary(self) -> Record:
        """Its entry in run.json."""
        return file_summary(self.path, self.measurement)


def file_summary(path: Path, measurement: Measurement) -> Record:
    """The entry of a finished trial in run.json."""
    others = measurement.others
    differing = 0 if others is None else len(others)
    return summary(measurement_record(measurement), path.name, len(measurement.calls), differing)


def write_trial(path: Path, measurement: Measurement, dataset: Dataset, run: Mapping[str, Any]) -> None:
    """Write a trial with the head of its run, atomically."""
    table = _table(measurement, dataset)
    header = {**_header(measurement, run), "columns": column_checksums(table)}
    table = table.replace_schema_metadata({_KEY: sealed(header)})
    with atomic_file(path) as scratch:
        pq.write_table(table, scratch, compression="zstd", write_page_checksum=True)


def _header(measurement: Measurement, run: Mapping[str, Any]) -> Record:
    versions = {"format_version": FORMAT_VERSION, "tool_version": __version__}
    return {**versions, **measurement_record(measurement), **_path(measurement), "run": dict(run)}


def _path(measurement: Measurement) -> Record:
    """What a trial of a path needs beside its file: without that, nobody knows what it was compared with."""
    stages = measurement.stages
    own = measurement.own_truth or (stages is not None and stages.truth is not None)
    return {"path": {"stages": stages is not None, "own_truth": own}} if own or stages is not None else {}


def _table(measurement: Measurement, dataset: Dataset) -> pa.Table:
    answers = measurement.answers
    queries, width = answers.shape
    # A query with an answer was sent, even if it is not marked as such.
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
    return pa.table(columns | _filter_columns(measurement) | _value_columns(measurement, queries))


def _filter_columns(measurement: Measurement) -> dict[str, pa.Array]:
    """What the filter of each query admits, and which was refused; only columns that were measured."""
    columns, facts = {}, measurement.filters
    if measurement.refused is not None:
        numbers = measurement.refused.numbers
        columns[_REFUSED] = pa.array(numbers, pa.int32(), mask=numbers < 0)
    if facts is not None:
        columns |= {_FILTERED: pa.array(facts.filtered), _ELIGIBLE: pa.array(facts.eligible, pa.int64())}
        if facts.near is not None:
            columns[_NEAR] = pa.array(facts.near, pa.int32())
    if measurement.violations is not None:
        columns[_VIOLATIONS] = pa.array(measurement.violations, pa.int32())
    return columns


def _value_columns(measurement: Measurement, queries: int) -> dict[str, pa.Array]:
    """Each measure per query; null if the query was not sent, NaN if it has no value."""
    columns = {}
    for name, values in measurement.score.per_query.items():
        asked = np.ones(queries, bool) if len(values) == queries else measurement.asked
        spread = np.zeros(queries)
        spread[asked] = values
        columns[f"{_VALUES}{name}"] = pa.array(spread, mask=~asked)
    if measurement.score.weights is not None:
        weights = measurement.score.weights.values
        asked = np.ones(queries, bool) if len(weights) == queries else measurement.asked
        spread = np.zeros(queries)
        spread[asked] = weights
        columns[_WEIGHT] = pa.array(spread, mask=~asked)
    return columns


def _times(measurement: Measurement) -> NDArray[np.int64]:
    """How often each query was sent."""
    if measurement.times is not None:
        return measurement.times
    return np.bincount(measurement.calls.query, minlength=len(measurement.answers))


def read_header(path: Path) -> Record | None:
    """The header of a trial file; None for a valid Parquet file that no run wrote."""
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
    """Read a trial file. Damaged files are refused; ids are read and checked only with `every_column`."""
    require_ordinary(path)
    with reading(str(path), _KIND), pq.ParquetFile(path, page_checksum_verification=True) as file:
        header = _header_of(str(path), file.schema_arrow)
        if header is None or int(header["format_version"]) < OLDEST_VERSION:
            raise FormatError(str(path), "its metadata has no trial record", "a trial file")
        require_version(str(path), "trial", int(header["format_version"]), FORMAT_VERSION)
        stated = header.get("columns")
        values = [name for name in stated or () if name.startswith(_VALUES) or name == _WEIGHT]
        beside = [name for name in _ABOUT_FILTERS if name in (stated or ())]
        table = file.read(None if every_column else ["rows", "times", *NAMES, *values, *beside])
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
        score=_score(table, header, values),
        others=read_others(table["others"]),
        warm_up=read_warm_up(header["warm_up"]),
        sentinel_ns=None if sentinel is None else np.array(sentinel, np.int64),
        highest_rate=None if rate is None else float(rate),
        times=table["times"].to_numpy().astype(np.int64),
        refused=read_refusals(_numbers(table, _REFUSED), header.get("refused")),
        filters=_facts(table, header.get("filters")),
        violations=_numbers(table, _VIOLATIONS),
        own_truth=bool((header.get("path") or {}).get("own_truth")),
    )


def _score(table: pa.Table, header: Record, names: list[str]) -> Score:
    """The score with each measure, and the weight if any, for every query that was sent."""
    per_query = {
        name.removeprefix(_VALUES): table[name].drop_null().to_numpy() for name in names if name != _WEIGHT
    }
    column = header["score"].get("weight")
    weights = None
    if column is not None and _WEIGHT in names:
        weights = Weights(str(column), _weights(table))
    return replace(read_score(header["score"]), per_query=per_query, weights=weights)


def _weights(table: pa.Table) -> NDArray[np.float64]:
    """The weight of every query that was sent."""
    values: NDArray[np.float64] = table[_WEIGHT].drop_null().to_numpy().astype(np.float64)
    if not (np.isfinite(values) & (values >= 0)).all():
        raise ValueError("a weight is negative or not finite")
    # The queries that were sent may all have weight 0 if others were not.
    if len(values) == len(table) and not values.any():
        raise ValueError("all weights are 0")
    if len(values) not in (len(table), int((table["times"].to_numpy() > 0).sum())):
        raise ValueError("its weights are not those of the queries that were sent")
    return values


def _facts(table: pa.Table, record: Record | None) -> FilterFacts | None:
    filtered, eligible = _numbers(table, _FILTERED), _numbers(table, _ELIGIBLE)
    if record is None or filtered is None or eligible is None:
        return None
    return read_facts(filtered, eligible, _numbers(table, _NEAR), record)


def _numbers(table: pa.Table, name: str) -> NDArray[np.int64] | None:
    """A column of whole numbers, with -1 for null; None if there is no such column."""
    if name not in table.column_names:
        return None
    found: NDArray[np.int64] = table[name].cast(pa.int64()).fill_null(-1).to_numpy().astype(np.int64)
    return found


def _answers(rows: pa.ListArray, k: int) -> NDArray[np.int64]:
    """One row per query; queries that were not sent have -1 throughout."""
    present = rows.is_valid().to_numpy(zero_copy_only=False)
    flat = rows.flatten().to_numpy()
    width = len(flat) // int(present.sum()) if present.any() else k
    answers = np.full((len(rows), width), -1, np.int64)
    answers[present] = flat.reshape(-1, width)
    return answers
