"""R05: ties at the boundary of the top k in many queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.core.judgments import Severity
from recallatk.linter.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from recallatk.core import Truth
    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence

SOME = 0.01


class BoundaryTies(Rule):
    """Which row is the k-th is a matter of taste."""

    code, name, severity = "R05", "boundary-ties", Severity.WARNING
    title = "Scores tie at rank k"
    threshold = "more than 1 % of the queries have equal scores at ranks k and k + 1"
    source = (
        "a share of 1 % can move recall by strict ids by as much as the second decimal that people compare."
    )
    why = (
        "If scores tie at rank k, several answers are correct, and strict ids accept only one. Recall "
        "here accepts all of them; other tools may report less."
    )
    remedy = (
        "Compare runs by tie-aware recall, never by strict ids. Remove duplicates if they cause the ties."
    )
    needs = frozenset({"truth"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """The worst of all k."""
        if evidence.truth is None:
            return
        shares = {
            k: share
            for k in evidence.cutoffs or (evidence.k,)
            if (share := _tied(evidence.truth, k)) is not None
        }
        if shares and max(shares.values()) > SOME:
            k, share = max(shares.items(), key=lambda each: each[1])
            yield self.finding(f"{share:.1%} of the queries tie at the boundary of the top {k}", share, SOME)


def _tied(truth: Truth, k: int) -> float | None:
    """The share of queries whose k-th neighbor ties with the next; None where nobody knows."""
    if k > truth.depth or not len(truth):
        return None
    if k == truth.depth:
        beyond = _beyond(truth)
        return None if beyond is None else float((beyond > 0).mean())
    there = truth.rows[:, k] >= 0
    if truth.tied is not None:
        return float((truth.tied[:, k] & there).mean())
    if truth.scores is None:
        return None
    return float(((truth.scores[:, k] == truth.scores[:, k - 1]) & there).mean())


def _beyond(truth: Truth) -> NDArray[np.int64] | None:
    if truth.tie_counts is not None:
        return truth.tie_counts
    return None if truth.overflow is None else np.diff(truth.overflow[0])
