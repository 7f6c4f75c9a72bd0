"""Vectors as float32 libraries want them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def float32_matrix(vectors: NDArray[Any], *, unit: bool = False) -> NDArray[np.float32]:
    """Contiguous float32, of unit length where inner product stands for cosine.

    Queries need no unit length: their own norm changes no order.
    """
    if not unit:
        return np.ascontiguousarray(vectors, dtype=np.float32)
    wide = vectors.astype(np.float64)
    wide /= np.linalg.norm(wide, axis=1, keepdims=True)
    return np.ascontiguousarray(wide, dtype=np.float32)
