"""Lost recall: the evidence on every missed neighbor, its cause, and the remedy."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from recallatk.core.measured import Mean

ABSENT, NOT_ASKED = -1, -2
"""In place of a rank: the list did not have the row, or the index was not asked for the list."""


COLUMNS = (
    *("query", "row", "share", "limit", "filtered", "lacking", "held"),
    *("deeper", "reranked", "unfiltered", "full", "visited", "returned", "removed"),
)
"""Fields of the evidence with one entry per missed neighbor."""


class Cause(StrEnum):
    """Why a true neighbor was missed; the first that holds, in this order."""

    MISSING = "missing"
    """The index does not have the row: it never returns it for the row's own vector."""
    RANKING = "ranking"
    """The search reached the row and ranked it below k."""
    FILTER = "filter"
    """The same search without the filter finds the row, and a list as long with the filter does not."""
    EFFORT = "effort"
    """The search finds the row at full effort."""
    BUILD = "build"
    """The search does not find the row at full effort, though the index has it."""
    UNATTRIBUTED = "unattributed"
    """The evidence does not decide."""


@dataclass(frozen=True, eq=False)
class LossEvidence:
    """What an index returned about the neighbors that a trial missed, one entry per missed neighbor.

    Ranks count from 0; `ABSENT` and `NOT_ASKED` stand in for a rank.
    """

    k: int
    """Cutoff of the recall that is explained."""
    query: NDArray[np.int64]
    row: NDArray[np.int64]
    """Corpus row of the missed neighbor."""
    share: NDArray[np.float64]
    """What the query's recall lost with it."""
    limit: NDArray[np.int64]
    """Ranks below this one count as found: k, or the end of the block of ties at k."""
    filtered: NDArray[np.bool_]
    """Whether the query has a filter."""
    lacking: NDArray[np.int64]
    """Number of rows that the answer of the trial lacks of k, or of all eligible rows if those are fewer."""
    held: NDArray[np.int8]
    """1 if the index has the row, 0 if it did not return it for its own vector, `ABSENT` if undecided."""
    deeper: NDArray[np.int64]
    """Rank in a longer list with the same parameters; with a filter, as long as the one without it."""
    reranked: NDArray[np.int64]
    """Rank at the same effort, with as many candidates reranked as the engine accepts."""
    unfiltered: NDArray[np.int64]
    """Rank among the eligible rows of the same query without its filter."""
    full: NDArray[np.int64]
    """Rank at full effort."""
    visited: NDArray[np.int8]
    """Whether the search visited the part of the index that holds the row; `ABSENT` if unknown."""
    returned: NDArray[np.int64]
    """Number of rows that the index returned to the filter of the query; `NOT_ASKED` if not counted."""
    removed: NDArray[np.int64]
    """Number of these rows that the filter removed; `NOT_ASKED` if not counted."""
    scans: bool = False
    """Whether the search of the trial compares every row."""
    full_scans: bool = False
    """Whether a search at full effort compares every row."""
    whole: bool = False
    """Whether the index compares whole vectors instead of codes."""
    full_search: Mapping[str, Any] | None = None
    """Search parameters at full effort; None if the engine has no effort knob."""
    enough_search: Mapping[str, Any] | None = None
    """Search parameters of the lowest effort that finds nearly all that full effort does; None if unknown."""
    enough_p95_ms: float | None = None
    """95th percentile of the latency at that effort, over queries that missed something."""
    effort_knobs: tuple[str, ...] = ()
    rerank_knobs: tuple[str, ...] = ()
    """Search parameters for the number of reranked candidates."""
    build_knobs: tuple[str, ...] = ()
    """Build parameters that trade build time for recall."""
    seconds: float = 0.0
    """Time that collecting took."""
    budget_seconds: float = 0.0
    """Time that collecting may take at most: as long as the trial took, or the limit of the settings."""
    stopped: bool = False
    """Whether the time ran out before every query was asked."""
    notes: tuple[str, ...] = ()
    """Lists that the engine refused, with reasons."""

    def __len__(self) -> int:
        return len(self.query)


@dataclass(frozen=True)
class Remedy:
    """What to change first, with its effect and its price."""

    cause: Cause
    action: str
    """What to do, in the imperative."""
    gain: float
    """Recall to gain."""
    p95_ms: tuple[float, float] | None
    """Latency before and after; None if not measured."""
    measured: bool
    """Whether a trial of the run measured the gain; otherwise it is the share of the cause."""

    def __str__(self) -> str:
        gain = f"{'' if self.measured else 'up to '}+{self.gain:.3f} recall"
        price = "price not measured"
        if self.p95_ms is not None:
            price = "p95 {:.3g} → {:.3g} ms".format(*self.p95_ms)
        return f"{self.action}: {gain}, {price}{', measured in this run' if self.measured else ''}"


@dataclass(frozen=True)
class FilterWork:
    """Medians over filtered queries that missed something and whose rows the engine counted."""

    queries: int
    returned: float
    """Rows that the index returned to the filter."""
    removed: float
    """Rows among them that the filter removed."""

    def __str__(self) -> str:
        over = counted(self.queries, "filtered query", "filtered queries")
        return (
            f"the index returned {self.returned:,.10g} rows, the filter removed {self.removed:,.10g} "
            f"(median over {over} that missed something)"
        )


@dataclass(frozen=True, eq=False)
class TrialLoss:
    """Where one trial lost recall: the shares of all causes add up to 1 - recall."""

    number: int
    """Number of the trial in its run, from 1."""
    trial: Any
    measure: str
    """The recall that is explained, such as `recall@10`."""
    recall: Mean
    causes: Mapping[Cause, Mean]
    """Recall lost to each cause, in the order of the causes."""
    remedy: Remedy | None
    """The remedy with the largest effect; None if nothing was lost or nothing can be named."""
    filtering: FilterWork | None = None
    """What the engine counted while it filtered; None if it did not count."""
    notes: tuple[str, ...] = field(default=())
    """Facts about the evidence, and what the engine showed beyond it."""
