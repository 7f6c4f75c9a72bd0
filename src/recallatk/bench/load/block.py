"""What one block of calls was: who asked what and when, how long it took, and what came back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from recallatk.bench.load.questions import Script

    Whole = NDArray[np.int64]
    Found = list[Any]
    Noted = tuple[list[int], list[int], list[int], list[int], Found]


@dataclass(frozen=True, eq=False)
class Block:
    """One block of calls as they were timed, in the order in which they were to be sent."""

    query: NDArray[np.int32]
    """The first query of each call."""
    client: NDArray[np.int16]
    sent_ns: Whole
    """When it was to be sent, since the block began; in a closed loop that is when it was."""
    late_ns: Whole
    """How much later it was sent; 0 in a closed loop."""
    latency_ns: Whole
    """From when it was to be sent until the answer was there."""
    wall_ns: int
    """From the beginning until the last answer."""
    answered: NDArray[np.int32]
    """Which query each line of `rows` answers."""
    call: Whole
    """Which call it came from."""
    rows: Whole
    """(answers, k) corpus rows; -1 where there was no answer."""
    clients: int
    """How many clients there were to send calls."""

    def __len__(self) -> int:
        return len(self.query)


@dataclass(frozen=True, eq=False)
class Record:
    """What one client wrote down, on the machine's monotonic clock."""

    number: Whole
    """Which call of the script each was."""
    sent_ns: Whole
    late_ns: Whole
    ended_ns: Whole
    rows: Whole
    """A line for each query of each call."""


class Pad:
    """What one client writes on: the last calls as they came, those before in the least memory."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._last: Noted | None = None
        self._times: list[Whole] = []
        self._rows: list[Whole] = []

    def note(
        self, number: list[int], sent: list[int], late: list[int], ended: list[int], found: Found
    ) -> None:
        """Keep some calls; those that were noted before are looked at now, which takes time."""
        self._look()
        self._last = number, sent, late or [0] * len(number), ended, found

    def record(self) -> Record:
        """Everything that was noted; an answer that is none is refused."""
        self._look()
        no_times, no_rows = np.empty((4, 0), np.int64), np.empty((0, self._script.k), np.int64)
        times = np.concatenate([no_times, *self._times], axis=1)
        return Record(times[0], times[1], times[2], times[3], np.concatenate([no_rows, *self._rows]))

    def _look(self) -> None:
        if self._last is not None:
            times, found = np.array(self._last[:4], np.int64), self._last[4]
            self._last = None
            self._times.append(times)
            self._rows.append(answer_lines(found, self._script.sizes(times[0]), self._script.k))


def answer_lines(found: Found, sizes: Whole, k: int) -> Whole:
    """The answers of calls of these sizes below each other, filled up with -1."""
    rows = np.full((int(sizes.sum()), k), -1, np.int64)
    # Most of the time all are of one kind, and what holds for one holds for all.
    kinds = {(type(each), each.dtype, each.shape) if isinstance(each, np.ndarray) else None for each in found}
    if len(kinds) == 1 and sizes.min() == sizes.max():
        require_rows(found[0], int(sizes[0]), k)
        rows[:, : found[0].shape[1]] = np.concatenate(found)
        return rows
    ends = np.cumsum(sizes).tolist()
    for each, size, end in zip(found, sizes.tolist(), ends, strict=True):
        require_rows(each, size, k)
        rows[end - size : end, : each.shape[1]] = each
    return rows


def require_rows(found: Any, queries: int, k: int) -> None:
    """Refuse an answer that is not a line of row numbers for each query: numpy would make it fit."""
    if not isinstance(found, np.ndarray):
        raise EngineError(f"a query was answered with a {type(found).__name__}, not an array of row numbers")
    if found.dtype.kind not in "iu" or found.ndim != 2 or len(found) != queries or found.shape[1] > k:
        asked = "one query" if queries == 1 else f"{queries} queries"
        shown = f"an array of {found.dtype} and shape {found.shape}"
        raise EngineError(
            f"{asked} for {k} neighbours {'was' if queries == 1 else 'were'} answered with {shown}"
        )


def assemble(script: Script, records: Sequence[Record], began_ns: int) -> Block:
    """One block of what all clients wrote down."""
    number, sent, late, ended = (
        np.concatenate([getattr(record, name) for record in records])
        for name in ("number", "sent_ns", "late_ns", "ended_ns")
    )
    client = np.repeat(np.arange(len(records)), [len(record.number) for record in records])
    sizes = script.sizes(number)
    first_line = np.cumsum(sizes) - sizes
    in_order = np.argsort(sent, kind="stable")
    sizes = sizes[in_order]
    call = np.repeat(np.arange(len(in_order)), sizes)
    # Counts on from 0 within each call.
    within = np.arange(len(call)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    rows = np.concatenate([record.rows for record in records])[first_line[in_order][call] + within]
    starts = number[in_order] * script.batch
    return Block(
        query=script.order[starts].astype(np.int32),
        client=client[in_order].astype(np.int16),
        sent_ns=sent[in_order] - began_ns,
        late_ns=late[in_order],
        latency_ns=(ended - sent)[in_order],
        wall_ns=int(ended.max()) - began_ns if len(ended) else 0,
        answered=script.order[starts[call] + within].astype(np.int32),
        call=call,
        rows=rows,
        clients=len(records),
    )
