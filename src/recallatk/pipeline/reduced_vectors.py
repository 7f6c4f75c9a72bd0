"""Smaller vectors for a first stage: leading dimensions, and one bit per dimension."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import Metric, blocks
from recallatk.pair_scores import norms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Vectors

# Rows whose norms differ from 1 by more than this are not meant to be unit vectors.
_UNIT_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Reduction:
    """How vectors are made smaller: first to their leading dimensions, then to signs."""

    dimensions: int | None = None
    binary: bool = False
    unit: bool = False
    """Whether shortened vectors are normalized again, because whole ones have norm 1."""

    def apply(self, vectors: NDArray[Any]) -> NDArray[np.float32]:
        """The smaller vectors; signs are +1 and -1, so that every metric ranks by Hamming distance."""
        short = vectors[:, : self.dimensions].astype(np.float32)
        if self.binary:
            return np.where(short >= 0, np.float32(1), np.float32(-1))
        if self.unit and self.dimensions is not None:
            lengths = norms(short)[:, None]
            short /= np.where(lengths > 0, lengths, 1)
        return np.ascontiguousarray(short)

    def describe(self, dimension: int) -> str:
        """The content of the smaller vectors in words."""
        kept = self.dimensions or dimension
        if self.binary:
            return f"{kept} bits of {dimension} dimensions"
        return f"{kept} of {dimension} dimensions"


@dataclass(frozen=True, eq=False)
class ReducedVectors:
    """A matrix of smaller vectors, made block by block."""

    whole: Vectors
    reduction: Reduction

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and dimension."""
        rows, dimension = self.whole.shape
        return rows, min(dimension, self.reduction.dimensions or dimension)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""
        return np.dtype(np.float32)

    def read(self, start: int, stop: int) -> NDArray[np.float32]:
        """Some rows, made smaller."""
        return self.reduction.apply(self.whole.read(start, stop))


def reduction_for(vectors: Vectors, metric: Metric, dimensions: int | None, *, binary: bool) -> Reduction:
    """The reduction for a corpus; cosine needs no normalization, because the engine does it."""
    unit = metric is not Metric.COSINE and not binary and dimensions is not None and _are_unit(vectors)
    return Reduction(dimensions, binary, unit)


def _are_unit(vectors: Vectors) -> bool:
    return all(bool((np.abs(norms(block) - 1) <= _UNIT_TOLERANCE).all()) for _, block in blocks(vectors))
