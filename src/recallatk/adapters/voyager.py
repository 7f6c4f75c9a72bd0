"""voyager: Spotify's HNSW graph with optional 8-bit storage, in process."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from recallatk.adapters.batch import QueryBatch, float32_matrix
from recallatk.adapters.hnsw_library import HnswLibrary
from recallatk.adapters.live import IndexFacts, LiveIndex
from recallatk.adapters.snippet import INPUTS, Setting, lines
from recallatk.core import Knob, Metric
from recallatk.errors import EngineError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Corpus

_SPACES = {Metric.COSINE: "Cosine", Metric.IP: "InnerProduct", Metric.L2: "Euclidean"}
_STORAGES = {"f32": "Float32", "e4m3": "E4M3", "i8": "Float8"}


class Voyager(HnswLibrary):
    """voyager.Index: an HNSW graph with float or 8-bit storage."""

    name = "voyager"
    family = "voyager"
    distribution = "voyager"
    extra = "voyager"
    build_knobs = (
        *HnswLibrary.build_knobs,
        Knob("storage", default="f32", choices=tuple(_STORAGES), help="i8 accepts only values from -1 to 1"),
    )
    whole_vectors = ("storage", ("f32",))

    def create(self, corpus: Corpus, metric: Metric, parameters: dict[str, Any]) -> None:
        """Create an empty index with capacity for the corpus."""
        import voyager

        self.index = voyager.Index(
            getattr(voyager.Space, _SPACES[metric]),
            corpus.dimension,
            M=parameters["M"],
            ef_construction=parameters["ef_construction"],
            random_seed=1,
            max_elements=corpus.rows,
            storage_data_type=getattr(voyager.StorageDataType, _STORAGES[parameters["storage"]]),
        )

    def add(self, vectors: NDArray[Any], numbers: NDArray[np.int64]) -> None:
        """Insert nodes; voyager resizes itself."""
        try:
            self.index.add_items(float32_matrix(vectors).copy(), numbers.tolist(), num_threads=self.threads)
        except (RuntimeError, ValueError) as problem:
            raise EngineError(f"voyager rejects these vectors: {problem}") from problem

    def nearest(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """Nearest rows found by walking the graph."""
        possible, ef = min(k, self.live), self.settings["ef"]
        asked = float32_matrix(batch.vectors)
        if not asked.flags.writeable:  # voyager refuses read-only arrays
            asked = asked.copy()
        try:
            found = self.index.query(asked, possible, self.threads, ef)[0]
        except Exception as problem:  # voyager raises a bare Exception for too few answers
            raise EngineError(f"voyager at k = {possible} and ef = {ef}: {problem}") from problem
        rows: NDArray[np.int64] = found.view(np.int64)
        return rows

    def nodes(self) -> int:
        """The number of nodes in the graph, including deleted ones."""
        return int(self.index.num_elements)

    def size_bytes(self) -> int:
        """Size of the serialized index."""
        return len(self.index.as_bytes())

    @classmethod
    def snippet(cls, setting: Setting) -> str:
        """Code that adds every row and searches with ef."""
        build = setting.build
        return lines(
            "import voyager",
            "",
            INPUTS,
            "index = voyager.Index(",
            f"    voyager.Space.{_SPACES[setting.metric]},",
            "    num_dimensions=vectors.shape[1],",
            f"    M={build['M']},",
            f"    ef_construction={build['ef_construction']},",
            f"    storage_data_type=voyager.StorageDataType.{_STORAGES[build['storage']]},",
            ")",
            "index.add_items(vectors)",
            "",
            f"found, distances = index.query(queries, k={setting.k}, query_ef={setting.search['ef']})",
        )


class LiveVoyager(LiveIndex):
    """A `voyager.Index`."""

    family = "voyager"
    distribution = "voyager"
    abilities: ClassVar = replace(LiveIndex.abilities, threads=True)
    own_knobs: ClassVar = (Knob("ef", default=10, low=1, high=1_000_000, effort=True),)
    aliases: ClassVar = {"query_ef": "ef"}

    def title(self) -> str:
        """The class."""
        return "voyager.Index"

    def facts(self) -> IndexFacts:
        """The space, dimension, row count and ids."""
        spaces = {name: metric for metric, name in _SPACES.items()}
        labels = np.array(list(self.index.ids), np.int64)
        return IndexFacts(spaces[self.index.space.name], self.index.num_dimensions, len(labels), labels)

    def current(self, name: str) -> int:
        """The ef of the object."""
        return int(self.index.ef)

    def change(self, name: str, value: int) -> None:
        """Set the ef of the object."""
        self.index.ef = value

    def stored(self, labels: NDArray[np.int64]) -> NDArray[Any]:
        """The vectors of some ids."""
        return np.array(self.index.get_vectors(labels.tolist()))

    def ask(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """One query of the graph."""
        asked = batch.vectors if batch.vectors.flags.writeable else batch.vectors.copy()
        try:
            found = self.index.query(asked, k, self.threads)[0]
        except Exception as problem:  # voyager raises a bare Exception for too few answers
            raise EngineError(f"{self.name} at k = {k} and ef = {self.index.ef}: {problem}") from problem
        rows: NDArray[np.int64] = found.view(np.int64)
        return rows
