"""What is measured: knobs, trials, builds, scores, measurements, runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeAlias

from recallatk.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from recallatk.core.data import Metric

Parameters: TypeAlias = tuple[tuple[str, Any], ...]
KnobValue: TypeAlias = int | float | str


@dataclass(frozen=True)
class Knob:
    """One parameter of an engine: what it is called and what it may be.

    A number from `low` to `high`, whole where the default is whole; or one of `choices`.
    """

    name: str
    default: KnobValue
    low: float = 0
    high: float = 0
    scale: str = "log"
    """`log` or `linear`: how a sweep should step through it."""
    effort: bool = False
    """More of it is slower and does not lose recall."""
    choices: tuple[str, ...] = ()
    """What it may be where it is no number; without any, a text may be anything."""
    help: str = ""
    """What it does, in a few words."""

    @property
    def accepted(self) -> str:
        """What it may be, in words."""
        if isinstance(self.default, str):
            return ", ".join(self.choices) or "text"
        kind = "whole numbers" if isinstance(self.default, int) else "numbers"
        return f"{kind} from {self.low} to {self.high}"

    def accepts(self, value: object) -> bool:
        """Whether it may be this."""
        if isinstance(self.default, str):
            return isinstance(value, str) and (not self.choices or value in self.choices)
        whole = isinstance(self.default, int)
        if isinstance(value, bool) or not isinstance(value, Integral if whole else Real):
            return False
        return self.low <= float(value) <= self.high

    def plain(self, value: Any) -> KnobValue:
        """The value as a plain int, float or text."""
        return type(self.default)(value)


@dataclass(frozen=True)
class Trial:
    """One configuration to measure: an engine, how it is built and how it is searched."""

    engine: str
    build: Parameters
    search: Parameters

    def __str__(self) -> str:
        build, search = (
            ", ".join(f"{name}={value}" for name, value in part) for part in (self.build, self.search)
        )
        return f"{self.engine}({build})[{search}]"


@dataclass(frozen=True)
class Build:
    """One index as it was built, and what that cost."""

    engine: str
    version: str | None
    """Of the library behind the engine."""
    parameters: Parameters
    threads: int
    seconds: float | None
    memory_bytes: int | None
    """Private memory that the build added to its process; None when it was not measured."""
    size_bytes: int | None
    """The index as it would be stored; None when it was not measured."""


@dataclass(frozen=True)
class Mean:
    """The mean of a measure over queries."""

    value: float | None
    """None when no query could be scored."""
    ids: float | None
    """The same by strict ids, where ties at the boundary are cut by row number."""
    n: int
    """How many queries the mean is over."""
    low: float | None = None
    """The lower end of the 95 % interval over queries; None where there is none."""
    high: float | None = None


@dataclass(frozen=True, eq=False)
class Score:
    """What an answer set is worth: means by name, and counts of what was odd."""

    queries: int
    scored: int
    measures: Mapping[str, Mean]
    anomalies: Mapping[str, int | None]
    """Counts by kind; None where it could not be told."""
    per_query: Mapping[str, NDArray[np.float64]] = field(default_factory=dict, repr=False)
    """Each measure of every query; empty when the score was read from a file."""
    sampled_from: int | None = None
    """Set when the truth is of a corpus sample: of how many rows."""
    missing: tuple[Any, ...] = ()
    """The ids of queries that the answers do not have; they score 0."""

    def __getitem__(self, measure: str) -> float | None:
        """The mean of a measure, for example `score["recall@10"]`."""
        if measure not in self.measures:
            raise UsageError(f"no measure {measure!r}. Scored: {', '.join(self.measures)}")
        return self.measures[measure].value


@dataclass(frozen=True, eq=False)
class Measurement:
    """What one trial answered and how long each call took; nothing here is averaged."""

    trial: Trial
    build: Build
    k: int
    """How many neighbours each call asked for."""
    answers: NDArray[np.int64]
    """(queries, k) corpus rows as returned; -1 where there was no answer."""
    latencies_ns: NDArray[np.int64]
    """(rounds, queries): one number per call."""
    exercised: str | None
    """The engine's evidence that its index answered."""
    score: Score


@dataclass(frozen=True, eq=False)
class Run:
    """Measurements that belong together: one dataset, one truth, one machine."""

    dataset: str
    metric: Metric
    fingerprints: Mapping[str, str]
    """Of the data that was measured, and of the truth that it was scored against."""
    environment: Mapping[str, Any]
    timed: str
    """What a latency covers, in words."""
    measurements: tuple[Measurement, ...]
    sampled_from: int | None = None
    """Set when the corpus was a sample: of how many rows. Recall on it does not carry over to them."""
