"""R21: an index that searches by a different metric than the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.geometry import better_metric
from recallatk.core.judgments import Severity
from recallatk.linter.geometry import vectors_of
from recallatk.linter.rule import Rule
from recallatk.linter.trial_views import by_engine, recall_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core import Measurement
    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence

MOST, _DEPTH = 0.05, 20


class IndexMetric(Rule):
    """Answers ordered by a different metric than the truth's."""

    code, name, severity = "R21", "index-metric", Severity.ERROR
    title = "The index uses a different metric"
    threshold = (
        "more than 5 % of adjacent answers are out of order by the truth's metric, and at most a fifth of "
        "that share by another metric; checked on 200 queries"
    )
    source = (
        "An index orders answers by its own metric; 5 % allows for quantized vectors, which reorder answers."
    )
    why = (
        "An inner-product index on vectors of different lengths, measured against a cosine truth, appears to "
        "lose recall. No effort brings it back, because the index answers a different question."
    )
    remedy = (
        "Build the index with the truth's metric, or normalize the vectors if the index supports only "
        "another."
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
    return f"{own:.1%} of adjacent answers are out of order by {dataset.metric}, {theirs:.1%} by {other}", own
