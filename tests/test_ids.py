"""Ids stand for rows, and rows that have none say so."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recallatk.errors import BadValueError
from recallatk.ids import RowIds, check_ids, plain_ids, row_numbers


@pytest.mark.parametrize("ids", [["a", "b", "c", "d", "é"], [50, -1, 30, 2**62, 0]])
def test_some_ids_are_those_of_the_rows_that_were_named(ids):
    found = RowIds.some(np.array([4, 1, -1, 4, 3]), pa.array(ids))
    assert list(found.rows) == [1, 3, 4]
    assert found.ids.to_pylist() == [ids[1], ids[3], ids[4]]
    assert found.of(np.array([4, 3, 1, 4])).to_pylist() == [ids[4], ids[3], ids[1], ids[4]]
    assert found.of(np.array([], np.int64)).to_pylist() == []


def test_a_row_that_is_not_known_has_no_id():
    found = RowIds.some(np.array([2, 5]), pa.array(list("abcdef")))
    rows = np.array([-1, 0, 1, 2, 3, 4, 5, 6, 2**62, -(2**62)])
    assert found.of(rows).to_pylist() == [None, None, None, "c", None, None, "f", None, None, None]


@pytest.mark.parametrize("kind", [pa.string(), pa.int64()])
def test_no_rows_have_no_ids_and_the_type_stays(kind):
    for rows in ([], [-1, -1]):
        found = RowIds.some(np.array(rows, np.int64), pa.array([], kind))
        assert found.of(np.array([-1, 0, 3])).to_pylist() == [None] * 3
        assert found.of(np.array([0])).type == kind


@settings(deadline=None)
@given(
    st.lists(st.integers(), unique=True, max_size=30).map(lambda ids: [str(each) for each in ids]),
    st.lists(st.integers(-3, 40), max_size=40),
    st.lists(st.integers(-3, 40), max_size=40),
)
def test_ids_of_rows_are_what_a_dictionary_says(ids, named, asked):
    named = [row for row in named if row < len(ids)]
    known = {row: ids[row] for row in named if row >= 0}
    found = RowIds.some(np.array(named, np.int64), pa.array(ids, pa.string()))
    assert found.of(np.array(asked, np.int64)).to_pylist() == [known.get(row) for row in asked]


def test_row_numbers_are_integers_from_the_first_row():
    assert row_numbers(3, 6).to_pylist() == [3, 4, 5]
    assert row_numbers(3, 3).type == pa.int64()


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array([1, 2], pa.uint8()), pa.int64()),
        (pa.array([1, 2], pa.uint64()), pa.int64()),
        (pa.chunked_array([[1], [2]]), pa.int64()),
        (pa.array(["1", "2"], pa.large_string()), pa.string()),
        (pa.array(["1", "2"]).dictionary_encode(), pa.string()),
        (pa.chunked_array([["1"], ["2"]]), pa.string()),
    ],
)
def test_ids_of_every_width_and_encoding_are_int64_or_string(column, kind):
    found = plain_ids(column, "here")
    assert isinstance(found, pa.Array)
    assert found.type == kind
    assert [int(each) for each in found.to_pylist()] == [1, 2]


def test_ids_that_int64_cannot_hold_are_refused_with_their_place():
    with pytest.raises(BadValueError, match=r"here: invalid id: .*fit int64"):
        plain_ids(pa.array([2**63], pa.uint64()), "here")


def test_the_first_repeated_id_is_named_with_both_rows():
    check_ids(pa.array(["a", "b"]), "here")
    with pytest.raises(BadValueError, match="here, row 3: duplicate id b: row 1 has it too"):
        check_ids(pa.array(["a", "b", "c", "b", "a"]), "here")
