"""lancedb: LanceDB's IVF indexes on disk: flat, quantized, or with an HNSW graph in each list."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from recallatk.adapters.base import Abilities, Constraint
from recallatk.adapters.batch import QueryBatch, float32_matrix
from recallatk.adapters.database import told
from recallatk.adapters.live import SAMPLE, IndexFacts, LiveCollection
from recallatk.adapters.snippet import INPUTS, Setting, lines
from recallatk.adapters.sql import Column, SqlEngine, SqlFilters, inserted_values, metadata_columns
from recallatk.core import Corpus, Knob, Metric, blocks
from recallatk.errors import EngineError
from recallatk.scratch import ScratchFolder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from recallatk.filters import Filter

_METRICS = {Metric.L2: "l2", Metric.IP: "dot", Metric.COSINE: "cosine"}
_INDEXES = {
    "IVF_FLAT": "IvfFlat",
    "IVF_SQ": "IvfSq",
    "IVF_PQ": "IvfPq",
    "IVF_RQ": "IvfRq",
    "IVF_HNSW_FLAT": "HnswFlat",
    "IVF_HNSW_SQ": "HnswSq",
    "IVF_HNSW_PQ": "HnswPq",
}


class LanceDB(SqlEngine):
    """LanceDB table in a temporary folder; filters apply before the search."""

    name = "lancedb"
    family = "lancedb"
    distribution = "lancedb"
    extra = "lancedb"
    metrics = frozenset(Metric)
    # A forked process would lack the runtime's threads.
    column_indexes = False
    abilities = Abilities(filters=True, updates=True, batch=False, exact_search=True, clients=True)
    build_knobs = (
        Knob("index", default="IVF_PQ", choices=tuple(_INDEXES)),
        Knob("partitions", default=0, high=65_536, scale="linear", help="0: LanceDB chooses"),
        Knob("sub_vectors", default=0, high=4096, scale="linear", help="PQ subvectors; 0: LanceDB chooses"),
        Knob("M", default=20, low=2, high=256, help="of HNSW"),
        Knob("ef_construction", default=300, low=1, high=5000, effort=True, help="of HNSW"),
    )
    search_knobs = (
        Knob("probes", default=20, low=1, high=65_536, effort=True),
        Knob("ef", default=150, low=1, high=10_000, effort=True, help="of HNSW"),
        Knob(
            "refine",
            default=0,
            high=100,
            scale="linear",
            effort=True,
            reranks=True,
            help="vectors reranked per neighbor",
        ),
    )
    constraints = (
        Constraint(
            "ef of at least k * refine",
            ("index", "ef", "refine", "k"),
            lambda index, ef, refine, k: "HNSW" not in index or ef >= k * max(1, refine),
        ),
    )

    whole_vectors = ("index", ("IVF_FLAT", "IVF_HNSW_FLAT"))
    folder: ScratchFolder | None = None
    table: Any = None
    asked: Any = None
    """The last query."""

    def build(self, corpus: Corpus, metric: Metric, **parameters: Any) -> None:
        """Write the table, then create the index."""
        import lancedb

        self.close()
        self.folder = ScratchFolder()
        self.metric, self.index, self.dimension = _METRICS[metric], parameters["index"], corpus.dimension
        self.columns = metadata_columns(corpus)
        # The library has no bound parameters.
        self.filters = SqlFilters(self.columns, None)
        self.rows = 0
        self.schema = pa.schema(
            {
                "number": pa.int64(),
                "vector": pa.list_(pa.float32(), corpus.dimension),
                **{each.identifier: each.values.type for each in self.columns.values()},
            }
        )
        with self.reported("cannot build"):
            database = lancedb.connect(self.folder.path)
            read = (
                self._batch(block, [each.values.slice(start, len(block)) for each in self.columns.values()])
                for start, block in blocks(corpus.vectors)
            )
            self.table = database.create_table("items", read, schema=self.schema)
            self.table.create_index("vector", config=self._index(**parameters))

    def _index(self, **parameters: Any) -> Any:
        import lancedb.index

        options = {"distance_type": self.metric, "num_partitions": parameters["partitions"] or None}
        if "HNSW" in self.index:
            options |= {"m": parameters["M"], "ef_construction": parameters["ef_construction"]}
        if "PQ" in self.index:
            options["num_sub_vectors"] = parameters["sub_vectors"] or None
        return getattr(lancedb.index, _INDEXES[self.index])(**options)

    def _batch(self, vectors: NDArray[Any], values: list[pa.ChunkedArray]) -> pa.RecordBatch:
        """The next rows, with their metadata."""
        flat = pa.array(float32_matrix(vectors).ravel())
        arrays = [
            pa.array(self.next_numbers(len(vectors))),
            pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1]),
            *(each.combine_chunks() for each in values),
        ]
        self.rows += len(vectors)
        return pa.record_batch(arrays, schema=self.schema)

    def nearest(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """Nearest rows, one call per query."""
        return self.answers(batch, k, lambda query, where: self._rows(query, k, where))

    def _rows(self, query: NDArray[np.float32], k: int, condition: Filter | None) -> list[Any]:
        effort = self.settings
        asked = self._asked(query, k, condition).nprobes(effort["probes"])
        if "HNSW" in self.index:
            asked = asked.ef(effort["ef"])
        self.asked = asked.refine_factor(effort["refine"]) if effort["refine"] else asked
        return _numbers(self.asked)

    def exact_search(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """Search every row, bypassing the index."""
        return self.answers(
            batch, k, lambda query, where: _numbers(self._asked(query, k, where).bypass_vector_index())
        )

    def _asked(self, query: NDArray[Any], k: int, condition: Filter | None) -> Any:
        asked = self.table.search(query).distance_type(self.metric).limit(k).select(["number", "_distance"])
        if condition is None:
            return asked
        return asked.where(self.compiled(condition), prefilter=True)

    def compiled(self, condition: Filter) -> str:
        """The condition as SQL with literals."""
        return self.filters.compile(condition)[0]

    def exercised(self) -> str:
        """The plan of the last or a possible next query, and the number of indexed rows."""
        if self.table is None:
            raise self.unbuilt()
        asked = (
            self._asked(np.zeros(self.dimension, np.float32), 1, None) if self.asked is None else self.asked
        )
        with self.reported("cannot explain"):
            plan = asked.explain_plan()
            held = self.table.index_stats("vector_idx")
        if "ANN" not in plan or held is None or not held.num_indexed_rows:
            raise EngineError(
                f"{self.name}: the index did not answer: {self.index} covers 0 of {self.rows:,} rows. "
                "It was dropped, or the rows are too few (quantizers need 256)"
            )
        return f"plan: ANN search of {held.index_type} over {held.num_indexed_rows:,} rows"

    def call(self) -> str:
        """One query; the library runs it in its own threads."""
        return "library call"

    def in_process(self) -> bool:
        """False: the index is in files, and the library caches parts of them."""
        return False

    def insert(self, vectors: NDArray[Any], metadata: pa.Table | None = None) -> None:
        """Add rows; searches scan them until `maintain` optimizes the index."""
        values = inserted_values(self.columns, metadata, len(vectors))
        with self.reported("cannot insert"):
            self.table.add(pa.Table.from_batches([self._batch(vectors, values)]))

    def delete(self, rows: NDArray[np.int64]) -> None:
        """Delete rows."""
        with self.reported("cannot delete"):
            self.table.delete(f"number IN ({', '.join(map(str, rows.tolist()))})")

    def maintain(self) -> None:
        """Compact the files, and index inserted rows."""
        with self.reported("cannot optimize"):
            self.table.optimize()

    def size_bytes(self) -> int | None:
        """The files of the index."""
        if self.folder is None:
            return None
        files = (self.folder.path / "items.lance" / "_indices").rglob("*")
        return sum(file.stat().st_size for file in files if file.is_file()) or None

    def close(self) -> None:
        """Release the table and its folder."""
        folder, self.folder, self.table, self.asked = self.folder, None, None, None
        if folder is not None:
            folder.remove()

    def driver_errors(self) -> tuple[type[Exception], ...]:
        """The built-in exceptions that the library raises."""
        return RuntimeError, ValueError, OSError

    @classmethod
    def snippet(cls, setting: Setting) -> str:
        """Code that writes the table, creates the index, and searches one by one."""
        kind, search = setting.build["index"], setting.search
        effort = f".nprobes({search['probes']})"
        effort += f".ef({search['ef']})" if "HNSW" in kind else ""
        effort += f".refine_factor({search['refine']})" if search["refine"] else ""
        return lines(
            "import lancedb",
            "import lancedb.index",
            "import pyarrow as pa",
            "",
            INPUTS,
            'database = lancedb.connect("./lancedb")',
            "column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])",
            'rows = pa.table({"number": range(len(vectors)), "vector": column})',
            'table = database.create_table("items", rows)',
            f'table.create_index("vector", config=lancedb.index.{_INDEXES[kind]}({_options(setting)}))',
            "",
            "found = [",
            f'    table.search(query).distance_type("{_METRICS[setting.metric]}"){effort}.limit({setting.k})',
            '    .select(["number", "_distance"]).to_arrow()["number"].to_pylist()',
            "    for query in queries",
            "]",
        )


def _numbers(asked: Any) -> list[Any]:
    return [(row,) for row in asked.to_arrow()["number"].to_pylist()]


def _options(setting: Setting) -> str:
    build, kind = setting.build, setting.build["index"]
    options = {"distance_type": repr(_METRICS[setting.metric]).replace("'", '"')}
    if build["partitions"]:
        options["num_partitions"] = build["partitions"]
    if "HNSW" in kind:
        options |= {"m": build["M"], "ef_construction": build["ef_construction"]}
    if "PQ" in kind and build["sub_vectors"]:
        options["num_sub_vectors"] = build["sub_vectors"]
    return ", ".join(f"{name}={value}" for name, value in options.items())


class LiveLanceTable(LiveCollection):
    """A table of LanceDB, opened synchronously; its ids are in the corpus's id column, else in `id`."""

    family = "lancedb"
    distribution = "lancedb"
    abilities: ClassVar = replace(LiveCollection.abilities, filters=True, batch=False)
    call_knobs: ClassVar = (
        Knob("nprobes", default=20, low=1, high=1_000_000, effort=True),
        Knob("ef", default=150, low=1, high=1_000_000, effort=True, help="of HNSW"),
        Knob(
            "refine_factor",
            default=1,
            low=1,
            high=10_000,
            effort=True,
            reranks=True,
            help="vectors reranked per neighbor",
        ),
    )
    aliases: ClassVar = {"probes": "nprobes", "refine": "refine_factor"}
    id_column = "id"
    vector_column = "vector"
    distance = "l2"
    _columns: Mapping[str, Column] = MappingProxyType({})

    def title(self) -> str:
        """The class."""
        return "lancedb.Table"

    def facts(self) -> IndexFacts:
        """Metric of the vector index, if there is one; dimension and row count."""
        with told(self.name):
            column, rows, index = self._vectors_in(), self.index.count_rows(), self._vector_index()
        metrics = {name: metric for metric, name in _METRICS.items()}
        metric = None if index is None else metrics.get(str(index.distance_type))
        return IndexFacts(metric, self.index.schema.field(column).type.list_size, rows)

    def _vectors_in(self) -> str:
        """The only vector column, or the one named `vector`."""
        found = [each.name for each in self.index.schema if pa.types.is_fixed_size_list(each.type)]
        if len(found) == 1 or "vector" in found:
            return found[0] if len(found) == 1 else "vector"
        raise EngineError(f"{self.name} has {len(found)} vector columns. Accepted: one, or one named vector")

    def _vector_index(self) -> Any:
        column = self._vectors_in()
        names = [each.name for each in self.index.list_indices() if each.columns == [column]]
        return self.index.index_stats(names[0]) if names else None

    def some_ids(self, corpus: Corpus) -> list[Any]:
        """Some ids."""
        column, names = self._ids_in(corpus), self.index.schema.names
        if column not in names:
            raise EngineError(f"{self.name} has no column {column!r} of ids. It has {', '.join(names)}")
        with told(self.name):
            return list(self.index.search().select([column]).limit(SAMPLE).to_arrow()[column].to_pylist())

    def _ids_in(self, corpus: Corpus) -> str:
        own = corpus.id_column
        return own if own is not None and own in self.index.schema.names else "id"

    def stored(self, labels: NDArray[np.int64]) -> NDArray[Any]:
        """Some vectors."""
        column = self._vectors_in()
        with told(self.name):
            found = self.index.search().select([column]).limit(SAMPLE).to_arrow()[column]
        return np.array(found.to_pylist())

    def attach(self, corpus: Corpus, metric: Metric, **parameters: Any) -> None:
        """Choose the columns of ids and vectors, and the distance."""
        super().attach(corpus, metric, **parameters)
        self.id_column, self.vector_column = self._ids_in(corpus), self._vectors_in()
        self.distance = _METRICS[self.facts().metric or metric]
        self._columns = metadata_columns(corpus)

    def translated(self, condition: Filter) -> str:
        """The condition in SQL over the table's own columns."""
        own = {name: self._own(name) for name in condition.columns() if name in self._columns}
        return SqlFilters({**self._columns, **own}, None).compile(condition)[0]

    def _own(self, name: str) -> Column:
        """A column of the corpus under the name that it has in the table."""
        column, names = self._columns[name], self.index.schema.names
        if name not in names:
            raise EngineError(f"{self.name} has no column {name!r} to filter by. It has {', '.join(names)}")
        if pa.types.is_temporal(column.type) or "`" in name:
            raise EngineError(f"{self.name} cannot filter by {name!r}, which holds {column.type}")
        return replace(column, identifier=f"`{name}`")

    def lists(self, batch: QueryBatch, k: int) -> list[list[Any]]:
        """Search once per query."""
        filters = batch.filters or [None] * batch.count
        return [self._answer(query, k, each) for query, each in zip(batch.vectors, filters, strict=True)]

    def _answer(self, query: NDArray[Any], k: int, condition: Filter | None) -> list[Any]:
        asked = self.index.search(query, vector_column_name=self.vector_column)
        asked = asked.distance_type(self.distance).limit(k).select([self.id_column, "_distance"])
        if condition is not None:
            asked = asked.where(self.compiled(condition), prefilter=True)
        for name, value in self.settings.items():
            asked = getattr(asked, name)(value)
        return list(asked.to_arrow()[self.id_column].to_pylist())

    def held(self) -> str:
        """The table with its vector index."""
        index = self._vector_index()
        if index is None:
            return f"{super().held()}, without a vector index"
        return f"{super().held()}, {index.index_type} over {index.num_indexed_rows:,} rows"

    def scanned(self) -> str | None:
        """All rows without a vector index, else those that it does not hold."""
        with told(self.name):
            index = self._vector_index()
        if index is None or not index.num_indexed_rows:
            return "all rows: the table has no vector index (table.create_index makes one)"
        if not index.num_unindexed_rows:
            return None
        return (
            f"{index.num_unindexed_rows:,} rows that its index does not hold yet (table.optimize adds them)"
        )
