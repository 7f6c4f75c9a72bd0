"""pgvector in any PostgreSQL: the table, its index, query plans, and client sessions."""

from __future__ import annotations

import contextlib
import copy
import secrets
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from recallatk.adapters.base import Abilities, FilterCounts
from recallatk.adapters.batch import QueryBatch, float32_matrix
from recallatk.adapters.postgres_server import DSN_VARIABLE, connected, stated_dsn
from recallatk.adapters.postgres_usage import CallCounter
from recallatk.adapters.sql import Column, SqlEngine, SqlFilters, inserted_values, metadata_columns
from recallatk.core import Corpus, Knob, Metric, blocks
from recallatk.errors import EngineError
from recallatk.units import share_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.adapters.base import Engine
    from recallatk.filters import Filter

    Statement = tuple[str, list[Any]]

POSTGRES_BUILD_KNOBS = (
    Knob(
        "storage", default="vector", choices=("vector", "halfvec", "bit"), help="type of the indexed vectors"
    ),
    Knob("dsn", default="", help=f"connection string; default: ${DSN_VARIABLE}, else a temporary server"),
)
POSTGRES_SEARCH_KNOBS = (
    Knob(
        "rerank",
        default=4,
        low=1,
        high=100,
        reranks=True,
        help="candidates reranked per neighbor, with storage=bit",
    ),
    Knob(
        "plan",
        default="index",
        choices=("index", "free"),
        help="whether the planner may scan the table instead",
    ),
    Knob(
        "plan_cache_mode",
        default="force_custom_plan",
        choices=("force_custom_plan", "auto", "force_generic_plan"),
        help="plan each call for its own values, or reuse a generic plan",
    ),
)
OPERATORS = {Metric.L2: ("<->", "l2"), Metric.IP: ("<#>", "ip"), Metric.COSINE: ("<=>", "cosine")}
_MOST_DIMENSIONS = {"vector": 2_000, "halfvec": 4_000, "bit": 64_000}
_TYPES = {
    "boolean": "boolean",
    "integer": "bigint",
    "float": "double precision",
    "text": 'text COLLATE "C"',
    "integers": "bigint[]",
    "texts": "text[]",
}
_COPY_TYPES = {
    "boolean": "bool",
    "integer": "int8",
    "float": "float8",
    "text": "text",
    "integers": "int8[]",
    "texts": "text[]",
}
_INDEX = "items_vector"
_WORKERS = ("maintenance_workers", "workers_per_gather")


class ArrayFilters(SqlFilters):
    """Filters on arrays, with PostgreSQL's operators for overlap and containment."""

    def contains(self, column: Column, word: str, wanted: list[str]) -> str:
        """Whether the array overlaps or contains another one; null elements equal nothing."""
        operator = {"any": "&&", "all": "@>"}[word]
        return f"({column.identifier} {operator} ARRAY[{', '.join(wanted)}]::{_TYPES[column.kind]})"


class Postgres(SqlEngine):
    """The table of any pgvector index, its plans and its sessions."""

    family = "pgvector"
    distribution = "pgvector"
    extra = "pgvector"
    metrics = frozenset(Metric)
    abilities = Abilities(
        filters=True,
        updates=True,
        reads_during_writes=True,
        batch=False,
        threads=True,
        exact_search=True,
        clients=True,
        forks=True,
    )
    secret_variables = (DSN_VARIABLE, "PGPASSWORD")
    whole_vectors = ("storage", ("vector",))
    column_indexes = False
    method: ClassVar[str]
    """The access method of the index."""
    counter: CallCounter
    rerank = 1
    owner = True
    setting = 0
    """The number of `configure` calls."""

    def __init__(self) -> None:
        self.schema = f"recallatk_{secrets.token_hex(8)}"
        self.session: dict[str, Any] = {}
        """Parameters set in this session."""

    @classmethod
    def with_clause(cls, build: dict[str, Any]) -> str:
        """The WITH options of CREATE INDEX."""
        raise NotImplementedError

    @classmethod
    def reaches(cls, **parameters: Any) -> str | None:
        """The server, if the build names one."""
        return "the PostgreSQL server" if stated_dsn(parameters["dsn"]) else None

    def build(self, corpus: Corpus, metric: Metric, **parameters: Any) -> None:
        """Load every row with COPY, create the index, and run ANALYZE."""
        storage, dimension = parameters["storage"], corpus.dimension
        if dimension > _MOST_DIMENSIONS[storage]:
            raise EngineError(
                f"{self.name}: a {storage} index supports at most {_MOST_DIMENSIONS[storage]:,} dimensions, "
                f"the corpus has {dimension:,}"
            )
        self.close()
        self.dsn, self.dimension, self.session, self.owner = parameters["dsn"], dimension, {}, True
        self.connection = connected(self.dsn, self.name)
        self.counter = self._counter()
        with self.reported("cannot build"):
            self.counter.require_counts()
            run = self.connection.execute
            run("CREATE EXTENSION IF NOT EXISTS vector")
            self._register()
            self.set_threads(self.threads)
            self._describe(metric, storage, dimension)
            self._load(corpus)
            expression = f"({self.indexed}) {self.operator_class}"
            options = self.with_clause(parameters)
            run(f"CREATE INDEX {_INDEX} ON items USING {self.method} ({expression}) WITH ({options})")
            run("ANALYZE items")
            self.set({"enable_seqscan": "off"})
            self.counter.create()

    def _register(self) -> None:
        from pgvector.psycopg import register_vector

        register_vector(self.connection)

    def _counter(self) -> CallCounter:
        return CallCounter(self.name, self.connection, "items", _INDEX)

    def client(self) -> Engine:
        """Another session with the same parameters."""
        if self.connection is None:
            raise self.unbuilt()
        other = copy.copy(self)
        other.connection = connected(self.dsn, self.name)
        other.counter = other._counter()
        other.session, other.owner = {}, False
        try:
            other.set(self.session)
            with other.reported("cannot open another session"):
                other._register()
        except BaseException:
            other.close()
            raise
        return other

    def call(self) -> str:
        """One prepared statement, including the connection."""
        remote = self.connection is not None and not self.connection.info.host.startswith(("/", "@"))
        return f"SQL statement over {'TCP' if remote else 'a local socket'}"

    def in_process(self) -> bool:
        """False: the index is in the server's processes."""
        return False

    def _describe(self, metric: Metric, storage: str, dimension: int) -> None:
        operator, word = OPERATORS[metric]
        self.bit = storage == "bit"
        cast = "" if storage == "vector" else f"::{storage}({dimension})"
        self.indexed = f"binary_quantize(vector){cast}" if self.bit else f"vector{cast}"
        self.operator_class = "bit_hamming_ops" if self.bit else f"{storage}_{word}_ops"
        asked = f"binary_quantize(%s){cast}" if self.bit else f"%s{cast}"
        self.order = f"({self.indexed}) {'<~>' if self.bit else operator} {asked}"
        self.distance = f"vector {operator} %s"

    def _load(self, corpus: Corpus) -> None:
        columns = metadata_columns(corpus)
        self.filters = ArrayFilters(columns, "%s")
        listed = "".join(f", {each.identifier} {_TYPES[each.kind]}" for each in columns.values())
        run = self.connection.execute
        run(f"CREATE SCHEMA {self.schema}")
        (path,) = run("SHOW search_path").fetchone()
        self.set({"search_path": f"{self.schema}, {path}"})
        run(f"CREATE TABLE items (number bigint, vector vector({corpus.dimension}){listed})")
        self.rows = 0
        for start, block in blocks(corpus.vectors):
            self._copy(block, [each.values.slice(start, len(block)) for each in columns.values()])

    def _copy(self, block: NDArray[Any], values: list[pa.ChunkedArray]) -> None:
        columns = self.filters.columns.values()
        names = "".join(f", {each.identifier}" for each in columns)
        kinds = [_COPY_TYPES[each.kind] for each in columns]
        beside = [each.to_pylist() for each in values]
        statement = f"COPY items (number, vector{names}) FROM STDIN WITH (FORMAT BINARY)"
        with self.connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types(["int8", "vector", *kinds])
            for offset, vector in enumerate(float32_matrix(block)):
                copy.write_row((self.rows + offset, vector, *(column[offset] for column in beside)))
        self.rows += len(block)

    def configure(self, **parameters: Any) -> None:
        """Set the search parameters of this session."""
        super().configure(**parameters)
        self.rerank = parameters["rerank"]
        # The planner prefers to scan a small table, but the index is to be measured. plan=free measures the
        # planner's own choice, also with filters.
        self.set(
            {
                "enable_seqscan": "on" if parameters["plan"] == "free" else "off",
                "plan_cache_mode": parameters["plan_cache_mode"],
            }
        )
        self.setting += 1
        if self.owner:
            with self.reported("cannot be configured"):
                self.counter.restart()

    def set(self, settings: dict[str, Any]) -> None:
        """Set parameters of the session."""
        self.session |= settings
        with self.reported("cannot be configured"):
            for name, value in settings.items():
                self.connection.execute("SELECT set_config(%s, %s, false)", (name, str(value)))

    def statement(self, query: NDArray[Any], k: int, condition: Filter | None) -> Statement:
        """The statement of one query, with its parameters."""
        nearest, values = self._nearest(self.order, k * self.rerank if self.bit else k, condition)
        if self.bit:
            nearest = f"FROM (SELECT * {nearest}) AS candidates ORDER BY {self.distance} LIMIT {k:d}"
        # A new text makes a new prepared statement: a plan cached at one setting must not serve the next.
        return f"SELECT number {nearest} /* {self.setting} */", [*values, *[query] * (1 + self.bit)]

    def exact_statement(self, query: NDArray[Any], k: int, condition: Filter | None) -> Statement:
        """The exact statement of one query, over the table's float32 vectors."""
        nearest, values = self._nearest(self.distance, k, condition)
        return f"SELECT number {nearest}", [*values, query]

    def _nearest(self, order: str, k: int, condition: Filter | None) -> Statement:
        where, values = ("TRUE", []) if condition is None else self.compiled(condition)
        # The limit is a literal: for a parameter, the planner assumes a tenth of the table.
        return f"FROM items WHERE {where} ORDER BY {order} LIMIT {k:d}", values

    def compiled(self, condition: Filter) -> Statement:
        """The condition of the WHERE clause, and its values."""
        return self.filters.compile(condition)

    def nearest(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """Nearest rows, one prepared statement per query."""
        self.counter.calls += batch.count
        return self.answers(batch, k, lambda *asked: self._rows(self.statement, k, *asked))

    def exact_search(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """Nearest rows by scanning the table."""
        with self.reported("cannot search"), self.connection.transaction():
            for setting in ("enable_indexscan = off", "enable_bitmapscan = off", "enable_seqscan = on"):
                self.connection.execute(f"SET LOCAL {setting}")
            return self.answers(batch, k, lambda *asked: self._rows(self.exact_statement, k, *asked))

    def _rows(self, statement: Any, k: int, query: NDArray[np.float32], where: Filter | None) -> list[Any]:
        asked = statement(query, k, where)
        found: list[Any] = self.connection.execute(*asked, prepare=True, binary=True).fetchall()
        return found

    def exercised(self) -> str:
        """The number of calls that scanned the index since the last `configure`; before any call, a plan.

        The count includes the calls of clients.
        """
        if self.connection is None:
            raise self.unbuilt()
        if not self.owner:
            return self._planned()
        with self.reported("cannot read which plan ran"):
            used = self.counter.usage()
        if not used.calls:
            return self._planned()
        if not used.scans:
            raise EngineError(
                f"{self.name}: the index did not answer: PostgreSQL scanned the table in all "
                f"{used.calls:,} calls. Use plan=index to force the index"
            )
        scanned = share_of(used.scans, used.calls, "calls", "scanned", "scanned")
        others = "" if used.scans == used.calls else ", the others scanned the table"
        return f"{scanned} {_INDEX} ({self.method}){others}, by the counters of PostgreSQL"

    def _planned(self) -> str:
        """The plan of a search."""
        statement, values = self.statement(np.zeros(self.dimension, np.float32), 1, None)
        with self.reported("cannot explain"):
            ((plan,),) = self.connection.execute(f"EXPLAIN (FORMAT JSON) {statement}", values).fetchall()
        nodes = list(_nodes(plan[0]["Plan"]))
        if not any(node.get("Index Name") == _INDEX for node in nodes):
            ran = " over ".join(node["Node Type"] for node in nodes)
            raise EngineError(f"{self.name}: the index did not answer; PostgreSQL ran {ran}")
        return f"EXPLAIN: Index Scan using {_INDEX} ({self.method})"

    def filter_counts(self, batch: QueryBatch, k: int) -> FilterCounts | None:
        """Rows of the index scan, by EXPLAIN ANALYZE of the statement with the query's own values."""
        (query,) = float32_matrix(batch.vectors)
        condition = None if batch.filters is None else batch.filters[0]
        statement, values = self.statement(query, k, condition)
        options = "ANALYZE, TIMING OFF, SUMMARY OFF, FORMAT JSON"
        # It scans the index like any other call, and the server counts that.
        self.counter.calls += 1
        with self.reported("cannot explain"):
            ((plan,),) = self.connection.execute(f"EXPLAIN ({options}) {statement}", values).fetchall()
        for node in _nodes(plan[0]["Plan"]):
            if node.get("Index Name") == _INDEX:
                removed = round(node.get("Rows Removed by Filter", 0) * node["Actual Loops"])
                passed = round(node["Actual Rows"] * node["Actual Loops"])
                return FilterCounts(passed + removed, removed)
        return None

    def insert(self, vectors: NDArray[Any], metadata: pa.Table | None = None) -> None:
        """Add rows with COPY."""
        with self.reported("cannot insert"):
            self._copy(vectors, inserted_values(self.filters.columns, metadata, len(vectors)))

    def delete(self, rows: NDArray[np.int64]) -> None:
        """Delete rows; the index skips them until VACUUM removes them."""
        with self.reported("cannot delete"):
            self.connection.execute("DELETE FROM items WHERE number = ANY(%s)", (rows.tolist(),))

    def maintain(self) -> None:
        """Run VACUUM and ANALYZE, which removes deleted rows from the index."""
        with self.reported("cannot vacuum"):
            self.connection.execute("VACUUM (ANALYZE) items")

    def size_bytes(self) -> int:
        """Size of the index on disk."""
        with self.reported("cannot read its size"):
            found = self.connection.execute(f"SELECT pg_relation_size('{_INDEX}')").fetchone()
        return int(found[0])

    def version(self) -> str | None:
        """Versions of the server and of its extension."""
        if self.connection is None:
            return None
        asked = (
            "SELECT current_setting('server_version'), extversion FROM pg_extension WHERE extname = 'vector'"
        )
        server, extension = self.connection.execute(asked).fetchone()
        return f"PostgreSQL {server}, pgvector {extension}"

    def set_threads(self, count: int) -> None:
        """Set the number of parallel workers, in addition to the session's process."""
        super().set_threads(count)
        if self.connection is not None:
            self.set({f"max_parallel_{kind}": count - 1 for kind in _WORKERS})

    def close(self) -> None:
        """Disconnect; the engine that made the table drops it first."""
        connection, self.connection = self.connection, None
        if connection is not None:
            import psycopg

            # A broken connection cannot drop anything.
            with contextlib.suppress(psycopg.Error), connection:
                if not self.owner:
                    self.counter.hand_over()
                else:
                    connection.execute(f"DROP SCHEMA IF EXISTS {self.schema} CASCADE")

    def driver_errors(self) -> tuple[type[Exception], ...]:
        """The exceptions of psycopg."""
        import psycopg

        return (psycopg.Error,)


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from _nodes(below)
