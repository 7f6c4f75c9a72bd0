"""scann: a partitioning tree, quantized scoring and exact reordering, in process."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from recallatk.adapters.base import Abilities, Constraint, Library
from recallatk.adapters.batch import QueryBatch, float32_matrix
from recallatk.adapters.live import IndexFacts, LiveIndex
from recallatk.adapters.snippet import INPUTS, UNIT, Setting, lines
from recallatk.core import Corpus, Knob, Metric
from recallatk.errors import EngineError
from recallatk.scratch import ScratchFolder

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Scann(Library):
    """ScaNN tree with asymmetric hashing and reordering; cosine is inner product on unit vectors."""

    name = "scann"
    family = "scann"
    distribution = "scann"
    extra = "scann"
    metrics = frozenset(Metric)
    abilities = Abilities(threads=True, clients=True, forks=True)
    build_knobs = (Knob("num_leaves", default=100, low=1, high=100_000, help="partitions of the corpus"),)
    search_knobs = (
        Knob("leaves_to_search", default=10, low=1, high=100_000, effort=True),
        Knob(
            "reorder",
            default=100,
            low=1,
            high=10_000,
            effort=True,
            reranks=True,
            help="rows reranked with exact scores",
        ),
    )
    constraints = (
        Constraint("at least 16 rows to train its codes", ("rows",), lambda rows: rows >= 16),
        Constraint(
            "num_leaves of at most the number of rows",
            ("num_leaves", "rows"),
            lambda num_leaves, rows: num_leaves <= rows,
        ),
        Constraint(
            "leaves_to_search of at most num_leaves",
            ("leaves_to_search", "num_leaves"),
            lambda leaves_to_search, num_leaves: leaves_to_search <= num_leaves,
        ),
        Constraint("reorder of at least k", ("reorder", "k"), lambda reorder, k: reorder >= k),
    )
    list_knob = "num_leaves"
    quantized = True
    leaves = 0

    def build(self, corpus: Corpus, metric: Metric, **parameters: int) -> None:
        """Train the partitions and the codes, and encode every row."""
        from scann import scann_ops_pybind

        self.close()
        vectors = float32_matrix(corpus.vectors.read(0, corpus.rows), unit=metric is Metric.COSINE)
        # Its authors recommend it for inner products; under l2, errors in all directions count equally.
        threshold = float("nan") if metric is Metric.L2 else 0.2
        distance = "squared_l2" if metric is Metric.L2 else "dot_product"
        leaves = self.leaves = parameters["num_leaves"]
        builder = scann_ops_pybind.builder(vectors, 10, distance)
        builder = builder.tree(leaves, leaves, training_sample_size=min(corpus.rows, 250_000))
        builder = builder.score_ah(2, anisotropic_quantization_threshold=threshold).reorder(100)
        try:
            self.index = builder.set_n_training_threads(self.threads).build()
        except RuntimeError as problem:
            raise EngineError(f"scann cannot build an index of {corpus.rows:,} rows: {problem}") from problem

    def nearest(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """Nearest rows in the searched partitions."""
        ask = self.index.search_batched_parallel if self.threads > 1 else self.index.search_batched
        effort = self.settings["reorder"], self.settings["leaves_to_search"]
        found, scores = ask(float32_matrix(batch.vectors), k, *effort)
        # Unfilled places have row 0 and no score.
        return np.where(np.isnan(scores), -1, found).astype(np.int64)

    def scans(self) -> bool:
        """Whether a search opens every partition."""
        return bool(self.settings["leaves_to_search"] >= self.leaves)

    def held(self) -> str:
        """The number of rows in the partitions."""
        return f"partitions of {self.index.get_health_stats()['sum_partition_sizes']:,} rows"

    def work(self) -> str:
        """The number of searches, and their effort."""
        leaves, reorder = self.settings["leaves_to_search"], self.settings["reorder"]
        return f"{self.searched:,} searches of {leaves} partitions, {reorder} rows scored exactly"

    def size_bytes(self) -> int:
        """Size of the serialized index."""
        with ScratchFolder() as folder:
            self.index.serialize(str(folder))
            return sum(file.stat().st_size for file in folder.iterdir())

    def set_threads(self, count: int) -> None:
        """Set the number of threads for training and batches."""
        super().set_threads(count)
        if self.index is not None:
            self.index.set_num_threads(count)

    @classmethod
    def snippet(cls, setting: Setting) -> str:
        """Code that trains partitions and codes, and searches with both efforts."""
        leaves, search = setting.build["num_leaves"], setting.search
        euclidean = setting.metric is Metric.L2
        distance = "squared_l2" if euclidean else "dot_product"
        threshold = 'float("nan")' if euclidean else "0.2"
        return lines(
            "import numpy as np" if setting.unit else None,
            "from scann import scann_ops_pybind",
            "",
            INPUTS,
            f"{UNIT}  # cosine" if setting.unit else None,
            "searcher = (",
            f'    scann_ops_pybind.builder(vectors, {setting.k}, "{distance}")',
            f"    .tree({leaves}, {leaves}, training_sample_size=min(len(vectors), 250_000))",
            f"    .score_ah(2, anisotropic_quantization_threshold={threshold})",
            f"    .reorder({search['reorder']})",
            "    .build()",
            ")",
            "",
            "found, distances = searcher.search_batched(",
            f"    queries, {setting.k}, pre_reorder_num_neighbors={search['reorder']}, "
            f"leaves_to_search={search['leaves_to_search']}",
            ")",
        )


class LiveScann(LiveIndex):
    """A searcher of scann; rows are numbered as they were given to the builder."""

    family = "scann"
    distribution = "scann"
    call_knobs: ClassVar = (
        Knob(
            "leaves_to_search", default=0, high=10_000_000, effort=True, help="0: as the searcher was built"
        ),
        Knob(
            "reorder",
            default=0,
            high=10_000_000,
            effort=True,
            help="rows reranked with exact scores; 0: as built",
        ),
    )
    aliases: ClassVar = {"pre_reorder_num_neighbors": "reorder"}

    def title(self) -> str:
        """The class."""
        return "scann.ScannSearcher"

    def facts(self) -> IndexFacts:
        """The distance measure of its configuration and the row count."""
        names = {
            "DotProductDistance": Metric.IP,
            "SquaredL2Distance": Metric.L2,
            "CosineDistance": Metric.COSINE,
        }
        found = re.search(r'distance_measure: "(\w+)"', str(self.index.config()))
        return IndexFacts(names.get(found[1]) if found else None, None, int(self.index.size()))

    @classmethod
    def require_data(cls, corpus: Corpus, metric: Metric) -> None:
        """Search for one row, which fails if the dimension differs."""
        super().require_data(corpus, metric)
        try:
            cls.held_object.search(float32_matrix(corpus.vectors.read(0, 1))[0], 1)
        except (RuntimeError, ValueError) as problem:
            raise EngineError(
                f"{cls.name} rejects vectors of {corpus.dimension} dimensions: {problem}"
            ) from problem

    def scanned(self) -> str | None:
        """All rows, where the searcher has no partitions."""
        return None if "partitioning" in str(self.index.config()) else "all rows: it was built without tree()"

    def ask(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """One search of the partitions."""
        effort = self.settings.get("reorder") or None, self.settings.get("leaves_to_search") or None
        found, scores = self.index.search_batched(batch.vectors, k, *effort)
        # Unfilled places have row 0 and no score.
        return np.where(np.isnan(scores), -1, found).astype(np.int64)
