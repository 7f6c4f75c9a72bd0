"""Where the true neighbours stand among the answers: found once, and every measure counts from it."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A block's keys should not fall out of the cache between one step and the next.
_BLOCK_KEYS = 1 << 18
# A row and its place are packed into 64 bits.
_LARGEST_ROW = 1 << 40


@dataclass(frozen=True, eq=False)
class Places:
    """Where the rows of some lists stand among the answers, repeats and what is no row not counted."""

    of_rows: NDArray[Any]
    """Beside each row its place among the distinct known answers, from 0; `never` where it has none."""
    never: int
    distinct: NDArray[np.int64]
    """Of each query how many distinct known rows were answered."""
    repeats: NDArray[np.int64]
    """Of each query how many answers name a row that it has answered before."""


def find_places(rows: NDArray[np.int64], answers: NDArray[np.int64]) -> Places:
    """Where `rows` (distinct in each line, below 0 for none) stand in `answers` (below 0 for what is no row).

    Both are sorted together, line by line: a row that was answered then stands right before its answer.
    """
    queries = len(rows)
    small = max(rows.shape[1], answers.shape[1]) < np.iinfo(np.int16).max
    never = int(np.iinfo(np.int16 if small else np.int32).max)
    places = Places(
        np.full(rows.shape, never, np.int16 if small else np.int32),
        never,
        np.empty(queries, np.int64),
        np.empty(queries, np.int64),
    )
    if rows.size and answers.size:
        if max(int(rows.max()), int(answers.max())) >= _LARGEST_ROW:
            rows, answers = _renamed(rows, answers)
        step = max(1, min(queries, _BLOCK_KEYS // (rows.shape[1] + answers.shape[1])))
        parts = [slice(first, first + step) for first in range(0, queries, step)]
        workers = min(len(parts), os.cpu_count() or 1)
        with ThreadPoolExecutor(workers) as pool:
            jobs = [
                pool.submit(_Block(rows, answers, step).place, parts[worker::workers], places)
                for worker in range(workers)
            ]
            for job in jobs:
                job.result()
    else:
        places.distinct[:], places.repeats[:] = 0, 0
        if answers.size:
            again = repeated(answers)
            places.repeats[:] = again.sum(axis=1)
            places.distinct[:] = ((answers >= 0) & ~again).sum(axis=1)
    return places


def _renamed(
    rows: NDArray[np.int64], answers: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The same rows by smaller numbers."""
    _, numbers = np.unique(np.concatenate([rows.reshape(-1), answers.reshape(-1)]), return_inverse=True)
    first, second = np.split(numbers.astype(np.int64), [rows.size])
    return (
        np.where(rows < 0, rows, first.reshape(rows.shape)),
        np.where(answers < 0, answers, second.reshape(answers.shape)),
    )


class _Block:
    """What one thread works with; made once, because fresh memory is slow.

    A row and its place become one number: the row, then whether it is an answer, then the place.
    """

    def __init__(self, rows: NDArray[np.int64], answers: NDArray[np.int64], lines: int) -> None:
        self.rows, self.answers, self.width = rows, answers, rows.shape[1]
        columns = self.width + answers.shape[1]
        # Two more numbers stand for "none" on either side, so that they never meet.
        self.top = 1 + max(int(rows.max()), int(answers.max()), 0)
        bits = max(rows.shape[1], answers.shape[1]).bit_length()
        wide = ((self.top + 2) << (bits + 1)) > np.iinfo(np.uint32).max
        # Sorting numbers of 32 bits takes a third of the time.
        self.dtype: Any = np.uint64 if wide else np.uint32
        self.bits, self.mask = self.dtype(bits), self.dtype((1 << bits) - 1)
        ends = np.concatenate([np.arange(self.width), np.arange(answers.shape[1]) | (1 << bits)])
        self.ends = ends.astype(self.dtype)
        self.keys = np.empty((lines, columns), self.dtype)
        self.owners, self.steps = np.empty_like(self.keys), np.empty((lines, columns - 1), self.dtype)
        self.flags = np.empty(self.steps.shape, bool)

    def place(self, parts: list[slice], found: Places) -> None:
        """Find the places of some blocks of lines."""
        for part in parts:
            self._place(self.rows[part], self.answers[part], part, found)

    def _place(self, rows: NDArray[np.int64], answers: NDArray[np.int64], part: slice, found: Places) -> None:
        lines, width = len(rows), self.width
        keys, owners, steps = self.keys[:lines], self.owners[:lines], self.steps[:lines]
        flags = self.flags[:lines]
        np.copyto(keys[:, :width], _without_negative(rows, self.top), casting="unsafe")
        np.copyto(keys[:, width:], _without_negative(answers, self.top + 1), casting="unsafe")
        np.left_shift(keys, self.bits + self.dtype(1), out=keys)
        np.bitwise_or(keys, self.ends, out=keys)
        keys.sort(axis=1)
        # Even for a row of the list, odd for an answer that names it: its first answer differs in that alone.
        np.right_shift(keys, self.bits, out=owners)
        np.bitwise_xor(owners[:, 1:], owners[:, :-1], out=steps)
        hits = np.flatnonzero(np.equal(steps, 1, out=flags))
        owner = hits // steps.shape[1]
        start = hits + owner
        ends = (keys & self.mask).astype(found.of_rows.dtype).reshape(-1)
        target = found.of_rows[part]
        target.reshape(-1)[owner * width + ends.take(start)] = ends.take(start + 1)
        again = np.flatnonzero(np.equal(steps, 0, out=flags)) // steps.shape[1]
        self._count(rows, answers, again, part, found)

    def _count(
        self,
        rows: NDArray[np.int64],
        answers: NDArray[np.int64],
        again: NDArray[np.int64],
        part: slice,
        found: Places,
    ) -> None:
        """Rows of a list are distinct, so that what follows itself is a repeat or says "none"."""
        odd = _negative(answers)
        repeats = np.bincount(again, minlength=len(rows))
        repeats -= np.maximum(_negative(rows) - 1, 0) + np.maximum(odd - 1, 0)
        found.repeats[part] = repeats
        found.distinct[part] = answers.shape[1] - odd - repeats
        strange = np.flatnonzero((odd > 0) | (repeats > 0))
        if len(strange):
            _renumber(found.of_rows[part], strange, answers[strange], found.never)


def _without_negative(rows: NDArray[np.int64], none: int) -> NDArray[np.int64]:
    return np.where(rows < 0, none, rows) if rows.min() < 0 else rows


def _negative(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many of each line are no rows."""
    if rows.min() >= 0:
        return np.zeros(len(rows), np.int64)
    return np.asarray(np.count_nonzero(rows < 0, axis=1))


def _renumber(
    target: NDArray[Any], strange: NDArray[np.int64], answers: NDArray[np.int64], never: int
) -> None:
    """Count only distinct known answers, where there are others among them."""
    counts = (answers >= 0) & ~repeated(answers)
    place = np.full((len(answers), answers.shape[1] + 1), never, target.dtype)
    place[:, :-1] = np.cumsum(counts, axis=1) - 1
    stands = target[strange]
    target[strange] = np.take_along_axis(
        place, np.where(stands == never, answers.shape[1], stands).astype(np.int64), axis=1
    )


def repeated(answers: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which answers name a row that the same query has answered before."""
    order = np.argsort(answers, axis=1, kind="stable")
    in_order = np.take_along_axis(answers, order, axis=1)
    again = np.zeros_like(answers, dtype=bool)
    again[:, 1:] = (in_order[:, 1:] == in_order[:, :-1]) & (in_order[:, 1:] >= 0)
    marks = np.zeros_like(again)
    np.put_along_axis(marks, order, again, axis=1)
    return marks
