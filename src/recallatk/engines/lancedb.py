"""lancedb: the inverted lists of LanceDB, flat, quantised or with a graph in each, on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from recallatk.core import Corpus, Knob, Metric, blocks
from recallatk.engines.base import Abilities, Constraint
from recallatk.engines.matrix import float32_matrix
from recallatk.engines.sql import SqlEngine, SqlFilters, metadata_columns
from recallatk.errors import EngineError
from recallatk.scratch import ScratchFolder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.engines.base import Filters
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
    """One table in a temporary folder; a filter is applied before the search."""

    name = "lancedb"
    family = "lancedb"
    distribution = "lancedb"
    extra = "lancedb"
    metrics = frozenset(Metric)
    # Its runtime has threads of its own, which a forked copy would lack.
    abilities = Abilities(filters=True, updates=True, batch=False, exact_search=True, clients=True)
    build_knobs = (
        Knob("index", default="IVF_PQ", choices=tuple(_INDEXES)),
        Knob("partitions", default=0, high=65_536, scale="linear", help="0 leaves the number to LanceDB"),
        Knob("sub_vectors", default=0, high=4096, scale="linear", help="of PQ; 0 leaves it to LanceDB"),
        Knob("M", default=20, low=2, high=256, help="of HNSW"),
        Knob("ef_construction", default=300, low=1, high=5000, effort=True, help="of HNSW"),
    )
    search_knobs = (
        Knob("probes", default=20, low=1, high=65_536, effort=True),
        Knob("ef", default=150, low=1, high=10_000, effort=True, help="of HNSW"),
        Knob("refine", default=0, high=100, scale="linear", effort=True, help="vectors read per neighbour"),
    )
    constraints = (
        Constraint(
            "ef of at least k for each vector that is read again",
            ("index", "ef", "refine", "k"),
            lambda index, ef, refine, k: "HNSW" not in index or ef >= k * max(1, refine),
        ),
    )

    def __init__(self) -> None:
        self.folder: ScratchFolder | None = None
        self.table: Any = None
        self.asked: Any = None

    def build(self, corpus: Corpus, metric: Metric, **parameters: Any) -> None:
        """Write the table, then make the index."""
        import lancedb

        self.close()
        self.folder = ScratchFolder()
        self.metric, self.index, self.dimension = _METRICS[metric], parameters["index"], corpus.dimension
        self.columns = metadata_columns(corpus)
        # The library binds no parameters.
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
            read = (self._batch(block) for _, block in blocks(corpus.vectors))
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

    def _batch(self, vectors: NDArray[Any]) -> pa.RecordBatch:
        """The next rows, with the metadata that they have."""
        flat = pa.array(float32_matrix(vectors).ravel())
        start, count = self.rows, len(vectors)
        arrays = [
            pa.array(np.arange(start, start + count)),
            pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1]),
        ]
        for each in self.columns.values():
            beside = each.values.slice(start, count)
            arrays.append(beside.combine_chunks() if len(beside) else pa.nulls(count, each.values.type))
        self.rows += count
        return pa.record_batch(arrays, schema=self.schema)

    def configure(self, **parameters: int) -> None:
        """Set how many partitions, and candidates of each, a search reads."""
        self.effort = parameters

    def search(self, queries: NDArray[Any], k: int, filters: Filters = None) -> NDArray[np.int64]:
        """The nearest rows, one call a query."""
        return self.answers(queries, k, filters, lambda query, where: self._rows(query, k, where))

    def _rows(self, query: NDArray[np.float32], k: int, condition: Filter | None) -> list[Any]:
        asked = self._asked(query, k, condition).nprobes(self.effort["probes"])
        if "HNSW" in self.index:
            asked = asked.ef(self.effort["ef"])
        self.asked = asked.refine_factor(self.effort["refine"]) if self.effort["refine"] else asked
        return _numbers(self.asked)

    def exact_search(self, queries: NDArray[Any], k: int, filters: Filters = None) -> NDArray[np.int64]:
        """The same past the index."""
        return self.answers(
            queries,
            k,
            filters,
            lambda query, where: _numbers(self._asked(query, k, where).bypass_vector_index()),
        )

    def _asked(self, query: NDArray[Any], k: int, condition: Filter | None) -> Any:
        asked = self.table.search(query).distance_type(self.metric).limit(k).select(["number", "_distance"])
        if condition is None:
            return asked
        return asked.where(self.filters.compile(condition)[0], prefilter=True)

    def exercised(self) -> str:
        """The plan of what was asked last or would be asked, and how many rows the index holds."""
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
                f"{self.name}: no index answered: {self.index} was made of no row of {self.rows:,}, "
                "which may be too few (quantisers need 256), or was dropped"
            )
        return f"plan: ANN search of {held.index_type} over {held.num_indexed_rows:,} rows"

    def call(self) -> str:
        """One query of the library, which runs in threads of its own."""
        return "library call"

    def in_process(self) -> bool:
        """The index lies in files, of which the library keeps what it has read."""
        return False

    def insert(self, vectors: NDArray[Any]) -> None:
        """Add rows without metadata; they are compared one by one until the index is optimised."""
        with self.reported("cannot insert"):
            self.table.add(pa.Table.from_batches([self._batch(vectors)]))

    def delete(self, rows: NDArray[np.int64]) -> None:
        """Take rows out."""
        with self.reported("cannot delete"):
            self.table.delete(f"number IN ({', '.join(map(str, rows.tolist()))})")

    def size_bytes(self) -> int | None:
        """The files of the index."""
        if self.folder is None:
            return None
        files = (self.folder.path / "items.lance" / "_indices").rglob("*")
        return sum(file.stat().st_size for file in files if file.is_file()) or None

    def close(self) -> None:
        """Let go of the table and its folder."""
        folder, self.folder, self.table, self.asked = self.folder, None, None, None
        if folder is not None:
            folder.remove()

    def driver_errors(self) -> tuple[type[Exception], ...]:
        """Python's own kinds."""
        return RuntimeError, ValueError, OSError


def _numbers(asked: Any) -> list[Any]:
    return [(row,) for row in asked.to_arrow()["number"].to_pylist()]
