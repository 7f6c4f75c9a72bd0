"""sklearn: a fitted `NearestNeighbors` that the caller holds; no engine builds one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.adapters.live import IndexFacts, LiveIndex
from recallatk.core import Metric
from recallatk.errors import EngineError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.adapters.batch import QueryBatch

_METRICS = {
    "euclidean": Metric.L2,
    "l2": Metric.L2,
    "sqeuclidean": Metric.L2,
    "cosine": Metric.COSINE,
}


class LiveNearestNeighbors(LiveIndex):
    """A `sklearn.neighbors.NearestNeighbors`; rows are numbered as they were fitted."""

    family = "sklearn"
    distribution = "scikit-learn"

    def title(self) -> str:
        """The class."""
        return "sklearn.NearestNeighbors"

    def facts(self) -> IndexFacts:
        """Metric after fitting, and the shape of the data."""
        if not hasattr(self.index, "n_samples_fit_"):
            raise EngineError(f"{self.name} is not fitted. Call fit(vectors) first")
        metric = self.index.effective_metric_
        if metric not in _METRICS:
            raise EngineError(f"{self.name} has metric {metric!r}. Accepted: {', '.join(_METRICS)}")
        return IndexFacts(_METRICS[metric], self.index.n_features_in_, self.index.n_samples_fit_)

    def stored(self, labels: NDArray[np.int64]) -> NDArray[Any]:
        """The rows that it was fitted on."""
        return np.asarray(self.index._fit_X[labels])

    def held(self) -> str:
        """The object, its rows and the algorithm chosen by fitting."""
        return f"{super().held()} ({self.index._fit_method})"

    def scanned(self) -> str | None:
        """All rows, where fitting made no tree."""
        return "all rows: it was fitted without a tree (brute)" if self.index._fit_method == "brute" else None

    def ask(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """One call of `kneighbors`."""
        rows: NDArray[np.int64] = self.index.kneighbors(batch.vectors, k, return_distance=False)
        return rows
