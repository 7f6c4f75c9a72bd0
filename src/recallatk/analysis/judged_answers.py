"""Answers judged by relevance, beside exact search and beside other answers, query by query."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.analysis.answers import ABSENT, PADDING
from recallatk.analysis.comparison import compare, difference_interval
from recallatk.analysis.distribution import Estimate, scored_values, weighted_mean
from recallatk.analysis.relevance import (
    CUTOFF,
    relevance_by_query,
    relevance_mean,
    unknown_documents,
    without_judgment,
)
from recallatk.core import Answers
from recallatk.ids import row_numbers
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from recallatk.analysis.answers import Aligned
    from recallatk.analysis.comparison import Difference
    from recallatk.core import Corpus, Mean, Truth, Weights

    Floats = NDArray[np.float64]
    Grades = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class JudgedAnswers:
    """Measures of judged relevance over the judged queries of a truth."""

    means: Mapping[str, Mean]
    exact: Mapping[str, Mean] = field(default_factory=dict)
    """The same of exact search, which is the truth's own ranking; empty if the truth is too shallow."""
    lost: Mapping[str, Estimate] = field(default_factory=dict)
    """Exact search minus the answers over the same queries."""
    differences: Mapping[str, tuple[Difference, ...]] = field(default_factory=dict)
    """Differences from other answers by measure."""
    notes: tuple[str, ...] = ()
    """What a reader must know, as sentences without a period."""


class AnswerJudge:
    """Judges answers to the queries of a truth.

    Args:
        qrels: grades by query id and corpus id; they may have more queries.
        truth: the queries and the exact ranking.
        corpus: the corpus, if it is known.
        weights: how much each query counts.
    """

    def __init__(self, qrels: Grades, truth: Truth, corpus: Corpus | None, weights: Weights | None) -> None:
        self._qrels, self._truth = qrels, truth
        self._ids = corpus.ids if corpus is not None else truth.corpus_ids
        self._weights = None if weights is None else weights.values
        self._names = row_numbers(0, len(truth)) if truth.query_ids is None else truth.query_ids
        self._queries = [str(each) for each in self._names.to_pylist()]

    def judged(
        self,
        name: str,
        answers: Any,
        aligned: Aligned,
        others: Mapping[str, Answers],
        others_aligned: Mapping[str, Aligned],
    ) -> JudgedAnswers:
        """The answers beside exact search and others.

        Args:
            name: name of the answers.
            answers: the answers as given.
            aligned: the same by row, in the order of the truth's queries.
            others: other answers by name.
            others_aligned: the same by row, likewise.
        """
        values = self._values(answers, aligned)
        exact = self._exact()
        systems = {name: values} | {each: self._values(others[each], others_aligned[each]) for each in others}
        return JudgedAnswers(
            means={measure: relevance_mean(each, self._weights) for measure, each in values.items()},
            exact={measure: relevance_mean(each, self._weights) for measure, each in exact.items()},
            lost={measure: self._lost(each - values[measure]) for measure, each in exact.items()},
            differences=self._differences(systems) if others else {},
            notes=tuple(self._notes(exact)),
        )

    def means(self, answers: Any, aligned: Aligned) -> dict[str, Mean]:
        """Every measure of some answers."""
        values = self._values(answers, aligned)
        return {measure: relevance_mean(each, self._weights) for measure, each in values.items()}

    def exact_means(self) -> dict[str, Mean]:
        """Every measure of exact search; empty if the truth is too shallow."""
        return {measure: relevance_mean(each, self._weights) for measure, each in self._exact().items()}

    def _values(self, answers: Any, aligned: Aligned) -> dict[str, Floats]:
        if _has_own_ids(answers):
            return relevance_by_query(answers, self._qrels, self._queries)
        return relevance_by_query(self._by_ids(aligned.rows, ~aligned.missing), self._qrels, self._queries)

    def _exact(self) -> dict[str, Floats]:
        if self._truth.depth < CUTOFF:
            return {}
        rows = np.where(self._truth.rows < 0, PADDING, self._truth.rows)[:, :CUTOFF]
        return relevance_by_query(self._by_ids(rows, np.ones(len(rows), bool)), self._qrels, self._queries)

    def _lost(self, values: Floats) -> Estimate:
        lost, counts = scored_values(np.where(np.abs(values) <= 1e-12, 0.0, values), self._weights)
        low, high = difference_interval(lost, weights=counts) or (None, None)
        return Estimate(weighted_mean(lost, counts), low, high)

    def _differences(self, systems: Mapping[str, Mapping[str, Floats]]) -> dict[str, tuple[Difference, ...]]:
        measures = next(iter(systems.values()))
        return {
            measure: tuple(
                compare({name: each[measure] for name, each in systems.items()}, weights=self._weights)
            )
            for measure in measures
        }

    def _notes(self, exact: Mapping[str, Floats]) -> list[str]:
        judged = [query for query in self._queries if self._qrels.get(query)]
        known = set(judged)
        unjudged = len(self._queries) - len(judged)
        beyond = sum(bool(grades) and query not in known for query, grades in self._qrels.items())
        said = []
        if unjudged:
            said.append(without_judgment(unjudged))
        if beyond:
            unknown = counted(beyond, "query that the truth does", "queries that the truth does")
            said.append(f"the qrels judge {unknown} not have; they count nowhere")
        missing = unknown_documents({query: self._qrels[query] for query in judged}, self._ids)
        if missing:
            said.append(missing)
        if not exact:
            said.append(
                f"exact search is not shown: the truth has depth {self._truth.depth}, but relevance is "
                f"judged to rank {CUTOFF}"
            )
        return said

    def _by_ids(self, rows: NDArray[np.int64], kept: NDArray[np.bool_]) -> Answers:
        """Rows as answers with the query and corpus ids that judgments use."""
        import pyarrow as pa
        import pyarrow.compute as pc

        rows, known = rows[kept], self._ids
        there = (rows != PADDING) & (rows != ABSENT)
        flat = rows[there]
        # Unknown ids are not relevant but keep their rank, so each gets a distinct name.
        unknown = (flat < 0) | (flat >= (np.iinfo(np.int64).max if known is None else len(known)))
        rows_known = np.where(unknown, -1, flat)
        ids = (
            self._truth.ids_of(rows_known)
            if known is None
            else known.take(pa.array(rows_known, mask=unknown))
        ).cast(pa.string())
        nameless = pa.array([f"\1{place}" for place in range(len(flat))], pa.string())
        offsets = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
        return Answers(pc.coalesce(ids, nameless), offsets, self._names.filter(pa.array(kept)))


def _has_own_ids(answers: Any) -> bool:
    import pyarrow as pa

    return isinstance(answers, Answers) and answers.query_ids is not None and answers.ids.type == pa.string()
