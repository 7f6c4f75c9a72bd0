"""Answers against truth: recall at several k, and everything odd about the answers, counted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.analysis.answers import (
    PADDING,
    UNKNOWN,
    answer_rows,
    check_same_queries,
    truth_from_lists,
)
from recallatk.analysis.recall import cut_ties, recall_per_query, repeated
from recallatk.core import Corpus, Mean, Score, Truth
from recallatk.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from recallatk.filters.eligibility import Eligibility


def score(
    answers: Any,
    truth: Truth | Sequence[Sequence[Any]],
    at: Sequence[int] = (1, 10, 100),
    *,
    corpus: Corpus | None = None,
    eligibility: Eligibility | None = None,
) -> Score:
    """Compare answers with the truth.

    Args:
        answers: one list per query, best first: row numbers, or ids when `corpus` is given or the
            truth is lists of ids. -1 and None are padding.
        truth: a Truth, or one list of ids per query, best first.
        at: the values of k; each must be within the truth's depth.
        corpus: what the ids of the answers are looked up in.
        eligibility: which rows each query may return, to count answers that it may not.
    """
    cutoffs = _cutoffs(at)
    if isinstance(truth, Truth):
        rows = answer_rows(answers, corpus)
    else:
        truth, rows = truth_from_lists(truth, answers, max(cutoffs))
    check_same_queries(rows, truth)
    if eligibility is not None:
        rows = np.where(rows >= eligibility.corpus_rows, UNKNOWN, rows)
    per_query, measures = {}, {}
    for k in cutoffs:
        tie_aware, strict = recall_per_query(rows, truth, k)
        per_query[f"recall@{k}"] = tie_aware
        measures[f"recall@{k}"] = _mean(tie_aware, strict)
    has_truth = (truth.rows >= 0).any(axis=1)
    return Score(
        queries=len(truth),
        scored=int(has_truth.sum()),
        measures=measures,
        anomalies=_anomalies(rows, truth, max(cutoffs), eligibility, known=corpus is not None),
        per_query=per_query,
        sampled_from=truth.sampled_from,
    )


def _cutoffs(at: Any) -> list[int]:
    values = list(at) if isinstance(at, Iterable) and not isinstance(at, str) else []
    if not values or not all(map(_is_cutoff, values)):
        raise UsageError(f"at = {at!r}. Accepted: one or more whole numbers, for example at=(1, 10)")
    return [int(k) for k in values]


def _is_cutoff(k: object) -> bool:
    return not isinstance(k, bool) and isinstance(k, int | np.integer) and int(k) > 0


def _mean(tie_aware: NDArray[np.float64], strict: NDArray[np.float64]) -> Mean:
    scored = ~np.isnan(tie_aware)
    if not scored.any():
        return Mean(None, None, 0)
    return Mean(float(tie_aware[scored].mean()), float(strict[scored].mean()), int(scored.sum()))


def _anomalies(
    rows: NDArray[np.int64], truth: Truth, k: int, eligibility: Eligibility | None, *, known: bool
) -> dict[str, int | None]:
    """How many queries were answered short, and how many answers were odd in each way."""
    wanted = np.minimum(k, (truth.rows >= 0).sum(axis=1))
    duplicate = repeated(rows)
    distinct = ((rows >= 0) & ~duplicate).sum(axis=1)
    ineligible = None
    if eligibility is not None:
        query, column = np.nonzero(rows >= 0)
        ineligible = int((~eligibility.allowed(query, rows[query, column])).sum())
    # Without a corpus or its size nobody can tell which ids there are.
    told = known or eligibility is not None
    return {
        "short": int((distinct < wanted).sum()),
        "duplicate": int(duplicate.sum()),
        "padding": int((rows == PADDING).sum()),
        "unknown": int((rows == UNKNOWN).sum()) if told else None,
        "ineligible": ineligible,
        "no_eligible": int((truth.rows < 0).all(axis=1).sum()),
        "cut_ties": cut_ties(truth, k),
    }
