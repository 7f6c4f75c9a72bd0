"""exact: a flat scan in float32, the baseline that every index has to beat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recallatk.core import Corpus, Metric
from recallatk.engines.base import Abilities, Engine
from recallatk.engines.matrix import float32_matrix
from recallatk.errors import EngineError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from recallatk.engines.base import Filters


class Exact(Engine):
    """Every row is compared with every query."""

    name = "exact"
    family = "exact"
    distribution = "faiss-cpu"
    metrics = frozenset(Metric)
    abilities = Abilities(threads=True, deterministic=True, exact_search=True)

    def __init__(self) -> None:
        self.index: Any = None
        self.answered = 0

    def build(self, corpus: Corpus, metric: Metric, **parameters: int) -> None:
        """Hold the vectors, of unit length under cosine."""
        import faiss

        kind = faiss.METRIC_L2 if metric is Metric.L2 else faiss.METRIC_INNER_PRODUCT
        unit = metric is Metric.COSINE
        self.index = faiss.IndexFlat(corpus.dimension, kind)
        self.index.add(float32_matrix(corpus.vectors.read(0, corpus.rows), unit=unit))

    def search(self, queries: NDArray[Any], k: int, filters: Filters = None) -> NDArray[np.int64]:
        """The nearest rows by the kernel's float32 scores."""
        self.refuse_filters(filters)
        rows: NDArray[np.int64] = self.index.search(float32_matrix(queries), k)[1]
        self.answered += len(rows)
        return rows

    def exact_search(self, queries: NDArray[Any], k: int, filters: Filters = None) -> NDArray[np.int64]:
        """What it does anyway."""
        return self.search(queries, k, filters)

    def exercised(self) -> str:
        """A flat scan has no index to miss, once it has been asked."""
        if self.index is None or not self.answered:
            raise EngineError("exact: nothing was searched yet")
        return f"flat scan of {self.index.ntotal:,} rows"

    def size_bytes(self) -> int:
        """The vectors."""
        return int(self.index.ntotal * self.index.d * 4)

    def version(self) -> str:
        """Faiss's version."""
        import faiss

        return f"faiss {faiss.__version__}"

    def close(self) -> None:
        """Let go of the vectors."""
        self.index = None

    def set_threads(self, count: int) -> None:
        """OpenMP threads of faiss."""
        import faiss

        faiss.omp_set_num_threads(count)
