"""Ranks of true neighbors among the answers, computed once for all measures."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    # Repeated answers: their lines and positions.
    _Repeats = tuple[NDArray[np.int64], NDArray[np.int64]]

# The keys of a block should stay in the cache between steps.
_BLOCK_KEYS = 1 << 18
_BYTE = int(np.iinfo(np.uint8).max)
# A row and its place are packed into 64 bits.
_LARGEST_ROW = 1 << 40


@dataclass(frozen=True, eq=False)
class Places:
    """Where the rows of some lists stand among the answers, repeats and what is no row not counted.

    Every line has all rows of a list and all answers, in no order that matters: to count needs none, and to
    bring them back into the order of the list would take as long as to find them.
    """

    width: int
    """Number of rows per list."""
    ranks: NDArray[Any]
    """Position of a row in its list, from 0; arbitrary for answers."""
    stands: NDArray[Any]
    """Rank of that row among the distinct known answers; `never` if it was not returned."""
    distinct: NDArray[np.int64]
    """Number of distinct known rows returned, per query."""
    repeats: NDArray[np.int64]
    """Number of repeated answers, per query."""

    @property
    def never(self) -> int:
        return int(np.iinfo(self.stands.dtype).max)

    @property
    def is_found(self) -> NDArray[np.bool_]:
        """Where a row stands that was answered."""
        return np.asarray(self.stands != self.never)

    def found(self, of: int, within: int) -> NDArray[np.int64]:
        """Number of the first `of` rows of each list that are among the first `within` answers."""
        if of == within:
            return count_marked(self._later < min(of, self.never), most=of)
        marks = (self.ranks < min(of, self.never)) & (self.stands < min(within, self.never))
        return count_marked(marks, most=min(of, within))

    @cached_property
    def _later(self) -> NDArray[Any]:
        """Maximum of both positions: below k for rows among the first k of both."""
        return np.asarray(np.maximum(self.ranks, self.stands))

    @cached_property
    def of_rows(self) -> NDArray[Any]:
        """Rank among the answers of each row of every list, in list order, or `never`."""
        places = np.full((len(self.stands), self.width), self.never, self.stands.dtype)
        hits = np.flatnonzero(self.is_found)
        lists = hits // max(1, self.stands.shape[1])
        slots = lists * self.width + self.ranks.reshape(-1).take(hits)
        places.reshape(-1)[slots] = self.stands.reshape(-1).take(hits)
        return places

    def up_to(self, k: int) -> NDArray[np.int64]:
        """Rank of each row, or k if it is not among the first k answers."""
        return np.where(self.of_rows < min(k, self.never), self.of_rows.astype(np.int64), k)


def count_marked(marks: NDArray[np.bool_], most: int) -> NDArray[np.int64]:
    """Number of marks per line, given an upper limit."""
    counts, whole = np.zeros(len(marks), np.int64), marks.shape[1]
    # Sums of bytes take a quarter of the time; a byte holds at most this.
    step = max(whole, 1) if most <= _BYTE else _BYTE
    for first in range(0, whole, step):
        counts += np.einsum("ij->i", marks[:, first : first + step].view(np.uint8))
    return counts


def find_places(rows: NDArray[np.int64], answers: NDArray[np.int64]) -> Places:
    """Where `rows` (distinct in each line, below 0 for none) stand in `answers` (below 0 for what is no row).

    Both are sorted together, line by line: a row that was answered then stands right before its answer.
    """
    (queries, width), given = rows.shape, answers.shape[1]
    # One bit tells an answer from a row of the list.
    bits = max(width, given).bit_length()
    dtype = next(each for each in (np.uint8, np.uint16, np.uint32) if bits < np.iinfo(each).bits)
    shape = (queries, width + given)
    places = Places(
        width,
        np.empty(shape, dtype),
        np.empty(shape, dtype),
        np.full(queries, given),
        np.zeros(queries, np.int64),
    )
    if not places.ranks.size:
        return places
    # As unsigned integers, negative numbers exceed all rows, so one maximum finds both.
    largest = max(int(each.view(np.uint64).max(initial=0)) for each in (rows, answers))
    gaps = largest > np.iinfo(np.int64).max
    if gaps:
        largest = max(int(each.max(initial=0)) for each in (rows, answers))
    if largest >= _LARGEST_ROW:
        rows, answers = _renamed(rows, answers)
        largest = rows.size + answers.size
    step, workers = _portions(queries, width + given)
    parts = [slice(first, first + step) for first in range(0, queries, step)]
    # Allocated here, because freed memory is reused within one thread only.
    blocks = [_Block(width, given, step, largest, gaps) for _ in range(workers)]

    def place(worker: int) -> list[_Repeats]:
        block = blocks[worker]
        return [block.place(rows[part], answers[part], part, places) for part in parts[worker::workers]]

    with ThreadPoolExecutor(workers) as pool:
        # This thread works too: starting another takes as long as half a block.
        others = [pool.submit(place, worker) for worker in range(1, workers)]
        repeats = [*place(0), *(each for other in others for each in other.result())]
    line, at = map(np.concatenate, zip(*repeats, strict=True))
    if len(line):
        _discount(places, line, at, step)
    return places


def _portions(queries: int, keys: int) -> tuple[int, int]:
    """Lines per block and number of threads, with equal work for each."""
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


class _Block:
    """What one thread works with; made once, because fresh memory is slow.

    A row and its place become one number: the row, then whether it is an answer, then the place.

    Args:
        width: how many rows a list has.
        given: how many answers a query has.
        lines: how many queries there are at a time.
        largest: the largest number of a row.
        gaps: whether some are no rows.
    """

    def __init__(self, width: int, given: int, lines: int, largest: int, gaps: bool) -> None:
        self.width, self.gaps = width, gaps
        # Two extra numbers mark padding on each side, so that padding never matches.
        self.top = 1 + largest
        bits = max(width, given).bit_length()
        wide = ((self.top + 2) << (bits + 1)) > np.iinfo(np.uint32).max
        # Sorting 32-bit integers takes a third of the time.
        self.dtype: Any = np.uint64 if wide else np.uint32
        self.bits, self.is_answer = bits, 1 << bits
        ends = np.concatenate([np.arange(width), np.arange(given) | self.is_answer])
        self.ends = np.tile(ends.astype(self.dtype), (lines, 1))
        self.keys, self.steps = np.empty_like(self.ends), np.empty_like(self.ends)
        self.flags = np.empty(self.keys.shape, bool)

    def place(
        self, rows: NDArray[np.int64], answers: NDArray[np.int64], part: slice, found: Places
    ) -> _Repeats:
        """Find the places of one block of lines, repeats counted; which answers these are."""
        lines, width = len(rows), self.width
        keys, steps, ends = self.keys[:lines], self.steps[:lines], self.ends[:lines]
        if self.gaps:
            known = answers >= 0
            found.distinct[part] = np.count_nonzero(known, axis=1)
            rows, answers = np.where(rows < 0, self.top, rows), np.where(known, answers, self.top + 1)
            ends[:, width:] = (np.cumsum(known, axis=1) - known) | self.is_answer
        np.copyto(keys[:, :width], rows, casting="unsafe")
        np.copyto(keys[:, width:], answers, casting="unsafe")
        np.left_shift(keys, self.dtype(self.bits + 1), out=keys)
        np.bitwise_or(keys, ends, out=keys)
        keys.sort(axis=1)
        # But for the place: 1 from a row of the list to its first answer, 0 from an answer to its repeat.
        np.bitwise_xor(keys.reshape(-1)[1:], keys.reshape(-1)[:-1], out=steps.reshape(-1)[:-1])
        np.right_shift(steps, self.dtype(self.bits), out=steps)
        # The last number of a line has no successor.
        steps[:, -1] = 2
        self._tell(keys, steps, found.ranks[part], found.stands[part])
        return self._repeats(keys, steps, part.start)

    def _repeats(self, keys: NDArray[Any], steps: NDArray[Any], first: int) -> _Repeats:
        again = np.flatnonzero(np.equal(steps, 0, out=self.flags[: len(steps)]))
        # Rows of a list are distinct, so equal neighbors are repeats or padding.
        after = keys.reshape(-1).take(again + 1)
        if self.gaps:
            named = after >> self.dtype(self.bits + 1) < self.top
            again, after = again[named], after[named]
        return first + again // keys.shape[1], (after & self.dtype(self.is_answer - 1)).astype(np.int64)

    def _tell(
        self, keys: NDArray[Any], steps: NDArray[Any], ranks: NDArray[Any], stands: NDArray[Any]
    ) -> None:
        """Both places: of each row its own, and that of what comes next if that is its answer."""
        np.copyto(ranks, keys, casting="unsafe")
        np.bitwise_and(ranks, 2 * self.is_answer - 1, out=ranks)
        missed = np.not_equal(steps, 1, out=self.flags[: len(steps)]).view(np.uint8)
        np.negative(missed, dtype=stands.dtype, out=stands)
        following, before_it = ranks.reshape(-1)[1:], stands.reshape(-1)[:-1]
        np.bitwise_or(before_it, np.bitwise_xor(following, self.is_answer), out=before_it)


def _discount(places: Places, line: NDArray[np.int64], at: NDArray[np.int64], step: int) -> None:
    """Repeated answers, of these lines and at these places, do not count: what comes after them moves up."""
    places.repeats[:] = np.bincount(line, minlength=len(places.repeats))
    places.distinct[:] -= places.repeats
    order = np.argsort(line, kind="stable")
    line, at = line[order], at[order]
    which = np.flatnonzero(places.repeats)
    for first in range(0, len(which), step):
        some = which[first : first + step]
        part = slice(*np.searchsorted(line, [some[0], some[-1] + 1]))
        before = np.zeros((len(some), places.ranks.shape[1] + 1), places.stands.dtype)
        before[np.searchsorted(some, line[part]), at[part] + 1] = 1
        np.cumsum(before, axis=1, out=before)
        stands = places.stands[some]
        found = stands != places.never
        moved = stands - np.take_along_axis(before, np.where(found, stands, 0).astype(np.intp), axis=1)
        places.stands[some] = np.where(found, moved, places.never)


def repeated(answers: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mask of repeated answers."""
    order = np.argsort(answers, axis=1, kind="stable")
    in_order = np.take_along_axis(answers, order, axis=1)
    again = np.zeros_like(answers, dtype=bool)
    again[:, 1:] = (in_order[:, 1:] == in_order[:, :-1]) & (in_order[:, 1:] >= 0)
    marks = np.zeros_like(again)
    np.put_along_axis(marks, order, again, axis=1)
    return marks


def first_distinct(answers: NDArray[np.int64], k: int) -> NDArray[np.bool_]:
    """Mask of the first k distinct known answers."""
    counts = (answers >= 0) & ~repeated(answers)
    return counts & (np.cumsum(counts, axis=1) <= k)
