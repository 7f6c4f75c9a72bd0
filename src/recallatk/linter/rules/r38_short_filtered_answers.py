"""R38: engines that return too few rows for filtered queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.core.judgments import Severity
from recallatk.linter.rule import Rule
from recallatk.linter.trial_views import by_engine, called
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from recallatk.core import Measurement
    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence

MOST = 0.01


class ShortFilteredAnswers(Rule):
    """Filtered queries get fewer than k rows although k rows pass."""

    code, name, severity = "R38", "short-filtered-answers", Severity.ERROR
    title = "Filtered queries get too few rows"
    threshold = "more than 1 % of the filtered queries get fewer than k rows although at least k pass"
    source = (
        "A search that fetches n rows and filters them afterwards keeps about n times the filter's "
        "selectivity: 40 candidates at 10 % leave 4 (pgvector's README on filtering)."
    )
    why = (
        "The engine filters the candidates of a plain search, so a selective filter removes most of them. "
        "Users see empty or short pages, and every missing row counts against recall."
    )
    remedy = (
        "Let the engine filter during the search (pgvector: iterative_scan), raise the effort for filtered "
        "queries, or measure an engine that filters natively."
    )
    needs = frozenset({"run", "dataset"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """The worst trial of each engine."""
        if evidence.run is None or evidence.dataset is None or not evidence.dataset.queries.filtered:
            return
        filters = evidence.dataset.queries.filters or ()
        filtered = np.asarray([each is not None for each in filters], bool)
        eligible = evidence.dataset.eligibility.counts
        for measured in by_engine(evidence.measurements).values():
            shares = [_short(each, filtered, eligible) for each in measured]
            worst = int(np.argmax([short / max(1, asked) for short, asked in shares]))
            short, asked = shares[worst]
            if short > MOST * asked:
                yield self.finding(
                    f"{called(measured[worst].trial)}: {short:,} of "
                    f"{counted(asked, 'filtered query', 'filtered queries')} got fewer than "
                    f"{measured[worst].k} rows although at least {measured[worst].k} pass the filter",
                    short / asked,
                    MOST,
                )


def _short(
    measurement: Measurement, filtered: NDArray[np.bool_], eligible: NDArray[np.int64]
) -> tuple[int, int]:
    """Filtered queries with k eligible rows: how many got fewer than k, and how many there are."""
    if len(measurement.answers) != len(filtered):
        return 0, 0
    counted_ones = filtered & measurement.asked & (eligible >= measurement.k)
    answered = (measurement.answers >= 0).sum(axis=1)
    return int((answered[counted_ones] < measurement.k).sum()), int(counted_ones.sum())
