"""Messages between a worker and its parent, one JSON object per line: requests go in, events come out.

The parent sends a request after `Ready` answered the last one, so that it is idle while the worker measures.
Arrays go through files in the folder of the job.
"""

from __future__ import annotations

import errno
import json
import os
import tempfile
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from recallatk.errors import RecallError
from recallatk.redaction import redact_text

NO_SPACE = "no space"
"""Kind of a failure not caused by an engine: a temporary file could not be written."""


@dataclass(frozen=True)
class BuildRequest:
    """Build an index, dropping the previous one."""

    parameters: dict[str, Any]
    rows: str | None = None
    """File in the folder with the corpus rows to insert, in order; None: all rows in corpus order."""


@dataclass(frozen=True)
class MeasureRequest:
    """Measure trials of the job, all of one load, in rounds of blocks."""

    numbers: list[int]


@dataclass(frozen=True)
class AskRequest:
    """Send some queries once, one at a time; `queries-NUMBER.npy` in the folder names them."""

    number: int
    search: dict[str, Any]
    warm: bool = False
    """Whether to warm up first."""
    pace: bool = False
    """Whether to run the sentinel afterwards."""
    proven: bool = True
    """Whether a search without evidence that the index answered is a failure."""


@dataclass(frozen=True)
class ProbeRequest:
    """Ask the index about neighbors that a trial missed; `queries-NUMBER.npy` in the folder names them."""

    number: int
    search: dict[str, Any]
    """Search parameters of the trial."""
    full_search: dict[str, Any]
    """The same at full effort."""
    lists: list[dict[str, Any]]
    """Lists to request for each query: `name`, `search`, `k`, `filtered` for whether filters apply, `times`
    for the effort in multiples of the trial's, and `reaching` for whether filters make it longer."""
    k: int
    """Number of rows that the trial requested."""
    whole: bool
    """Whether the index compares whole vectors."""
    own_k: int
    """Number of rows to request for a row's own vector."""
    seconds: float
    """Time to stop after."""
    call_seconds: float
    """Duration of a typical call of the trial, from which others are estimated."""
    seed: int = 0


@dataclass(frozen=True)
class OrderRequest:
    """Order lists by the function of a stage; `queries-NUMBER.npy` in the folder has them.

    The first number of each line is the query, the others are corpus rows.
    """

    number: int
    stage: str


@dataclass(frozen=True)
class ChangeRequest:
    """Delete or insert rows, or run the engine's maintenance.

    `queries-NUMBER.npy` in the folder has the index rows to delete, or the corpus rows to insert.
    """

    number: int
    change: str
    """delete, insert or maintain."""


@dataclass(frozen=True)
class WeighRequest:
    """Measure the memory and the size of the index."""


@dataclass(frozen=True)
class OverlapRequest:
    """Search while another thread writes; `queries-NUMBER.npy` has the rows of all writes in order."""

    number: int
    search: dict[str, Any]
    writes: list[tuple[str, int]]
    """In order, each change and its number of rows."""
    seed: int = 0


Request: TypeAlias = (
    BuildRequest
    | MeasureRequest
    | AskRequest
    | ProbeRequest
    | OrderRequest
    | ChangeRequest
    | WeighRequest
    | OverlapRequest
)


@dataclass(frozen=True)
class Began:
    """A phase has begun: preparing, build, warm-up, search, explain or truth.

    Warm-up, search and explain belong to one trial, truth to one query.
    """

    phase: str
    number: int | None = None


@dataclass(frozen=True)
class Built:
    """The index is ready."""

    seconds: float | None
    cpu_seconds: float | None
    before_bytes: int
    """Private memory of the process before the build, in bytes."""
    memory_bytes: int | None
    size_bytes: int | None
    version: str | None
    call: str
    peak_bytes: int | None = None
    """Added by the parent, which watches the process."""
    refused: str | None = None
    """Queries whose filters the index cannot apply, in words; None if there are none."""

    def __post_init__(self) -> None:
        _redact(self, "version", "call", "refused")


@dataclass(frozen=True)
class Blocked:
    """One block of a trial is done."""

    number: int
    round: int
    seconds: float
    """Seconds in calls of the engine, including warm-up."""
    p95_ms: float | None


@dataclass(frozen=True)
class Finished:
    """A trial or a request is done and its file is written."""

    number: int


@dataclass(frozen=True)
class Changed:
    """A change of the index is done."""

    number: int
    seconds: float


@dataclass(frozen=True)
class Weighed:
    """Memory and size of the index; None where the engine does not tell."""

    memory_bytes: int | None
    size_bytes: int | None


@dataclass(frozen=True)
class Failed:
    """A trial, a request, or the build failed."""

    number: int | None
    kind: str
    phase: str
    message: str
    log: str = ""

    def __post_init__(self) -> None:
        _redact(self, "message", "log")


@dataclass(frozen=True)
class Ready:
    """The request is answered, and the worker waits for the next."""


Event: TypeAlias = Began | Built | Blocked | Finished | Changed | Weighed | Failed | Ready
_KINDS: dict[str, type[Any]] = {
    each.__name__: each
    for each in (
        *(BuildRequest, MeasureRequest, AskRequest, ProbeRequest, OrderRequest),
        *(ChangeRequest, WeighRequest, OverlapRequest),
        *(Began, Built, Blocked, Finished, Changed, Weighed, Failed, Ready),
    )
}


def _redact(event: Built | Failed, *names: str) -> None:
    """Redact text from an engine, in the worker and again in its parent."""
    for name in names:
        text = getattr(event, name)
        object.__setattr__(event, name, None if text is None else redact_text(text))


def to_line(message: Request | Event) -> str:
    """The message as one line."""
    return json.dumps({"type": type(message).__name__, **asdict(message)}) + "\n"


def from_line(line: str) -> Any:
    """Parse a line into a request or event."""
    plain = json.loads(line)
    return _KINDS[plain.pop("type")](**plain)


def in_words(problem: BaseException) -> str:
    """The message of an exception, prefixed with its type unless it is a RecallError."""
    if isinstance(problem, RecallError):
        return str(problem)
    said = f"{type(problem).__name__}: {problem}"
    named = getattr(problem, "filename", None) is not None
    if os.strerror(errno.ENOSPC) in said and not named:
        said += f"; temporary files of engines go to {tempfile.gettempdir()}"
    return said
