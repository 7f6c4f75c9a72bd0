"""R21: an index that searches by another metric than the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.core.judgments import Severity
from recallatk.linter.geometry import better_metric, vectors_of
from recallatk.linter.rule import Rule
from recallatk.linter.trial_views import by_engine, recall_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core import Measurement
    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence

MOST, _DEPTH = 0.05, 20


class IndexMetric(Rule):
    """Two questions, one score."""

    code, name, severity = "R21", "index-metric", Severity.ERROR
    title = "The index uses a different metric"
    threshold = (
        "more than 5 % of neighboring answers are out of order by the metric of the truth, and a fifth "
        "as many at the most by another; on the vectors of 200 queries"
    )
    source = (
        "answers are ordered by the index's own metric; 5 % leaves room for compressed vectors, which "
        "reorder."
    )
    why = (
        "An inner-product index on vectors of different lengths, scored against a cosine truth, seems to "
        "lose recall. No search effort recovers it."
    )
    remedy = (
        "Build the index with the metric of the truth, or normalize the vectors if the engine lacks that "
        "metric."
    )
    needs = frozenset({"dataset", "run"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """The best trial of each engine."""
        for name, measured in by_engine(evidence.measurements).items():
            best = max(measured, key=lambda each: _value(each, evidence.headline))
            found = _found(evidence, best)
            if found is not None:
                message, own = found
                yield self.finding(f"{name}: {message}", own, MOST)


def _value(measurement: Measurement, name: str) -> float:
    mean = recall_of(measurement, name)
    return -1.0 if mean is None or mean.value is None else mean.value


def _found(evidence: Evidence, measurement: Measurement) -> tuple[str, float] | None:
    dataset, looked, chosen = evidence.dataset, evidence.survey, evidence.some_queries
    if dataset is None or looked is None or len(measurement.answers) != dataset.queries.rows:
        return None
    rows = measurement.answers[chosen, :_DEPTH]
    named = (rows >= 0) & (rows < dataset.corpus.rows)
    queries = np.asarray(looked.queries[chosen], np.float64)
    found = better_metric(dataset.metric, queries, vectors_of(dataset, rows), named, MOST)
    if found is None:
        return None
    other, own, theirs = found
    return f"{own:.1%} of its answers are out of order by {dataset.metric}, and {theirs:.1%} by {other}", own
