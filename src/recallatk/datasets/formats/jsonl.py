"""JSON Lines: one object a line with a vector, an id and whatever else."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.json as pj

from recallatk.datasets.batches import start_before
from recallatk.datasets.layout import VECTOR_NAMES, table_records
from recallatk.datasets.problems import reading
from recallatk.datasets.source import ROWS, Format, OpenOptions, Source
from recallatk.datasets.tables import ID, VECTOR, tables
from recallatk.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from recallatk.core import Records
    from recallatk.files import Location

_BLOCK_BYTES = 4 << 20
_LONGEST_LINE = 64 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Decimal numbers have no type of their own; vectors are float32, as every engine stores them.
VECTOR_TYPE = pa.list_(pa.float32())


@dataclass(frozen=True)
class _Survey:
    schema: pa.Schema
    starts: list[int]
    offsets: list[int]
    rows: int


class JsonLines:
    """One JSON Lines file, parsed in blocks of whole lines; the first full look finds the types."""

    def __init__(self, location: Location, vector: str | None = None) -> None:
        self.location, self.text = location, location.text
        first = next(self._blocks(0), None)
        if first is None:
            raise FormatError(self.text, "it has no lines", "one JSON object a line")
        names = _first_keys(first[1], self.text)
        self.vectors = [n for n in names if n == vector or n in VECTOR_NAMES]
        self.head: pa.Schema = self._parse(first[1], 0).schema

    def _blocks(self, offset: int) -> Iterator[tuple[int, bytes]]:
        """Blocks of whole lines from an offset on, each with its own offset."""
        with reading(self.text, "JSON Lines file"), self.location.open() as file:
            file.seek(offset)
            rest = b""
            while piece := bytes(file.read(_BLOCK_BYTES)):
                if offset == 0 and not rest:
                    piece = piece.replace(_BYTE_ORDER_MARK, b"   ", 1) if _marked(piece) else piece
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

    def _parse(self, block: bytes, first_row: int, schema: pa.Schema | None = None) -> pa.Table:
        wanted = schema or pa.schema([(name, VECTOR_TYPE) for name in self.vectors])
        options = pj.ParseOptions(
            explicit_schema=wanted,
            unexpected_field_behavior="infer" if schema is None else "ignore",
        )
        read_options = pj.ReadOptions(use_threads=False, block_size=max(1024, 2 * len(block)))
        try:
            return pj.read_json(pa.BufferReader(block), read_options, options)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as problem:
            _locate(block, first_row, self.text, problem)
            raise FormatError(
                self.text,
                f"lines from row {first_row} on: {problem}",
                "one JSON object a line, each key of one type",
            ) from problem

    @cached_property
    def _survey(self) -> _Survey:
        schema, starts, offsets, rows = self.head, [], [], 0
        for offset, block in self._blocks(0):
            table = self._parse(block, rows)
            schema = _unified(schema, table.schema, self.text, rows)
            starts.append(rows)
            offsets.append(offset)
            rows += table.num_rows
        fields = [f.with_type(pa.string()) if pa.types.is_null(f.type) else f for f in schema]
        return _Survey(pa.schema(fields), starts, offsets, rows)

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
            table = self._parse(block_bytes, row, wanted).select(names)
            for batch in table.combine_chunks().to_batches():
                yield row, batch
                row += batch.num_rows


def _marked(piece: bytes) -> bool:
    return piece.startswith(_BYTE_ORDER_MARK)


def _first_keys(block: bytes, where: str) -> list[str]:
    line = next(line for line in block.splitlines() if line.strip())
    try:
        parsed = json.loads(line)
    except (ValueError, RecursionError) as problem:
        raise FormatError(where, f"no JSON: {problem}", "one JSON object a line", row=0) from problem
    if not isinstance(parsed, dict):
        raise FormatError(where, f"a JSON {type(parsed).__name__}", "an object", row=0)
    return list(parsed)


def _locate(block: bytes, first_row: int, where: str, problem: Exception) -> None:
    """Find the line that Arrow could not take, to name it."""
    kinds: dict[str, set[type]] = {}
    lines = [line for line in block.splitlines() if line.strip()]
    for row, line in enumerate(lines, first_row):
        try:
            parsed = json.loads(line)
        except (ValueError, RecursionError) as bad:
            raise FormatError(where, f"no JSON: {bad}", "one JSON object a line", row=row) from bad
        if not isinstance(parsed, dict):
            found = f"a JSON {type(parsed).__name__}"
            raise FormatError(where, found, "an object", row=row) from problem
        for key, value in parsed.items():
            kind = float if isinstance(value, int) and not isinstance(value, bool) else type(value)
            seen = kinds.setdefault(key, set())
            seen |= {kind} - {type(None)}
            if len(seen) > 1 or _not_numbers(key, value):
                raise FormatError(
                    where, f"the key {key!r} holds {value!r:.60}", "one type a key", row=row
                ) from problem


def _not_numbers(key: str, value: Any) -> bool:
    if key not in VECTOR_NAMES or not isinstance(value, list):
        return False
    return not all(isinstance(each, int | float) for each in value)


def _unified(schema: pa.Schema, other: pa.Schema, where: str, row: int) -> pa.Schema:
    try:
        return pa.unify_schemas([schema, other], promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as problem:
        raise FormatError(
            where, f"from row {row} on a key changes its type: {problem}", "one type a key"
        ) from problem


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

    def write(self, records: Records, path: Path) -> None:
        """Write one object a row; numbers keep every digit that they need."""
        with path.open("w", encoding="utf-8") as file:
            for table in tables(records, 1024):
                for row in table.to_pylist():
                    line = {ID: row.pop(ID), VECTOR: row.pop(VECTOR), **row}
                    file.write(json.dumps(line, ensure_ascii=False, default=str) + "\n")
