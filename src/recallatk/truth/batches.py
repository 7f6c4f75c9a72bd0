"""Queries in batches that are scanned together: by their filter where that is worth gathering rows for."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from recallatk.truth.scanner_blas import BATCH_QUERIES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.filters.eligibility import Eligibility
    from recallatk.filters.rowset import RowSet

# Gathering and preparing one row for one filter costs about as much as scanning it for this many queries.
_GATHER_COST = 60


@dataclass(frozen=True, eq=False)
class Batch:
    """Queries that are scanned together, and the rows gathered for them where their filter is selective."""

    queries: NDArray[np.int64]
    members: RowSet | None

    @property
    def places(self) -> slice | NDArray[np.int64]:
        """Where its queries are among all; a slice, which copies nothing, where they are in a row."""
        first, last = int(self.queries[0]), int(self.queries[-1])
        in_a_row = last - first == len(self.queries) - 1 and bool((np.diff(self.queries) == 1).all())
        return slice(first, last + 1) if in_a_row else self.queries


def batches(eligibility: Eligibility, *, always_gather: bool = False) -> list[Batch]:
    """All queries in batches: each selective filter's on their own, the others in common ones."""
    order = np.argsort(eligibility.group, kind="stable")
    bounds = np.searchsorted(eligibility.group[order], np.arange(len(eligibility.sets) + 1))
    common: list[NDArray[np.int64]] = []
    found: list[Batch] = []
    for members, (first, last) in zip(eligibility.sets, itertools.pairwise(bounds.tolist()), strict=True):
        which = order[first:last]
        if members is None or not (always_gather or _is_selective(members, len(which))):
            common.append(which)
        else:
            found += [Batch(part, members) for part in _parts(which)]
    if common:
        found += [Batch(part, None) for part in _parts(np.concatenate(common))]
    return found


def _is_selective(members: RowSet, queries: int) -> bool:
    """Whether gathering the rows that pass and scanning these is cheaper than scanning all."""
    return members.count * (_GATHER_COST + queries) < members.corpus_rows * queries


def _parts(which: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    return [which[first : first + BATCH_QUERIES] for first in range(0, len(which), BATCH_QUERIES)]
