"""annoy: a forest of random splits that is fixed once it is built, in process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import Corpus, Knob, Metric, blocks
from recallatk.engines.base import Abilities, Engine
from recallatk.engines.matrix import float32_matrix
from recallatk.scratch import ScratchFolder

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from recallatk.engines.base import Filters

_METRICS: dict[Metric, Any] = {Metric.COSINE: "angular", Metric.IP: "dot", Metric.L2: "euclidean"}


class Annoy(Engine):
    """AnnoyIndex; it takes no rows after the build, and one query at a time."""

    name = "annoy"
    family = "annoy"
    distribution = "annoy"
    extra = "annoy"
    metrics = frozenset(Metric)
    abilities = Abilities(batch=False, threads=True, deterministic=True, saves=True, clients=True, forks=True)
    build_knobs = (Knob("n_trees", default=10, low=1, high=1000),)
    search_knobs = (
        Knob("search_k", default=1000, low=1, high=1_000_000, effort=True, help="nodes that a search opens"),
    )

    def __init__(self) -> None:
        self.index: Any = None
        self.measured: ScratchFolder | None = None
        self.threads = 1
        self.search_k = self.searched = 0

    def build(self, corpus: Corpus, metric: Metric, **parameters: int) -> None:
        """Hand over every row, and split them anew for each tree."""
        self._create(corpus.dimension, metric)
        self.index.set_seed(1)
        for start, block in blocks(corpus.vectors):
            for row, vector in enumerate(float32_matrix(block), start):
                self.index.add_item(row, vector)
        self.index.build(parameters["n_trees"], n_jobs=self.threads)

    def _create(self, dimension: int, metric: Metric) -> None:
        import annoy

        self.close()
        self.index = annoy.AnnoyIndex(dimension, _METRICS[metric])
        self.searched = 0

    def configure(self, **parameters: int) -> None:
        """Set how many nodes a search opens."""
        self.search_k, self.searched = parameters["search_k"], 0

    def search(self, queries: NDArray[Any], k: int, filters: Filters = None) -> NDArray[np.int64]:
        """The nearest rows of the leaves that the search came to."""
        self.refuse_filters(filters)
        rows = np.full((len(queries), k), -1, np.int64)
        for line, query in zip(rows, queries.tolist(), strict=True):
            found = self.index.get_nns_by_vector(query, k, self.search_k)
            line[: len(found)] = found
        count = len(queries)  # without a call in the next line, threads lose no count there
        self.searched += count
        return rows

    def exercised(self) -> str:
        """The forest, and how many searches there were; annoy does not count comparisons."""
        if self.index is None or not self.index.get_n_trees():
            raise self.unbuilt()
        done = f"; {self.searched:,} searches at search_k = {self.search_k}" if self.searched else ""
        return f"forest of {self.index.get_n_trees():,} trees over {self.index.get_n_items():,} rows{done}"

    def save(self, folder: Path) -> None:
        """Write the forest with its vectors."""
        self.index.save(str(folder / "index.annoy"))

    def load(self, folder: Path, corpus: Corpus, metric: Metric, **parameters: int) -> None:
        """Map the forest into memory; all of it is read now, so that no search pays for it."""
        self._create(corpus.dimension, metric)
        self.index.load(str(folder / "index.annoy"), prefault=True)

    def size_bytes(self) -> int:
        """The forest as annoy writes it, which is the only way to tell."""
        # Having saved, annoy maps the file in place of its memory: it has to stay until the end.
        if self.measured is None:
            self.measured = ScratchFolder()
            self.save(self.measured.path)
        return (self.measured.path / "index.annoy").stat().st_size

    def set_threads(self, count: int) -> None:
        """Threads of the build; a search has one."""
        self.threads = count

    def close(self) -> None:
        """Let go of the forest, and of the file that it may be mapped from."""
        if self.index is not None:
            self.index.unload()
        self.index = None
        if self.measured is not None:
            self.measured.remove()
        self.measured = None
