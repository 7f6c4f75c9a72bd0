"""Existing DuckDB tables, attached read-only, with the HNSW index of the vss extension."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from recallatk.adapters.collection import Answer, CollectionTarget, Discovery, Neighbors
from recallatk.adapters.duckdb import _METRICS, DuckDB, _extension
from recallatk.adapters.embedded_collection import (
    EmbeddedCollection,
    chosen,
    chosen_metric,
    existing_file,
    interrupted_after,
    list_vectors,
    null_note,
    require_ids,
    require_rows,
)
from recallatk.adapters.installation import importing
from recallatk.adapters.sql import SqlFilters, native_columns
from recallatk.errors import EngineError, UsageError, choices

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from recallatk.adapters.probe_limits import ProbeLimits
    from recallatk.core import Knob
    from recallatk.filters import Filter

_EXAMPLE = "duckdb://file.db?table=items&vector=embedding"
_DATABASE = "target"


class DuckCollection(EmbeddedCollection):
    """A table in a DuckDB file; vss filters after the search, so that filtered answers may be short."""

    schemes: ClassVar = ("duckdb",)
    options: ClassVar = ("table", "vector", "id", "metric")
    exact_mode = True

    def __init__(self, connection: Any, path: Path, target: CollectionTarget, limits: ProbeLimits) -> None:
        super().__init__()
        self.connection, self.path, self.limits = connection, path, limits
        self._describe(target)

    @classmethod
    def open(cls, target: CollectionTarget, limits: ProbeLimits) -> DuckCollection:
        """Attach the file read-only to a database in memory, with the extension loaded before."""
        with importing(DuckDB):
            import duckdb
        path = existing_file(target, _EXAMPLE)
        connection = duckdb.connect(":memory:", config={"autoinstall_known_extensions": "false"})
        try:
            connection.load_extension(str(_extension(duckdb.__version__)))
            name = str(path).replace("'", "''")
            connection.execute(f"ATTACH '{name}' AS {_DATABASE} (TYPE duckdb, READ_ONLY)")
            connection.execute(f"USE {_DATABASE}")
            return cls(connection, path, target, limits)
        except duckdb.Error as problem:
            connection.close()
            # A file that another process writes is locked.
            raise EngineError(f"{target.text} cannot be read: {str(problem).strip()}") from problem
        except BaseException:
            connection.close()
            raise

    def _describe(self, target: CollectionTarget) -> None:
        self.table = _table(self.connection, target)
        schema = self._arrow(f"SELECT * FROM {_quote(self.table)} LIMIT 0").schema  # noqa: S608
        kinds = {each[0]: each[1] for each in self._rows(f"DESCRIBE {_quote(self.table)}")}
        self.vector = _vector_column(target, schema, kinds)
        self.kind = kinds[self.vector]
        others = {name: held for name, held in kinds.items() if name != self.vector}
        known = {**others, "rowid": "BIGINT"}
        self.id = chosen(target, "id", known, "id" if "id" in others else None, "id column")
        row, vector = _quote(self.id), _quote(self.vector)
        counts = f"count(*), count({vector}), count({row}), count(DISTINCT {row})"
        ((rows, valid, ids, distinct),) = self._rows(f"SELECT {counts} FROM {_quote(self.table)}")  # noqa: S608
        require_rows(target, rows)
        require_ids(target, self.id, missing=rows - ids, duplicates=ids - distinct)
        self.valid, notes = valid, null_note(rows - valid, self.vector)
        metric, definition = self._index()
        stated = chosen_metric(target, metric, f"the index {definition}")
        if stated is None:
            raise UsageError(
                f"{target.text}: no HNSW index on {self.vector!r} states the metric. "
                "Add metric=l2, cosine or ip"
            )
        if definition is None:
            notes += ("no HNSW index: every search scans all rows",)
        self.function = _METRICS[stated][1]
        self.filterable = native_columns(pa.schema([schema.field(name) for name in others]), _quote)
        self.found = Discovery(
            target=target.text,
            engine="duckdb",
            rows=rows,
            dimension=schema.field(self.vector).type.list_size,
            metric=stated,
            index=definition,
            columns={name: held for name, held in others.items() if name != self.id},
            exact=self.kind,
            notes=notes,
        )

    def _index(self) -> tuple[Any, str | None]:
        """The metric and the definition of the HNSW index on the column."""
        built = dict(
            self._rows(
                "SELECT index_name, metric FROM pragma_hnsw_index_info() WHERE table_name = ?", [self.table]
            )
        )
        statement = (
            "SELECT index_name, expressions, sql FROM duckdb_indexes() "  # noqa: S608
            f"WHERE database_name = '{_DATABASE}' AND table_name = ?"
        )
        metrics = {kind: metric for metric, (kind, _) in _METRICS.items()}
        for name, columns, definition in self._rows(statement, [self.table]):
            if name in built and columns.strip("[]'\"") in (self.vector, _quote(self.vector)):
                return metrics[built[name]], f"{definition.rstrip(';')} WITH (metric = '{built[name]}')"
        return None, None

    def knobs(self) -> tuple[Knob, ...]:
        """The candidates that a search of the index keeps."""
        return () if self.found.index is None else DuckDB.search_knobs

    def configure(self, search: Mapping[str, Any], settings: Mapping[str, str] | None = None) -> None:
        """Set ef on this connection alone."""
        super().configure(search, settings)
        if "ef" in self.search:
            self._rows(f"SET hnsw_ef_search = {self.search['ef']:d}")
        elif self.found.index is not None:
            self._rows("RESET hnsw_ef_search")

    def answer(self, vector: NDArray[Any], k: int, condition: Filter | None) -> Answer:
        """One statement; its plan says whether it scans the index."""
        where, values = self._where(condition)
        # The extension uses its index only where the limit is a literal.
        nearest = f"ORDER BY {self.function}({_quote(self.vector)}, ?::{self.kind}) LIMIT {k:d}"
        among = f"WHERE {where} " if where else ""
        statement = f"SELECT {_quote(self.id)} FROM {_quote(self.table)} {among}{nearest}"  # noqa: S608
        values = [*values, np.asarray(vector, np.float32).tolist()]
        with self._limited():
            start = time.perf_counter()
            found = self.connection.execute(statement, values).fetchall()
            seconds = time.perf_counter() - start
            plan = self.connection.execute(f"EXPLAIN {statement}", values).fetchall()[0][1]
        return Answer([each for (each,) in found], seconds, "HNSW_INDEX_SCAN" in plan)

    def exact(self, vector: NDArray[Any], depth: int, condition: Filter | None) -> Neighbors:
        """Compare every row, with the optimizer of the index disabled."""
        where, values = self._where(condition)
        among = f"{where} AND " if where else ""
        column = _quote(self.vector)
        statement = (
            f"SELECT {_quote(self.id)}, {self.function}({column}, ?::{self.kind}) AS far "  # noqa: S608
            f"FROM {_quote(self.table)} WHERE {among}{column} IS NOT NULL ORDER BY far LIMIT {depth:d}"
        )
        self._rows("SET disabled_optimizers = 'extension'")
        try:
            found = self._rows(statement, [np.asarray(vector, np.float32).tolist(), *values])
        finally:
            self._rows("RESET disabled_optimizers")
        complete = len(found) < depth or len(found) == self.valid
        return Neighbors([each for each, _ in found], np.array([far for _, far in found]), complete)

    def passing(self, condition: Filter) -> int:
        """Counted by one statement."""
        where, values = self._where(condition)
        among = f"({where}) AND {_quote(self.vector)} IS NOT NULL"
        ((count,),) = self._rows(f"SELECT count(*) FROM {_quote(self.table)} WHERE {among}", values)  # noqa: S608
        return int(count)

    def _where(self, condition: Filter | None) -> tuple[str, list[Any]]:
        if condition is None:
            return "", []
        return SqlFilters(dict(self.filterable), "?").compile(condition)

    def writes(self) -> object:
        """Size and time of change of the file and its log."""
        log = self.path.with_name(f"{self.path.name}.wal")
        return [
            (held.st_size, held.st_mtime_ns)
            for held in (each.stat() for each in (self.path, log) if each.exists())
        ]

    def sample(self, count: int, seed: int) -> tuple[list[Any], NDArray[Any]]:
        """The rows whose ids have the lowest hashes with the seed."""
        row, vector = _quote(self.id), _quote(self.vector)
        found = self._arrow(
            f"SELECT {row}, {vector} FROM {_quote(self.table)} WHERE {row} IN (SELECT {row} "  # noqa: S608
            f"FROM {_quote(self.table)} WHERE {vector} IS NOT NULL "
            f"ORDER BY hash({row}, {seed:d}), {row} LIMIT {count:d}) ORDER BY {row}"
        )
        vectors = list_vectors(found[self.vector], self.found.dimension or 0)
        return found[self.id].to_pylist(), vectors.flatten().to_numpy().reshape(len(found), -1)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows in the order of the table."""
        names = [self.id, self.vector, *columns]
        cursor = self.connection.cursor()
        try:
            cursor.execute(f"USE {_DATABASE}")
            cursor.execute(
                f"SELECT {', '.join(map(_quote, names))} FROM {_quote(self.table)} "  # noqa: S608
                f"WHERE {_quote(self.vector)} IS NOT NULL"
            )
            for each in cursor.to_arrow_reader(self.block_rows):
                vectors = list_vectors(each.column(1), self.found.dimension or 0)
                rest = [each.column(place) for place in range(2, len(names))]
                yield pa.record_batch([each.column(0), vectors, *rest], ["id", "vector", *columns])
        finally:
            cursor.close()

    def snippet(self, search: Mapping[str, Any]) -> str:
        """The statement that sets ef."""
        return "\n".join(f"SET hnsw_ef_search = {value};" for value in search.values())

    def close(self) -> None:
        """Close the connection."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()

    def _rows(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        with self._limited():
            found: list[Any] = self.connection.execute(statement, list(values)).fetchall()
        return found

    def _arrow(self, statement: str) -> pa.Table:
        with self._limited():
            return self.connection.execute(statement).to_arrow_table()

    @contextmanager
    def _limited(self) -> Iterator[None]:
        import duckdb

        try:
            with interrupted_after(self.limits.seconds, self.connection.interrupt, "a statement of duckdb"):
                yield
        except duckdb.Error as problem:
            raise EngineError(f"duckdb failed: {str(problem).strip()}") from problem


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _table(connection: Any, target: CollectionTarget) -> str:
    statement = (
        "SELECT table_name FROM information_schema.tables "  # noqa: S608
        f"WHERE table_catalog = '{_DATABASE}' AND table_schema = current_schema() ORDER BY table_name"
    )
    known = [name for (name,) in connection.execute(statement).fetchall()]
    only = known[0] if len(known) == 1 else None
    name = target.options.get("table") or only
    if name not in known:
        wrong = "several tables" if name is None else f"no table {name!r}"
        raise UsageError(f"{target.text}: {wrong}. Name one with table=: {choices(known) or 'it has none'}")
    return str(name)


def _vector_column(target: CollectionTarget, schema: pa.Schema, kinds: Mapping[str, str]) -> str:
    types = pa.types
    known = {
        each.name: kinds[each.name]
        for each in schema
        if types.is_fixed_size_list(each.type) and types.is_floating(each.type.value_type)
    }
    named = target.options.get("vector")
    if not known or (named in kinds and named not in known):
        held = ", ".join(f"{name} {kind}" for name, kind in kinds.items() if named in (None, name))
        raise EngineError(f"{target.text}: vectors are in columns such as FLOAT[384]. It has {held}")
    return chosen(target, "vector", known, next(iter(known)) if len(known) == 1 else None, "vector column")
