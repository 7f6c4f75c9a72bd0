"""The plain scanner in a rotated space: the rest of the components only for pairs that may need them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.truth.scanner_blas import BlasScanner

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.truth.scanner import Asked

_PORTION_PAIRS = 2048


class PrefixScanner(BlasScanner):
    """One product over the components that tell most, with the bound of the others among them."""

    def __init__(self, lead: int, width: int, dtype: np.dtype[Any], queries: int) -> None:
        super().__init__(width, dtype, queries)
        self.lead = lead

    def _multiply(self, asked: Asked, rows: NDArray[Any], out: NDArray[Any]) -> bool:
        if np.isneginf(asked.thresholds).any():
            # The first threshold has to come from whole scores.
            bounds = asked.queries[:, -2].copy()
            asked.queries[:, -2] = 0
            np.matmul(asked.queries, rows.T, out=out)
            asked.queries[:, -2] = bounds
            return True
        np.matmul(asked.queries[:, self.lead :], rows[:, self.lead :].T, out=out)
        return False

    def _completed(
        self,
        asked: Asked,
        rows: NDArray[Any],
        queries: NDArray[np.int64],
        columns: NDArray[np.int64],
        values: NDArray[Any],
    ) -> NDArray[Any]:
        whole = np.empty_like(values)
        sought, found = asked.queries[:, : self.lead], rows[:, : self.lead]
        for start in range(0, len(values), _PORTION_PAIRS):
            part = slice(start, start + _PORTION_PAIRS)
            query, row = queries[part], columns[part]
            rest = np.einsum("ij,ij->i", sought[query], found[row])
            whole[part] = values[part] - asked.queries[query, -2] * rows[row, -2] + rest
        return whole
