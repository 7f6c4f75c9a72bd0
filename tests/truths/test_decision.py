"""What decides a query: a function of what its certificate says, and of nothing else."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from recallatk.core.truth import Decision
from recallatk.truths.decision import decisions


@given(st.floats(-1e6, 1e6), st.floats(0, 1e6), st.floats(1e-20, 1e-3), st.booleans())
def test_float32_decides_only_what_bounds_two_to_the_29_times_as_wide_tell_apart(last, gap, bound, exact):
    following = last + gap
    (found,) = decisions(*(np.array([each]) for each in (last, following, bound, exact)))
    apart = abs(last - following) > 2 * bound * 2**29
    assert found == (Decision.EXACT if exact else Decision.FLOAT32 if apart else Decision.FLOAT64)


def test_without_a_next_row_there_is_nothing_to_tell_apart():
    (found,) = decisions(np.array([1.0]), np.array([np.nan]), np.array([1e-3]), np.array([False]))
    assert found == Decision.FLOAT32
