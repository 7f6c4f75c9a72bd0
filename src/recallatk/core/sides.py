"""Compared sides: settings of a run, tuning, probe or answer file, with one value per query."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.core.data import Metric
    from recallatk.core.filtering import FilterFacts
    from recallatk.core.trials import Parameters
    from recallatk.core.weights import Weights


class SideKind(StrEnum):
    """Where the values of a side come from."""

    RUN = "run"
    TUNING = "tuning"
    PROBE = "probe"
    ANSWERS = "answers"
    BASELINE = "baseline"


@dataclass(frozen=True)
class SideIdentity:
    """What two sides must share to be compared query by query; None where it is not known."""

    dataset: str | None = None
    metric: Metric | None = None
    queries: str | None = None
    """Fingerprint of the queries and their filters."""
    corpus: str | None = None
    """Fingerprint of the corpus."""


@dataclass(frozen=True, eq=False)
class SideBuild:
    """One build of a setting."""

    values: Mapping[str, NDArray[np.float64]]
    """Each measure by query, in the order of the side's `query_ids`; NaN for queries that do not count."""
    latency_ms: NDArray[np.float64] | None = None
    """Of every timed call; None if nothing was timed."""
    rounds: NDArray[np.int64] | None = None
    """The round of every timed call, for ratios within interleaved rounds."""
    costs: Mapping[str, float | None] = field(default_factory=dict)
    """`qps`, `memory`, `size` and `build`, in the units of budgets."""


@dataclass(frozen=True, eq=False)
class SideSetting:
    """One setting of an engine, built once or several times."""

    engine: str
    version: str | None
    build: Parameters
    search: Parameters
    load: str
    """The load in words, such as `latency`."""
    k: int
    builds: tuple[SideBuild, ...]

    @property
    def key(self) -> tuple[Any, ...]:
        """What makes two settings the same."""
        return (self.engine, self.build, self.search, self.load)


@dataclass(frozen=True, eq=False)
class ComparedSide:
    """Everything that one side of a comparison measured."""

    name: str
    """As the user named it, without secrets."""
    kind: SideKind
    identity: SideIdentity
    query_ids: tuple[str, ...]
    settings: tuple[SideSetting, ...]
    columns: pa.Table | None = field(default=None, repr=False)
    """Columns of the queries, for segments."""
    facts: FilterFacts | None = field(default=None, repr=False)
    """What the filters of the queries admit; None without filters."""
    weights: Weights | None = field(default=None, repr=False)
    texts: tuple[str | None, ...] | None = field(default=None, repr=False)
    """The text of each query, for readers; None if there is none."""
    environment: Mapping[str, Any] = field(default_factory=dict, repr=False)
    source: str | None = None
    """`--sample` probes, synthetic filters and the like: a label that every later output repeats."""
