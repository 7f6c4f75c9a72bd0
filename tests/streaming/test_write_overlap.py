"""Calls beside writes: each is scored against the states that it can have seen, and no others."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from recallatk.streaming.index_rows import PADDING, UNKNOWN, IndexRows
from recallatk.streaming.write_overlap import seen_states


@st.composite
def timelines(draw):
    """Writes one after the other, and calls at any time."""
    moments = sorted(draw(st.lists(st.integers(0, 60), min_size=0, max_size=12)))
    moments = moments[: len(moments) // 2 * 2]
    calls = draw(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), min_size=1, max_size=10))
    return moments[::2], moments[1::2], [(start, start + length) for start, length in calls]


@given(timelines())
def test_a_call_sees_the_states_between_the_writes_that_it_overlaps(timeline):
    began, ended, calls = timeline
    starts, ends = (np.array([call[side] for call in calls], np.int64) for side in (0, 1))
    seen = seen_states(starts, ends, np.array(began, np.int64), np.array(ended, np.int64))
    for place, (start, end) in enumerate(calls):
        overlapped = [
            number
            for number, (first, last) in enumerate(zip(began, ended, strict=True))
            # A write that ended when the call began was seen; one that begins when it ends was not.
            if last > start and first < end
        ]
        done = sum(last <= start for last in ended)
        assert seen.first[place] == done
        assert seen.last[place] == done + len(overlapped)
        assert seen.alone[place] == (len(overlapped) == 0)
        assert seen.beside_one[place] == (len(overlapped) == 1)
        assert seen.discarded[place] == (len(overlapped) > 1)


@given(st.lists(st.tuples(st.booleans(), st.sets(st.integers(0, 7), min_size=1)), max_size=8))
def test_numbers_stand_for_rows_at_the_states_between_their_birth_and_death(changes):
    rows, live = IndexRows(8, np.array([0, 1])), {0: 0, 1: 1}
    names, history = [0, 1], [dict(live)]
    for state, (inserts, some) in enumerate(changes, 1):
        if inserts:
            new = sorted(some - set(live))
            rows.insert(np.array(new, np.int64), state)
            live |= {row: len(names) + place for place, row in enumerate(new)}
            names += new
        else:
            gone = sorted(some & set(live))
            assert rows.delete(np.array(gone, np.int64), state).tolist() == [live.pop(row) for row in gone]
        history.append(dict(live))
    numbers = np.array([[*range(len(names)), -1, len(names), -5]])
    for state, known in enumerate(history):
        expected = [row if known.get(row) == number else UNKNOWN for number, row in enumerate(names)]
        assert rows.answers(numbers, state).tolist() == [[*expected, PADDING, UNKNOWN, UNKNOWN]]
        stale = rows.stale(numbers, state)[0, : len(names)]
        ever = {number for earlier in history[: state + 1] for number in earlier.values()}
        assert set(np.flatnonzero(stale).tolist()) == ever - set(known.values())
    assert rows.foreign(numbers).tolist() == [[False] * len(names) + [False, True, True]]
