"""What a verification reports: one entry per fault in a truth, with the query and rank it belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


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
    """A value in a truth file beside the value that the data give."""

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
