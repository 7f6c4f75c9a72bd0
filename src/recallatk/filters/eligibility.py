"""Which rows each query may return, once its filter has met the corpus."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from recallatk.errors import FilterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.filters.expression import Filter


@dataclass(frozen=True, eq=False)
class Eligibility:
    """Which rows each query may return: equal filters share one mask."""

    masks: tuple[NDArray[np.bool_] | None, ...]
    """The distinct masks over the corpus; None lets every row pass."""
    group: NDArray[np.int64]
    """For each query, the number of its mask."""
    own_rows: NDArray[np.int64] | None
    """For each query, the corpus row that it is itself, or None when queries are no corpus rows."""
    corpus_rows: int

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """For each query, how many rows are eligible: the `m` of the definitions."""
        sizes = [self.corpus_rows if mask is None else int(mask.sum()) for mask in self.masks]
        counts = np.asarray(sizes, dtype=np.int64)[self.group]
        if self.own_rows is not None:
            counts = counts - self.allowed(np.arange(len(counts)), self.own_rows, own=True)
        return counts

    def allowed(
        self, queries: NDArray[np.int64], rows: NDArray[np.int64], *, own: bool = False
    ) -> NDArray[np.bool_]:
        """Whether each corpus row passes for the query beside it; `own` lets its own row pass."""
        passed = np.ones(len(rows), dtype=bool)
        for number, mask in enumerate(self.masks):
            if mask is not None:
                here = self.group[queries] == number
                passed[here] = mask[rows[here]]
        if self.own_rows is not None and not own:
            passed &= rows != self.own_rows[queries]
        return passed


def eligibility(
    filters: Sequence[Filter | None],
    metadata: pa.Table,
    own_rows: NDArray[np.int64] | None,
    corpus_rows: int,
) -> Eligibility:
    """Evaluate the filter of every query on the corpus metadata, each distinct filter once."""
    masks: dict[str | None, NDArray[np.bool_] | None] = {}
    keys = [None if each is None else each.key for each in filters]
    for key, each in zip(keys, filters, strict=True):
        if key not in masks:
            masks[key] = None if each is None else each.mask(metadata)
    for mask in masks.values():
        if mask is not None and len(mask) != corpus_rows:
            raise FilterError(f"metadata of {len(mask)} rows, and a corpus of {corpus_rows}")
    numbers = {key: number for number, key in enumerate(masks)}
    group = np.asarray([numbers[key] for key in keys], np.int64)
    return Eligibility(tuple(masks.values()), group, own_rows, corpus_rows)
