"""Measures of distance: rde@k, the relative distance error, 1/ratio@k and eps(ε)@k."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from recallatk.analysis.answer_scores import cosine_distances, counted_scores, needed_scores, true_scores
from recallatk.analysis.compared import require_within, shares
from recallatk.analysis.measures.base import Measure, plain
from recallatk.core import Metric
from recallatk.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.analysis.compared import Compared


@dataclass(frozen=True)
class DistanceError(Measure):
    """The mean over j of (d(j-th nearest answer) - d(j-th true neighbor)) / d(j-th true neighbor).

    The distance of cosine is 1 - similarity. Places without an answer, and true neighbors at distance 0,
    are left out; a query of which nothing is left has none. Inner products are no distances.
    """

    needs_scores: ClassVar[bool] = True
    lower_is_better: ClassVar[bool] = True
    bounded: ClassVar[bool] = False

    def __str__(self) -> str:
        return f"rde@{self.k}"

    def require_metric(self, metric: Metric) -> None:
        _require_distances(self, metric)

    def per_query(self, compared: Compared) -> NDArray[np.float64]:
        true, answered = _distances(compared, self)
        with np.errstate(invalid="ignore", divide="ignore"):
            errors = np.where(true > 0, (answered - true) / true, np.nan)
            there = ~np.isnan(errors)
            total = np.where(there, errors, 0.0).sum(axis=1)
            # An answer that ties with the true neighbor may come out nearer by its last bit.
            return np.asarray(np.maximum(total / there.sum(axis=1), 0.0))


@dataclass(frozen=True)
class InverseRatio(Measure):
    """The mean over j up to k' of d(j-th true neighbor) / d(j-th nearest answer), from 0 to 1.

    The distance of cosine is 1 - similarity. A place without an answer counts 0. Where both distances are 0
    the place counts 1, where only the true one is, 0. Inner products are no distances.
    """

    needs_scores: ClassVar[bool] = True

    def __str__(self) -> str:
        return f"1/ratio@{self.k}"

    def require_metric(self, metric: Metric) -> None:
        _require_distances(self, metric)

    def per_query(self, compared: Compared) -> NDArray[np.float64]:
        true, answered = _distances(compared, self)
        with np.errstate(invalid="ignore", divide="ignore"):
            ratios = np.where((true == 0) & (answered == 0), 1.0, true / answered)
        # An answer that ties with the true neighbor may come out nearer by its last bit.
        ratios = np.minimum(np.nan_to_num(ratios, nan=0.0), 1.0)
        return shares(ratios.sum(axis=1), np.minimum(compared.available, self.k))


def _require_distances(measure: Measure, metric: Metric) -> None:
    if metric is Metric.IP:
        raise UsageError(
            f"{measure}: inner products are not distances, so ratios are undefined: they have no zero to be "
            "relative to, and may be negative. Accepted: cosine and l2; recall@k works for all metrics"
        )


def _distances(compared: Compared, measure: Measure) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Distances of the true top k and of the first k answers, each nearest first; NaN where there is none."""
    require_within(measure.k, compared.truth)
    scores, metric = needed_scores(compared, measure)
    measure.require_metric(metric)
    counted = counted_scores(compared, scores, measure.k)
    true = true_scores(compared)[:, : measure.k]
    if metric is Metric.COSINE:
        counted, true = cosine_distances(counted), cosine_distances(true)
    answered = np.full(true.shape, np.nan)
    ordered = np.sort(counted, axis=1)[:, : measure.k]
    answered[:, : ordered.shape[1]] = ordered
    return true, answered


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
