"""pynndescent: a graph of near neighbours made by descent and compiled by numba, in process."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import Corpus, Knob, Metric
from recallatk.engines.base import Abilities, Engine
from recallatk.engines.matrix import float32_matrix

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.engines.base import Filters

# Its `dot` takes vectors of unit length for granted.
_METRICS = {Metric.COSINE: "cosine", Metric.IP: "inner_product", Metric.L2: "euclidean"}


class PyNNDescent(Engine):
    """NNDescent; it can take rows in but none out, and is stored by pickle alone, which can run code."""

    name = "pynndescent"
    family = "pynndescent"
    distribution = "pynndescent"
    extra = "pynndescent"
    metrics = frozenset(Metric)
    abilities = Abilities(threads=True, deterministic=True, clients=True, forks=True)
    build_knobs = (Knob("n_neighbors", default=30, low=2, high=500, help="neighbours of a node"),)
    search_knobs = (
        Knob(
            "epsilon",
            default=0.1,
            low=0.0,
            high=0.5,
            scale="linear",
            effort=True,
            help="how much further than the k-th best a candidate may be",
        ),
    )

    def __init__(self) -> None:
        self.index: Any = None
        self.threads = 1
        self.epsilon = 0.1
        self.searched = 0

    def build(self, corpus: Corpus, metric: Metric, **parameters: int) -> None:
        """Make the graph, and search once, so that numba compiles here and not where it is timed."""
        from pynndescent import NNDescent

        vectors = float32_matrix(corpus.vectors.read(0, corpus.rows))
        # No row has more neighbours than there are other rows.
        neighbours = max(1, min(parameters["n_neighbors"], corpus.rows - 1))
        self.index = NNDescent(
            vectors, _METRICS[metric], n_neighbors=neighbours, random_state=1, n_jobs=self.threads
        )
        self.index.prepare()
        self.index.query(vectors[:1], k=1)
        self.searched = 0

    def configure(self, **parameters: float) -> None:
        """Set how far a search looks around."""
        self.epsilon, self.searched = parameters["epsilon"], 0

    def search(self, queries: NDArray[Any], k: int, filters: Filters = None) -> NDArray[np.int64]:
        """The nearest rows that the walk over the graph found."""
        self.refuse_filters(filters)
        found, distances = self.index.query(float32_matrix(queries), k, self.epsilon)
        self.searched += len(queries)
        # Places that were not filled repeat some row at an infinite distance.
        return np.where(np.isfinite(distances), found, -1).astype(np.int64)

    def exercised(self) -> str:
        """The graph, and how many walks there were; pynndescent does not count comparisons."""
        if self.index is None:
            raise self.unbuilt()
        graph = self.index._search_graph
        walks = f"; {self.searched:,} walks at epsilon = {self.epsilon:g}" if self.searched else ""
        return f"graph of {graph.shape[0]:,} nodes and {graph.nnz:,} edges{walks}"

    def client(self) -> Engine:
        """The same graph, with marks of its own for the nodes that a walk has seen."""
        if self.index is None:
            raise self.unbuilt()
        other, index = copy.copy(self), object.__new__(type(self.index))
        # Its own copying is pickling. Each walk writes into these two, and threads would mix them up.
        index.__dict__.update(self.index.__dict__)
        index.__dict__.pop("_query_workspace", None)
        index._visited = self.index._visited.copy()
        other.index, other.searched = index, 0
        return other

    def size_bytes(self) -> int:
        """The index as it would be pickled."""
        return len(pickle.dumps(self.index))

    def set_threads(self, count: int) -> None:
        """Threads of the build; a search has one."""
        self.threads = count

    def close(self) -> None:
        """Let go of the index."""
        self.index = None
