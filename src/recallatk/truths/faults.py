"""Claims of a truth in rows of a given corpus, and the faults that a verification reports."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Dataset, Truth


class Fault(StrEnum):
    """Kinds of fault in a truth."""

    NOT_AMONG_BEST = "not among the best"
    OUT_OF_ORDER = "out of order"
    REPEATED = "listed twice"
    UNKNOWN = "not in the corpus"
    INELIGIBLE = "excluded by the query's filter, or the query's own row"
    MISSING = "missing"
    """The list ends although more rows are eligible."""
    ROW = "wrong row number"
    SCORE = "wrong score"
    TIES = "wrong ties"
    ELIGIBLE = "wrong number of eligible rows"
    CERTIFICATE = "wrong certificate"


@dataclass(frozen=True)
class Claim:
    """A value in a truth file and the value computed from the data."""

    column: str
    """The column of the truth file."""
    stated: Any
    actual: Any


@dataclass(frozen=True)
class Wrong:
    """One fault."""

    query: Any
    """The query's id."""
    rank: int | None
    """From 1; None for a fault of the query as a whole."""
    neighbor: Any
    """The id of the listed row; None without one."""
    fault: Fault
    score: float | None = None
    """The real score of that row."""
    gap: float | None = None
    """How much worse that is than the worst score among the real neighbors."""
    claim: Claim | None = None
    """The column that is wrong, where the neighbor itself is right."""


@dataclass(frozen=True, eq=False)
class Verification:
    """The outcome of a verification."""

    queries: int
    checked: int
    depth: int
    wrong: tuple[Wrong, ...]
    other_data: tuple[str, ...]
    """Parts of the data that differ from what the file says it was made from; empty where it says nothing."""

    @property
    def right(self) -> bool:
        """Whether no fault was found."""
        return not self.wrong and not self.other_data


UNKNOWN = -2


@dataclass(frozen=True, eq=False)
class Listed:
    """Some queries of a truth: which queries of the data they are, and which rows of its corpus they list."""

    truth: Truth
    dataset: Dataset
    numbers: NDArray[np.int64]
    """Their numbers in the truth."""
    places: NDArray[np.int64]
    """Their numbers in the data."""
    rows: NDArray[np.int64]
    """(queries, depth) rows of this corpus; -1 for padding, -2 for an id that it does not have."""
    allowed: NDArray[np.bool_]
    """Whether each row is eligible for its query."""
    beyond: tuple[list[int], ...]
    """For each of them, the rows that it lists beyond its depth."""

    @classmethod
    def of(
        cls, truth: Truth, dataset: Dataset, numbers: NDArray[np.int64], places: NDArray[np.int64]
    ) -> Listed:
        """Look up the ids of some queries of a truth in a corpus."""
        rows = _found(truth, dataset, truth.rows[numbers])
        line, column = np.nonzero(rows >= 0)
        allowed = np.zeros(rows.shape, bool)
        allowed[line, column] = dataset.eligibility.allowed(places[line], rows[line, column])
        return cls(truth, dataset, numbers, places, rows, allowed, tuple(_beyond(truth, dataset, numbers)))

    @property
    def is_ours(self) -> bool:
        """Whether the truth claims to be computed by this tool, to the last bit."""
        from recallatk.core import Origin

        return self.truth.origin is Origin.COMPUTED


def _beyond(truth: Truth, dataset: Dataset, numbers: NDArray[np.int64]) -> list[list[int]]:
    if truth.overflow is None:
        return [[] for _ in numbers]
    offsets, rows = truth.overflow
    found = _found(truth, dataset, rows)
    return [found[offsets[number] : offsets[number + 1]].tolist() for number in numbers.tolist()]


def _found(truth: Truth, dataset: Dataset, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows of the truth, by their ids, as rows of this corpus."""
    if truth.row_ids is None:
        return np.where(rows >= dataset.corpus.rows, UNKNOWN, rows)
    found = np.full(rows.shape, -1, np.int64)
    there = rows >= 0
    places = id_places(truth.ids_of(rows[there]), dataset.corpus.ids)
    found[there] = np.where(places < 0, UNKNOWN, places)
    return found


def id_places(ids: pa.Array, among: pa.Array) -> NDArray[np.int64]:
    """Position of each id among others; -1 if it is missing."""
    if ids.type != among.type:
        ids, among = ids.cast(pa.string()), among.cast(pa.string())
    found: NDArray[np.int64] = pc.index_in(ids, value_set=among).cast(pa.int64()).fill_null(-1).to_numpy()
    return found
