"""annoy: a forest of random projection trees, in process and read-only after the build."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from recallatk.adapters.base import Abilities, Library
from recallatk.adapters.batch import QueryBatch, float32_matrix, padded
from recallatk.adapters.live import IndexFacts, LiveIndex, metric_of
from recallatk.adapters.snippet import INPUTS, Setting, lines
from recallatk.core import Corpus, Knob, Metric, blocks
from recallatk.errors import EngineError
from recallatk.scratch import ScratchFolder

if TYPE_CHECKING:
    from numpy.typing import NDArray

_METRICS: dict[Metric, Any] = {Metric.COSINE: "angular", Metric.IP: "dot", Metric.L2: "euclidean"}


class Annoy(Library):
    """AnnoyIndex: a forest of random projection trees; no inserts after the build, one query per call."""

    name = "annoy"
    family = "annoy"
    distribution = "annoy"
    extra = "annoy"
    metrics = frozenset(Metric)
    abilities = Abilities(batch=False, threads=True, deterministic=True, clients=True, forks=True)
    build_knobs = (Knob("n_trees", default=10, low=1, high=1000),)
    search_knobs = (
        Knob("search_k", default=1000, low=1, high=1_000_000, effort=True, help="nodes inspected per search"),
    )
    saved: ScratchFolder | None = None

    def build(self, corpus: Corpus, metric: Metric, **parameters: int) -> None:
        """Add every row and grow the trees."""
        import annoy

        self.close()
        self.index = annoy.AnnoyIndex(corpus.dimension, _METRICS[metric])
        self.index.set_seed(1)
        for start, block in blocks(corpus.vectors):
            for row, vector in enumerate(float32_matrix(block), start):
                self.index.add_item(row, vector)
        self.index.build(parameters["n_trees"], n_jobs=self.threads)

    def nearest(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """Nearest rows among the leaves that the search visited."""
        ask, search_k = self.index.get_nns_by_vector, self.settings["search_k"]
        return padded([ask(query, k, search_k) for query in batch.vectors.tolist()], k)

    def held(self) -> str:
        """The forest."""
        if not self.index.get_n_trees():
            raise self.unbuilt()
        return f"forest of {self.index.get_n_trees():,} trees over {self.index.get_n_items():,} rows"

    def work(self) -> str:
        """The number of searches; annoy does not count comparisons."""
        return f"{self.searched:,} searches at search_k = {self.settings['search_k']}"

    def size_bytes(self) -> int:
        """Size of the saved forest, the only size that annoy exposes."""
        # After saving, annoy searches the mapped file, so the file must exist until `close`.
        if self.saved is None:
            self.saved = ScratchFolder()
            self.index.save(str(self.saved.path / "index.annoy"))
        return (self.saved.path / "index.annoy").stat().st_size

    def close(self) -> None:
        """Release the forest and remove the file it may be mapped from."""
        if self.index is not None:
            self.index.unload()
        super().close()
        if self.saved is not None:
            self.saved.remove()
        self.saved = None

    @classmethod
    def snippet(cls, setting: Setting) -> str:
        """Code that adds rows one by one, builds, and searches one by one."""
        asked = f"index.get_nns_by_vector(query, {setting.k}, search_k={setting.search['search_k']})"
        return lines(
            "import annoy",
            "",
            INPUTS,
            f'index = annoy.AnnoyIndex(vectors.shape[1], "{_METRICS[setting.metric]}")',
            "for row, vector in enumerate(vectors):",
            "    index.add_item(row, vector)",
            f"index.build({setting.build['n_trees']})",
            "",
            f"found = [{asked} for query in queries]",
        )


class LiveAnnoy(LiveIndex):
    """An `annoy.AnnoyIndex`, which does not state its metric; item numbers are row numbers."""

    family = "annoy"
    distribution = "annoy"
    abilities: ClassVar = replace(LiveIndex.abilities, batch=False)
    call_knobs: ClassVar = (
        Knob("search_k", default=-1, low=-1, high=1_000_000_000, effort=True, help="-1: n_trees times k"),
    )

    def title(self) -> str:
        """The class."""
        return "annoy.AnnoyIndex"

    def facts(self) -> IndexFacts:
        """Dimension and row count; the distance between two items reveals the metric."""
        rows, metric = self.index.get_n_items(), None
        if rows and not self.index.get_n_trees():
            raise EngineError(f"{self.name} has no trees. Call index.build(n_trees) first")
        for row in range(1, min(rows, 10)):
            first, second = self.stored(np.array([0, row]))
            metric = metric or metric_of(first, second, self.index.get_distance(0, row))
        return IndexFacts(metric, self.index.f, rows)

    def stored(self, labels: NDArray[np.int64]) -> NDArray[Any]:
        """The vectors of some items."""
        return np.array([self.index.get_item_vector(int(each)) for each in labels])

    def ask(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """Search once per query."""
        ask, search_k = self.index.get_nns_by_vector, self.settings.get("search_k", -1)
        return padded([ask(query, k, search_k) for query in batch.vectors.tolist()], k)
