"""How the new vectors of rows follow from the old ones, and which rows do not follow with the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from recallatk.analysis.foreign_rows import FEWEST_ROWS, foreign_rows
from recallatk.analysis.geometry import unit
from recallatk.analysis.intervals import share_interval
from recallatk.analysis.separation import FEWEST_COORDINATES, separation
from recallatk.analysis.separation import MOST_ROWS as MOST_ROWS_APART
from recallatk.core.migrated import MixedSpaces, SpaceChange
from recallatk.datasets.matrix import gather

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.migration.pairing import Pairing

    Floats = NDArray[np.float64]

# Wider spaces need more rows to fit a map; it takes a minute at most.
MOST_ROWS = 6_000
_ROWS_PER_DIMENSION = 3
_SHOWN = 20
# Quantization to 8 bits leaves a cosine of 0.999.
_ALIKE = 0.998


def rows_of_both(pairing: Pairing, seed: int) -> tuple[NDArray[np.int64], Floats, Floats]:
    """A sample of rows: their numbers in the new corpus, their old vectors and their new ones."""
    count = pairing.new.corpus.rows
    chosen = np.random.default_rng(seed).permutation(count)[:MOST_ROWS]
    new = gather(pairing.new.corpus.vectors, chosen).array
    old = gather(pairing.old.corpus.vectors, pairing.places[chosen]).array
    return chosen, np.asarray(old, np.float64), np.asarray(new, np.float64)


def space_change(old: Floats, new: Floats) -> SpaceChange:
    """The kind of change that most rows share."""
    if old.shape[1] == new.shape[1]:
        if np.median(np.abs(old - new).max(axis=1)) == 0:
            return SpaceChange.SAME
        lengths = [np.median(np.linalg.norm(each, axis=1)) for each in (old, new)]
        if _median_cosine(old, new) >= _ALIKE:
            same = abs(lengths[1] / lengths[0] - 1) < 0.01 if lengths[0] else False
            return SpaceChange.STORED if same else SpaceChange.SCALED
        if _median_cosine(_rotated(old, new), new) >= _ALIKE:
            return SpaceChange.ROTATED
        return SpaceChange.OTHER
    shorter = min(old.shape[1], new.shape[1])
    if new.shape[1] == shorter and _median_cosine(old[:, :shorter], new) >= _ALIKE:
        return SpaceChange.CUT
    return SpaceChange.OTHER


def mixed_spaces(pairing: Pairing, rows: NDArray[np.int64], old: Floats, new: Floats) -> MixedSpaces:
    """The share of new rows that another model made than the rest."""
    needed = max(FEWEST_ROWS, _ROWS_PER_DIMENSION * old.shape[1])
    if len(rows) < needed:
        return MixedSpaces(None, looked=len(rows), why=f"{len(rows):,} rows are too few; it takes {needed:,}")
    if min(old.shape[1], new.shape[1]) < FEWEST_COORDINATES:
        why = f"it takes {FEWEST_COORDINATES} dimensions"
        return MixedSpaces(None, looked=len(rows), why=why)
    found = foreign_rows(unit(old), unit(new))
    if not found.told:
        why = f"the old vectors predict too little of the new ones (cosine {found.predicted:.2f})"
        return MixedSpaces(None, looked=len(rows), why=why)
    count = int(np.count_nonzero(found.foreign))
    parts = None if count else separation(new)
    if parts is not None and parts.unrelated:
        # About half of the rows are too many for the map, and few enough for the geometry.
        low, high = share_interval(parts.smaller * MOST_ROWS_APART, MOST_ROWS_APART) or (None, None)
        return MixedSpaces(parts.smaller, low, high, MOST_ROWS_APART)
    low, high = share_interval(count, len(rows)) or (None, None)
    ids: Any = pairing.new.corpus.ids.take(pa.array(np.sort(rows[found.foreign])[:_SHOWN]))
    return MixedSpaces(count / len(rows), low, high, len(rows), tuple(ids.to_pylist()))


def _median_cosine(one: Floats, other: Floats) -> float:
    return float(np.median((unit(one) * unit(other)).sum(axis=1)))


def _rotated(old: Floats, new: Floats) -> Floats:
    """The old vectors, turned as near to the new ones as a rotation can (orthogonal Procrustes)."""
    if len(old) < 2 * old.shape[1]:
        return old
    left, _, right = np.linalg.svd(unit(old).T @ unit(new))
    return np.asarray(old @ (left @ right))
