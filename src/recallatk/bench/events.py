"""What a measuring process says while it works, one JSON object a line."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from recallatk.redaction import redact_text

NO_SPACE = "no space"
"""The kind of a failure that is no engine's: a temporary file could not be written."""


def _redact(event: Built | Failed, *names: str) -> None:
    """What an engine says comes in here, in its process and in ours, and goes on without secrets."""
    for name in names:
        text = getattr(event, name)
        object.__setattr__(event, name, None if text is None else redact_text(text))


@dataclass(frozen=True)
class Began:
    """A phase has begun: preparing, build, warm-up or search; the last two of one trial."""

    phase: str
    number: int | None = None


@dataclass(frozen=True)
class Built:
    """The index is ready."""

    seconds: float | None
    cpu_seconds: float | None
    before_bytes: int
    """Private memory of the process before the build."""
    memory_bytes: int | None
    size_bytes: int | None
    version: str | None
    call: str
    peak_bytes: int | None = None
    """Added by whoever watches the process."""

    def __post_init__(self) -> None:
        _redact(self, "version", "call")


@dataclass(frozen=True)
class Blocked:
    """One block of a trial is done."""

    number: int
    round: int
    seconds: float
    """Spent inside calls of the engine, warm-up included."""
    p95_ms: float | None


@dataclass(frozen=True)
class Finished:
    """A trial is done and its file is written."""

    number: int


@dataclass(frozen=True)
class Failed:
    """A trial, or the build of all of them, could not be done."""

    number: int | None
    kind: str
    phase: str
    message: str
    log: str = ""

    def __post_init__(self) -> None:
        _redact(self, "message", "log")


@dataclass(frozen=True)
class Paused:
    """The process waits until it is told to go on, so that nobody works while it measures."""


Event: TypeAlias = Began | Built | Blocked | Finished | Failed | Paused
_KINDS: dict[str, type[Any]] = {
    each.__name__: each for each in (Began, Built, Blocked, Finished, Failed, Paused)
}


def to_line(event: Event) -> str:
    """The event as one line."""
    return json.dumps({"event": type(event).__name__, **asdict(event)}) + "\n"


def from_line(line: str) -> Event:
    """The event of a line."""
    plain = json.loads(line)
    event: Event = _KINDS[plain.pop("event")](**plain)
    return event
