"""faiss-hnsw: a graph index over float32 vectors, in process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recallatk.core import Corpus, Knob, Metric, blocks
from recallatk.engines.base import Abilities, Engine
from recallatk.engines.matrix import float32_matrix
from recallatk.errors import EngineError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from recallatk.engines.base import Filters


class FaissHnsw(Engine):
    """IndexHNSWFlat; cosine is inner product on vectors of unit length."""

    name = "faiss-hnsw"
    family = "faiss"
    distribution = "faiss-cpu"
    abilities = Abilities(threads=True)
    metrics = frozenset(Metric)
    build_knobs = (
        Knob("M", default=16, low=2, high=256),
        Knob("ef_construction", default=200, low=1, high=5000),
    )
    search_knobs = (Knob("ef", default=64, low=1, high=10_000, effort=True),)

    def __init__(self) -> None:
        self.index: Any = None

    def build(self, corpus: Corpus, metric: Metric, **parameters: int) -> None:
        """Insert every row, block by block."""
        import faiss

        kind = faiss.METRIC_L2 if metric is Metric.L2 else faiss.METRIC_INNER_PRODUCT
        unit = metric is Metric.COSINE
        self.index = faiss.IndexHNSWFlat(corpus.dimension, parameters["M"], kind)
        self.index.hnsw.efConstruction = parameters["ef_construction"]
        for _, block in blocks(corpus.vectors):
            self.index.add(float32_matrix(block, unit=unit))
        # The statistics are the library's and count the searches of every index in the process.
        faiss.cvar.hnsw_stats.reset()

    def configure(self, **parameters: int) -> None:
        """Set how many candidates a search keeps."""
        import faiss

        self.index.hnsw.efSearch = parameters["ef"]
        faiss.cvar.hnsw_stats.reset()

    def search(self, queries: NDArray[Any], k: int, filters: Filters = None) -> NDArray[np.int64]:
        """The nearest rows that the walk over the graph found."""
        self.refuse_filters(filters)
        rows: NDArray[np.int64] = self.index.search(float32_matrix(queries), k)[1]
        return rows

    def exercised(self) -> str:
        """How much of the corpus the walks compared, which a fallback scan could not show."""
        import faiss

        stats = faiss.cvar.hnsw_stats
        if self.index is None or not stats.n1:
            raise EngineError("faiss-hnsw: no search went through the graph since it was configured")
        compared = stats.ndis / stats.n1
        return (
            f"graph of {self.index.ntotal:,} nodes, {self.index.hnsw.max_level + 1} levels; "
            f"{compared:,.0f} comparisons a query"
        )

    def size_bytes(self) -> int:
        """The index as faiss would write it."""
        import faiss

        return int(faiss.serialize_index(self.index).nbytes)

    def version(self) -> str:
        """Faiss's version."""
        import faiss

        return f"faiss {faiss.__version__}"

    def close(self) -> None:
        """Let go of the index."""
        self.index = None

    def set_threads(self, count: int) -> None:
        """OpenMP threads of faiss."""
        import faiss

        faiss.omp_set_num_threads(count)
