"""Matrices of answers: one row a query, padded where a query has fewer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recallatk.core import Answers
from recallatk.datasets.truths import as_scores
from recallatk.errors import BadValueError, FormatError
from recallatk.files import reading

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from recallatk.core import Vectors

_ACCEPTED = "integers of two bytes or more, the best neighbour first and -1 where there are no more"


def matrix_answers(neighbors: Vectors, where: str, distances: Vectors | None = None) -> Answers:
    """A matrix of integers, or of strings, as the answers to each query."""
    rows, width = neighbors.shape
    kind = neighbors.dtype
    if kind.kind == "f" or kind.name in ("int8", "uint8"):
        raise FormatError(where, f"a matrix of {kind.name}, which are vectors and not answers", _ACCEPTED)
    if kind.kind not in "iuU":
        raise FormatError(where, f"a matrix of {kind}", f"{_ACCEPTED}; or strings")
    if distances is not None and tuple(distances.shape) != (rows, width):
        found = f"{(rows, width)} neighbours and {tuple(distances.shape)} distances"
        raise FormatError(where, found, "one distance for each neighbour")
    block = neighbors.read(0, rows)
    return Answers(
        ids=_texts(block, where) if kind.kind == "U" else pa.array(_integers(block, where)),
        offsets=np.arange(rows + 1, dtype=np.int64) * width,
        scores=None if distances is None else as_scores(distances).reshape(-1),
        name=where,
    )


def _integers(block: NDArray[Any], where: str) -> NDArray[np.int64]:
    if block.dtype.kind == "u" and block.dtype.itemsize == 8:
        beyond = (block > np.iinfo(np.int64).max).any(axis=1)
        if beyond.any():
            raise BadValueError(
                where, "a neighbour beyond int64", "ids that fit int64", row=int(beyond.argmax())
            )
    return block.reshape(-1).astype(np.int64)


def _texts(block: NDArray[Any], where: str) -> pa.Array:
    """Strings as ids; NumPy has no missing string, so that an empty one is padding."""
    with reading(where, "matrix of strings"):
        texts = pa.array(np.ascontiguousarray(block).reshape(-1), pa.string())
        return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
