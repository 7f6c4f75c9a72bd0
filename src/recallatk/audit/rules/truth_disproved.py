"""R18: a truth that the data disprove."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.audit.base import Rule
from recallatk.audit.closeness import ROUNDING, vectors_of
from recallatk.audit.geometry import nearness, pair_nearness
from recallatk.core import Metric
from recallatk.core.findings import Severity
from recallatk.counting import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from recallatk.audit.evidence import Evidence
    from recallatk.core import Dataset, Truth
    from recallatk.core.findings import Finding

_DEPTH = 100
_MOST_ANSWERS = 20
_TINY = 1e-12


class TruthDisproved(Rule):
    """A better row than the best."""

    code, name, severity = "R18", "truth-disproved", Severity.ERROR
    title = "The truth is not true"
    threshold = "one query for which a row is named that its filter bars, or a nearer row is not named"
    source = (
        "one nearer row is proof; looked for among 4,000 sampled rows and among what the engines answered."
    )
    why = (
        "Every recall is a share of what the truth names, and these rows are not the nearest. It was made "
        "from other rows, with other filters, or by a search that was not exact."
    )
    remedy = "Prove it and see where it is wrong: `recallatk truth verify`; or compute it anew."
    needs = frozenset({"dataset", "truth"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Barred rows, then nearer rows, of some queries."""
        dataset, truth, chosen = evidence.dataset, evidence.usable_truth, evidence.some_queries
        if dataset is None or truth is None or not len(chosen):
            return
        barred = _barred(dataset, truth, chosen)
        if barred:
            yield self.finding(
                f"of {len(chosen):,} queries {counted(barred, 'has', 'have')} neighbours that a filter bars",
                barred,
                0,
            )
        limit = _limit(evidence, truth, chosen)
        wrong = _nearer_sampled(evidence, truth, limit) | _nearer_answered(evidence, truth, limit)
        if wrong.any():
            yield self.finding(
                f"of {len(chosen):,} queries {counted(int(wrong.sum()), 'has', 'have')} a nearer row than "
                "the truth names",
                int(wrong.sum()),
                0,
            )


def _barred(dataset: Dataset, truth: Truth, chosen: NDArray[np.int64]) -> int:
    rows = truth.rows[chosen, :_DEPTH]
    query, column = np.nonzero(rows >= 0)
    allowed = dataset.eligibility.allowed(chosen[query], rows[query, column])
    return len(np.unique(query[~allowed]))


def _limit(evidence: Evidence, truth: Truth, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
    """How near a row has to be to be nearer than the last named one; NaN where the list has room left."""
    dataset, looked = evidence.dataset, evidence.survey
    if dataset is None or looked is None:
        return np.full(len(chosen), np.nan)
    depth = min(_DEPTH, truth.depth)
    last = truth.rows[chosen, depth - 1 : depth]
    near = pair_nearness(dataset.metric, looked.queries[chosen], vectors_of(dataset, last))[:, 0]
    longest = float(looked.sample_norms.max(initial=0.0))
    slack = _slack(dataset.metric, near, looked.query_norms[chosen], longest)
    return np.where(last[:, 0] >= 0, near + slack, np.nan)


def _slack(
    metric: Metric, near: NDArray[np.float64], lengths: NDArray[np.float64], longest: float
) -> NDArray[np.float64]:
    """What whoever made the truth in float32 may be off by, and what float64 may be off by here."""
    size = np.abs(near)
    if metric is Metric.COSINE:
        return ROUNDING * size + _TINY
    if metric is Metric.IP:
        return ROUNDING * size + _TINY * lengths * longest
    square = _TINY * (lengths + longest) ** 2
    return ROUNDING * size + np.minimum(np.sqrt(square), square / np.maximum(size, np.sqrt(square) + 1e-300))


def _nearer_sampled(evidence: Evidence, truth: Truth, limit: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which queries have a sampled row that is nearer than the last named one and is not named."""
    dataset, looked, chosen = evidence.dataset, evidence.survey, evidence.some_queries
    if dataset is None or looked is None:
        return np.zeros(len(chosen), bool)
    near = nearness(dataset.metric, looked.queries[chosen], looked.sample)
    query, place = np.nonzero(near > limit[:, None])
    return _unnamed(dataset, truth, chosen, query, looked.sample_rows[place])


def _nearer_answered(evidence: Evidence, truth: Truth, limit: NDArray[np.float64]) -> NDArray[np.bool_]:
    """The same among what engines answered, which is where nearer rows would be."""
    dataset, looked, chosen = evidence.dataset, evidence.survey, evidence.some_queries
    found = np.zeros(len(chosen), bool)
    if dataset is None or looked is None:
        return found
    # One trial of each engine will do: the last has the most effort in a usual sweep.
    answered = {each.trial.engine: each.answers for each in evidence.measurements}
    for answers in answered.values():
        if len(answers) != len(truth):
            continue
        rows = answers[chosen, :_MOST_ANSWERS]
        near = pair_nearness(dataset.metric, looked.queries[chosen], vectors_of(dataset, rows))
        known = (rows >= 0) & (rows < dataset.corpus.rows)
        query, place = np.nonzero(known & (near > limit[:, None]))
        found |= _unnamed(dataset, truth, chosen, query, rows[query, place])
    return found


def _unnamed(
    dataset: Dataset,
    truth: Truth,
    chosen: NDArray[np.int64],
    query: NDArray[np.int64],
    rows: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Which queries have one of these rows that they may return and that is not named."""
    found = np.zeros(len(chosen), bool)
    allowed = dataset.eligibility.allowed(chosen[query], rows)
    named = (truth.rows[chosen[query]] == rows[:, None]).any(axis=1) if len(rows) else np.zeros(0, bool)
    found[query[allowed & ~named]] = True
    return found
