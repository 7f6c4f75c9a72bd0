"""The calls of one block: arguments prepared before the timed loop, results assembled after it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.adapters.batch import QueryBatch
from recallatk.core import Calls
from recallatk.errors import EngineError, MismatchError, kind_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from recallatk.filters import Filter

    Arguments = tuple[QueryBatch, int]
    Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Questions:
    """All queries in memory, with k and their filters."""

    vectors: NDArray[Any]
    """(queries, dimension)."""
    k: int
    filters: list[Filter | None] | None = None
    """The filter of each query; None if no query has one."""
    texts: list[str] | None = None
    """The text of each query, for engines that read it."""
    sparse: list[list[tuple[int, float]]] | None = None
    """The sparse vector of each query, for engines that read it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "vectors", np.ascontiguousarray(self.vectors))
        if self.filters is not None and len(self.filters) != len(self.vectors):
            raise MismatchError(f"{len(self.vectors):,} queries have {len(self.filters):,} filters")

    def __len__(self) -> int:
        return len(self.vectors)

    @cached_property
    def single(self) -> list[Arguments]:
        """Arguments of `search`, one query per call."""
        filters = self.filters or [None] * len(self)
        return [
            (
                QueryBatch(
                    self.vectors[query : query + 1],
                    [each],
                    rows=range(query, query + 1),
                    texts=None if self.texts is None else self.texts[query : query + 1],
                    sparse=None if self.sparse is None else self.sparse[query : query + 1],
                ),
                self.k,
            )
            for query, each in enumerate(filters)
        ]

    def together(self, queries: Whole) -> Arguments:
        """Arguments of `search` for several queries in one call."""

        def taken(values: list[Any] | None) -> list[Any] | None:
            return None if values is None else [values[query] for query in queries.tolist()]

        batch = QueryBatch(
            self.vectors[queries],
            taken(self.filters),
            rows=queries,
            texts=taken(self.texts),
            sparse=taken(self.sparse),
        )
        return batch, self.k


class Script:
    """The planned calls of a block: queries in order, cut into batches."""

    def __init__(self, questions: Questions, order: Whole, batch: int = 1) -> None:
        self.order = np.asarray(order, np.int64)
        self.batch, self.k = batch, questions.k
        if batch == 1:
            single = questions.single
            self.arguments = [single[query] for query in self.order.tolist()]
        else:
            starts = range(0, len(self.order), batch)
            self.arguments = [questions.together(self.order[start : start + batch]) for start in starts]

    def __len__(self) -> int:
        return len(self.arguments)

    def sizes(self, numbers: Whole) -> Whole:
        """Number of queries in each of these calls; the last call of the order may have fewer."""
        return np.minimum(self.batch, len(self.order) - numbers * self.batch)


class ClientLog:
    """Calls made by one client; earlier calls are packed into arrays to save memory.

    Times are on the machine's monotonic clock. `arrays` gives them as (4, calls): the number of the call in
    its script, the time when it was due, its delay, and the time of its answer.
    """

    def __init__(self, script: Script) -> None:
        self._script = script
        self._latest: tuple[list[list[int]], list[Any]] | None = None
        self._times: list[Whole] = []
        self._rows: list[Whole] = []

    def note(
        self, number: list[int], sent: list[int], late: list[int], ended: list[int], found: list[Any]
    ) -> None:
        """Add calls; check and pack earlier ones, outside of the timed calls."""
        self._pack()
        self._latest = [number, sent, late or [0] * len(number), ended], found

    def arrays(self) -> tuple[Whole, Whole]:
        """Times (4, calls), and one line of rows for each query of each call.

        Raises:
            EngineError: an answer is not an array of row numbers.
        """
        self._pack()
        no_times, no_rows = np.empty((4, 0), np.int64), np.empty((0, self._script.k), np.int64)
        return np.concatenate([no_times, *self._times], axis=1), np.concatenate([no_rows, *self._rows])

    def _pack(self) -> None:
        if self._latest is not None:
            noted, found = self._latest
            times = np.array(noted, np.int64)
            self._latest = None
            self._times.append(times)
            self._rows.append(_lines(found, self._script.sizes(times[0]), self._script.k))


def _lines(found: list[Any], sizes: Whole, k: int) -> Whole:
    """Stack the answers of calls of these sizes, padded with -1."""
    rows = np.full((int(sizes.sum()), k), -1, np.int64)
    # Usually all answers have one dtype and shape, and one check covers all.
    kinds = {(type(each), each.dtype, each.shape) if isinstance(each, np.ndarray) else None for each in found}
    if len(kinds) == 1 and sizes.min() == sizes.max():
        _require_rows(found[0], int(sizes[0]), k)
        rows[:, : found[0].shape[1]] = np.concatenate(found)
        return rows
    ends = np.cumsum(sizes).tolist()
    for each, size, end in zip(found, sizes.tolist(), ends, strict=True):
        _require_rows(each, size, k)
        rows[end - size : end, : each.shape[1]] = each
    return rows


def _require_rows(found: Any, queries: int, k: int) -> None:
    """Refuse an answer that is not one line of row numbers per query: NumPy would broadcast it."""
    if not isinstance(found, np.ndarray):
        raise EngineError(f"the engine returned {kind_of(found)}, not an array of row numbers")
    if found.dtype.kind not in "iu" or found.ndim != 2 or len(found) != queries or found.shape[1] > k:
        asked = "one query" if queries == 1 else f"{queries} queries"
        raise EngineError(
            f"the engine returned an array of {found.dtype} and shape {found.shape} for {asked} and k = {k}"
        )


@dataclass(frozen=True, eq=False)
class Block:
    """One block of timed calls, with their answers."""

    calls: Calls
    """One round, in the order in which the calls were due."""
    answered: NDArray[np.int32]
    """The query that each line of `rows` answers."""
    call: Whole
    """The call of each line of `rows`."""
    rows: Whole
    """(answers, k) rows of the index, padded with -1."""

    def __len__(self) -> int:
        return len(self.calls)

    @property
    def wall_ns(self) -> int:
        """Nanoseconds from the beginning of the block to the last answer."""
        return int(self.calls.round_ns[0])


def assemble(script: Script, logs: Sequence[tuple[Whole, Whole]], began_ns: int) -> Block:
    """Merge the arrays of all clients into one block."""
    number, sent, late, ended = np.concatenate([times for times, _ in logs], axis=1)
    client = np.repeat(np.arange(len(logs)), [times.shape[1] for times, _ in logs])
    sizes = script.sizes(number)
    first_line = np.cumsum(sizes) - sizes
    in_order = np.argsort(sent, kind="stable")
    sizes = sizes[in_order]
    call = np.repeat(np.arange(len(in_order)), sizes)
    # Position of each answer within its call.
    within = np.arange(len(call)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    starts = number[in_order] * script.batch
    calls = Calls(
        query=script.order[starts].astype(np.int32),
        round=np.zeros(len(in_order), np.int16),
        client=client[in_order].astype(np.int16),
        sent_ns=sent[in_order] - began_ns,
        latency_ns=(ended - sent)[in_order],
        late_ns=late[in_order],
        round_ns=np.array([int(ended.max()) - began_ns if len(ended) else 0], np.int64),
        batch=script.batch,
        size=sizes.astype(np.int32),
        clients=len(logs),
    )
    return Block(
        calls,
        answered=script.order[starts[call] + within].astype(np.int32),
        call=call,
        rows=np.concatenate([rows for _, rows in logs])[first_line[in_order][call] + within],
    )
