"""duckdb: the HNSW index of DuckDB's vss extension, in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from recallatk.core import Corpus, Knob, Metric, blocks
from recallatk.engines.base import Abilities
from recallatk.engines.matrix import float32_matrix
from recallatk.engines.sql import SqlEngine, packaged
from recallatk.errors import EngineError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from recallatk.engines.base import Filters

_METRICS = {
    Metric.L2: ("l2sq", "array_distance"),
    Metric.IP: ("ip", "array_negative_inner_product"),
    Metric.COSINE: ("cosine", "array_cosine_distance"),
}


class DuckDB(SqlEngine):
    """One table and its index; filters are refused, since the extension only drops rows that it has found."""

    name = "duckdb"
    family = "duckdb"
    distribution = "duckdb"
    extra = "duckdb"
    metrics = frozenset(Metric)
    # It has no clients: searches of two connections at once mix up their answers or crash (vss of 1.5.5).
    abilities = Abilities(updates=True, batch=False, threads=True, exact_search=True)
    build_knobs = (
        Knob("M", default=16, low=2, high=256),
        Knob("ef_construction", default=128, low=1, high=5000, effort=True),
    )
    search_knobs = (Knob("ef", default=64, low=1, high=10_000, effort=True),)

    def __init__(self) -> None:
        self.connection: Any = None
        self.threads = 1
        self.rows = 0
        self.asked: tuple[str, list[Any]] | None = None

    def build(self, corpus: Corpus, metric: Metric, **parameters: int) -> None:
        """Fill the table, then make the index."""
        import duckdb

        self.close()
        # What is not installed is not fetched from anywhere.
        self.connection = duckdb.connect(":memory:", config={"autoinstall_known_extensions": "false"})
        kind, self.function = _METRICS[metric]
        self.dimension = corpus.dimension
        with self.reported("cannot build"):
            self.connection.load_extension(str(_extension(duckdb.__version__)))
            self.set_threads(self.threads)
            self.connection.execute(f"CREATE TABLE items (number BIGINT, vector FLOAT[{self.dimension}])")
            for _, block in blocks(corpus.vectors):
                self.insert(block)
            self.connection.execute(
                f"CREATE INDEX items_vector ON items USING HNSW (vector) WITH (metric = '{kind}', "
                f"M = {parameters['M']:d}, ef_construction = {parameters['ef_construction']:d})"
            )

    def configure(self, **parameters: int) -> None:
        """Set how many candidates a search keeps."""
        self.connection.execute(f"SET hnsw_ef_search = {parameters['ef']:d}")

    def search(self, queries: NDArray[Any], k: int, filters: Filters = None) -> NDArray[np.int64]:
        """The nearest rows, one statement a query."""
        self.refuse_filters(filters)
        statement = self._statement(k)
        return self.answers(queries, k, None, lambda query, _: self._rows(statement, query))

    def _statement(self, k: int) -> str:
        # The extension sees its index only where the limit is a number.
        nearest = f"ORDER BY {self.function}(vector, ?::FLOAT[{self.dimension}]) LIMIT {k:d}"
        return f"SELECT number FROM items {nearest}"  # noqa: S608

    def _rows(self, statement: str, query: NDArray[np.float32]) -> list[Any]:
        self.asked = statement, [query.tolist()]
        found: list[Any] = self.connection.execute(*self.asked).fetchall()
        return found

    def exact_search(self, queries: NDArray[Any], k: int, filters: Filters = None) -> NDArray[np.int64]:
        """The same without the optimizer that puts the index into plans."""
        self.connection.execute("SET disabled_optimizers = 'extension'")
        asked = self.asked
        try:
            return self.search(queries, k, filters)
        finally:
            self.asked = asked
            self.connection.execute("RESET disabled_optimizers")

    def exercised(self) -> str:
        """The plan of the statement that was asked last, or would be, which must scan the index."""
        if self.connection is None:
            raise self.unbuilt()
        statement, values = self.asked or (self._statement(1), [[0.0] * self.dimension])
        with self.reported("cannot explain"):
            plan = self.connection.execute(f"EXPLAIN {statement}", values).fetchall()[0][1]
        if "HNSW_INDEX_SCAN" not in plan:
            raise EngineError(f"{self.name}: the index did not answer; the plan was\n{plan}")
        return "EXPLAIN: HNSW_INDEX_SCAN of items_vector"

    def insert(self, vectors: NDArray[Any]) -> None:
        """Add rows."""
        flat = pa.array(float32_matrix(vectors).ravel())
        numbers = pa.array(np.arange(self.rows, self.rows + len(vectors)))
        block = pa.table(
            [numbers, pa.FixedSizeListArray.from_arrays(flat, self.dimension)], ["number", "vector"]
        )
        with self.reported("cannot insert"):
            self.connection.register("block", block)
            self.connection.execute("INSERT INTO items SELECT number, vector FROM block")
            self.connection.unregister("block")
        self.rows += len(vectors)

    def delete(self, rows: NDArray[np.int64]) -> None:
        """Take rows out; the index keeps their places."""
        # Not compacted: an index that was loses most of its rows at the next insert or delete (vss of 1.5.5).
        with self.reported("cannot delete"):
            self.connection.execute("DELETE FROM items WHERE number IN (SELECT unnest(?))", [rows.tolist()])

    def size_bytes(self) -> int:
        """What the extension says that the index takes in memory."""
        ((size,),) = self.connection.execute(
            "SELECT approx_memory_usage FROM pragma_hnsw_index_info()"
        ).fetchall()
        return int(size)

    def set_threads(self, count: int) -> None:
        """Threads of the database."""
        self.threads = count
        if self.connection is not None:
            self.connection.execute(f"SET threads = {count:d}")

    def close(self) -> None:
        """Let go of the database."""
        connection, self.connection, self.asked, self.rows = self.connection, None, None, 0
        if connection is not None:
            connection.close()

    def driver_errors(self) -> tuple[type[Exception], ...]:
        """All that the library raises."""
        import duckdb

        return (duckdb.Error,)


def _extension(version: str) -> Path:
    """The file of the extension for this version of the library, which takes no other."""
    files = packaged("duckdb_extension_vss", "extensions/*/vss.duckdb_extension")
    for file in files:
        if file.parent.name == f"v{version}":
            return file
    has = ", ".join(file.parent.name for file in files) or "none"
    raise EngineError(
        f"duckdb {version} needs its vss extension of the same version, and there is {has}. "
        f"Install it: pip install duckdb-extension-vss=={version}"
    )
