"""eps(ε)@k: answers that are nearly as good as the k-th best, which is a measure of its own and no recall."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from recallatk.analysis.compared import require_within, shares
from recallatk.analysis.distances import counted_scores, needed_scores, true_scores
from recallatk.analysis.measures.base import Measure, plain
from recallatk.core import Metric
from recallatk.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.analysis.compared import Compared


@dataclass(frozen=True)
class EpsilonRecall(Measure):
    """The share of k' answers whose distance is at most (1 + ε) times that of the k'-th best row.

    The distance of cosine is 1 - similarity. Inner products have no zero to be relative to: there an answer
    counts whose product is at most ε times the k'-th best one's size below it.
    """

    epsilon: float = 0.01

    needs_scores: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.epsilon < np.inf:
            raise UsageError(f"eps({self.epsilon!r}). Accepted: 0 or more")

    def __str__(self) -> str:
        return f"eps({plain(self.epsilon)})@{self.k}"

    def per_query(self, compared: Compared) -> NDArray[np.float64]:
        require_within(self.k, compared.truth)
        cut = np.minimum(compared.available, self.k)
        scores, metric = needed_scores(compared, self)
        last = true_scores(compared)[np.arange(len(compared)), np.maximum(cut - 1, 0)]
        if metric is Metric.L2:
            limits = last * (1 + self.epsilon)
        elif metric is Metric.COSINE:
            limits = 1 - (1 - last) * (1 + self.epsilon)
        else:
            limits = last - np.abs(last) * self.epsilon
        counted = counted_scores(compared, scores, self.k)
        good = counted <= limits[:, None] if metric is Metric.L2 else counted >= limits[:, None]
        # What ties with the k-th best in exact arithmetic may differ from it in the last bit of float64.
        found = np.maximum(good.sum(axis=1), compared.hits(self.k).tie_aware)
        return shares(np.minimum(found, cut), cut)
