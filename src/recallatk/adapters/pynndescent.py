"""pynndescent: a neighbor graph built by nearest-neighbor descent, compiled by numba, in process."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from recallatk.adapters.base import Abilities, Engine, Library
from recallatk.adapters.batch import QueryBatch, float32_matrix
from recallatk.adapters.live import IndexFacts, LiveIndex
from recallatk.adapters.snippet import INPUTS, Setting, lines
from recallatk.core import Corpus, Knob, Metric
from recallatk.errors import EngineError

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Its `dot` assumes unit vectors.
_METRICS = {Metric.COSINE: "cosine", Metric.IP: "inner_product", Metric.L2: "euclidean"}


class PyNNDescent(Library):
    """NNDescent graph; no updates, because it cannot delete. Its stored size is that of a pickle."""

    name = "pynndescent"
    family = "pynndescent"
    distribution = "pynndescent"
    extra = "pynndescent"
    metrics = frozenset(Metric)
    abilities = Abilities(threads=True, deterministic=True, clients=True, forks=True)
    build_knobs = (Knob("n_neighbors", default=30, low=2, high=500, help="neighbors per node"),)
    search_knobs = (
        Knob(
            "epsilon",
            default=0.1,
            low=0.0,
            high=0.5,
            scale="linear",
            effort=True,
            help="how much farther than the k-th best a candidate may be",
        ),
    )

    def build(self, corpus: Corpus, metric: Metric, **parameters: int) -> None:
        """Build the graph, and search once so that numba compiles before anything is timed."""
        from pynndescent import NNDescent

        self.close()
        vectors = float32_matrix(corpus.vectors.read(0, corpus.rows))
        # A row cannot have more neighbors than there are other rows.
        neighbors = max(1, min(parameters["n_neighbors"], corpus.rows - 1))
        self.index = NNDescent(
            vectors, _METRICS[metric], n_neighbors=neighbors, random_state=1, n_jobs=self.threads
        )
        self.index.prepare()
        self.index.query(vectors[:1], k=1)

    def nearest(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """Nearest rows found by walking the graph."""
        found, distances = self.index.query(float32_matrix(batch.vectors), k, self.settings["epsilon"])
        # Unfilled places repeat some row at an infinite distance.
        return np.where(np.isfinite(distances), found, -1).astype(np.int64)

    def held(self) -> str:
        """The graph."""
        graph = self.index._search_graph
        return f"graph of {graph.shape[0]:,} nodes and {graph.nnz:,} edges"

    def work(self) -> str:
        """The number of walks; pynndescent does not count comparisons."""
        return f"{self.searched:,} walks at epsilon = {self.settings['epsilon']:g}"

    def client(self) -> Engine:
        """The same graph with its own marks of visited nodes."""
        if self.index is None:
            raise self.unbuilt()
        other, index = copy.copy(self), object.__new__(type(self.index))
        # Its own copy is a pickle. Each walk writes into these two arrays, so threads must not share them.
        index.__dict__.update(self.index.__dict__)
        index.__dict__.pop("_query_workspace", None)
        index._visited = self.index._visited.copy()
        other.index, other.searched = index, 0
        return other

    def size_bytes(self) -> int:
        """Size of the pickled index."""
        return len(pickle.dumps(self.index))

    @classmethod
    def snippet(cls, setting: Setting) -> str:
        """Code that builds the graph and searches with its epsilon."""
        metric, neighbors = _METRICS[setting.metric], setting.build["n_neighbors"]
        return lines(
            "from pynndescent import NNDescent",
            "",
            INPUTS,
            f'index = NNDescent(vectors, "{metric}", n_neighbors={neighbors}, random_state=1)',
            "index.prepare()",
            "",
            f"found, distances = index.query(queries, k={setting.k}, epsilon={setting.search['epsilon']})",
        )


class LivePyNNDescent(LiveIndex):
    """A `pynndescent.NNDescent`; a search that prepares the graph and compiles comes before any timed one."""

    family = "pynndescent"
    distribution = "pynndescent"
    # Threads that search one object overwrite each other's marks of visited nodes.
    abilities: ClassVar = replace(LiveIndex.abilities, clients=False)
    call_knobs: ClassVar = (Knob("epsilon", default=0.1, low=0.0, high=1.0, scale="linear", effort=True),)

    def title(self) -> str:
        """The class."""
        return "pynndescent.NNDescent"

    def facts(self) -> IndexFacts:
        """Metric, dimension and row count."""
        names = {name: metric for metric, name in _METRICS.items()} | {
            "l2": Metric.L2,
            "sqeuclidean": Metric.L2,
        }
        if self.index.metric not in names:
            raise EngineError(f"{self.name} has metric {self.index.metric!r}. Accepted: {', '.join(names)}")
        rows, dimension = self.index._raw_data.shape
        return IndexFacts(names[self.index.metric], dimension, rows)

    def stored(self, labels: NDArray[np.int64]) -> NDArray[Any]:
        """The vectors of some rows."""
        return np.asarray(self.index._raw_data[labels])

    def ask(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """One walk over the graph."""
        found, distances = self.index.query(batch.vectors, k, self.settings.get("epsilon", 0.1))
        # Unfilled places repeat some row at an infinite distance.
        return np.where(np.isfinite(distances), found, -1).astype(np.int64)
