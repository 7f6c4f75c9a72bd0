"""What PostgreSQL's catalog says about a table of vectors: its columns, its index, its settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from recallatk.adapters.sql import Column
from recallatk.core import Metric
from recallatk.errors import EngineError, UsageError, unknown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

VECTOR_TYPES = ("vector", "halfvec")
_METRICS = {"l2": Metric.L2, "ip": Metric.IP, "cosine": Metric.COSINE}
_RELATION = "SELECT oid::bigint, relkind::text, reltuples::bigint FROM pg_class WHERE oid = to_regclass(%s)"
_COLUMNS = """
SELECT attnum, attname::text, format_type(atttypid, atttypmod), typname::text, atttypmod
FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid
WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum"""
_INDEXES = """
SELECT pg_index.indexrelid::bigint, named.relname::text, amname::text, opcname::text, indkey[0]::int,
       pg_get_indexdef(pg_index.indexrelid, 1, true), pg_get_indexdef(pg_index.indexrelid), indisvalid,
       pg_get_expr(indpred, indrelid)
FROM pg_index JOIN pg_class named ON named.oid = pg_index.indexrelid
JOIN pg_am ON pg_am.oid = named.relam JOIN pg_opclass ON pg_opclass.oid = indclass[0]
WHERE indrelid = %s AND opcname ~ '^(vector|halfvec|bit|sparsevec)_'
ORDER BY indisvalid DESC, named.relname"""
_UNIQUE = """
SELECT attname::text FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]
WHERE indrelid = %s AND indisunique AND indnkeyatts = 1 AND indpred IS NULL AND indkey[0] > 0
  AND (indisprimary OR attnotnull) ORDER BY indisprimary DESC, attnum"""
# Types that filters can compare as they are, with the kind of SqlFilters and the type of its literals.
_KINDS: dict[str, tuple[str, pa.DataType]] = {
    "bool": ("boolean", pa.bool_()),
    "int2": ("integer", pa.int64()),
    "int4": ("integer", pa.int64()),
    "int8": ("integer", pa.int64()),
    "float4": ("float", pa.float32()),
    "float8": ("float", pa.float64()),
    "numeric": ("float", pa.float64()),
    "text": ("text", pa.string()),
    "varchar": ("text", pa.string()),
    "bpchar": ("text", pa.string()),
    "date": ("integer", pa.date32()),
    "timestamp": ("integer", pa.timestamp("us")),
    "timestamptz": ("integer", pa.timestamp("us", "UTC")),
    "_text": ("texts", pa.list_(pa.string())),
    "_varchar": ("texts", pa.list_(pa.string())),
    "_int8": ("integers", pa.list_(pa.int64())),
    "_int4": ("integers", pa.list_(pa.int64())),
}
# The operators of arrays need both sides in one type.
_CASTS = {"_varchar": "::text[]", "_int4": "::bigint[]"}


@dataclass(frozen=True)
class VectorIndex:
    """One index on vectors."""

    number: int
    name: str
    method: str
    operators: str
    """Its operator class, such as vector_cosine_ops."""
    expression: str
    """What it indexes: the column, or an expression of it."""
    definition: str
    column: bool
    """Whether it indexes the column itself."""
    partial: str | None

    @property
    def metric(self) -> Metric | None:
        """The metric of its operator class; None for those that we do not measure."""
        return _METRICS.get(self.operators.split("_")[1])

    @property
    def type(self) -> str:
        """The type that it compares: vector, halfvec, bit or sparsevec."""
        return self.operators.partition("_")[0]


@dataclass(frozen=True)
class Table:
    """A table or view with vectors."""

    number: int
    name: str
    estimated_rows: int
    is_view: bool
    vector: str
    vector_type: str
    """vector or halfvec."""
    dimension: int | None
    id: str
    columns: Mapping[str, str]
    """Other columns and their types."""
    filterable: Mapping[str, Column]
    index: VectorIndex | None
    others: tuple[str, ...] = ()
    """Other indexes on the same vectors."""
    unique: bool = True
    """Whether a constraint keeps ids from repeating."""


def read_table(run: Any, options: Mapping[str, str], target: str) -> Table:
    """Find the table, its vectors, its ids and its index; whatever is ambiguous has to be named.

    Args:
        run: executes a statement and returns its rows.
        options: table, vector, id, metric and index of the target.
        target: the target, for messages.
    """
    name = options["table"]
    found = _relation(run, name, target)
    number, kind, estimated = found
    columns = run(_COLUMNS, (number,))
    vector = _vector_column(columns, options.get("vector"), name)
    index, others = _index(run(_INDEXES, (number,)), vector, options, name)
    unique = [each for (each,) in run(_UNIQUE, (number,))]
    ids = _id_column(columns, unique, options.get("id"), name)
    rest = {each[1]: each[2] for each in columns if each[1] not in (vector[1], ids)}
    return Table(
        number, name, max(0, estimated), kind in "vm", vector[1], vector[3],
        vector[4] if vector[4] > 0 else None, ids, rest, _filterable(columns, vector[1]), index, others,
        ids in unique,
    )  # fmt: skip


def _relation(run: Any, name: str, target: str) -> tuple[int, str, int]:
    found = run(_RELATION, (name,)) or run(_RELATION, (quoted(name),))
    if found:
        relation: tuple[int, str, int] = found[0]
        return relation
    listed = (
        "SELECT DISTINCT attrelid::regclass::text FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid "
        "JOIN pg_class ON pg_class.oid = attrelid "
        "WHERE typname = ANY(%s) AND relkind IN ('r', 'p', 'v', 'm') ORDER BY 1"
    )
    known = [each for (each,) in run(listed, (list(VECTOR_TYPES),))]
    if known:
        raise UsageError(f"{target}: {unknown('table', name, known)}")
    raise UsageError(
        f"{target}: there is no table {name!r}, and no table here has vectors that this role can see. "
        "Check the database, the schema (table=schema.items) and the role"
    )


def quoted(name: str) -> str:
    """A name as SQL writes it where case and any character count."""
    return '"' + name.replace('"', '""') + '"'


def _vector_column(columns: Sequence[Any], stated: str | None, table: str) -> Any:
    able = {each[1]: each for each in columns if each[3] in VECTOR_TYPES}
    if stated is not None:
        known = {each[1]: each for each in columns}
        if stated not in known:
            raise UsageError(f"{table}: {unknown('column', stated, list(able))}")
        if stated not in able:
            raise UsageError(
                f"{table}: the column {stated!r} holds {known[stated][2]}. Accepted: columns of type vector "
                "or halfvec"
            )
        return able[stated]
    if not able:
        names = ", ".join(f"{each[1]} ({each[2]})" for each in columns)
        raise UsageError(
            f"{table}: no column has type vector or halfvec. Name the table with the vectors: table=NAME. "
            f"Columns here: {names or 'none'}"
        )
    if len(able) > 1:
        names = ", ".join(able)
        raise UsageError(f"{table}: which column has the vectors? Add &vector=NAME. Vector columns: {names}")
    return next(iter(able.values()))


def _id_column(columns: Sequence[Any], unique: Sequence[str], stated: str | None, table: str) -> str:
    names = [each[1] for each in columns]
    if stated is not None:
        if stated not in names:
            raise UsageError(f"{table}: {unknown('column', stated, names)}")
        return stated
    if unique:
        return unique[0]
    raise UsageError(
        f"{table} has no primary key of one column. Name the column of ids: &id=NAME. "
        f"Columns: {', '.join(each[1] for each in columns if each[3] not in VECTOR_TYPES) or 'none'}"
    )


def _index(
    rows: Sequence[Any], vector: Any, options: Mapping[str, str], table: str
) -> tuple[VectorIndex | None, tuple[str, ...]]:
    found = []
    for number, name, method, operators, key, expression, definition, valid, partial in rows:
        mine = key == vector[0] or (key == 0 and vector[1] in expression)
        if mine and valid:
            made = VectorIndex(
                number, name, method, operators, expression, definition, key == vector[0], partial
            )
            found.append(made)
    wanted, metric = options.get("index"), options.get("metric")
    if wanted is not None:
        found = [each for each in found if each.name == wanted] or _no_index(wanted, found, table)
    if metric is not None:
        same = [each for each in found if each.metric is Metric(metric)]
        if found and not same:
            uses = ", ".join(f"{each.name} ({each.operators})" for each in found)
            raise UsageError(f"{table}: no index on {vector[1]!r} uses {metric}. Indexes: {uses}")
        found = same
    if len(found) > 1:
        names = ", ".join(f"{each.name} ({each.operators})" for each in found)
        raise UsageError(f"{table}: which index does production use? Add &index=NAME. Indexes: {names}")
    others = tuple(each[1] for each in rows if not found or each[1] != found[0].name)
    return (found[0] if found else None), others


def _no_index(wanted: str, found: list[VectorIndex], table: str) -> list[VectorIndex]:
    raise UsageError(f"{table}: {unknown('index', wanted, [each.name for each in found])}")


def _filterable(columns: Sequence[Any], vector: str) -> dict[str, Column]:
    found = {}
    for _, name, _, kind, _ in columns:
        if name != vector and kind in _KINDS:
            plain, type_ = _KINDS[kind]
            identifier = quoted(name) + _CASTS.get(kind, "")
            if plain == "text":
                identifier += ' COLLATE "C"'
            found[name] = Column(identifier, plain, type_, pa.chunked_array([], type_))
    return found


def require_metric(table: Table, stated: str | None, *, stated_first: bool = False) -> Metric:
    """The metric of the index, or the one that the target states.

    Args:
        table: the table.
        stated: what the target states.
        stated_first: a statement of the user's need not search by the metric of the index.
    """
    if stated_first and stated is not None:
        return Metric(stated)
    if table.index is not None and table.index.metric is None:
        raise EngineError(
            f"{table.name}: the index {table.index.name} uses {table.index.operators}. Accepted: l2, ip and "
            "cosine; measure other statements with --sql and &metric=cosine"
        )
    if table.index is not None and table.index.metric is not None:
        return table.index.metric
    if stated is None:
        raise UsageError(
            f"{table.name} has no index on {table.vector!r} that tells the metric. Add &metric=cosine, ip, l2"
        )
    return Metric(stated)
