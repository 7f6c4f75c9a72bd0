"""PostgreSQL tables with pgvector as they are: read-only transactions, settings for one transaction alone."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from recallatk.adapters.collection import Answer, AnswerPair, Collection, Discovery, Neighbors
from recallatk.adapters.postgres import OPERATORS, ArrayFilters
from recallatk.adapters.postgres_catalog import quoted, read_table, require_metric
from recallatk.adapters.postgres_session import ReadOnlySession
from recallatk.adapters.postgres_settings import (
    checked_settings,
    iterative_scan_remedy,
    knobs_of,
    set_statements,
)
from recallatk.adapters.postgres_template import checked_template, filled_template
from recallatk.errors import EngineError, FilterError, UsageError
from recallatk.filters.moments import is_moment
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from recallatk.adapters.collection import CollectionTarget
    from recallatk.adapters.probe_limits import ProbeLimits
    from recallatk.core import Knob
    from recallatk.filters import Filter
    from recallatk.filters.expression import Literal

# A scan and a sort, whatever the settings of the probe: where all are off, the planner takes the cheapest.
_EXACT = {
    "enable_indexscan": "off",
    "enable_indexonlyscan": "off",
    "enable_bitmapscan": "off",
    "enable_seqscan": "on",
    "enable_sort": "on",
}
_SCANS = "SELECT coalesce(sum(pg_stat_get_xact_numscans(oid)), 0)::bigint FROM unnest(%s::oid[]) AS oid"
_IN_FORCE = (
    "SELECT name, setting FROM pg_settings WHERE name ~ '^(hnsw|ivfflat|diskann|vchordrq)[.]' ORDER BY name"
)
_NULL_SHARE = """
SELECT null_frac FROM pg_stats JOIN pg_namespace ON nspname = schemaname
JOIN pg_class ON pg_class.relnamespace = pg_namespace.oid AND relname = tablename
WHERE pg_class.oid = %s AND attname = %s AND null_frac < 1"""
_FETCHED = 2_000
_COUNTED_ROWS = 5_000_000


class TableFilters(ArrayFilters):
    """Filters on the columns of an existing table, where dates and times are no numbers."""

    _moment: pa.DataType | None = None

    def _among(self, name: str, wanted: tuple[Literal, ...], values: list[Literal]) -> str:
        with self._typed(name):
            return super()._among(name, wanted, values)

    def _bounded(self, name: str, bound: str, literal: Literal, values: list[Literal]) -> str:
        with self._typed(name):
            return super()._bounded(name, bound, literal, values)

    @contextmanager
    def _typed(self, name: str) -> Iterator[None]:
        kind = self.columns[name].type
        self._moment = kind if is_moment(kind) else None
        try:
            yield
        finally:
            self._moment = None

    def bound(self, value: Literal, values: list[Literal]) -> str:
        """The placeholder of a value; ticks of a date or time become one again."""
        moment: Any = value if self._moment is None else pa.scalar(value, self._moment).as_py()
        return super().bound(moment, values)


class PostgresCollection(Collection):
    """A table, a view or a statement over tables with pgvector."""

    schemes = ("postgresql", "postgres")
    options = ("table", "vector", "id", "metric", "index", "sql")
    exact_mode = True
    snapshots = True

    def __init__(self, session: ReadOnlySession, target: CollectionTarget) -> None:
        self.session, self.target = session, target
        self.settings: dict[str, str] = {}
        self.statement = checked_template(target.options.get("sql"))
        self._refusals: dict[str, str | None] = {}

    @classmethod
    def open(cls, target: CollectionTarget, limits: ProbeLimits) -> Collection:
        """Connect, and read the catalog in a read-only transaction."""
        target.required("table", "items")
        made = cls(ReadOnlySession(target, limits), target)
        try:
            made._look()
        except BaseException:
            made.close()
            raise
        return made

    # Statements

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """One read-only snapshot with the settings of this probe."""
        with self.session.transaction(self.settings):
            yield

    def _rows(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        return self.session.rows(statement, values)

    @property
    def _name(self) -> str:
        return self.target.options["table"]

    # Discovery

    def _look(self) -> None:
        with self._transaction():
            if not self._rows("SELECT 1 FROM pg_extension WHERE extname = 'vector'"):
                raise UsageError(
                    f"{self.target.text}: this database has no extension vector, so its tables have no "
                    "vectors of pgvector. Check the name of the database"
                )
            # The settings of an extension are known once its library is loaded.
            self._rows("SELECT '[1]'::vector")
            self.table = read_table(self._rows, self._table_options(), self.target.text)
            self.metric = require_metric(
                self.table, self.target.options.get("metric"), stated_first=self.statement is not None
            )
            self._watched = [number for (number,) in self._rows(
                "SELECT pg_class.oid::bigint FROM pg_class JOIN pg_index ON indexrelid = pg_class.oid "
                "JOIN pg_opclass ON pg_opclass.oid = indclass[0] "
                "WHERE opcname ~ '^(vector|halfvec|bit|sparsevec)_'"
            )]  # fmt: skip
            self.counts = self._rows("SHOW track_counts") == [("on",)]
            self._files = self.session.files(self.table.number)
        from pgvector.psycopg import register_vector

        register_vector(self.session.connection)
        self.filters = TableFilters(dict(self.table.filterable), "%s")
        self._describe()

    def _table_options(self) -> dict[str, str]:
        """The options of the target; the metric of a statement need not be that of an index."""
        left_out = () if self.statement is None else ("metric",)
        return {name: each for name, each in self.target.options.items() if name not in left_out}

    def _describe(self) -> None:
        table, (operator, _) = self.table, OPERATORS[self.metric]
        column, index = quoted(table.vector), table.index
        self.distance = f"{column} {operator} %s::{table.vector_type}"
        self.order = self.distance
        if index is not None and not index.column and self.statement is None:
            if index.type not in ("vector", "halfvec"):
                raise EngineError(
                    f"{self._name}: the index {index.name} compares {index.type} codes ({index.expression}), "
                    "so production reranks its answers. Give the statement that production runs: --sql"
                )
            self.order = f"({index.expression}) {operator} %s::{index.type}"
        self._found = self._discovered()

    def _discovered(self) -> Discovery:
        table, notes = self.table, []
        with self._transaction():
            rows = self._counted()
            dimension = table.dimension or self._first_dimension()
            null = self._without_vector(rows)
            duplicated = [] if table.unique or self._is_large else self._rows(
                f"SELECT {quoted(table.id)}::text FROM {self._relation} GROUP BY {quoted(table.id)} "
                f"HAVING count(*) > 1 OR {quoted(table.id)} IS NULL LIMIT 1"
            )  # fmt: skip
            settings = dict(self._rows(_IN_FORCE))
        if duplicated:
            what = "null" if duplicated[0][0] is None else f"the value {duplicated[0][0]!r} more than once"
            raise UsageError(
                f"{self._name}: the column {table.id!r} has {what}, so answers cannot be matched. Name a "
                "column whose values are unique: &id=NAME"
            )
        if null >= rows:
            raise UsageError(
                f"{self._name}: no row has a vector in {table.vector!r}. Name another column: &vector=NAME"
            )
        if null:
            without = counted(null, "row has", "rows have")
            about = "about " if self._is_large else ""
            notes.append(f"{about}{without} no vector: no search by vector returns them")
        if self._is_large and not table.unique:
            notes.append(f"no constraint keeps {table.id!r} unique, and the table is too large to check it")
        if table.index is None:
            notes.append("there is no index on these vectors: every search scans the table")
        elif table.index.partial:
            notes.append(f"the index covers only rows with {table.index.partial}")
        if not self.counts:
            notes.append("track_counts is off: calls that used the index are not counted")
        quantized = table.vector_type == "halfvec"
        compared = f"{table.vector_type}({dimension})"
        return Discovery(
            self.target.text, "pgvector", rows, dimension, self.metric,
            None if table.index is None else table.index.definition, settings, table.columns,
            compared, quantized, tuple(notes),
        )  # fmt: skip

    @property
    def _is_large(self) -> bool:
        """Whether statistics have to do, because counting takes too long."""
        return self.table.estimated_rows > _COUNTED_ROWS

    def _without_vector(self, rows: int) -> int:
        """Rows without a vector, by the statistics of a large table."""
        column = self.table.vector
        if not self._is_large:
            found = self._rows(f"SELECT count(*) FROM {self._relation} WHERE {quoted(column)} IS NULL")
            return int(found[0][0])
        found = self._rows(_NULL_SHARE, (self.table.number, column))
        return round(rows * float(found[0][0])) if found else 0

    def _counted(self) -> int:
        table = self.table
        if self._is_large:
            return table.estimated_rows
        ((rows,),) = self._rows(f"SELECT count(*) FROM {self._relation}")
        if not rows:
            raise UsageError(
                f"{self._name} has no rows that this role can see: there is no recall to measure"
            )
        return int(rows)

    def _first_dimension(self) -> int | None:
        column = quoted(self.table.vector)
        found = self._rows(
            f"SELECT vector_dims({column}) FROM {self._relation} WHERE {column} IS NOT NULL LIMIT 1"
        )
        return None if not found else int(found[0][0])

    @property
    def _relation(self) -> str:
        """The table as SQL names it, whatever its name contains; its number cannot be mistaken."""
        if not hasattr(self, "_qualified"):
            self._qualified = self._rows(
                "SELECT format('%%I.%%I', nspname, relname) FROM pg_class JOIN pg_namespace "
                "ON pg_namespace.oid = relnamespace WHERE pg_class.oid = %s", (self.table.number,)
            )[0][0]  # fmt: skip
        return str(self._qualified)

    def discovery(self) -> Discovery:
        """Table, vectors, index and settings in force."""
        return self._found

    @property
    def title(self) -> str:
        """Pgvector."""
        return "pgvector"

    # Searching

    @property
    def _method(self) -> str:
        return "" if self.table.index is None else self.table.index.method

    def knobs(self) -> tuple[Knob, ...]:
        """The effort of the index."""
        return knobs_of(self._method)

    def configure(self, search: Mapping[str, Any], settings: Mapping[str, str] | None = None) -> None:
        """Set them in every transaction of this probe; other sessions are not affected."""
        found = checked_settings(self.knobs(), search, settings or {})
        before, self.settings = self.settings, found
        try:
            with self._transaction():
                in_force = dict(self._rows(_IN_FORCE))
        except EngineError as problem:
            self.settings = before
            raise EngineError(f"--set: {problem}" if settings else str(problem)) from None
        mine = {name: value for name, value in in_force.items() if name.startswith(f"{self._method}.")}
        self._found = replace(self._found, settings={**(mine or in_force), **found})

    def refusal(self, condition: Filter) -> str | None:
        """Why a filter has no SQL form on this table; None if it has."""
        if condition.key not in self._refusals:
            self._refusals[condition.key] = None
            try:
                self.filters.compile(condition)
            except (EngineError, FilterError) as problem:
                self._refusals[condition.key] = str(problem)
        return self._refusals[condition.key]

    def _statement(self, order: str, vector: Any, k: int, condition: Filter | None) -> tuple[str, list[Any]]:
        where, values = ("", []) if condition is None else self.filters.compile(condition)
        if self.statement is not None:
            return filled_template(self.statement, vector, k, where, values)
        clause = f" WHERE {where}" if where else ""
        # The limit is a literal: for a parameter, the planner assumes a tenth of the table.
        text = f"SELECT {quoted(self.table.id)} FROM {self._relation}{clause} ORDER BY {order} LIMIT {k:d}"
        return text, [*values, vector]

    def answer(self, vector: NDArray[Any], k: int, condition: Filter | None) -> Answer:
        """One statement as production runs it."""
        with self._transaction():
            return self._answered(vector, k, condition)

    def _answered(self, vector: NDArray[Any], k: int, condition: Filter | None) -> Answer:
        statement, values = self._statement(self.order, _vector(vector), k, condition)
        before = self._scans()
        started = time.perf_counter()
        found = self._rows(statement, values)
        seconds = time.perf_counter() - started
        used = self._scans() > before if self.counts else None
        if self.session.files(self.table.number) != self._files:
            raise EngineError(
                f"{self._name}: the table or its index was truncated, rebuilt or replaced since the probe "
                "began, so the answers are not all of one index. Start the probe again"
            )
        return Answer([each[0] for each in found], seconds, used)

    def _scans(self) -> int:
        """Scans of vector indexes by this transaction."""
        return int(self._rows(_SCANS, (self._watched,))[0][0]) if self.counts else 0

    def exact(self, vector: NDArray[Any], depth: int, condition: Filter | None) -> Neighbors:
        """A scan of the table, over the stored vectors."""
        with self._transaction():
            return self._exactly(vector, depth, condition)

    def _exactly(self, vector: NDArray[Any], depth: int, condition: Filter | None) -> Neighbors:
        for name, value in _EXACT.items():
            self._rows("SELECT set_config(%s, %s, true)", (name, value))
        table, where = self.table, ""
        values: list[Any] = []
        if condition is not None:
            where, values = self.filters.compile(condition)
            where = f" AND {where}"
        asked = _vector(vector)
        statement = (
            f"SELECT {quoted(table.id)}, {self.distance} AS distance FROM {self._relation} WHERE "
            f"{quoted(table.vector)} IS NOT NULL{where} ORDER BY distance LIMIT {depth:d}"
        )
        before = self._scans()
        found = self._rows(statement, [asked, *values])
        if self._scans() > before:
            raise EngineError(
                f"{self._name}: PostgreSQL ran the exact search on an index. Use --truth stream"
            )
        distances = np.array([each[1] for each in found], np.float64)
        return Neighbors([each[0] for each in found], distances, len(found) < depth)

    def passing(self, condition: Filter) -> int:
        """Counted by one statement, with whatever index the planner likes."""
        where, values = self.filters.compile(condition)
        among = f"({where}) AND {quoted(self.table.vector)} IS NOT NULL"
        with self._transaction():
            return int(self._rows(f"SELECT count(*) FROM {self._relation} WHERE {among}", values)[0][0])

    def pair(self, vector: NDArray[Any], k: int, depth: int, condition: Filter | None) -> AnswerPair:
        """Both in one snapshot: writes in between are seen by neither."""
        with self._transaction():
            answer = self._answered(vector, k, condition)
            return AnswerPair(answer, self._exactly(vector, depth, condition), False)

    def sample(self, count: int, seed: int) -> tuple[list[Any], NDArray[Any]]:
        """Random rows that have a vector."""
        table, rows = self.table, self._found.rows or 1
        column = quoted(table.vector)
        # Twice as many as needed, so that the limit cuts and a small sample is whole.
        percent = min(100.0, 200.0 * count / rows + 100.0 * 50 / rows)
        drawn = "" if table.is_view else f" TABLESAMPLE BERNOULLI ({percent:.6f}) REPEATABLE ({seed:d})"
        # The order of a hash is random, and the same for the same seed.
        shuffled = f"md5({quoted(table.id)}::text || %s)"
        statement = (
            f"SELECT {quoted(table.id)}, {column} FROM {self._relation}{drawn} WHERE {column} IS NOT NULL "
            f"ORDER BY {shuffled} LIMIT {count:d}"
        )
        with self._transaction():
            found = self._rows(statement, [str(seed)])
        if not found:
            raise UsageError(f"{self._name}: no row has a vector")
        return [each[0] for each in found], np.stack([_as_array(each[1]) for each in found])

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """All rows with a vector, through a cursor of one read-only transaction."""
        table = self.table
        names = ", ".join(quoted(each) for each in (table.id, table.vector, *columns))
        with self._transaction():
            self.session.connection.execute(
                f"DECLARE recallatk_rows NO SCROLL CURSOR FOR SELECT {names} FROM {self._relation} "
                f"WHERE {quoted(table.vector)} IS NOT NULL"
            )
            while found := self._rows(f"FETCH {_FETCHED} FROM recallatk_rows"):
                yield _batch(found, columns)

    def remedy_for_short(self) -> str | None:
        """Iterative scans go on until enough rows pass the filter."""
        return iterative_scan_remedy(self._method, self._found.settings)

    def snippet(self, search: Mapping[str, Any]) -> str:
        """SET statements for a session and for a role."""
        return set_statements(search)

    def close(self) -> None:
        """Disconnect."""
        self.session.close()


def _vector(vector: NDArray[Any]) -> Any:
    return np.asarray(vector, np.float32)


def _as_array(value: Any) -> NDArray[np.float32]:
    found = value.to_numpy() if hasattr(value, "to_numpy") else value
    return np.asarray(found, np.float32)


def _batch(found: Sequence[Any], columns: Sequence[str]) -> pa.RecordBatch:
    vectors = np.stack([_as_array(each[1]) for each in found])
    flat = pa.array(vectors.reshape(-1), pa.float32())
    arrays = [
        pa.array([each[0] if isinstance(each[0], int | str) else str(each[0]) for each in found]),
        pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1]),
        *(pa.array([each[place] for each in found]) for place in range(2, 2 + len(columns))),
    ]
    return pa.RecordBatch.from_arrays(arrays, ["id", "vector", *columns])
