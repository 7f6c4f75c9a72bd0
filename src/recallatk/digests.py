"""Digests of corpus rows, to find the rows that did not change.

A digest is a multilinear hash: every 32-bit piece of a row times a 64-bit key of its position, summed modulo
2^64, for each of two independent sets of keys. Two different rows share a digest under at most one choice of
keys in 2^66, and far fewer if they differ in the usual ways, such as in signs alone. The keys are fixed and
public, so rows can be forged: digests detect unchanged rows, they are no protection.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_COLUMNS = 2
_WORD_BYTES = 8
# A chunk and its two scratch copies fit in a core's second-level cache.
_CHUNK_BYTES = 256 * 1024
# Digests are stored: changing the label or the fold invalidates all stored ones.
_KEY_LABEL = b"recallatk row digest 1, column %d"
_FOLD = np.uint64(17)
_HALF = np.uint64(32)


def row_digests(block: NDArray[Any]) -> NDArray[np.uint64]:
    """(rows, 2) digests, each computed from the bytes of one row.

    Bytes are taken in little-endian order, whatever the block's own order; 0.0 and -0.0 differ.
    """
    rows, width = block.shape
    row_bytes = width * block.dtype.itemsize
    words = -(-row_bytes // _WORD_BYTES)
    keys = [_keys(column, row_bytes, words) for column in range(_COLUMNS)]
    digests = np.empty((rows, _COLUMNS), dtype=np.uint64)
    step = max(1, _CHUNK_BYTES // (words * _WORD_BYTES))
    scratch = np.empty((2, min(step, rows), words), dtype=np.uint64)
    for first in range(0, rows, step):
        chunk = _as_words(block[first : first + step])
        folded, upper = scratch[:, : len(chunk)]
        # A difference in the top bits alone, such as a sign, changes few bits of the product with a key.
        # Folding spreads it to lower bits; a fold is invertible, so no difference is lost.
        np.right_shift(chunk, _FOLD, out=folded)
        np.bitwise_xor(folded, chunk, out=folded)
        np.right_shift(folded, _HALF, out=upper)
        for column, (length_term, word_keys, upper_keys) in enumerate(keys):
            # A full word counts its upper half under the key of the lower one. Adding that half under its own
            # key makes the two independent, and saves a pass that would extract the lower halves.
            total = np.einsum("ij,j->i", folded, word_keys)
            total += np.einsum("ij,j->i", upper, upper_keys)
            total += length_term
            digests[first : first + step, column] = total
    return digests


_DIGEST = [("a", np.uint64), ("b", np.uint64)]


def vector_digests(block: NDArray[Any]) -> NDArray[Any]:
    """One value per vector; equal vectors have equal values, whatever the signs of their zeros."""
    # Adding 0 turns -0.0 into 0.0.
    plain = np.ascontiguousarray(block + block.dtype.type(0))
    found: NDArray[Any] = row_digests(plain).view(_DIGEST)[:, 0]
    return found


def duplicates(digests: NDArray[Any]) -> tuple[float, int]:
    """The share of vectors that have a duplicate, and the size of the largest group."""
    if not len(digests):
        return 0.0, 1
    _, sizes = np.unique(digests, return_counts=True)
    return float(sizes[sizes > 1].sum() / len(digests)), int(sizes.max())


def match_rows(
    old: NDArray[np.uint64], new: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The new position of each old row, -1 if it is gone, and the rows that were added.

    Rows with equal digests are matched in order: the first old one with the first new one, and so on.
    """
    place = np.full(len(old), -1, dtype=np.int64)
    # Match a common start directly, because appending is the usual change.
    same = _common_start(old, new)
    place[:same] = np.arange(same)
    if same < min(len(old), len(new)):
        _match_sorted(old[same:], new[same:], place[same:])
        place[same:][place[same:] >= 0] += same
    is_added = np.ones(len(new), dtype=np.bool_)
    is_added[place[place >= 0]] = False
    return place, np.flatnonzero(is_added)


def _keys(
    column: int, row_bytes: int, words: int
) -> tuple[np.uint64, NDArray[np.uint64], NDArray[np.uint64]]:
    """The term for a row's length, the keys of its words, and the keys of their upper halves.

    The length distinguishes rows that differ only in padding. A position's key does not depend on the length.
    """
    stream = hashlib.shake_256(_KEY_LABEL % column).digest(_WORD_BYTES * (1 + 2 * words))
    numbers = np.frombuffer(stream, dtype="<u8").astype(np.uint64)
    length_term = np.uint64(int(numbers[0]) * row_bytes % 2**64)
    return length_term, numbers[1::2].copy(), numbers[2::2].copy()


def _as_words(chunk: NDArray[Any]) -> NDArray[np.uint64]:
    """Bytes of the rows as little-endian 64-bit words, padded with zeros."""
    ordered = np.ascontiguousarray(chunk, dtype=chunk.dtype.newbyteorder("<"))
    octets = ordered.view(np.uint8)
    rows, row_bytes = octets.shape
    missing = -row_bytes % _WORD_BYTES
    if missing:
        padded = np.zeros((rows, row_bytes + missing), dtype=np.uint8)
        padded[:, :row_bytes] = octets
        octets = padded
    return octets.view("<u8")


def _common_start(old: NDArray[np.uint64], new: NDArray[np.uint64]) -> int:
    """Number of equal rows at the start."""
    shorter = min(len(old), len(new))
    differs = old[:shorter, 0] != new[:shorter, 0]
    differs |= old[:shorter, 1] != new[:shorter, 1]
    return int(differs.argmax()) if differs.any() else shorter


def _match_sorted(old: NDArray[np.uint64], new: NDArray[np.uint64], place: NDArray[np.int64]) -> None:
    """Write the new position of every matched old row into `place`."""
    order, starts = _equal_runs(np.concatenate([old, new]))
    # The sort is stable: a run of equal digests is its old rows in order, then its new rows in order.
    is_old = order < len(old)
    old_counts = np.add.reduceat(is_old, starts, dtype=np.int64)
    ends = np.append(starts[1:], len(order))
    positions = np.flatnonzero(is_old)
    partners = positions + np.repeat(old_counts, old_counts)
    matched = partners < np.repeat(ends, old_counts)
    place[order[positions[matched]]] = order[partners[matched]] - len(old)


def _equal_runs(digests: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A stable order that groups equal digests, and the start of each group."""
    first, second = digests.T
    order = np.argsort(first, kind="stable")
    first_changes, second_changes = _changes(first[order]), _changes(second[order])
    # One half is nearly always enough, and sorting by both takes twice as long.
    if (second_changes & ~first_changes).any():
        order = np.lexsort((second, first))
        first_changes, second_changes = _changes(first[order]), _changes(second[order])
    return order, np.flatnonzero(first_changes | second_changes)


def _changes(values: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Whether each value differs from the one before; always true for the first."""
    changes = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=changes[1:])
    return changes
