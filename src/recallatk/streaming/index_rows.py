"""The numbers of an index over time: which corpus row each one stands for, and at which states it is live."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

PADDING, UNKNOWN = -1, -2
_NEVER = np.iinfo(np.int64).max


class IndexRows:
    """Row numbers of an index: never reused, each live from one write to another.

    A state is what the corpus is after that many writes; the build is state 0.

    Args:
        corpus_rows: the rows of the corpus.
        initial: the corpus rows that the index was built from, in order.
        state: the state at the build.
    """

    def __init__(self, corpus_rows: int, initial: NDArray[np.int64], state: int = 0) -> None:
        self.row_of = np.asarray(initial, np.int64)
        self.born = np.full(len(initial), state, np.int64)
        self.died = np.full(len(initial), _NEVER, np.int64)
        self._number_of = np.full(corpus_rows, -1, np.int64)
        self._number_of[initial] = np.arange(len(initial))

    @property
    def live_rows(self) -> NDArray[np.int64]:
        """The corpus rows that are live now, in the order of the corpus."""
        return np.flatnonzero(self._number_of >= 0)

    def insert(self, rows: NDArray[np.int64], state: int) -> None:
        """Rows get the next numbers, and are live from this state on."""
        first = len(self.row_of)
        self.row_of = np.concatenate([self.row_of, rows])
        self.born = np.concatenate([self.born, np.full(len(rows), state, np.int64)])
        self.died = np.concatenate([self.died, np.full(len(rows), _NEVER, np.int64)])
        self._number_of[rows] = np.arange(first, first + len(rows))

    def delete(self, rows: NDArray[np.int64], state: int) -> NDArray[np.int64]:
        """The numbers of live rows, which are dead from this state on."""
        numbers = self._number_of[rows]
        self.died[numbers] = state
        self._number_of[rows] = -1
        return numbers

    def answers(self, numbers: NDArray[np.int64], state: NDArray[np.int64] | int) -> NDArray[np.int64]:
        """Corpus rows of answered numbers at a state: PADDING stays, what is not live there is UNKNOWN.

        Args:
            numbers: (queries, k) numbers of the index, padded with -1.
            state: of all, or of each query.
        """
        known = (numbers >= 0) & (numbers < len(self.row_of))
        safe = np.where(known, numbers, 0)
        at = np.broadcast_to(np.asarray(state).reshape(-1, 1), numbers.shape)
        live = known & (self.born[safe] <= at) & (at < self.died[safe])
        return np.where(live, self.row_of[safe], np.where(numbers == PADDING, PADDING, UNKNOWN))

    def stale(self, numbers: NDArray[np.int64], state: NDArray[np.int64] | int) -> NDArray[np.bool_]:
        """Whether each answered number was deleted before a state."""
        known = (numbers >= 0) & (numbers < len(self.row_of))
        at = np.broadcast_to(np.asarray(state).reshape(-1, 1), numbers.shape)
        return np.asarray(known & (self.died[np.where(known, numbers, 0)] <= at))

    def foreign(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each answered number never was in the index."""
        return np.asarray((numbers >= len(self.row_of)) | (numbers < PADDING))
