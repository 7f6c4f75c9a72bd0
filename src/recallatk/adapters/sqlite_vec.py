"""sqlite-vec: an exact scan in SQLite's vec0 table, with filters as SQL subqueries."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from recallatk.adapters.base import Abilities, Constraint
from recallatk.adapters.batch import QueryBatch, float32_matrix
from recallatk.adapters.snippet import INPUTS, Setting, lines
from recallatk.adapters.sql import SqlEngine, SqlFilters, inserted_values, metadata_columns
from recallatk.core import Corpus, Metric, blocks

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.adapters.sql import Column
    from recallatk.filters import Filter, Prefix
    from recallatk.filters.expression import Literal

# The library's own limit.
_MOST_NEIGHBORS = 4096
_TYPES = {
    "boolean": "INTEGER",
    "integer": "INTEGER",
    "float": "REAL",
    "text": "TEXT",
    "integers": "TEXT",  # as JSON
    "texts": "TEXT",
}


class JsonFilters(SqlFilters):
    """Filters on lists in JSON, and on prefixes as ranges, which is how SQLite itself optimizes LIKE."""

    def starts(self, condition: Prefix, values: list[Literal]) -> str:
        """The bounds of the prefix: SQLite compares text by bytes."""
        return self._text(condition.range(), values)

    def contains(self, column: Column, word: str, wanted: list[str]) -> str:
        """Whether elements of the JSON list equal these values; null where the list is null."""
        groups = [[each] for each in wanted] if word == "all" else [wanted]
        listed = f"FROM json_each({column.identifier}) WHERE value IN"
        parts = [f"EXISTS (SELECT 1 {listed} ({', '.join(group)}))" for group in groups]
        return f"(CASE WHEN {column.identifier} IS NOT NULL THEN {' AND '.join(parts)} END)"


class SqliteVec(SqlEngine):
    """Exact scan in an in-memory SQLite database, through apsw because Python's often loads no extensions."""

    name = "sqlite-vec"
    family = "sqlite"
    distribution = "sqlite-vec"
    extra = "sqlite-vec"
    metrics = frozenset({Metric.L2, Metric.COSINE})
    # An in-memory database cannot be shared with a second connection.
    abilities = Abilities(filters=True, updates=True, batch=False, deterministic=True, exact_search=True)
    constraints = (Constraint(f"k of at most {_MOST_NEIGHBORS:,}", ("k",), lambda k: k <= _MOST_NEIGHBORS),)

    def build(self, corpus: Corpus, metric: Metric, **parameters: Any) -> None:
        """Fill a table of vectors and a table of metadata."""
        import apsw
        import sqlite_vec

        self.close()
        self.connection = apsw.Connection(":memory:")
        self.connection.enable_load_extension(True)
        self.connection.load_extension(sqlite_vec.loadable_path())
        self.connection.enable_load_extension(False)
        columns = metadata_columns(corpus)
        self.filters = JsonFilters(columns, "?")
        listed = "".join(f", {each.identifier} {_TYPES[each.kind]}" for each in columns.values())
        with self.reported("cannot build"):
            self.connection.execute(
                "CREATE VIRTUAL TABLE items USING "
                f"vec0(vector float[{corpus.dimension}] distance_metric={metric})"
            )
            self.connection.execute(f"CREATE TABLE metadata (number INTEGER PRIMARY KEY{listed})")
        for start, block in blocks(corpus.vectors):
            self._add(block, [each.values.slice(start, len(block)) for each in columns.values()])

    def nearest(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """Nearest rows, one statement per query."""
        return self.answers(batch, k, lambda query, where: self._rows(query, k, where))

    def _rows(self, query: NDArray[np.float32], k: int, condition: Filter | None) -> list[Any]:
        among = ""
        values: list[Any] = []
        if condition is not None:
            where, values = self.compiled(condition)
            among = f"AND rowid IN (SELECT number FROM metadata WHERE {where})"  # noqa: S608
        statement = f"SELECT rowid FROM items WHERE vector MATCH ? AND k = ? {among}"  # noqa: S608
        found: list[Any] = self.connection.execute(statement, (query.tobytes(), k, *values)).fetchall()
        return found

    def compiled(self, condition: Filter) -> tuple[str, list[Any]]:
        """The condition on the table of metadata, and its values."""
        return self.filters.compile(condition)

    def exact_search(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """The same search: this engine is always exact."""
        return self.nearest(batch, k)

    def exercised(self) -> str:
        """Evidence of a scan: a vec0 table has no index that a search could bypass."""
        if self.connection is None:
            raise self.unbuilt()
        with self.reported("cannot count its rows"):
            ((rows,),) = self.connection.execute("SELECT count(*) FROM items").fetchall()
        return f"exact: vec0 compares all {rows:,} rows"

    def insert(self, vectors: NDArray[Any], metadata: pa.Table | None = None) -> None:
        """Add rows to both tables."""
        self._add(vectors, inserted_values(self.filters.columns, metadata, len(vectors)))

    def _add(self, vectors: NDArray[Any], values: list[pa.ChunkedArray]) -> None:
        numbers = range(self.rows, self.rows + len(vectors))
        stored = zip(numbers, (each.tobytes() for each in float32_matrix(vectors)), strict=True)
        beside = zip(numbers, *(_cells(each) for each in values), strict=True)
        places = ", ".join("?" * (1 + len(values)))
        with self.reported("cannot insert"), self.connection:
            self.connection.executemany("INSERT INTO items (rowid, vector) VALUES (?, ?)", stored)
            self.connection.executemany(f"INSERT INTO metadata VALUES ({places})", beside)  # noqa: S608
        self.rows += len(vectors)

    def delete(self, rows: NDArray[np.int64]) -> None:
        """Delete rows."""
        with self.reported("cannot delete"), self.connection:
            self.connection.executemany(
                "DELETE FROM items WHERE rowid = ?", ((row,) for row in rows.tolist())
            )

    def size_bytes(self) -> int:
        """Bytes of the database's pages."""
        ((pages,),) = self.connection.execute("PRAGMA page_count").fetchall()
        ((page,),) = self.connection.execute("PRAGMA page_size").fetchall()
        return int(pages * page)

    def close(self) -> None:
        """Release the database."""
        connection, self.connection, self.rows = self.connection, None, 0
        if connection is not None:
            connection.close()

    def driver_errors(self) -> tuple[type[Exception], ...]:
        """The exceptions of the library."""
        import apsw

        return (apsw.Error,)

    @classmethod
    def snippet(cls, setting: Setting) -> str:
        """Code that fills the table and searches it; there are no parameters."""
        return lines(
            "import apsw  # its SQLite can load extensions, Python's own often cannot",
            "import sqlite_vec",
            "",
            INPUTS,
            'connection = apsw.Connection("items.db")',
            "connection.enable_load_extension(True)",
            "connection.load_extension(sqlite_vec.loadable_path())",
            "connection.execute(",
            '    "CREATE VIRTUAL TABLE items USING "',
            f'    f"vec0(vector float[{{vectors.shape[1]}}] distance_metric={setting.metric})"',
            ")",
            "with connection:",
            "    connection.executemany(",
            '        "INSERT INTO items (rowid, vector) VALUES (?, ?)",',
            "        ((row, vector.tobytes()) for row, vector in enumerate(vectors)),",
            "    )",
            "",
            f'statement = "SELECT rowid FROM items WHERE vector MATCH ? AND k = {setting.k}"',  # noqa: S608
            "found = [",
            "    [row for (row,) in connection.execute(statement, (query.tobytes(),))] for query in queries",
            "]",
        )


def _cells(values: pa.ChunkedArray) -> list[Any]:
    """Values as SQLite takes them: lists as JSON."""
    return [json.dumps(each) if isinstance(each, list) else each for each in values.to_pylist()]
