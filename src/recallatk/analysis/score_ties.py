"""Ties by score in answers that scores put in order: where other evaluators count other answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from recallatk.core import Answers

OTHER_TOOLS = "trec_eval and ir-measures order equal scores by document id, last first"


@dataclass(frozen=True)
class ScoreTies:
    """Queries whose answers tie by score at a boundary, so that the order of ties decides who is counted."""

    order: str
    """How the answers are ordered here."""
    queries: Mapping[int, int]
    """By k, how many queries have equal scores at k and k + 1."""


def score_ties(answers: Answers, cutoffs: Iterable[int]) -> ScoreTies | None:
    """Ties at every k; None for answers whose order is not made from scores."""
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
