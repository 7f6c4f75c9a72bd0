"""What can be asked, prepared so that a timed loop has nothing to do but to call."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.engines.batch import QueryBatch
from recallatk.errors import MismatchError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.filters import Filter

    Arguments = tuple[QueryBatch, int]


@dataclass(frozen=True, eq=False)
class Questions:
    """All queries in memory, and what each call says beside them."""

    vectors: NDArray[Any]
    """(queries, dimension)."""
    k: int
    filters: list[Filter | None] | None = None
    """What each query may return; None where all may return everything."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "vectors", np.ascontiguousarray(self.vectors))
        if self.filters is not None and len(self.filters) != len(self.vectors):
            raise MismatchError(f"{len(self.vectors):,} queries have {len(self.filters):,} filters")

    def __len__(self) -> int:
        return len(self.vectors)

    @cached_property
    def single(self) -> list[Arguments]:
        """What `search` is called with for each query alone."""
        filters = self.filters or [None] * len(self)
        return [
            (QueryBatch(self.vectors[query : query + 1], [each], rows=range(query, query + 1)), self.k)
            for query, each in enumerate(filters)
        ]

    def together(self, queries: NDArray[np.int64]) -> Arguments:
        """What `search` is called with for some queries in one call."""
        filters = None if self.filters is None else [self.filters[query] for query in queries.tolist()]
        return QueryBatch(self.vectors[queries], filters, rows=queries), self.k


class Script:
    """The calls of a block before they are made: an order of queries, cut into batches."""

    def __init__(self, questions: Questions, order: NDArray[np.int64], batch: int = 1) -> None:
        self.order = np.asarray(order, np.int64)
        self.batch, self.k = batch, questions.k
        if batch == 1:
            single = questions.single
            self.arguments = [single[query] for query in self.order.tolist()]
        else:
            starts = range(0, len(self.order), batch)
            self.arguments = [questions.together(self.order[start : start + batch]) for start in starts]

    def __len__(self) -> int:
        return len(self.arguments)

    def sizes(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many queries each of these calls has; the last of the order may have fewer."""
        return np.minimum(self.batch, len(self.order) - numbers * self.batch)
