"""Arrow IPC: Feather and Arrow files and streams, with or without compression."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import ipc

from recallatk.core import BLOCK_BYTES
from recallatk.datasets.answer_tables import read_table_answers
from recallatk.datasets.batches import BatchSource, Shards, sound, start_before, starts_of
from recallatk.datasets.layout import table_records, table_schema, tables
from recallatk.datasets.source import ROWS, Format, OpenOptions, Source
from recallatk.errors import FormatError
from recallatk.files import reading

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from recallatk.core import Answers, Records
    from recallatk.files import Location

_FILE_MAGIC, _STREAM_MAGIC, _FEATHER1_MAGIC = b"ARROW1", b"\xff\xff\xff\xff", b"FEA1"
_BATCH_ROWS = 16_384


class ArrowShard:
    """One Arrow IPC file or stream."""

    def __init__(self, location: Location) -> None:
        self.location, self.text = location, location.text
        self.is_file = location.read_at(0, 6) == _FILE_MAGIC
        _check_magic(location, self.is_file)
        with reading(self.text, "Arrow file"):
            self.head = self.schema = self._reader([]).schema
            self.names: list[str] = self.schema.names  # decoded only here: damaged ones are no UTF-8
            sizes = [batch.num_rows for batch in self._counted()]
        if min(sizes, default=0) < 0:
            raise FormatError(self.text, "a batch has a negative number of rows", "an Arrow file")
        self.starts = starts_of(sizes)
        self.rows: int = sum(sizes)

    def _reader(self, fields: list[int]) -> Any:
        file = pa.memory_map(self.location.path) if self.location.local else self.location.open()
        options = ipc.IpcReadOptions(included_fields=fields)
        return (ipc.open_file if self.is_file else ipc.open_stream)(file, options=options)

    def _counted(self) -> Iterator[pa.RecordBatch]:
        """Every batch with its narrowest column only: its row count without its vectors."""
        if not len(self.schema):
            raise FormatError(self.text, "it has no columns", "a column of vectors")
        widths = [_width(field.type) for field in self.schema]
        return self._all([widths.index(min(widths))])

    def _all(self, fields: list[int]) -> Iterator[pa.RecordBatch]:
        reader = self._reader(fields)
        if not self.is_file:
            yield from reader
        else:
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)

    def floor(self, row: int) -> int:
        """The first row of the batch that holds a row; a stream begins at its beginning."""
        if not self.starts or not self.is_file:
            return 0
        return self.starts[start_before(self.starts, row)]

    def batches(self, names: list[str], start: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The columns from one batch on."""
        fields = sorted(self.schema.get_field_index(name) for name in names)
        with reading(self.text, "Arrow file"):
            if not self.is_file:
                for first, batch in zip(self.starts, self._all(fields), strict=True):
                    yield first, sound(batch.select(names))
                return
            for number in range(start_before(self.starts, start), len(self.starts)):
                yield from self._slices(number, fields, names)

    def _slices(
        self, number: int, fields: list[int], names: list[str]
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """One batch in pieces of about a block, so that a giant batch never becomes resident."""
        # Arrow copies what it is asked for by field; of a mapped batch, all fields together cost nothing.
        wanted = [] if self._mapped else fields
        batch = _checked(self._reader(wanted).get_batch(number)).select(names)
        rows, first = batch.num_rows, self.starts[number]
        step = max(1, rows * BLOCK_BYTES // max(1, batch.nbytes))
        for offset in range(0, rows, step):
            yield first + offset, sound(batch.slice(offset, step))
            if self._mapped and offset + step < rows:
                # Pages that were touched stay resident until their map goes: take a new one.
                batch = self._reader(wanted).get_batch(number).select(names)

    @cached_property
    def _mapped(self) -> bool:
        """Whether batches are used where they lie: in a local file without compression."""
        if not self.location.local:
            return False
        ends = [*self.starts[1:], self.rows]
        sizes = [end - start for start, end in zip(self.starts, ends, strict=True)]
        before = pa.total_allocated_bytes()
        largest = _checked(self._reader([]).get_batch(sizes.index(max(sizes))))
        return bool(pa.total_allocated_bytes() - before < largest.nbytes // 2)


def _checked(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, whose size can be asked for once its offsets are known to stay within its buffers."""
    batch.validate()
    return batch


def _width(kind: pa.DataType) -> int:
    try:
        return int(kind.bit_width)
    except ValueError:
        return 1 << 20  # a column of variable width


def _check_magic(location: Location, is_file: bool) -> None:
    head = location.read_at(0, 6)
    if head[:4] == _FEATHER1_MAGIC:
        raise FormatError(location.text, "it is Feather version 1", "Feather version 2 or Arrow")
    if not is_file and head[:4] != _STREAM_MAGIC:
        raise FormatError(location.text, f"it begins with {head!r}", "b'ARROW1' (file) or an Arrow stream")
    if is_file and location.read_at(max(0, location.size - 6), 6) != _FILE_MAGIC:
        raise FormatError(location.text, "its end is missing", "b'ARROW1' at both ends")


class Arrow(Format):
    """Feather version 2, Arrow IPC files and Arrow IPC streams."""

    name = "arrow"
    suffixes = (".arrow", ".feather", ".ipc", ".arrows")
    magics = (_FILE_MAGIC, _FEATHER1_MAGIC)
    shardable = True
    writable = True
    writes_columns = True

    def open(self, shards: list[Location], options: OpenOptions) -> Source:
        """Open the shards as one table of vectors."""
        sources: list[BatchSource] = [ArrowShard(location) for location in shards]
        source = sources[0] if len(sources) == 1 else Shards(sources)
        return Source(source.text, self.name, {ROWS: table_records(source, options)})

    def read_answers(self, location: Location) -> Answers | None:
        """A list of ids for each query, or one answer a row."""
        return read_table_answers(ArrowShard(location))

    def write(self, records: Records, path: Path) -> None:
        """Write id, vector and metadata as an uncompressed Arrow file that can be mapped."""
        with ipc.new_file(path, table_schema(records)) as writer:
            for table in tables(records, _BATCH_ROWS):
                writer.write_table(table)
