"""Diagnosis of low recall: neighbors ranked too low, or not found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from recallatk.analysis.measures import Recall, RecallWithin, recorded_measure

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from recallatk.core import Score

# No diagnosis from this recall on.
_GOOD = 0.95
# Share of the missing neighbors that must appear below rank k to count as found.
_FOUND = 0.5
# The diagnosis looks at this many times k answers.
_DEEPER = 5


@dataclass(frozen=True)
class Diagnosis:
    """Cause of low recall, what to try, and the numbers behind it."""

    finding: str
    """`good`, `found but not ranked`, `not found`, or `cannot tell`."""
    k: int
    within: int | None
    recall: float
    recall_within: float | None

    @property
    def in_words(self) -> str:
        """One sentence with its numbers."""
        return _WORDS[self.finding].format(
            k=self.k, within=self.within, recall=self.recall, deeper=self.recall_within
        )


_WORDS = {
    "good": "no problem found: recall@{k} is {recall:.4f}.",
    "found but not ranked": "found but not ranked: recall@{k} is {recall:.4f}, yet {deeper:.4f} of the true "
    "top {k} are among the first {within} answers. Rerank with exact scores, or quantize less.",
    "not found": "not found: recall@{k} is {recall:.4f}, and only {deeper:.4f} of the true top {k} are among "
    "the first {within} answers. Search with more effort, build a better index, or check whether the queries "
    "resemble the corpus.",
    "cannot tell": "cannot tell: recall@{k} is {recall:.4f}, but {k} answers do not show whether the search "
    "found the others below rank {k}. Request more answers, such as {within}.",
}


def deeper_measure(k: int, lengths: NDArray[np.integer]) -> RecallWithin | None:
    """Recall of the true top k among more than k answers; None if there are no more answers.

    Args:
        k: the headline.
        lengths: number of answers per query; the depth is one that half of the queries reach.
    """
    in_order = sorted(lengths.tolist())
    depth = min(_DEEPER * k, in_order[len(in_order) // 2] if in_order else 0)
    return RecallWithin(depth, k) if depth > k else None


def diagnose(score: Score, k: int) -> Diagnosis | None:
    """Diagnosis from `recall@k` and `recallK@N` of the same answers; None without the former."""
    recall = score.measures.get(str(Recall(k)))
    if recall is None or recall.value is None:
        return None
    deeper = [each for each in map(recorded_measure, score.measures) if isinstance(each, RecallWithin)]
    deeper = [each for each in deeper if each.of == k and each.k > k]
    if recall.value >= _GOOD:
        return Diagnosis("good", k, None, recall.value, None)
    if not deeper:
        return Diagnosis("cannot tell", k, _DEEPER * k, recall.value, None)
    deepest = max(deeper, key=lambda each: each.k)
    found = score.measures[str(deepest)].value
    share = 0.0 if found is None else (found - recall.value) / (1 - recall.value)
    finding = "found but not ranked" if share >= _FOUND else "not found"
    return Diagnosis(finding, k, deepest.k, recall.value, found)
