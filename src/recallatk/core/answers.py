"""What a tested system returned, as it said it: ids of its own kind, nothing looked up or believed yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Answers:
    """For each query a list of ids, best first; lists may differ in length."""

    ids: pa.Array
    """All ids, one list after the other: int64 or string. Null, and -1 among integers, is padding."""
    offsets: NDArray[np.int64]
    """Where each query's list begins, and where the last one ends."""
    query_ids: pa.Array | None = None
    """The user's ids of the queries, int64 or string; without them, queries go by position."""
    scores: NDArray[np.float64] | None = None
    """Beside each id what the system said of it; never believed."""
    ordered_by: str | None = None
    """The keys that put each list in order, where scores did; None: the lists are as they were given."""
    columns: pa.Table | None = None
    """What else stands beside each query."""
    name: str = "answers"
    """What messages call it: the file it came from, without secrets."""

    def __len__(self) -> int:
        return len(self.offsets) - 1
