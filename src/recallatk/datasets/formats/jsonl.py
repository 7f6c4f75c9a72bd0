"""JSON Lines: one object a line with a vector, an id and whatever else."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.json as pj

from recallatk.datasets.answer_tables import read_table_answers
from recallatk.datasets.batches import is_number_list, start_before
from recallatk.datasets.layout import ID, VECTOR, VECTOR_NAMES, table_records, tables
from recallatk.datasets.source import ROWS, Format, OpenOptions, Source
from recallatk.errors import FormatError
from recallatk.files import reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from recallatk.core import Answers, Records
    from recallatk.files import Location

_BLOCK_BYTES = 4 << 20
_LONGEST_LINE = 64 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Arrow follows brackets by recursion: some thousand levels would end the process.
_DEEPEST = 100
_JSON_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"')
# Decimal numbers have no type of their own; vectors are float32, as every engine stores them.
VECTOR_TYPE = pa.list_(pa.float32())


@dataclass(frozen=True)
class _LineSurvey:
    schema: pa.Schema
    starts: list[int]
    offsets: list[int]
    rows: int


class JsonLines:
    """One JSON Lines file, parsed in blocks of whole lines; the first full look finds the types."""

    def __init__(self, location: Location, vector: str | None = None, *, holds_vectors: bool = True) -> None:
        self.location, self.text = location, location.text
        first = next(self._blocks(0), None)
        if first is None:
            raise FormatError(self.text, "it has no lines", "one JSON object per line")
        found = self._inferred(first[1], 0, pa.schema([])).schema
        lists = [field.name for field in found if is_number_list(field.type)]
        usual = [name for name in (vector, *VECTOR_NAMES) if name in lists]
        self.vector = next(iter(usual or lists), None) if holds_vectors else None
        self.head: pa.Schema = _settled(found, self.vector)

    def _blocks(self, offset: int) -> Iterator[tuple[int, bytes]]:
        """Blocks of whole lines from an offset on, each with its own offset."""
        with reading(self.text, "JSON Lines file"), self.location.open() as file:
            file.seek(offset)
            rest = b""
            while piece := bytes(file.read(_BLOCK_BYTES)):
                if offset == 0 and not rest and piece.startswith(_BYTE_ORDER_MARK):
                    piece = piece.replace(_BYTE_ORDER_MARK, b"   ", 1)
                whole, newline, tail = (rest + piece).rpartition(b"\n")
                if newline and whole.strip():
                    yield offset, whole + newline
                offset += len(whole) + len(newline)
                rest = tail
                if len(rest) > _LONGEST_LINE:
                    raise FormatError(
                        self.text, f"a line of more than {_LONGEST_LINE} bytes", "shorter lines"
                    )
            if rest.strip():
                yield offset, rest

    def _inferred(self, block: bytes, first_row: int, before: pa.Schema) -> pa.Table:
        """The rows of a block, with types that Arrow finds and that go with those before."""
        _check_lines(block, first_row, self.text)
        return _located(partial(_read_joined, before=before), block, first_row, self.text)

    @cached_property
    def _survey(self) -> _LineSurvey:
        schema, starts, offsets, rows = pa.schema([]), [], [], 0
        for offset, block in self._blocks(0):
            table = self._inferred(block, rows, schema)
            schema = _joined(schema, table.schema)
            starts.append(rows)
            offsets.append(offset)
            rows += table.num_rows
        return _LineSurvey(_settled(schema, self.vector), starts, offsets, rows)

    @property
    def rows(self) -> int:
        """How many lines hold an object."""
        return self._survey.rows

    @property
    def schema(self) -> pa.Schema:
        """Names and types of all keys."""
        return self._survey.schema

    def floor(self, row: int) -> int:
        """The first row of the block that holds a row."""
        return self._survey.starts[start_before(self._survey.starts, row)]

    def batches(self, names: list[str], start: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Parsed blocks from `start` on."""
        if start == 0 and "_survey" not in self.__dict__:
            row, offset, source = 0, 0, self.head
        else:
            block = start_before(self._survey.starts, start)
            row, offset = self._survey.starts[block], self._survey.offsets[block]
            source = self.schema
        wanted = pa.schema([source.field(name) for name in names])
        for _, block_bytes in self._blocks(offset):
            table = _located(partial(_read_json, schema=wanted), block_bytes, row, self.text)
            for batch in table.select(names).combine_chunks().to_batches():
                yield row, batch
                row += batch.num_rows


def _read_json(block: bytes, schema: pa.Schema | None = None) -> pa.Table:
    options = pj.ParseOptions(
        explicit_schema=schema, unexpected_field_behavior="infer" if schema is None else "ignore"
    )
    read_options = pj.ReadOptions(use_threads=False, block_size=max(1024, 2 * len(block)))
    return pj.read_json(pa.BufferReader(block), read_options, options)


def _read_joined(block: bytes, before: pa.Schema) -> pa.Table:
    table = _read_json(block)
    _joined(before, table.schema)
    return table


def _located(read: Callable[[bytes], pa.Table], block: bytes, first_row: int, where: str) -> pa.Table:
    """What `read` makes of a block; of a block that it refuses, the line with which that begins."""
    try:
        return read(block)
    except pa.ArrowException as problem:
        lines = _lines(block)
        row = first_row + bisect_left(range(len(lines) - 1), True, key=partial(_refused, read, lines))
        # The row that Arrow names is counted from the beginning of the block.
        said = re.sub(r" in row \d+\Z", "", str(problem).removeprefix("JSON parse error: "))
        accepted = "one JSON object per line, each key of one type"
        raise FormatError(where, said.rstrip("."), accepted, row=row) from problem


def _refused(read: Callable[[bytes], pa.Table], lines: list[bytes], last: int) -> bool:
    try:
        read(b"\n".join(lines[: last + 1]))
    except pa.ArrowException:
        return True
    return False


def _lines(block: bytes) -> list[bytes]:
    return [stripped for line in block.split(b"\n") if (stripped := line.strip())]


def _check_lines(block: bytes, first_row: int, where: str) -> None:
    """Refuse what Arrow would take and stumble over later."""
    for row, line in enumerate(_lines(block), first_row):
        if not (line.startswith(b"{") and line.endswith(b"}")):
            shown = line[:60].decode("utf-8", "replace")
            raise FormatError(where, f"{shown!r} is not an object", "one JSON object per line", row=row)
        if not line.isascii():
            try:
                line.decode()
            except UnicodeDecodeError as problem:
                raise FormatError(where, f"invalid UTF-8: {problem}", "UTF-8", row=row) from problem
        if line.count(b"{") + line.count(b"[") > _DEEPEST and _depth(line) > _DEEPEST:
            raise FormatError(where, f"brackets nested more than {_DEEPEST} levels", "flat objects", row=row)


def _depth(line: bytes) -> int:
    """How deep brackets nest; those within a text nest nothing."""
    brackets = re.findall(rb"[\[\]{}]", _JSON_TEXT.sub(b"", line))
    return max(accumulate(1 if sign in b"[{" else -1 for sign in brackets))


def _settled(schema: pa.Schema, vector: str | None) -> pa.Schema:
    """The types once all is seen: the vector is float32, and what was null everywhere is text."""
    fields = [
        field.with_type(VECTOR_TYPE if field.name == vector else _retyped(field.type, _is_untyped))
        for field in schema
    ]
    # Objects without keys hold nothing, and Parquet has no place for them.
    return pa.schema([field for field in fields if field.type != pa.struct([])])


def _dateless(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_type(_retyped(field.type, pa.types.is_timestamp)) for field in schema])


def _is_untyped(kind: pa.DataType) -> bool:
    return bool(pa.types.is_null(kind) or pa.types.is_timestamp(kind))


def _retyped(kind: pa.DataType, is_text: Callable[[pa.DataType], bool]) -> pa.DataType:
    """The type with text in place of some; Arrow takes texts for dates when they look like some."""
    if is_text(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(_retyped(kind.value_type, is_text))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_retyped(field.type, is_text)) for field in kind])
    return kind


def _joined(schema: pa.Schema, other: pa.Schema) -> pa.Schema:
    return pa.unify_schemas([schema, _dateless(other)], promote_options="permissive")


class Jsonl(Format):
    """A line such as {"id": "a", "vector": [0.1, 0.2], "category": "x"}."""

    name = "jsonl"
    suffixes = (".jsonl", ".ndjson", ".json")
    writable = True
    writes_columns = True

    def open(self, shards: list[Location], options: OpenOptions) -> Source:
        """Open the lines of the file."""
        (location,) = shards
        source = JsonLines(location, options.vector_column)
        return Source(source.text, self.name, {ROWS: table_records(source, options)})

    def read_answers(self, location: Location) -> Answers | None:
        """A line such as {"query_id": "q", "neighbors": ["a", "b"]}, or one answer a line."""
        return read_table_answers(JsonLines(location, holds_vectors=False))

    def write(self, records: Records, path: Path) -> None:
        """Write one object a row; numbers keep every digit that they need."""
        with path.open("w", encoding="utf-8") as file:
            for table in tables(records, 1024):
                for row in table.to_pylist():
                    line = {ID: row.pop(ID), VECTOR: row.pop(VECTOR), **row}
                    file.write(json.dumps(line, ensure_ascii=False, default=str) + "\n")
