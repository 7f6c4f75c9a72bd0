"""Query logs: a folder of Parquet files with production calls, as `recallatk.tap` writes them."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from recallatk.capture.log_format import (
    ERROR,
    NEIGHBORS,
    VECTOR,
    VERSION,
    holds_failed,
    is_log_file,
    log_schema,
    log_version,
)
from recallatk.datasets.answer_tables import read_table_answers
from recallatk.datasets.batches import BatchSource, Shards, element_dtype
from recallatk.datasets.call_sets import (
    ChosenRows,
    require_one_set,
    require_readable_filters,
    selected_rows,
    sets_of,
    split_calls,
)
from recallatk.datasets.formats.parquet import ParquetShard
from recallatk.datasets.layout import table_records
from recallatk.datasets.source import QUERIES, Format, OpenOptions, Source
from recallatk.errors import FormatError, MismatchError, UsageError
from recallatk.files import locate, require_version
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core import Answers
    from recallatk.datasets.call_sets import ParameterSet
    from recallatk.files import Location, PathLike

_LOGGER = logging.getLogger("recallatk.datasets")
_ACCEPTED = "a folder with the files of recallatk.tap and nothing else"


class CallShard(ParquetShard):
    """One file of a query log, with the columns and types that all files are read with."""

    def read_as(self, schema: pa.Schema) -> None:
        """Cast what is read to these types; vectors and ids of another file may be wider."""
        self.head = self.schema = schema
        self.names = schema.names

    def batches(self, names: list[str], start: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The columns from one row group on, cast."""
        fields = [self.schema.field(name) for name in names]
        for row, batch in super().batches(names, start):
            arrays = [column.cast(field.type) for column, field in zip(batch.columns, fields, strict=True)]
            yield row, pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


@dataclass(frozen=True)
class CallFiles:
    """The readable files of a folder, and what was left out."""

    shards: list[CallShard]
    damaged: list[str]
    failed_calls: int

    @classmethod
    def of(cls, folder: Location) -> CallFiles:
        """Open every file; damaged ones are named and skipped, other people's refused."""
        shards, damaged, failed = [], [], 0
        for child in folder.children():
            if child.is_folder or not is_log_file(child.name):
                raise FormatError(child.text, "not a file of a query log", _ACCEPTED)
            try:
                shard = CallShard(child)
            except FormatError as problem:
                damaged.append(f"{child.name} ({problem.found})")
                continue
            _require_layout(shard)
            if holds_failed(child.name):
                failed += shard.rows
            elif shard.rows:
                shards.append(shard)
        if damaged:
            files = counted(len(damaged), "damaged file is", "damaged files are")
            _LOGGER.warning("%s: %s skipped: %s", folder.text, files, "; ".join(damaged[:5]))
        if not shards:
            raise FormatError(folder.text, "no call that returned was read", _ACCEPTED)
        return cls(shards, damaged, failed)

    def table(self, folder: str, left_out: tuple[str, ...]) -> BatchSource:
        """All files as one table."""
        schema = _common_schema(self.shards, folder)
        kept = pa.schema([field for field in schema if field.name not in left_out])
        for shard in self.shards:
            shard.read_as(kept)
        together = Shards(list(self.shards))
        together.text = folder
        return together


class QueryLog(Format):
    """Vectors and filters of production calls as queries."""

    name = "query-log"

    def recognizes_folder(self, children: list[Location]) -> bool:
        """A folder with files of `recallatk.tap`."""
        return is_query_log(children)

    def open(self, shards: list[Location], options: OpenOptions) -> Source:
        """Open the calls that returned, or the selected ones, as queries."""
        (folder,) = shards
        files = CallFiles.of(folder)
        source = _selected(files.table(folder.text, (NEIGHBORS, ERROR)), options.calls)
        require_readable_filters(source)
        details = {
            "failed calls": f"{files.failed_calls:,}",
            "damaged files": f"{len(files.damaged):,}",
        }
        return Source(source.text, self.name, {QUERIES: table_records(source, options)}, details=details)


def is_query_log(children: list[Location]) -> bool:
    """Whether a folder with these children is a query log."""
    return any(is_log_file(child.name) for child in children)


def log_answers(folder: Location, calls: str = "") -> Answers:
    """What the calls returned; refused if they were made with different settings."""
    source = _selected(CallFiles.of(folder).table(folder.text, (VECTOR, ERROR)), calls)
    require_one_set(sets_of(source), folder.text)
    return read_table_answers(source)


def parameter_sets(path: PathLike) -> list[ParameterSet]:
    """The combinations of k and parameters in a query log, the most frequent first.

    Args:
        path: the folder of a query log, perhaps with a selection: `log/?ef=64`.
    """
    where, calls = split_calls(path)
    folder = locate(where)
    if not folder.is_folder or not is_query_log(folder.children()):
        raise UsageError(f"{folder.text}: not a query log. Accepted: {_ACCEPTED}")
    return sets_of(_selected(CallFiles.of(folder).table(folder.text, (VECTOR, NEIGHBORS, ERROR)), calls))


def _selected(source: BatchSource, calls: str) -> BatchSource:
    return ChosenRows(source, selected_rows(source, calls)) if calls else source


def _require_layout(shard: CallShard) -> None:
    """Refuse a Parquet file that `tap` did not write, whatever its name."""
    version = log_version(shard.schema)
    if version is None:
        raise FormatError(shard.text, "not a file of a query log", _ACCEPTED)
    require_version(shard.text, "query log", version, VERSION)
    there: dict[str, Any] = {field.name: field.type for field in shard.schema}
    vector, neighbors = there.get(VECTOR, pa.null()), there.get(NEIGHBORS, pa.null())
    expected = None
    if pa.types.is_fixed_size_list(vector) and pa.types.is_list(neighbors):
        expected = log_schema(vector.value_type, vector.list_size, neighbors.value_type)
    if expected is None or not shard.schema.equals(expected):
        raise FormatError(shard.text, "its columns differ from a query log's", _ACCEPTED)


def _common_schema(shards: list[CallShard], folder: str) -> pa.Schema:
    """Types that hold the values of every file."""
    vectors = [shard.schema.field(VECTOR).type for shard in shards]
    widths = {kind.list_size: 0 for kind in vectors}
    for shard, kind in zip(shards, vectors, strict=True):
        widths[kind.list_size] += shard.rows
    if len(widths) > 1:
        listed = " and ".join(
            f"{width:,} ({counted(rows, 'call', 'calls')})" for width, rows in widths.items()
        )
        raise MismatchError(
            f"{folder}: dimension mismatch: the calls have vectors of dimension {listed}. Give every search "
            "function a folder of its own: tap(…, to=…)"
        )
    element = np.result_type(*[element_dtype(kind) for kind in vectors])
    kinds = {shard.schema.field(NEIGHBORS).type.value_type for shard in shards}
    identifier = pa.int64() if kinds == {pa.int64()} else pa.string()
    return log_schema(pa.from_numpy_dtype(element), next(iter(widths)), identifier)
