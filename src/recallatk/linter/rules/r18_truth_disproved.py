"""R18: a truth that the data disprove."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.compatibility import ineligible_rows, list_lengths, short_lists
from recallatk.analysis.geometry import ROUNDING, nearness, pair_nearness
from recallatk.core import Metric
from recallatk.core.judgments import Severity
from recallatk.linter.geometry import vectors_of
from recallatk.linter.rule import Rule
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from recallatk.core import Dataset, Truth
    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence

_DEPTH = 100
_MOST_ANSWERS = 20
_QUERIES_AT_A_TIME = 16
_TINY = 1e-12


class TruthDisproved(Rule):
    """A truth that is not the list of the nearest eligible rows."""

    code, name, severity = "R18", "truth-disproved", Severity.ERROR
    title = "The ground truth is wrong"
    threshold = (
        "one query whose list contains a row excluded by its filter or missing from the corpus, repeats a "
        "row, is out of order, is shorter than min(depth, eligible rows), or misses a nearer row"
    )
    source = (
        "One such list is proof. Rows and lengths are checked for all queries, order for 200. Nearer rows "
        "are searched among 4,000 sampled rows and the engines' answers."
    )
    why = (
        "Recall is the share of the truth that an index returns, and this truth does not list the nearest "
        "eligible rows. It was computed for other rows or filters, filtered after the search, or "
        "approximate."
    )
    remedy = "Find the errors with `recallatk truth verify`, or recompute the truth with `recallatk truth`."
    needs = frozenset({"dataset", "truth"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Lists that are wrong for any vectors, then order and nearer rows for some queries."""
        dataset, truth = evidence.dataset, evidence.truth
        if dataset is None or truth is None or len(truth) != dataset.queries.rows or not truth.depth:
            return
        unknown = np.asarray((truth.rows >= dataset.corpus.rows).any(axis=1))
        yield from self._said(unknown, f"rows beyond the corpus of {dataset.corpus.rows:,}")
        if unknown.any():
            return
        yield from self._lists(dataset, truth)
        chosen = evidence.some_queries
        if len(chosen):
            yield from self._said(_out_of_order(evidence, truth, chosen), "neighbors out of order")
            limit = _limit(evidence, truth, chosen)
            wrong = _nearer_sampled(evidence, truth, limit) | _nearer_answered(evidence, truth, limit)
            yield from self._said(wrong, "farther rows while a nearer eligible row is missing")

    def _lists(self, dataset: Dataset, truth: Truth) -> Iterator[Finding]:
        eligibility = dataset.eligibility
        barred = np.asarray(ineligible_rows(truth, eligibility).any(axis=1))
        yield from self._said(barred, "rows that their filter excludes")
        in_order = np.sort(truth.rows, axis=1)
        again = ((in_order[:, 1:] == in_order[:, :-1]) & (in_order[:, 1:] >= 0)).any(axis=1)
        yield from self._said(again, "a row twice")
        short = short_lists(truth, eligibility, truth.depth)
        if short.any():
            query = int(np.argmax(short))
            count, eligible = list_lengths(truth)[query], eligibility.counts[query]
            yield from self._said(
                short,
                f"fewer neighbors than min(depth, eligible rows): {count:,} for query {query:,}, where the "
                f"depth is {truth.depth:,} and {eligible:,} rows are eligible. Was the filter applied after "
                "the search?",
            )

    def _said(self, wrong: NDArray[np.bool_], what: str) -> Iterator[Finding]:
        count = int(wrong.sum())
        if count:
            listed = counted(count, "query lists", "queries list")
            yield self.finding(f"of {len(wrong):,} queries checked, {listed} {what}", count, 0)


def _out_of_order(evidence: Evidence, truth: Truth, chosen: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Queries that list a row after a farther one, beyond rounding."""
    dataset, looked = evidence.dataset, evidence.survey
    found = np.zeros(len(chosen), bool)
    if dataset is None or looked is None:
        return found
    longest = float(looked.sample_norms.max(initial=0.0))
    for start in range(0, len(chosen), _QUERIES_AT_A_TIME):
        some = chosen[start : start + _QUERIES_AT_A_TIME]
        rows = truth.rows[some, :_DEPTH]
        near = pair_nearness(dataset.metric, looked.queries[some], vectors_of(dataset, rows))
        slack = _slack(dataset.metric, near, looked.query_norms[some][:, None], longest)
        later = near[:, 1:] > near[:, :-1] + np.maximum(slack[:, 1:], slack[:, :-1])
        found[start : start + len(some)] = (later & (rows[:, 1:] >= 0)).any(axis=1)
    return found


def _limit(evidence: Evidence, truth: Truth, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
    """Nearness that a row must exceed to beat the last listed one; NaN for shorter lists."""
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
    """Rounding error of a truth computed in float32, plus that of float64 here."""
    size = np.abs(near)
    if metric is Metric.COSINE:
        return ROUNDING * size + _TINY
    if metric is Metric.IP:
        return ROUNDING * size + _TINY * lengths * longest
    square = _TINY * (lengths + longest) ** 2
    return ROUNDING * size + np.minimum(np.sqrt(square), square / np.maximum(size, np.sqrt(square) + 1e-300))


def _nearer_sampled(evidence: Evidence, truth: Truth, limit: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Queries with an unlisted sampled row that is nearer than the last listed one."""
    dataset, looked, chosen = evidence.dataset, evidence.survey, evidence.some_queries
    if dataset is None or looked is None:
        return np.zeros(len(chosen), bool)
    near = nearness(dataset.metric, looked.queries[chosen], looked.sample)
    query, place = np.nonzero(near > limit[:, None])
    return _unnamed(dataset, truth, chosen, query, looked.sample_rows[place])


def _nearer_answered(evidence: Evidence, truth: Truth, limit: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Queries with a nearer unlisted row among the engines' answers, where it is most likely."""
    dataset, looked, chosen = evidence.dataset, evidence.survey, evidence.some_queries
    found = np.zeros(len(chosen), bool)
    if dataset is None or looked is None:
        return found
    # One trial per engine is enough: the last has the most effort in a usual sweep.
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
    """Queries for which one of these rows is eligible but not listed."""
    found = np.zeros(len(chosen), bool)
    allowed = dataset.eligibility.allowed(chosen[query], rows)
    named = (truth.rows[chosen[query]] == rows[:, None]).any(axis=1) if len(rows) else np.zeros(0, bool)
    found[query[allowed & ~named]] = True
    return found
