"""Trials to measure: knobs, loads, and what a timed call covers."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeAlias

from recallatk.errors import UsageError
from recallatk.redaction import public
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

Parameters: TypeAlias = tuple[tuple[str, Any], ...]
KnobValue: TypeAlias = int | float | str


@dataclass(frozen=True)
class Knob:
    """One parameter of an engine, with its accepted values.

    A number from `low` to `high`, an integer if the default is one; or one of `choices`.
    """

    name: str
    default: KnobValue
    low: float = 0
    high: float = 0
    scale: str = "log"
    """Step scale for sweeps: `log` or `linear`."""
    effort: bool = False
    """Whether higher values make searching or building slower without losing recall."""
    reranks: bool = False
    """Whether it is the number of candidates that a search ranks again with full vectors."""
    choices: tuple[str, ...] = ()
    """Accepted values of a text knob; empty accepts any text."""
    help: str = ""
    """Short description."""

    @property
    def accepted(self) -> str:
        """Accepted values in words."""
        if isinstance(self.default, str):
            return ", ".join(self.choices) or "text"
        kind = "whole numbers" if isinstance(self.default, int) else "numbers"
        return f"{kind} from {self.low} to {self.high}"

    def accepts(self, value: object) -> bool:
        """Whether the value is accepted."""
        if isinstance(self.default, str):
            return isinstance(value, str) and (not self.choices or value in self.choices)
        whole = isinstance(self.default, int)
        if isinstance(value, bool) or not isinstance(value, Integral if whole else Real):
            return False
        return self.low <= float(value) <= self.high

    def plain(self, value: Any) -> KnobValue:
        """The value as a plain int, float or text."""
        return type(self.default)(value)


class Mode(StrEnum):
    """How queries are sent to an index."""

    LATENCY = "latency"
    """One client, one query at a time."""
    THROUGHPUT = "throughput"
    """Closed loop: each client sends its next query after the previous answer."""
    RATE = "rate"
    """Open loop: Poisson arrivals, independent of answers."""


class Via(StrEnum):
    """How clients run."""

    THREADS = "threads"
    PROCESSES = "processes"


# Beyond these limits, a load measures the load generator: more threads than it can hold, arrivals faster
# than Python makes calls, rounds longer than a day.
_MOST = {"clients": 10_000, "batch": 10_000_000, "rate": 1_000_000, "p99_ms": 86_400_000, "seconds": 86_400}
# All arrivals of a round are held in memory.
_MOST_ARRIVALS = 100_000_000


@dataclass(frozen=True)
class Load:
    """How queries are sent to an index, with settings."""

    mode: Mode = Mode.LATENCY
    clients: int | None = None
    """Concurrent calls; None: 1 in a closed loop, as many as the engine supports (16) in an open loop."""
    batch: int = 1
    """Queries per call."""
    via: Via = Via.THREADS
    rate: float | None = None
    """Arrival rate of an open loop, in queries per second."""
    p99_ms: float | None = None
    """For an open loop without a rate: find the highest rate whose p99 stays within this limit."""
    seconds: float | None = None
    """Duration of a round; None: until every query was sent once."""

    def __post_init__(self) -> None:
        # A file or a call may spell them as text.
        object.__setattr__(self, "mode", Mode(self.mode))
        object.__setattr__(self, "via", Via(self.via))
        if self.clients is None and self.mode is not Mode.RATE:
            object.__setattr__(self, "clients", 1)
        problem = self._problem()
        if problem:
            raise UsageError(f"load {self.mode}: {problem}")

    def _problem(self) -> str | None:
        for name in ("clients", "batch"):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= _MOST[name]:
                return f"{name} = {value}. Accepted: from 1 to {_MOST[name]:,}"
        for name in ("rate", "p99_ms", "seconds"):
            value = getattr(self, name)
            if value is not None and not 0 < value <= _MOST[name]:
                return f"{name} = {value}. Accepted: above 0, up to {_MOST[name]:,}"
        arrivals = (self.rate or 0) * (self.seconds or 0)
        if arrivals > _MOST_ARRIVALS:
            return f"rate times seconds = {arrivals:,.0f} arrivals. Accepted: up to {_MOST_ARRIVALS:,}"
        if self.mode is Mode.RATE and (self.rate is None) == (self.p99_ms is None):
            return "needs either a rate, or a p99_ms to find the highest rate within it"
        if self.mode is Mode.RATE and (self.batch != 1 or self.via is not Via.THREADS):
            return "sends single queries through threads. Accepted: batch = 1 and via = 'threads'"
        if self.mode is not Mode.RATE and (self.rate is not None or self.p99_ms is not None):
            return f"takes no rate or p99_ms; use mode = {str(Mode.RATE)!r}"
        if self.mode is Mode.LATENCY and (self.clients, self.batch) != (1, 1):
            return f"takes one client and one query at a time; use mode = {str(Mode.THROUGHPUT)!r} for more"
        return None

    def clients_or(self, default: int) -> int:
        """The number of clients, or the default if it is not set."""
        return default if self.clients is None else self.clients

    @property
    def details(self) -> Parameters:
        """Settings that differ from the mode's defaults."""
        usual = {each.name: each.default for each in fields(self) if each.name != "mode"}
        usual["clients"] = None if self.mode is Mode.RATE else 1
        return tuple((name, getattr(self, name)) for name in usual if getattr(self, name) != usual[name])

    def __str__(self) -> str:
        listed = ", ".join(f"{name}={value}" for name, value in self.details)
        return f"{self.mode}({listed})" if listed else str(self.mode)


@dataclass(frozen=True)
class Trial:
    """One configuration to measure: engine, build and search parameters, and load."""

    engine: str
    build: Parameters
    search: Parameters
    load: Load = Load()
    repeat: int = 0
    """Number of the build; each build after the first inserts the rows in a different order."""

    def __str__(self) -> str:
        build, search = (
            ", ".join(f"{name}={public(value, name)}" for name, value in part)
            for part in (self.build, self.search)
        )
        load = "" if self.load == Load() else f" {self.load}"
        again = f" build {self.repeat + 1}" if self.repeat else ""
        return f"{called(self.engine, build, search)}{load}{again}"


@dataclass(frozen=True)
class TimedCall:
    """What one timed call covers."""

    engine: str
    call: str
    """Kind of call, reported by the built engine: library call, HTTP round trip."""
    k: int
    search_threads: int
    build_threads: int | None
    """None where nothing was built."""


def describe_calls(calls: Iterable[TimedCall]) -> str | None:
    """The calls of a run in one phrase; None if nothing was measured."""
    distinct = list(dict.fromkeys(calls))
    if not distinct:
        return None
    threads = _listed(counted(each.search_threads, "search thread", "search threads") for each in distinct)
    built = [each.build_threads for each in distinct if each.build_threads is not None]
    build = f"build on {_listed(counted(each, 'thread', 'threads') for each in built)}"
    top = _listed(each.k for each in distinct)
    return f"one {_kinds(distinct)} for the top {top}, {threads}; {build if built else 'nothing was built'}"


def _kinds(calls: list[TimedCall]) -> str:
    """Each kind of call, with its engines if there are several kinds."""
    engines: dict[str, list[str]] = {}
    for each in calls:
        named = engines.setdefault(each.call, [])
        if each.engine not in named:
            named.append(each.engine)
    if len(engines) == 1:
        return calls[0].call
    return ", ".join(f"{call} ({', '.join(named)})" for call, named in engines.items())


def _listed(values: Iterable[object]) -> str:
    return " or ".join(dict.fromkeys(map(str, values)))


def called(engine: str, build: str, search: str) -> str:
    """An engine with its parameters, `engine(build)[search]`; brackets only around what there is."""
    return f"{engine}{f'({build})' if build else ''}{f'[{search}]' if search else ''}"
