"""CSV and TSV: an id, a vector as text or as numbered columns, and other columns."""

from __future__ import annotations

import csv
import io
import json
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from recallatk.datasets.formats.jsonl import VECTOR_TYPE
from recallatk.datasets.layout import ID_NAMES, VECTOR_NAMES, table_records
from recallatk.datasets.problems import reading
from recallatk.datasets.source import ROWS, Format, OpenOptions, Source
from recallatk.datasets.tables import ID, VECTOR, tables
from recallatk.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from recallatk.core import Records
    from recallatk.files import Location

_HEAD_BYTES = 1 << 20
_DELIMITERS = ",\t;|"
_NUMBERED = re.compile(r"(?P<prefix>.*?)(?P<number>\d+)\Z")
_TYPES = (pa.int64(), pa.float64(), pa.bool_())


class CsvTable:
    """One CSV file: streamed as text, given types once the whole of it has been seen."""

    def __init__(self, location: Location, vector: str | None = None) -> None:
        self.location, self.text = location, location.text
        with reading(self.text, "CSV file"):
            first, self.delimiter = _first_row(location)
        self.has_header = not all(map(_is_number, first))
        self.names = first if self.has_header else [f"f{i}" for i in range(len(first))]
        if len(set(self.names)) != len(self.names):
            raise FormatError(self.text, "two columns have one name", "a name for each column")
        usual = [name for name in (vector, *VECTOR_NAMES) if name in self.names]
        self.wide = [] if usual else _numbered(self.names)
        self.vector = str(usual[0]) if usual else VECTOR
        if not usual and not self.wide:
            raise FormatError(
                self.text,
                f"no column holds vectors (columns: {', '.join(self.names)[:200]})",
                "a column 'vector' such as [0.1, 0.2], or columns numbered v0, v1, v2 and so on",
            )
        self.others = [n for n in self.names if n != self.vector and n not in self.wide]
        head = [(name, pa.string()) for name in self.others]
        self.head = pa.schema([*head, (self.vector, VECTOR_TYPE)])

    def _stream(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        """The named columns as text; an empty cell is null."""
        bad: list[Any] = []

        def refuse(row: Any) -> str:
            bad.append(row)
            return "error"

        with reading(self.text, "CSV file"), self.location.open() as file:
            try:
                yield from pa_csv.open_csv(
                    file,
                    pa_csv.ReadOptions(
                        use_threads=False,
                        column_names=self.names,
                        skip_rows=0,
                        skip_rows_after_names=int(self.has_header),
                    ),
                    pa_csv.ParseOptions(
                        delimiter=self.delimiter,
                        newlines_in_values=True,
                        invalid_row_handler=refuse,
                    ),
                    pa_csv.ConvertOptions(
                        column_types=dict.fromkeys(self.names, pa.string()),
                        include_columns=names,
                        null_values=[""],
                        strings_can_be_null=True,
                        quoted_strings_can_be_null=False,
                    ),
                )
            except pa.ArrowInvalid as problem:
                if not bad:
                    raise
                row = None if bad[0].number is None else bad[0].number - 1 - self.has_header
                raise FormatError(
                    self.text,
                    f"{bad[0].actual_columns} cells",
                    f"{bad[0].expected_columns} cells in every row",
                    row=row,
                ) from problem

    @cached_property
    def rows(self) -> int:
        """How many rows there are below the header."""
        return sum(batch.num_rows for batch in self._stream(self.names[:1]))

    @cached_property
    def schema(self) -> pa.Schema:
        """The narrowest type that every cell of a column fits, then the vector."""
        possible = {name: list(_TYPES) for name in self.others}
        for batch in self._stream(self.others) if self.others else ():
            for name, types in possible.items():
                types[:] = [kind for kind in types if _fits(batch[name], kind, name)]
        fields = [(name, types[0] if types else pa.string()) for name, types in possible.items()]
        return pa.schema([*fields, (self.vector, VECTOR_TYPE)])

    def floor(self, row: int) -> int:
        """Quoted line breaks make rows impossible to find: a stream begins at the top."""
        return 0

    def batches(self, names: list[str], start: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """All rows, with their types."""
        schema = self.head if names == [self.vector] else self.schema
        read = [n for n in names if n != self.vector]
        if self.vector in names:
            read += self.wide or [self.vector]
        row = 0
        for batch in self._stream(read):
            arrays = [
                self._vectors(batch, row)
                if name == self.vector
                else batch[name].cast(schema.field(name).type)
                for name in names
            ]
            yield row, pa.RecordBatch.from_arrays(arrays, names)
            row += batch.num_rows

    def _vectors(self, batch: pa.RecordBatch, first_row: int) -> pa.Array:
        if self.wide:
            texts = [batch[name] for name in self.wide]
            return _wide_vectors(texts, self.text, first_row)
        return _text_vectors(batch[self.vector], self.text, first_row)


def _first_row(location: Location) -> tuple[list[str], str]:
    """The cells of the first row and what separates them."""
    text = location.read_at(0, _HEAD_BYTES).decode("utf-8-sig", "replace")
    line = text.splitlines()[0] if text.strip() else ""
    if not line.strip():
        raise FormatError(location.text, "it begins with an empty line", "a header or numbers")
    if location.suffix == ".tsv":
        delimiter = "\t"
    else:
        unquoted = re.sub(r'"[^"]*"', "", line)
        delimiter = max(_DELIMITERS, key=unquoted.count)
    return next(csv.reader(io.StringIO(line), delimiter=delimiter)), delimiter


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _numbered(names: list[str]) -> list[str]:
    """Columns such as v0, v1, v2 (from 0 or 1, at least two), in the order of their numbers."""
    groups: dict[str, dict[int, str]] = {}
    for name in names:
        if match := _NUMBERED.match(name):
            groups.setdefault(match["prefix"], {})[int(match["number"])] = name
    largest = max(groups.values(), key=len, default={})
    first = min(largest, default=0)
    whole = sorted(largest) == list(range(first, first + len(largest)))
    return [largest[i] for i in sorted(largest)] if whole and first < 2 <= len(largest) else []


def _fits(column: pa.Array, kind: pa.DataType, name: str) -> bool:
    """Whether a column of text is really of a type: ids must come back as they were written."""
    try:
        cast = column.cast(kind)
    except pa.ArrowInvalid:
        return False
    if pa.types.is_boolean(kind):
        return bool(pc.all(pc.is_in(column, value_set=pa.array(["true", "false"]))).as_py())
    if name in ID_NAMES or pa.types.is_integer(kind):
        return bool(pc.all(pc.equal(cast.cast(pa.string()), column)).as_py() in (True, None))
    return True


def _wide_vectors(texts: list[pa.Array], where: str, first_row: int) -> pa.Array:
    flat = pa.concat_arrays(texts)
    rows, dimension = len(texts[0]), len(texts)
    numbers = _numbers(flat)
    if numbers is None:
        _name_bad_cell([[text[i].as_py() for text in texts] for i in range(rows)], where, first_row)
    turned = numbers.to_numpy(zero_copy_only=False).reshape(dimension, rows).T.reshape(-1)
    return pa.FixedSizeListArray.from_arrays(pa.array(turned), dimension).cast(VECTOR_TYPE)


def _text_vectors(column: pa.Array, where: str, first_row: int) -> pa.Array:
    """Text such as [0.1, 0.2] or 0.1 0.2 as lists of numbers."""
    inner = pc.utf8_trim(column, characters="[](){} \t\r\n")
    lists = pc.split_pattern_regex(inner, r"[\s,;]+")
    numbers = _numbers(lists.flatten())
    if numbers is None:
        _name_bad_cell([re.split(r"[\s,;]+", text or "") for text in inner.to_pylist()], where, first_row)
    return pa.ListArray.from_arrays(lists.offsets, numbers, mask=column.is_null())


def _numbers(texts: pa.Array) -> Any:
    try:
        return texts.cast(pa.float64()).cast(pa.float32(), safe=False)
    except pa.ArrowInvalid:
        return None


def _name_bad_cell(rows: list[list[Any]], where: str, first_row: int) -> None:
    for row, cells in enumerate(rows, first_row):
        for cell in cells:
            if cell is not None and not _is_number(cell):
                raise FormatError(where, f"{cell!r:.60} in the vector", "numbers", row=row)
    raise FormatError(where, f"a vector from row {first_row} on is no list of numbers", "numbers")


class Csv(Format):
    """A header row, then rows; the delimiter is found by looking."""

    name = "csv"
    suffixes = (".csv", ".tsv")
    writable = True
    writes_columns = True

    def open(self, shards: list[Location], options: OpenOptions) -> Source:
        """Open the rows of the file."""
        (location,) = shards
        source = CsvTable(location, options.vector_column)
        return Source(source.text, self.name, {ROWS: table_records(source, options)})

    def write(self, records: Records, path: Path) -> None:
        """Write a header and one line a row, the vector as a list in brackets."""
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
            writer.writerow([ID, VECTOR, *records.metadata_names])
            for table in tables(records, 1024):
                for row in table.to_pylist():
                    writer.writerow([_cell(value) for value in row.values()])


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, list) else value
