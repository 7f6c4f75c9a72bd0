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

    def before(self, k: int, some: Any = ...) -> NDArray[np.bool_]:
        """Which rows, or which of some places in the lists, are among the first k answers."""
        return np.asarray(self.of_rows[some] < min(k, self.never))

    def up_to(self, k: int) -> NDArray[np.int64]:
        """Beside each row its place, or k where it is not among the first k answers."""
        return np.where(self.before(k), self.of_rows.astype(np.int64), k)


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
        step, workers = _portions(queries, rows.shape[1] + answers.shape[1])
        parts = [slice(first, first + step) for first in range(0, queries, step)]
        with ThreadPoolExecutor(workers) as pool:
            # Read as unsigned, what is no row is larger than any that is: one look tells of both.
            largest = max(pool.map(lambda part: max(_largest(rows[part]), _largest(answers[part])), parts))
            gaps = largest > np.iinfo(np.int64).max
            if gaps:
                largest = max(int(rows.max()), int(answers.max()))
            if largest >= _LARGEST_ROW:
                rows, answers = _renamed(rows, answers)
                largest = rows.size + answers.size
            jobs = [
                pool.submit(_place, rows, answers, (max(largest, 0), gaps), parts[worker::workers], places)
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


def _largest(rows: NDArray[np.int64]) -> int:
    return int(rows.view(np.uint64).max())


def _portions(queries: int, keys: int) -> tuple[int, int]:
    """How many lines to take at a time, and how many threads: all have the same to do."""
    rounds = min(queries, -(-queries * keys // _BLOCK_KEYS))
    workers = min(rounds, os.cpu_count() or 1)
    return -(-queries // (-(-rounds // workers) * workers)), workers


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


def _place(
    rows: NDArray[np.int64],
    answers: NDArray[np.int64],
    kind: tuple[int, bool],
    parts: list[slice],
    found: Places,
) -> None:
    """Find the places of some blocks of lines, with memory of this thread's own.

    `kind` says what the rows are like: the largest number, and whether some are none.
    """
    block = _Block(rows.shape[1], answers.shape[1], parts[0].stop - parts[0].start, *kind)
    for part in parts:
        block.place(rows[part], answers[part], part, found)


class _Block:
    """What one thread works with; made once, because fresh memory is slow.

    A row and its place become one number: the row, then whether it is an answer, then the place.
    """

    def __init__(self, width: int, given: int, lines: int, largest: int, gaps: bool) -> None:
        self.width, columns = width, width + given
        self.gaps = gaps
        # Two more numbers stand for "none" on either side, so that they never meet.
        self.top = 1 + largest
        bits = max(width, given).bit_length()
        wide = ((self.top + 2) << (bits + 1)) > np.iinfo(np.uint32).max
        # Sorting numbers of 32 bits takes a third of the time.
        self.dtype: Any = np.uint64 if wide else np.uint32
        self.bits, self.mask = self.dtype(bits), self.dtype((1 << bits) - 1)
        ends = np.concatenate([np.arange(width), np.arange(given) | (1 << bits)])
        self.ends = ends.astype(self.dtype)
        self.firsts = np.arange(0, lines * width, width, dtype=self.dtype)[:, None]
        self.keys = np.empty((lines, columns), self.dtype)
        self.owners, self.steps = np.empty_like(self.keys), np.empty_like(self.keys)
        self.flags = np.empty(self.keys.size, bool)

    def place(self, rows: NDArray[np.int64], answers: NDArray[np.int64], part: slice, found: Places) -> None:
        """Find the places of one block of lines."""
        lines, width, target = len(rows), self.width, found.of_rows[part].reshape(-1)
        keys, owners, steps = self.keys[:lines], self.owners[:lines], self.steps[:lines]
        flags = self.flags[: keys.size]
        gaps, odd = (_negative(each) if self.gaps else None for each in (rows, answers))
        np.copyto(keys[:, :width], _named(rows, gaps, self.top), casting="unsafe")
        np.copyto(keys[:, width:], _named(answers, odd, self.top + 1), casting="unsafe")
        np.left_shift(keys, self.bits + self.dtype(1), out=keys)
        np.bitwise_or(keys, self.ends, out=keys)
        keys.sort(axis=1)
        # Even for a row of the list, odd for an answer that names it: its first answer differs in that alone.
        np.right_shift(keys, self.bits, out=owners)
        np.bitwise_xor(owners.reshape(-1)[1:], owners.reshape(-1)[:-1], out=steps.reshape(-1)[:-1])
        # The last of a line has none after it.
        steps[:, -1] = 2
        hits = np.flatnonzero(np.equal(steps.reshape(-1), 1, out=flags))
        ends = np.bitwise_and(keys, self.mask, out=keys)
        slots = np.add(ends, self.firsts[:lines], out=owners).reshape(-1).take(hits)
        # Anything else than an index and a value of its own kind is slower than to make it one.
        target[slots.astype(np.intp)] = ends.reshape(-1)[1:].take(hits).astype(target.dtype)
        again = np.flatnonzero(np.equal(steps.reshape(-1), 0, out=flags)) // steps.shape[1]
        repeats = np.bincount(again, minlength=lines)
        # Rows of a list are distinct, so that what follows itself is a repeat or says "none".
        for none in (gaps, odd):
            if none is not None:
                repeats -= np.maximum(none - 1, 0)
        self._count(answers, odd, repeats, part, found)

    def _count(
        self,
        answers: NDArray[np.int64],
        odd: NDArray[np.int64] | None,
        repeats: NDArray[np.int64],
        part: slice,
        found: Places,
    ) -> None:
        uncounted = repeats if odd is None else repeats + odd
        found.repeats[part] = repeats
        found.distinct[part] = answers.shape[1] - uncounted
        strange = np.flatnonzero(uncounted)
        if len(strange):
            _renumber(found.of_rows[part], strange, answers[strange], found.never)


def _named(rows: NDArray[np.int64], negative: NDArray[np.int64] | None, none: int) -> NDArray[np.int64]:
    return rows if negative is None else np.where(rows < 0, none, rows)


def _negative(rows: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """How many of each line are no rows; None if all are."""
    return None if rows.min() >= 0 else np.asarray(np.count_nonzero(rows < 0, axis=1))


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
