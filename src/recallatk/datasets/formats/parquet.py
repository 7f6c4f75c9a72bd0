"""Parquet: one file, a pattern or a folder of shards, streamed page by page."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from recallatk.capture.log_format import log_version
from recallatk.datasets.answer_tables import read_table_answers
from recallatk.datasets.batches import BatchSource, Shards, sound, start_before, starts_of
from recallatk.datasets.call_sets import require_readable_filters
from recallatk.datasets.imported import id_truth
from recallatk.datasets.layout import VECTOR, table_records, table_schema, tables
from recallatk.datasets.source import ROWS, Format, OpenOptions, Source
from recallatk.errors import FormatError, UsageError
from recallatk.files import reading

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from recallatk.core import Answers, Metric, Records, Truth
    from recallatk.files import Location

# Pages are fetched through a buffer of this size; without one, or buffering ahead, Arrow loads whole
# column chunks.
_BUFFER_BYTES = 1 << 20
# So many rows are decoded at a time; more of them took more memory and no less time.
_BATCH_ROWS = 512
# What is written: groups that a reader can hold, with checksums so that damage shows.
_ROW_GROUP_ROWS = 32_768


class ParquetShard:
    """One Parquet file."""

    def __init__(self, location: Location) -> None:
        self.location, self.text = location, location.text
        _check_magic(location)
        with reading(self.text, "Parquet file"):
            file = self._open()
            self.head = self.schema = file.schema_arrow
            self.names: list[str] = self.schema.names  # decoded only here: damaged ones are no UTF-8
            metadata = file.metadata
            sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
            self.rows: int = metadata.num_rows
        if sum(sizes) != self.rows or min(sizes, default=0) < 0:
            raise FormatError(self.text, "the row counts in its footer disagree", "a Parquet file")
        self.starts = starts_of(sizes)

    def _open(self) -> pq.ParquetFile:
        return pq.ParquetFile(
            self.location.open(),
            buffer_size=_BUFFER_BYTES,
            pre_buffer=False,
            page_checksum_verification=True,
        )

    def floor(self, row: int) -> int:
        """The first row of the row group that holds a row."""
        return self.starts[start_before(self.starts, row)] if self.starts else 0

    def batches(self, names: list[str], start: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The columns from one row group on, decoded a few thousand rows at a time."""
        with reading(self.text, "Parquet file"):
            file = self._open()
            for group in range(start_before(self.starts, start), len(self.starts)):
                row = self.starts[group]
                for batch in file.iter_batches(_BATCH_ROWS, [group], names, use_threads=False):
                    yield row, sound(batch.select(names))
                    row += batch.num_rows


def _check_magic(location: Location) -> None:
    head, tail = location.read_at(0, 4), location.read_at(max(0, location.size - 4), 4)
    if head == b"PARE":
        raise FormatError(location.text, "it is encrypted", "a Parquet file that is not")
    if head != b"PAR1" or tail != b"PAR1" or location.size < 12:
        part = "begins" if head != b"PAR1" else "ends"
        raise FormatError(
            location.text,
            f"it {part} with {(head if head != b'PAR1' else tail)!r}",
            "b'PAR1' at both ends of a Parquet file",
        )


def open_table(locations: list[Location]) -> BatchSource:
    """The shards as one table."""
    shards: list[BatchSource] = [ParquetShard(location) for location in locations]
    return shards[0] if len(shards) == 1 else Shards(shards)


class Parquet(Format):
    """Columns with a list or fixed-size-list column of numbers among them."""

    name = "parquet"
    suffixes = (".parquet", ".pq", ".parq")
    magics = (b"PAR1", b"PARE")
    shardable = True
    writable = True
    writes_columns = True

    def open(self, shards: list[Location], options: OpenOptions) -> Source:
        """Open the shards as one table of vectors."""
        source = open_table(shards)
        if log_version(source.schema) is not None:
            require_readable_filters(source)
        return Source(source.text, self.name, {ROWS: table_records(source, options)})

    def read_truth(
        self, location: Location, metric: Metric | None, corpus: Records | None = None
    ) -> Truth | None:
        """A list of ids for each query, as VectorDBBench stores neighbors."""
        if corpus is None:
            raise UsageError(
                f"{location.text}: the neighbors are ids. Pass their corpus: load_truth(path, corpus=…), "
                "--corpus FILE"
            )
        return replace(id_truth(ParquetShard(location), corpus), metric=metric)

    def read_answers(self, location: Location) -> Answers | None:
        """A list of ids for each query, or one answer a row."""
        return read_table_answers(ParquetShard(location))

    def write(self, records: Records, path: Path) -> None:
        """Write id, vector and metadata, a row group at a time."""
        schema = table_schema(records)
        # Vectors repeat no value, and every pass over them would have to decompress them again.
        vector = f"{VECTOR}.list.element"
        others = [name for name in schema.names if name != VECTOR]
        with pq.ParquetWriter(
            path,
            schema,
            compression={vector: "none"} | dict.fromkeys(others, "zstd"),
            use_dictionary=others,
            write_page_checksum=True,
        ) as writer:
            for table in tables(records, _ROW_GROUP_ROWS):
                writer.write_table(table)
