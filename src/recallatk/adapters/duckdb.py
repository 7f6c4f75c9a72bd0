"""duckdb: the HNSW index of DuckDB's vss extension, in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from recallatk.adapters.base import Abilities
from recallatk.adapters.batch import QueryBatch, float32_matrix
from recallatk.adapters.snippet import INPUTS, Setting, lines
from recallatk.adapters.sql import SqlEngine, packaged
from recallatk.core import Corpus, Knob, Metric, blocks
from recallatk.errors import EngineError

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

_METRICS = {
    Metric.L2: ("l2sq", "array_distance"),
    Metric.IP: ("ip", "array_negative_inner_product"),
    Metric.COSINE: ("cosine", "array_cosine_distance"),
}


class DuckDB(SqlEngine):
    """DuckDB table with an HNSW index (vss); no filters, because the extension filters after the search."""

    name = "duckdb"
    family = "duckdb"
    distribution = "duckdb"
    extra = "duckdb"
    metrics = frozenset(Metric)
    # No clients: concurrent searches on two connections mix up their answers or crash (vss of DuckDB 1.5.5).
    abilities = Abilities(updates=True, batch=False, threads=True, exact_search=True)
    build_knobs = (
        Knob("M", default=16, low=2, high=256),
        Knob("ef_construction", default=128, low=1, high=5000, effort=True),
    )
    search_knobs = (Knob("ef", default=64, low=1, high=10_000, effort=True),)

    asked: tuple[str, list[Any]] | None = None
    """The last statement, and its values."""

    def build(self, corpus: Corpus, metric: Metric, **parameters: int) -> None:
        """Fill the table, then create the index."""
        import duckdb

        self.close()
        # Never download an extension.
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
        """Set the number of candidates that a search keeps."""
        super().configure(**parameters)
        self.connection.execute(f"SET hnsw_ef_search = {parameters['ef']:d}")

    def nearest(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """Nearest rows, one statement per query."""
        statement = self._statement(k)
        return self.answers(batch, k, lambda query, _: self._rows(statement, query))

    def _statement(self, k: int) -> str:
        # The extension uses its index only where the limit is a literal.
        nearest = f"ORDER BY {self.function}(vector, ?::FLOAT[{self.dimension}]) LIMIT {k:d}"
        return f"SELECT number FROM items {nearest}"  # noqa: S608

    def _rows(self, statement: str, query: NDArray[np.float32]) -> list[Any]:
        self.asked = statement, [query.tolist()]
        found: list[Any] = self.connection.execute(*self.asked).fetchall()
        return found

    def exact_search(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """Search with the index optimizer disabled, so that every row is scanned."""
        self.refuse_filters(batch)
        self.connection.execute("SET disabled_optimizers = 'extension'")
        asked = self.asked
        try:
            return self.nearest(batch, k)
        finally:
            self.asked = asked
            self.connection.execute("RESET disabled_optimizers")

    def exercised(self) -> str:
        """The plan of the last or a possible next statement, which must scan the index."""
        if self.connection is None:
            raise self.unbuilt()
        statement, values = self.asked or (self._statement(1), [[0.0] * self.dimension])
        with self.reported("cannot explain"):
            plan = self.connection.execute(f"EXPLAIN {statement}", values).fetchall()[0][1]
        if "HNSW_INDEX_SCAN" not in plan:
            raise EngineError(f"{self.name}: the index did not answer; the plan was\n{plan}")
        return "EXPLAIN: HNSW_INDEX_SCAN of items_vector"

    def insert(self, vectors: NDArray[Any], metadata: pa.Table | None = None) -> None:
        """Add rows."""
        flat = pa.array(float32_matrix(vectors).ravel())
        numbers = pa.array(self.next_numbers(len(vectors)))
        block = pa.table(
            [numbers, pa.FixedSizeListArray.from_arrays(flat, self.dimension)], ["number", "vector"]
        )
        with self.reported("cannot insert"):
            self.connection.register("block", block)
            self.connection.execute("INSERT INTO items SELECT number, vector FROM block")
            self.connection.unregister("block")
        self.rows += len(vectors)

    def delete(self, rows: NDArray[np.int64]) -> None:
        """Delete rows; the index is not compacted."""
        # A compacted index loses most rows at the next insert or delete (vss of DuckDB 1.5.5). For
        # the same reason the engine has no `maintain`.
        with self.reported("cannot delete"):
            self.connection.execute("DELETE FROM items WHERE number IN (SELECT unnest(?))", [rows.tolist()])

    def size_bytes(self) -> int:
        """Memory of the index, as the extension reports it."""
        ((size,),) = self.connection.execute(
            "SELECT approx_memory_usage FROM pragma_hnsw_index_info()"
        ).fetchall()
        return int(size)

    def set_threads(self, count: int) -> None:
        """Set the number of threads of the database."""
        super().set_threads(count)
        if self.connection is not None:
            self.connection.execute(f"SET threads = {count:d}")

    def close(self) -> None:
        """Release the database."""
        connection, self.connection, self.asked, self.rows = self.connection, None, None, 0
        if connection is not None:
            connection.close()

    def driver_errors(self) -> tuple[type[Exception], ...]:
        """The exceptions of the library."""
        import duckdb

        return (duckdb.Error,)

    @classmethod
    def snippet(cls, setting: Setting) -> str:
        """Code that fills a table, creates the index, sets ef, and searches one by one."""
        build = setting.build
        kind, function = _METRICS[setting.metric]
        return lines(
            "import duckdb",
            "import pyarrow as pa",
            "",
            INPUTS,
            "dimension = vectors.shape[1]",
            "connection = duckdb.connect()",
            'connection.execute("INSTALL vss; LOAD vss")',
            'connection.execute(f"CREATE TABLE items (number BIGINT, vector FLOAT[{dimension}])")',
            "column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), dimension)",
            'rows = pa.table({"number": range(len(vectors)), "vector": column})',
            'connection.register("rows", rows)',
            'connection.execute("INSERT INTO items SELECT number, vector FROM rows")',
            "connection.execute(",
            f"    \"CREATE INDEX items_vector ON items USING HNSW (vector) WITH (metric = '{kind}', \"",
            f'    "M = {build["M"]}, ef_construction = {build["ef_construction"]})"',
            ")",
            "",
            f'connection.execute("SET hnsw_ef_search = {setting.search["ef"]}")',
            f'nearest = f"{function}(vector, ?::FLOAT[{{dimension}}])"',
            f'statement = f"SELECT number FROM items ORDER BY {{nearest}} LIMIT {setting.k}"',  # noqa: S608
            "found = [",
            "    [row for (row,) in connection.execute(statement, [query]).fetchall()]",
            "    for query in queries.tolist()",
            "]",
        )


def _extension(version: str) -> Path:
    """The extension file for this version of the library, the only one that it loads."""
    files = packaged("duckdb_extension_vss", "extensions/*/vss.duckdb_extension")
    for file in files:
        if file.parent.name == f"v{version}":
            return file
    has = ", ".join(file.parent.name for file in files) or "none"
    raise EngineError(
        f"duckdb {version} needs the vss extension of the same version; installed: {has}. "
        f"Install it: pip install duckdb-extension-vss=={version}"
    )
