"""Why recall is low, in words: the neighbors were found and ranked too low, or they were not found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from recallatk.analysis.measures import Recall, RecallWithin, recorded_measure

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from recallatk.core import Score

# Recall from here on needs no diagnosis.
_GOOD = 0.95
# So much of what is missing must turn up further down to call it found.
_FOUND = 0.5
# How many times k answers a diagnosis looks at.
_DEEPER = 5


@dataclass(frozen=True)
class Diagnosis:
    """What is wrong, what to try, and the numbers that say so."""

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
    """The recall of the true top k among more than k answers; None where queries have no more.

    Args:
        k: the headline.
        lengths: how many answers each query has; it looks as deep as half of the queries were answered.
    """
    in_order = sorted(lengths.tolist())
    depth = min(_DEEPER * k, in_order[len(in_order) // 2] if in_order else 0)
    return RecallWithin(depth, k) if depth > k else None


def diagnose(score: Score, k: int) -> Diagnosis | None:
    """What `recall@k` and `recallK@N` of the same answers say; None without the former."""
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
