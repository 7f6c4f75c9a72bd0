"""scann: partitions, quantised scores and exact ones for the best, in process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import Corpus, Knob, Metric
from recallatk.engines.base import Abilities, Constraint, Engine
from recallatk.engines.matrix import float32_matrix
from recallatk.errors import EngineError
from recallatk.scratch import ScratchFolder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.engines.base import Filters


class Scann(Engine):
    """A tree with asymmetric hashing and reordering; cosine is inner product on vectors of unit length."""

    name = "scann"
    family = "scann"
    distribution = "scann"
    extra = "scann"
    metrics = frozenset(Metric)
    # It could save and load, but loading crashes the process (1.4.2) where usearch was imported first.
    abilities = Abilities(threads=True, clients=True, forks=True)
    build_knobs = (Knob("num_leaves", default=100, low=1, high=100_000, help="partitions of the corpus"),)
    search_knobs = (
        Knob("leaves_to_search", default=10, low=1, high=100_000, effort=True),
        Knob("reorder", default=100, low=1, high=10_000, effort=True, help="rows that are scored exactly"),
    )
    constraints = (
        Constraint("at least 16 rows to learn its codes from", ("rows",), lambda rows: rows >= 16),
        Constraint(
            "num_leaves of at most rows", ("num_leaves", "rows"), lambda num_leaves, rows: num_leaves <= rows
        ),
        Constraint(
            "leaves_to_search of at most num_leaves",
            ("leaves_to_search", "num_leaves"),
            lambda leaves_to_search, num_leaves: leaves_to_search <= num_leaves,
        ),
        Constraint("reorder of at least k", ("reorder", "k"), lambda reorder, k: reorder >= k),
    )

    def __init__(self) -> None:
        self.index: Any = None
        self.threads = 1
        self.leaves = self.reorder = self.searched = 0

    def build(self, corpus: Corpus, metric: Metric, **parameters: int) -> None:
        """Learn the partitions and the codes, and encode every row."""
        from scann import scann_ops_pybind

        vectors = float32_matrix(corpus.vectors.read(0, corpus.rows), unit=metric is Metric.COSINE)
        # What its authors advise for inner products; under l2 an error in every direction counts alike.
        threshold = float("nan") if metric is Metric.L2 else 0.2
        distance = "squared_l2" if metric is Metric.L2 else "dot_product"
        leaves = parameters["num_leaves"]
        builder = scann_ops_pybind.builder(vectors, 10, distance)
        builder = builder.tree(leaves, leaves, training_sample_size=min(corpus.rows, 250_000))
        builder = builder.score_ah(2, anisotropic_quantization_threshold=threshold).reorder(100)
        try:
            self.index = builder.set_n_training_threads(self.threads).build()
        except RuntimeError as problem:
            raise EngineError(f"scann cannot build an index of {corpus.rows:,} rows: {problem}") from problem
        self.searched = 0

    def configure(self, **parameters: int) -> None:
        """Set how many partitions a search opens and how many rows it scores exactly."""
        self.leaves, self.reorder, self.searched = parameters["leaves_to_search"], parameters["reorder"], 0

    def search(self, queries: NDArray[Any], k: int, filters: Filters = None) -> NDArray[np.int64]:
        """The nearest rows of the partitions that it opened."""
        self.refuse_filters(filters)
        ask = self.index.search_batched_parallel if self.threads > 1 else self.index.search_batched
        found, scores = ask(float32_matrix(queries), k, self.reorder, self.leaves)
        count = len(queries)  # without a call in the next line, threads lose no count there
        self.searched += count
        # Places that were not filled have row 0 and no score.
        return np.where(np.isnan(scores), -1, found).astype(np.int64)

    def exercised(self) -> str:
        """The rows that its partitions hold, and how many searches there were."""
        if self.index is None:
            raise self.unbuilt()
        held = f"partitions of {self.index.get_health_stats()['sum_partition_sizes']:,} rows"
        if not self.searched:
            return held
        return (
            f"{held}; {self.searched:,} searches of {self.leaves} partitions, "
            f"{self.reorder} rows scored exactly"
        )

    def size_bytes(self) -> int:
        """The files that it would write."""
        with ScratchFolder() as folder:
            self.index.serialize(str(folder))
            return sum(file.stat().st_size for file in folder.iterdir())

    def set_threads(self, count: int) -> None:
        """Threads of learning and of batches."""
        self.threads = count
        if self.index is not None:
            self.index.set_num_threads(count)

    def close(self) -> None:
        """Let go of the index."""
        self.index = None
