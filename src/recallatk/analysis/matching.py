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
        keys = _Keys.for_rows(rows, answers)
        step = max(1, _BLOCK_KEYS // (rows.shape[1] + answers.shape[1]))
        parts = [slice(first, first + step) for first in range(0, queries, step)]
        with ThreadPoolExecutor(min(len(parts), os.cpu_count() or 1)) as pool:
            list(pool.map(lambda part: _place(keys, rows[part], answers[part], part, places), parts))
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


@dataclass(frozen=True)
class _Keys:
    """How a row and its place become one number: row, then whether it is an answer, then the place."""

    bits: int
    top: int
    dtype: Any
    """Sorting numbers of 32 bits takes a third of the time."""

    @classmethod
    def for_rows(cls, rows: NDArray[np.int64], answers: NDArray[np.int64]) -> _Keys:
        top = 1 + max(int(rows.max()), int(answers.max()), 0)
        bits = max(rows.shape[1], answers.shape[1]).bit_length()
        # Two more numbers stand for "none" on either side, so that they never meet.
        wide = ((top + 2) << (bits + 1)) > np.iinfo(np.uint32).max
        return cls(bits, top, np.uint64 if wide else np.uint32)

    def fill(self, target: NDArray[Any], rows: NDArray[np.int64], none: int, mark: int) -> None:
        np.copyto(target, np.where(rows < 0, none, rows) if rows.min() < 0 else rows, casting="unsafe")
        target <<= self.dtype(self.bits + 1)
        target |= np.arange(rows.shape[1], dtype=self.dtype) | self.dtype(mark << self.bits)


def _place(
    keys: _Keys, rows: NDArray[np.int64], answers: NDArray[np.int64], part: slice, found: Places
) -> None:
    width = rows.shape[1]
    both = np.empty((len(rows), width + answers.shape[1]), keys.dtype)
    keys.fill(both[:, :width], rows, keys.top, 0)
    keys.fill(both[:, width:], answers, keys.top + 1, 1)
    both.sort(axis=1)
    owners = both >> keys.dtype(keys.bits)
    # Even for a row of the list, odd for an answer that names it: its first answer differs in that alone.
    hits = owners[:, 1:] == (owners[:, :-1] ^ keys.dtype(1))
    lines = np.repeat(np.arange(len(rows)), np.count_nonzero(hits, axis=1))
    start = np.flatnonzero(hits) + lines
    flat, mask = both.reshape(-1), keys.dtype((1 << keys.bits) - 1)
    target = found.of_rows[part]
    ranks = (flat[start] & mask).astype(np.int64)  # a sum of signed and unsigned 64 bits would be a float
    target.reshape(-1)[lines * width + ranks] = flat[start + 1] & mask
    odd = np.count_nonzero(answers < 0, axis=1)
    # Rows of a list are distinct, so that what follows itself is an answer that says "none" or a repeat.
    same = np.count_nonzero(owners[:, 1:] == owners[:, :-1], axis=1)
    same -= np.maximum(np.count_nonzero(rows < 0, axis=1) - 1, 0) + np.maximum(odd - 1, 0)
    found.repeats[part] = same
    found.distinct[part] = answers.shape[1] - odd - same
    strange = np.flatnonzero((odd > 0) | (same > 0))
    if len(strange):
        _renumber(target, strange, answers[strange], found.never)


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
