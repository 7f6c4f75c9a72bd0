"""What the tests of the data doors share."""

import numpy as np
import pytest

from recallatk.core import blocks


@pytest.fixture
def everything():
    """All vectors of some records, read in small blocks."""

    def read(records):
        row_bytes = records.dimension * records.vectors.dtype.itemsize
        return np.concatenate([block.copy() for _, block in blocks(records.vectors, 7 * row_bytes)])

    return read


@pytest.fixture
def same(everything):
    """Assert that a file's vectors are a matrix, in its type."""

    def check(records, matrix):
        assert records.vectors.shape == matrix.shape
        assert records.vectors.dtype == matrix.dtype.newbyteorder("=")
        np.testing.assert_array_equal(everything(records), matrix)

    return check
