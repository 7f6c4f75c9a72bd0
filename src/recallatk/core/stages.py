"""Stages of a path: what each returned for every query, how long it took, and its recall."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from recallatk.core.truth import Truth


@dataclass(frozen=True, eq=False)
class StageTrace:
    """What the stages of a path did in some calls."""

    names: tuple[str, ...]
    spans_ns: NDArray[np.int64]
    """(calls, stages) nanoseconds that each stage took."""
    queries: NDArray[np.int64]
    """The queries that `rows` answer, each once, in ascending order."""
    rows: tuple[NDArray[np.int64], ...]
    """For each stage, (queries, width) index rows as first returned, padded with -1."""
    scores: tuple[NDArray[np.float64], ...] = ()
    """For each leg, the scores of its rows that a weighted fusion added, padded with NaN; else empty."""


def widened(rows: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """Lists padded with -1 to this width."""
    import numpy as np

    missing = width - rows.shape[1]
    return np.pad(rows, ((0, 0), (0, missing)), constant_values=-1) if missing else rows


def stacked(parts: Sequence[NDArray[Any]], padding: float = -1) -> NDArray[Any]:
    """Lists of several calls in one matrix, padded to the longest."""
    import numpy as np

    width = max(each.shape[1] for each in parts)
    padded = [np.pad(each, ((0, 0), (0, width - each.shape[1])), constant_values=padding) for each in parts]
    return np.concatenate(padded)


@dataclass(frozen=True, eq=False)
class MeasuredStage:
    """One stage of a measured path."""

    name: str
    rows: NDArray[np.int64]
    """(queries, width) corpus rows as first returned, best first; -1 without an answer."""
    contained: NDArray[np.float64]
    """Per query, the share of the path's true top k that the list of the stage contains."""
    recall: NDArray[np.float64] | None
    """Per query, recall of the list against the truth of this stage alone; None without such a truth."""


@dataclass(frozen=True, eq=False)
class MeasuredStages:
    """The stages of one trial."""

    k: int
    """Number of results of the path."""
    stages: tuple[MeasuredStage, ...]
    spans_ns: NDArray[np.int64]
    """(calls, stages) nanoseconds of every timed call."""
    truth: Truth | None = None
    """What the path returns if its legs are exact; None if that is exact search by vectors."""
    lost: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    """By cause, the share of each query's true top k that was lost to it; they add up to 1 - recall."""
