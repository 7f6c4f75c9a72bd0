"""A runbook: steps that change a corpus and search it, resolved to rows and checked before anything runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from recallatk.core.churned import Operation
from recallatk.errors import UsageError
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

_MOST_PROBLEMS = 10
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Step:
    """One step of a runbook file: an operation and its rows."""

    number: int
    operation: Operation
    rows: NDArray[np.int64] = field(default_factory=lambda: _NONE)
    """Corpus rows to insert, or to replace others by; rows to delete, by what they were inserted as."""
    old: NDArray[np.int64] = field(default_factory=lambda: _NONE)
    """Of a replacement, the rows whose vectors are replaced, by what they were inserted as."""
    only_present: bool = False
    """Whether `rows` come from a condition: a delete takes the live ones, an insert the others."""
    line: int | None = None
    """Line in the file; None for a generated step."""

    @property
    def place(self) -> str:
        """Where the step is, for messages."""
        return f"step {self.number}" if self.line is None else f"step {self.number}, line {self.line}"


@dataclass(frozen=True, eq=False)
class ResolvedStep:
    """One step by corpus rows: what becomes dead and what becomes live."""

    number: int
    operation: Operation
    deleted: NDArray[np.int64]
    inserted: NDArray[np.int64]
    live: int
    """Rows that are live after it."""


@dataclass(frozen=True, eq=False)
class Runbook:
    """Checked steps; the first one inserts the rows that an index is built from."""

    name: str
    """What it does, in words."""
    rows: int
    """Rows of the corpus that it was made for."""
    steps: tuple[ResolvedStep, ...]

    def __repr__(self) -> str:
        searches = counted(len(self.searches), "search", "searches")
        return f"<Runbook {self.name}: {counted(len(self.steps), 'step', 'steps')}, {searches}>"

    @property
    def searches(self) -> tuple[ResolvedStep, ...]:
        """The steps that search."""
        return tuple(each for each in self.steps if each.operation is Operation.SEARCH)

    @property
    def identity(self) -> str:
        """Fingerprint of the steps."""
        digest = blake2b(f"{self.rows}".encode(), digest_size=16)
        for each in self.steps:
            digest.update(
                f" {each.number} {each.operation} {len(each.deleted)} {len(each.inserted)} ".encode()
            )
            digest.update(each.deleted.astype("<i8").tobytes())
            digest.update(each.inserted.astype("<i8").tobytes())
        return digest.hexdigest()

    def with_recovery(self) -> Runbook:
        """The same, and at the end maintenance, a search, a rebuild and a search."""
        last = self.steps[-1]
        added = (Operation.MAINTAIN, Operation.SEARCH, Operation.REBUILD, Operation.SEARCH)
        more = [
            ResolvedStep(last.number + place, each, _NONE, _NONE, last.live)
            for place, each in enumerate(added, 1)
        ]
        return Runbook(self.name, self.rows, (*self.steps, *more))


def resolve(steps: Iterable[Step], rows: int, name: str, where: str) -> Runbook:
    """Apply the steps to an empty corpus, and refuse what cannot be done, with step and line.

    Args:
        steps: as they are written.
        rows: the number of corpus rows.
        name: what the runbook does, in words.
        where: where it is from, for messages.
    """
    state = _State(rows)
    resolved: list[ResolvedStep] = []
    for step in steps:
        try:
            resolved.append(state.apply(step))
        except UsageError as problem:
            state.problems.append(f"{step.place}: {problem}")
            if len(state.problems) == _MOST_PROBLEMS:
                break
    if not state.problems and not any(each.operation is Operation.SEARCH for each in resolved):
        state.problems.append("no step searches. Add a step: search")
    if state.problems:
        one, *others = state.problems
        lines = "\n  ".join([f"{where}: {len(state.problems)} problems", *state.problems])
        raise UsageError(lines if others else f"{where}: {one}")
    return Runbook(name, rows, tuple(resolved))


class _State:
    """Which rows are live while a runbook is resolved."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.vector_of = np.full(rows, -1, np.int64)
        """The corpus row whose vector each live row has, by what it was inserted as; -1 if it is not live."""
        self.used = np.zeros(rows, bool)
        """Whether the vector of a corpus row is live."""
        self.built = False
        self.problems: list[str] = []

    @property
    def live(self) -> int:
        return int(self.used.sum())

    def apply(self, step: Step) -> ResolvedStep:
        """Change the state; a UsageError leaves it as it was."""
        if not self.built and step.operation is not Operation.INSERT:
            what = {
                Operation.SEARCH: "searches an empty index",
                Operation.DELETE: "deletes rows, and there are none yet",
                Operation.REPLACE: "replaces rows, and there are none yet",
            }.get(step.operation, f"is {step.operation}, and there is no index yet")
            raise UsageError(f"{what}. The first step must insert rows")
        deleted, inserted = _NONE, _NONE
        match step.operation:
            case Operation.INSERT:
                inserted = self._insert(step)
            case Operation.DELETE:
                deleted = self._delete(step)
            case Operation.REPLACE:
                deleted, inserted = self._replace(step)
            case _ if not self.live:
                what = "searches" if step.operation is Operation.SEARCH else f"is {step.operation} of"
                raise UsageError(f"{what} an empty index: all rows are deleted")
        return ResolvedStep(step.number, step.operation, deleted, inserted, self.live)

    def _insert(self, step: Step) -> NDArray[np.int64]:
        rows = self._checked(step.rows)
        if step.only_present:
            rows = rows[~self.used[rows] & (self.vector_of[rows] < 0)]
        twice = rows[(self.vector_of[rows] >= 0) | self.used[rows]]
        if len(twice):
            raise UsageError(f"inserts {_listed(twice)} again, without a delete before")
        if not len(rows) and not self.built:
            raise UsageError("inserts no rows. The first step must insert rows")
        self.vector_of[rows], self.used[rows] = rows, True
        self.built = True
        return rows

    def _delete(self, step: Step) -> NDArray[np.int64]:
        tags = self._checked(step.rows)
        if step.only_present:
            tags = tags[self.vector_of[tags] >= 0]
        return self._taken(tags, "deletes")

    def _taken(self, tags: NDArray[np.int64], what: str) -> NDArray[np.int64]:
        missing = tags[self.vector_of[tags] < 0]
        if len(missing):
            raise UsageError(f"{what} {_listed(missing)}, not in the index at this step")
        gone = self.vector_of[tags]
        self.vector_of[tags], self.used[gone] = -1, False
        return gone

    def _replace(self, step: Step) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        tags, rows = self._checked(step.old), self._checked(step.rows)
        if len(tags) != len(rows):
            given = counted(len(rows), "new vector", "new vectors")
            raise UsageError(f"replaces {counted(len(tags), 'row', 'rows')} by {given}")
        held = self.vector_of[tags]
        again = rows[self.used[rows] & ~np.isin(rows, held)]
        if len(again):
            raise UsageError(f"inserts the vectors of {_listed(again)}, in the index already")
        gone = self._taken(tags, "replaces")
        self.vector_of[tags], self.used[rows] = rows, True
        return gone, rows

    def _checked(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        beyond = rows[(rows < 0) | (rows >= self.rows)]
        if len(beyond):
            raise UsageError(f"names {_listed(beyond)}. The corpus has rows 0 to {self.rows - 1:,}")
        values, counts = np.unique(rows, return_counts=True)
        if len(values) < len(rows):
            raise UsageError(f"names {_listed(values[counts > 1])} twice")
        return rows


def _listed(rows: NDArray[np.int64]) -> str:
    """Rows in words, the first of them by number."""
    first, count = int(rows[0]), len(rows)
    return f"row {first:,}" if count == 1 else f"{count:,} rows (the first: {first:,})"
