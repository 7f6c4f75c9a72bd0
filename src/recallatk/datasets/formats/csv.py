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

from recallatk.datasets.answer_cells import cell_answers
from recallatk.datasets.answer_tables import find_roles
from recallatk.datasets.formats.jsonl import VECTOR_TYPE
from recallatk.datasets.layout import (
    ID,
    ID_NAMES,
    VECTOR,
    VECTOR_NAMES,
    numbered_columns,
    table_records,
    tables,
)
from recallatk.datasets.source import ROWS, Format, OpenOptions, Source
from recallatk.errors import FormatError
from recallatk.files import reading

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from recallatk.core import Answers, Records
    from recallatk.files import Location

_HEAD_BYTES = 1 << 20
# A row has to fit.
_BLOCK_BYTES = 8 << 20
_DELIMITERS = ",\t;|"
# Digits behind a plus or a zero, or more than a float64 holds: a code and not a number.
_CODE = r"^([+]|-?0[0-9]|-?[0-9]{16,}$)"
_SEPARATOR = r"\s*[,;]\s*|\s+"
_BAD_ROW = re.compile(r"Row #(?P<row>\d+): (?P<said>(Expected \d+ columns, got \d+)|.*)", re.DOTALL)
_PLAIN = re.compile(r"[\w.:/+-]+")
_TYPES = (pa.int64(), pa.float64(), pa.bool_())


class CsvText:
    """One CSV file as text: what its columns are called, and their cells in a stream."""

    def __init__(self, location: Location) -> None:
        self.location, self.text = location, location.text
        with reading(self.text, "CSV file"):
            first, self.delimiter, self.blank_rows = _first_row(location)
        self.has_header = not all(map(_is_number, first))
        self.names = first if self.has_header else [f"f{i}" for i in range(len(first))]
        if len(set(self.names)) != len(self.names):
            raise FormatError(self.text, "two columns have the same name", "a name for each column")

    def stream(self, names: list[str], *, blank_lines: bool = False) -> Iterator[pa.RecordBatch]:
        """The named columns as text; an empty cell is null, and a blank line none unless it is to be."""
        with reading(self.text, "CSV file"), self.location.open() as file:
            try:
                yield from pa_csv.open_csv(
                    file,
                    pa_csv.ReadOptions(
                        use_threads=False,
                        block_size=_BLOCK_BYTES,
                        column_names=self.names,
                        skip_rows=self.blank_rows,
                        skip_rows_after_names=int(self.has_header),
                    ),
                    pa_csv.ParseOptions(
                        delimiter=self.delimiter,
                        newlines_in_values=True,
                        ignore_empty_lines=not blank_lines,
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
                self._name_bad_row(problem)
                raise

    def _name_bad_row(self, problem: pa.ArrowInvalid) -> None:
        """Arrow counts rows from 1 and the header among them."""
        if match := _BAD_ROW.search(str(problem)):
            row = int(match["row"]) - 1 - self.has_header - self.blank_rows
            raise FormatError(
                self.text, match["said"][:200], f"{len(self.names)} cells of UTF-8 text in every row", row=row
            ) from problem


class CsvTable(CsvText):
    """One CSV file with vectors: given types once the whole of it has been seen."""

    def __init__(self, location: Location, vector: str | None = None, identifier: str | None = None) -> None:
        super().__init__(location)
        self.identifiers = (identifier, *ID_NAMES)
        usual = [name for name in (vector, *VECTOR_NAMES) if name in self.names]
        self.wide = [] if usual else numbered_columns(self.names)
        self.vector = str(usual[0]) if usual else VECTOR
        if not usual and not self.wide:
            raise FormatError(
                self.text,
                f"no column holds vectors (columns: {', '.join(self.names)[:200]})",
                "a column 'vector' such as [0.1, 0.2], or columns numbered v0, v1, v2 and so on",
            )
        apart = {self.vector, *self.wide}
        self.others = [name for name in self.names if name not in apart]
        head = [(name, pa.string()) for name in self.others]
        self.head = pa.schema([*head, (self.vector, VECTOR_TYPE)])

    @cached_property
    def rows(self) -> int:
        """How many rows there are below the header."""
        return sum(batch.num_rows for batch in self.stream(self.names[:1]))

    @cached_property
    def schema(self) -> pa.Schema:
        """The narrowest type that every cell of a column fits, then the vector."""
        possible = {kind: set(self.others) for kind in _TYPES}
        seen: set[str] = set()
        for batch in self.stream(self.others) if self.others else ():
            every = zip(self.others, batch.columns, strict=True)
            cells = {name: found for name, column in every if len(found := column.drop_null())}
            seen.update(cells)
            left = set(cells)
            for kind, names in possible.items():
                for exactly in (False, True):
                    some = [name for name in left & names if (name in self.identifiers) == exactly]
                    names.difference_update(_misfits(cells, some, kind, exactly=exactly))
                if pa.types.is_floating(kind):
                    # No number is true or false, and most columns hold numbers.
                    left.difference_update(names)
                    possible[pa.bool_()].difference_update(names & cells.keys())
        narrowest = {name: kind for kind in reversed(_TYPES) for name in possible[kind] & seen}
        fields = [(name, narrowest.get(name, pa.string())) for name in self.others]
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
        kinds = {field.name: field.type for field in schema}
        for batch in self.stream(read):
            arrays = [
                self._vectors(batch, row) if name == self.vector else batch[name].cast(kinds[name])
                for name in names
            ]
            yield row, pa.RecordBatch.from_arrays(arrays, names)
            row += batch.num_rows

    def _vectors(self, batch: pa.RecordBatch, first_row: int) -> pa.Array:
        if self.wide:
            texts = [batch[name] for name in self.wide]
            return _wide_vectors(texts, self.text, first_row)
        return _text_vectors(batch[self.vector], self.text, first_row)


def _first_row(location: Location) -> tuple[list[str], str, int]:
    """The cells of the first row, what separates them, and how many empty lines stand before it."""
    head = location.read_at(0, _HEAD_BYTES)
    if len(head) == _HEAD_BYTES and b"\n" not in head:
        # The names of very many columns.
        head = location.read_at(0, _BLOCK_BYTES)
    text = head.decode("utf-8-sig", "replace")
    begun = text.lstrip("\r\n")
    if not begun.strip():
        raise FormatError(location.text, "it has no rows", "a header or numbers")
    if location.suffix == ".tsv":
        delimiter = "\t"
    else:
        line = re.split("[\r\n]", re.sub(r'"[^"]*"', "", begun), maxsplit=1)[0]
        delimiter = max(_DELIMITERS, key=line.count)
    cells = next(csv.reader(io.StringIO(begun, newline=""), delimiter=delimiter))
    return [cell.strip() for cell in cells], delimiter, len(text[: -len(begun)].splitlines())


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _misfits(cells: dict[str, pa.Array], names: list[str], kind: pa.DataType, *, exactly: bool) -> list[str]:
    """Columns with a cell that is not of a type, found by halves: most columns of a wide file are alike."""
    if not names or _fits(pa.concat_arrays([cells[name] for name in names]), kind, exactly=exactly):
        return []
    if len(names) == 1:
        return names
    half = len(names) // 2
    return [
        name for part in (names[:half], names[half:]) for name in _misfits(cells, part, kind, exactly=exactly)
    ]


def _fits(cells: pa.Array, kind: pa.DataType, *, exactly: bool) -> bool:
    """Whether texts are really of a type: ids and whole numbers must come back as they were written."""
    if pa.types.is_boolean(kind):
        return _all(pc.is_in(cells, value_set=pa.array(["true", "false"])))
    try:
        cast = cells.cast(kind)
    except pa.ArrowInvalid:
        return False
    if exactly or pa.types.is_integer(kind):
        return _all(pc.equal(cast.cast(pa.string()), cells))
    return not pc.any(pc.match_substring_regex(cells, _CODE)).as_py()


def _typed(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of text in the narrowest type that every cell fits."""
    filled = cells.drop_null()
    kinds = [kind for kind in _TYPES if len(filled) and _fits(filled, kind, exactly=False)]
    return cells.cast(kinds[0]) if kinds else cells


def _all(truths: pa.Array) -> bool:
    return bool(pc.all(truths, min_count=0).as_py())


def _wide_vectors(texts: list[pa.Array], where: str, first_row: int) -> pa.Array:
    rows, dimension = len(texts[0]), len(texts)
    cells = pc.utf8_trim_whitespace(pa.concat_arrays(texts))
    numbers = _numbers(cells)
    if numbers is None or numbers.null_count:
        by_column = cells.to_pylist()
        _name_bad_cell([by_column[row::rows] for row in range(rows)], where, first_row)
    turned = numbers.to_numpy(zero_copy_only=False).reshape(dimension, rows).T.reshape(-1)
    return pa.FixedSizeListArray.from_arrays(pa.array(turned), dimension).cast(VECTOR_TYPE)


def _text_vectors(column: pa.Array, where: str, first_row: int) -> pa.Array:
    """Text such as [0.1, 0.2] or 0.1 0.2 as lists of numbers."""
    inner = pc.utf8_trim(column, characters="[](){} \t\r\n")
    lists = pc.split_pattern_regex(inner, _SEPARATOR)
    numbers = _numbers(lists.flatten())
    if numbers is None:
        _name_bad_cell([cells or [] for cells in lists.to_pylist()], where, first_row)
    return pa.ListArray.from_arrays(lists.offsets, numbers, mask=column.is_null())


def _numbers(texts: pa.Array) -> Any:
    try:
        return texts.cast(pa.float32())
    except pa.ArrowInvalid:
        return None


def _name_bad_cell(rows: list[list[str | None]], where: str, first_row: int) -> None:
    for row, cells in enumerate(rows, first_row):
        if None not in cells and _numbers(pa.array(cells)) is not None:
            continue
        bad = next(cell for cell in cells if not cell or _numbers(pa.array([cell])) is None)
        found = f"{bad!r:.60}" if bad else "an empty cell"
        raise FormatError(where, f"{found} in the vector", "numbers", row=row)


class Csv(Format):
    """A header row, then rows; the delimiter is found by looking."""

    name = "csv"
    suffixes = (".csv", ".tsv")
    writable = True
    writes_columns = True

    def open(self, shards: list[Location], options: OpenOptions) -> Source:
        """Open the rows of the file."""
        (location,) = shards
        source = CsvTable(location, options.vector_column, options.id_column)
        return Source(source.text, self.name, {ROWS: table_records(source, options)})

    def read_answers(self, location: Location) -> Answers | None:
        """A cell of ids for each query, such as [3, 5], 3 5, 3;5 or 3|5; or one answer a row."""
        text = CsvText(location)
        vectors = [name for name in text.names if name in VECTOR_NAMES] or numbered_columns(text.names)
        roles = find_roles(text.names, vectors, text.text)
        others = [] if roles.long else [n for n in text.names if n not in (*roles.names, *VECTOR_NAMES)]
        schema = pa.schema([(name, pa.string()) for name in [*roles.names, *others]])
        # Where there is one cell a line, a blank one is a query without answers.
        stream = text.stream(schema.names, blank_lines=len(text.names) == 1)
        cells = pa.Table.from_batches(stream, schema)
        columns = {name: _typed(cells[name]) for name in others}
        return cell_answers(cells.select(roles.names), columns, roles, text.text)

    def write(self, records: Records, path: Path) -> None:
        """Write a header and one line a row, the vector as a list in brackets."""
        delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
        with path.open("w", encoding="utf-8", newline="") as file:
            names = [ID, VECTOR, *records.metadata_names]
            file.write(delimiter.join(map(_cell, names)) + "\n")
            for table in tables(records, 1024):
                for row in table.to_pylist():
                    file.write(delimiter.join(map(_cell, row.values())) + "\n")


def _cell(value: Any) -> str:
    """A value as it is read again: nothing for null, and quotes around every text that needs them."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    nested = isinstance(value, list | dict)
    text = json.dumps(value, ensure_ascii=False, default=str) if nested else str(value)
    return text if _PLAIN.fullmatch(text) else '"' + text.replace('"', '""') + '"'
