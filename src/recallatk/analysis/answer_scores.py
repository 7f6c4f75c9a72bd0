"""Scores of answers, computed from the vectors or reported by the engine, and ties among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.matching import first_distinct
from recallatk.core import Metric, blocks
from recallatk.errors import UsageError
from recallatk.pair_scores import norms, pair_scores, require_range, smallest_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from recallatk.analysis.compared import Compared
    from recallatk.analysis.measures.base import Measure
    from recallatk.core import Answers, Dataset

# float64 similarities have an error of a few 1e-16 per component.
_PARALLEL = 1e-12


def answer_scores(dataset: Dataset, answers: NDArray[np.int64]) -> NDArray[np.float64]:
    """float64 score of each answer; NaN for unknown and ineligible rows."""
    scores = np.full(answers.shape, np.nan)
    flat = scores.reshape(-1)
    queries = np.array(dataset.queries.vectors.read(0, dataset.queries.rows))
    query, column = np.nonzero((answers >= 0) & (answers < dataset.corpus.rows))
    rows = answers[query, column]
    order = np.argsort(rows, kind="stable")
    query, column, rows = query[order], column[order], rows[order]
    require_range(queries, dataset.metric, dataset.queries.name)
    smallest = smallest_size(queries)
    query_norms = norms(queries) if dataset.metric is Metric.COSINE else None
    for start, block in blocks(dataset.corpus.vectors):
        require_range(block, dataset.metric, dataset.corpus.name, start, compared_with=smallest)
        first, last = np.searchsorted(rows, [start, start + len(block)])
        asked, found = query[first:last], rows[first:last] - start
        values = pair_scores(dataset.metric, queries, asked, block, found)
        if query_norms is not None and len(found):
            values /= query_norms[asked] * norms(block)[found]
        flat[asked * answers.shape[1] + column[first:last]] = values
    barred = ~dataset.eligibility.allowed(query, rows)
    scores[query[barred], column[barred]] = np.nan
    return scores


def cosine_distances(similarities: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 - similarity, and 0 for vectors that are parallel within float64 rounding."""
    distances = 1.0 - similarities
    return np.asarray(np.where(distances < _PARALLEL, 0.0, distances))


def needed_scores(compared: Compared, measure: Measure) -> tuple[NDArray[np.float64], Metric]:
    """Scores of the answers and their metric; raises if a measure needs them and they are missing."""
    metric = compared.truth.metric
    if compared.answer_scores is None or metric is None or compared.truth.scores is None:
        raise UsageError(
            f"{measure} needs the vectors and a truth with scores: score(…, dataset=dataset), "
            "or --corpus and --queries"
        )
    return compared.answer_scores, metric


def true_scores(compared: Compared) -> NDArray[np.float64]:
    """Scores of the truth; call after `needed_scores`."""
    assert compared.truth.scores is not None  # noqa: S101 - asked by the caller
    return compared.truth.scores


def counted_scores(compared: Compared, scores: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """Scores of the first k distinct known answers; NaN for the others."""
    return np.where(first_distinct(compared.answers, k), scores, np.nan)


OTHER_TOOLS = "trec_eval and ir-measures order equal scores by document id, last first"


@dataclass(frozen=True)
class ScoreTies:
    """Queries whose answers tie by score at rank k, where the order of ties changes recall."""

    order: str
    """Rule that orders the answers."""
    queries: Mapping[int, int]
    """Number of queries with equal scores at k and k + 1, by k."""


def score_ties(answers: Answers, cutoffs: Iterable[int]) -> ScoreTies | None:
    """Ties at every k; None for answers that are not ordered by score."""
    if answers.ordered_by is None or answers.scores is None:
        return None
    return ScoreTies(answers.ordered_by, {k: int(ties_at(answers, k).sum()) for k in sorted(set(cutoffs))})


def ties_at(answers: Answers, k: int) -> NDArray[np.bool_]:
    """For each query of the answers, whether its scores at k and k + 1 are equal.

    trec_eval reads scores as float32, so that scores closer than that tie there.
    """
    tied = np.zeros(len(answers), bool)
    if answers.scores is None:
        return tied
    with np.errstate(over="ignore"):
        scores = answers.scores.astype(np.float32)
    longer = np.flatnonzero(np.diff(answers.offsets) > k)
    last = answers.offsets[longer] + k - 1
    tied[longer] = scores[last] == scores[last + 1]
    return tied
