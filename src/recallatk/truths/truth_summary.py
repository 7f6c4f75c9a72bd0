"""Summary of a truth: proven queries, ties at the boundary, score gaps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.core.truth import Decision

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Truth


def boundary_gaps(truth: Truth) -> NDArray[np.float64]:
    """How far the next row's score is from the last neighbor's: 0 for a tie, NaN where no row is left."""
    if truth.certificate is None or truth.scores is None:
        return np.full(len(truth), np.nan)
    return np.abs(truth.scores[:, -1] - truth.certificate.next_scores)


def ties_at(truth: Truth, k: int) -> NDArray[np.bool_]:
    """For each query, whether its k-th neighbor ties with the next one."""
    if k < truth.depth:
        if truth.tied is not None:
            return truth.tied[:, k]
        if truth.scores is None:
            return np.zeros(len(truth), bool)
        return np.asarray(truth.scores[:, k] == truth.scores[:, k - 1])
    if truth.tie_counts is not None:
        return truth.tie_counts > 0
    if truth.overflow is not None:
        return np.diff(truth.overflow[0]) > 0
    return np.zeros(len(truth), bool)


def certified(truth: Truth) -> int:
    """How many queries have a certificate."""
    return 0 if truth.certificate is None else len(truth.certificate.decided)


def decisions(truth: Truth) -> dict[str, int]:
    """How many queries each kind of arithmetic settled."""
    decided = np.empty(0, np.uint8) if truth.certificate is None else truth.certificate.decided
    counts = np.bincount(decided, minlength=len(Decision))
    return {each.text: int(counts[each]) for each in Decision}


def in_words(truth: Truth) -> str:
    """One line: how many queries are proven, by what arithmetic, and how many have ties."""
    parts = [f"{certified(truth):,} of {len(truth):,} certified"]
    if truth.certificate is not None:
        how = ", ".join(f"{count:,} decided by {name}" for name, count in decisions(truth).items() if count)
        parts[0] += f" ({how} arithmetic)" if how else ""
    ties = {k: int(ties_at(truth, k).sum()) for k in cutoffs(truth)}
    return "; ".join(parts + [f"{count:,} with a tie at k={k}" for k, count in ties.items() if count])


def cutoffs(truth: Truth) -> list[int]:
    """The k of 1, 10 and the depth, as far as the truth goes."""
    return sorted({k for k in (1, 10, truth.depth) if k <= truth.depth})
