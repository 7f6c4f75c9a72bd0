"""Tables of sqlite-vec: what a vec0 declaration, or a column of BLOBs, says about vectors and columns."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recallatk.core import Metric
from recallatk.errors import EngineError, UsageError, choices

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from numpy.typing import NDArray

    Rows = Callable[..., list[Any]]

_VEC0 = re.compile(r"create\s+virtual\s+table\s.*?\susing\s+vec0\s*\((.*)\)\s*$", re.IGNORECASE | re.DOTALL)
_VECTOR = re.compile(r"(\w+)\s+(float|f32|int8|i8|bit)\s*\[\s*(\d+)\s*\](.*)", re.IGNORECASE | re.DOTALL)
_COLUMN = re.compile(r"(\+?)\s*(\w+)\s+(\w+)(.*)", re.IGNORECASE | re.DOTALL)
_METRIC = re.compile(r"distance_metric\s*=\s*(\w+)", re.IGNORECASE)
_INDEXED = re.compile(r"indexed\s+by\s+.*", re.IGNORECASE | re.DOTALL)
_TYPES = {"f32": "float", "i8": "int8"}
_KINDS = (("bool", "boolean"), ("int", "integer"), ("float", "float"), ("real", "float"), ("doub", "float"),
          ("text", "text"), ("char", "text"), ("varchar", "text"))  # fmt: skip
_BITS = 8


class VectorType(NamedTuple):
    """How a column stores its vectors."""

    name: str
    """float, int8 or bit."""
    dimension: int

    def __str__(self) -> str:
        return f"{self.name}[{self.dimension}]"

    @property
    def placeholder(self) -> str:
        """A vector of this type as a bound value."""
        return "?" if self.name == "float" else f"vec_{self.name}(?)"

    def packed(self, vector: NDArray[Any]) -> bytes:
        """A query as a value of this type; refuses one that the type cannot hold."""
        if self.name == "float":
            return np.asarray(vector, np.float32).tobytes()
        low, high = (-128, 127) if self.name == "int8" else (0, 1)
        if np.any((vector != np.rint(vector)) | (vector < low) | (vector > high)):
            raise UsageError(
                f"the vectors are {self}, and a query has values other than whole numbers from {low} to "
                f"{high}. Quantize the queries as production does"
            )
        if self.name == "int8":
            return np.asarray(vector, np.int8).tobytes()
        return np.packbits(np.asarray(vector, np.uint8), bitorder="little").tobytes()

    def unpacked(self, blobs: Sequence[bytes]) -> NDArray[np.float32]:
        """Stored vectors as a matrix; bits are zeros and ones."""
        kind = {"float": "<f4", "int8": "i1", "bit": "u1"}[self.name]
        found = np.frombuffer(b"".join(blobs), kind).reshape(len(blobs), -1)
        if self.name == "bit":
            found = np.unpackbits(found, axis=1, bitorder="little")
        return found.astype(np.float32)


@dataclass(frozen=True)
class SqliteTable:
    """One table with vectors."""

    name: str
    virtual: bool
    """Whether it is a vec0 table."""
    vectors: dict[str, tuple[VectorType | None, str | None]]
    """Columns that can hold vectors: their type and distance, None where only the rows or the query tell."""
    id: str | None
    """The primary key; None if there is none of one column."""
    kinds: dict[str, str] = field(default_factory=dict)
    """Kind of value of every other column; empty if filters cannot use it."""
    constrained: frozenset[str] = frozenset()
    """Columns that a search of vec0 compares itself, before it looks for neighbors."""
    single: frozenset[str] = frozenset()
    """Those of them of which a search compares a single value."""
    indexed: str | None = None
    """The index that the declaration names; None for a scan."""


def read_table(rows: Rows, name: str | None, text: str) -> SqliteTable:
    """The table that a target names, or the only one with vectors.

    Args:
        rows: runs a statement.
        name: the name; None for the only table.
        text: the target, for messages.
    """
    found = dict(
        rows(
            "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite|_%' "
            "ESCAPE '|' ORDER BY name"
        )
    )
    virtual = [each for each, sql in found.items() if _VEC0.match(sql or "")]
    plain = [
        each for each in found
        if each not in virtual and not any(each.startswith(f"{owner}_") for owner in virtual)
    ]  # fmt: skip
    known = [*virtual, *plain]
    if name is None:
        only = virtual or plain
        if len(only) != 1:
            raise UsageError(
                f"{text}: name the table with table=. The tables are: {choices(known) or 'none'}"
            )
        name = only[0]
    if name not in known:
        raise UsageError(f"{text}: no table {name!r}. The tables are: {choices(known) or 'none'}")
    if name in virtual:
        declared = _VEC0.match(found[name])
        return _declared(name, "" if declared is None else declared[1])
    return _plain(rows, name)


def _declared(name: str, text: str) -> SqliteTable:
    """A vec0 table; its declaration is a list of columns and options."""
    vectors: dict[str, tuple[VectorType | None, str | None]] = {}
    kinds: dict[str, str] = {}
    key, indexed, searched, single = None, None, set(), set()
    for part in text.split(","):
        vector, column = _VECTOR.match(part.strip()), _COLUMN.match(part.strip())
        if vector is not None:
            kind = vector[2].lower()
            metric = _METRIC.search(vector[4])
            stated = "l2" if metric is None else metric[1].lower()
            kind = _TYPES.get(kind, kind)
            vectors[vector[1]] = VectorType(kind, int(vector[3])), "hamming" if kind == "bit" else stated
            with_index = _INDEXED.search(vector[4])
            indexed = indexed if with_index is None else with_index[0].strip()
        elif column is not None:
            auxiliary, title, kind, rest = column.groups()
            kinds[title] = _kind(kind)
            if "primary" in rest.lower():
                key = title
            elif not auxiliary and kinds[title]:
                searched.add(title)
                if "partition" in rest.lower() or kinds[title] in ("boolean", "float"):
                    single.add(title)
    return SqliteTable(name, True, vectors, key, kinds, frozenset(searched), frozenset(single), indexed)


def _plain(rows: Rows, name: str) -> SqliteTable:
    """An ordinary table, whose columns of BLOBs may be vectors."""
    vectors: dict[str, tuple[VectorType | None, str | None]] = {}
    kinds, keys = {}, []
    for title, declared, key in rows("SELECT name, type, pk FROM pragma_table_info(?)", (name,)):
        if "blob" in declared.lower():
            vectors[title] = None, None
        kinds[title] = _kind(declared)
        keys += [title] if key else []
    return SqliteTable(name, False, vectors, keys[0] if len(keys) == 1 else None, kinds)


def _kind(declared: str) -> str:
    return next((kind for start, kind in _KINDS if declared.lower().startswith(start)), "")


def vector_type(rows: Rows, table: SqliteTable, column: str, text: str) -> VectorType:
    """The type of the vectors: declared, or float32 BLOBs of one length.

    Args:
        rows: runs a statement.
        table: the table.
        column: the column.
        text: the target, for messages.
    """
    declared = table.vectors[column][0]
    if declared is not None:
        return declared
    quoted = quote(column)
    found = rows(
        f"SELECT DISTINCT typeof({quoted}), length({quoted}) FROM {quote(table.name)} "  # noqa: S608
        f"WHERE {quoted} IS NOT NULL LIMIT 3"
    )
    lengths = [length for kind, length in found if kind == "blob" and length and length % 4 == 0]
    if len(lengths) != 1 or len(found) != 1:
        held = ", ".join(f"{kind} of length {length}" for kind, length in found) or "only nulls"
        raise EngineError(
            f"{text}: vectors are BLOBs of float32 of one length. The column {column!r} holds {held}"
        )
    return VectorType("float", lengths[0] // 4)


def require_distance(stated: str | None, text: str) -> Metric | None:
    """The metric that orders as a declared distance does.

    Args:
        stated: the distance of the declaration; None if there is none.
        text: the target, for messages.
    """
    known = {"l2": Metric.L2, "cosine": Metric.COSINE, "hamming": Metric.L2}
    if stated is not None and stated not in known:
        raise EngineError(
            f"{text}: vec0 compares by {stated}, and recall is known for l2, cosine and hamming"
        )
    return None if stated is None else known[stated]


def quote(name: str) -> str:
    """A name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'
