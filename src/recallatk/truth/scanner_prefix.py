"""The plain scanner in a rotated space: the rest of the components only for pairs that may need them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.truth.scanner_blas import BlasScanner

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.truth.scanner import Asked, Hits

_PORTION_PAIRS = 2048


class PrefixScanner(BlasScanner):
    """One product over the components that tell most, with the bound of the others among them."""

    def __init__(self, lead: int, width: int, dtype: np.dtype[Any], queries: int) -> None:
        super().__init__(width, dtype, queries)
        self.lead = lead

    def _multiply(self, asked: Asked, rows: NDArray[Any], out: NDArray[Any]) -> None:
        if not _has_fresh(asked):
            np.matmul(asked.queries[:, self.lead :], rows[:, self.lead :].T, out=out)
            return
        # The first threshold has to come from whole scores.
        bounds = asked.queries[:, -2].copy()
        asked.queries[:, -2] = 0
        np.matmul(asked.queries, rows.T, out=out)
        asked.queries[:, -2] = bounds

    def _completed(self, asked: Asked, rows: NDArray[Any], hits: Hits) -> Hits:
        if _has_fresh(asked):
            return hits
        whole = np.empty_like(hits.scores)
        sought, found = asked.queries[:, : self.lead], rows[:, : self.lead]
        for start in range(0, len(whole), _PORTION_PAIRS):
            part = slice(start, start + _PORTION_PAIRS)
            query, row = hits.queries[part], hits.columns[part]
            rest = np.einsum("ij,ij->i", sought[query], found[row])
            whole[part] = hits.scores[part] - asked.queries[query, -2] * rows[row, -2] + rest
        return hits._replace(scores=whole).of(whole >= hits.thresholds[hits.queries])


def _has_fresh(asked: Asked) -> bool:
    """Whether there are queries of which nothing is known."""
    return bool(np.isneginf(asked.thresholds).any())
