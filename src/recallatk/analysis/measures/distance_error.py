"""rde@k: how much farther the answers are than the true neighbours, place by place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from recallatk.analysis.compared import require_within
from recallatk.analysis.distances import cosine_distances, counted_scores, needed_scores, true_scores
from recallatk.analysis.measures.base import Measure
from recallatk.core import Metric
from recallatk.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.analysis.compared import Compared


@dataclass(frozen=True)
class DistanceError(Measure):
    """The mean over j of (d(j-th nearest answer) - d(j-th true neighbour)) / d(j-th true neighbour).

    The distance of cosine is 1 - similarity. Places without an answer, and true neighbours at distance 0,
    are left out; a query of which nothing is left has none. Inner products are no distances.
    """

    needs_scores: ClassVar[bool] = True
    lower_is_better: ClassVar[bool] = True
    bounded: ClassVar[bool] = False

    def __str__(self) -> str:
        return f"rde@{self.k}"

    def per_query(self, compared: Compared) -> NDArray[np.float64]:
        require_within(self.k, compared.truth)
        scores, metric = needed_scores(compared, self)
        if metric is Metric.IP:
            raise UsageError(f"{self}: inner products are no distances, so that no error is relative to one")
        counted = counted_scores(compared, scores, self.k)
        true = true_scores(compared)[:, : self.k]
        if metric is Metric.COSINE:
            counted, true = cosine_distances(counted), cosine_distances(true)
        answered = np.full(true.shape, np.nan)
        ordered = np.sort(counted, axis=1)[:, : self.k]
        answered[:, : ordered.shape[1]] = ordered
        with np.errstate(invalid="ignore", divide="ignore"):
            errors = np.where(true > 0, (answered - true) / true, np.nan)
            there = ~np.isnan(errors)
            total = np.where(there, errors, 0.0).sum(axis=1)
            # An answer that ties with the true neighbour may come out nearer by its last bit.
            return np.asarray(np.maximum(total / there.sum(axis=1), 0.0))
