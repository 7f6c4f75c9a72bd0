"""Which states of the corpus a call could have seen, from when it and the writes ran."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class SeenStates(NamedTuple):
    """The states that calls could have seen, by the number of writes before each."""

    first: NDArray[np.int64]
    """The state when the call began: writes that had ended by then."""
    last: NDArray[np.int64]
    """The state when it ended: writes that had begun by then."""

    @property
    def alone(self) -> NDArray[np.bool_]:
        """Calls that overlapped no write."""
        return np.asarray(self.first == self.last)

    @property
    def beside_one(self) -> NDArray[np.bool_]:
        """Calls that overlapped one write."""
        return np.asarray(self.last - self.first == 1)

    @property
    def discarded(self) -> NDArray[np.bool_]:
        """Calls that overlapped several writes, whose states nobody can tell."""
        return np.asarray(self.last - self.first > 1)


def seen_states(
    began: NDArray[np.int64],
    ended: NDArray[np.int64],
    write_began: NDArray[np.int64],
    write_ended: NDArray[np.int64],
) -> SeenStates:
    """The states that each call could have seen.

    Args:
        began: when each call began.
        ended: when it ended.
        write_began: when each write began; writes run one after the other.
        write_ended: when each write ended.
    """
    first = np.searchsorted(write_ended, began, side="right")
    last = np.searchsorted(write_began, ended, side="left")
    # A write of no length at the very moment when a call begins has ended, though it also has begun.
    return SeenStates(first, np.maximum(first, last))
