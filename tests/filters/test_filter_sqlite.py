"""The text form is SQL: sqlite gives the same rows for it as `mask` does."""

import math
import sqlite3

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from examples import examples
from recallatk.filters import And, Equals, Exists, In, Not, Or, Range, filter_from_json, parse_filter

INT64 = st.integers(-(2**63), 2**63 - 1)
INTEGERS = st.one_of(
    st.integers(-4, 4), st.sampled_from([-(2**63), 2**63 - 1, 2**53 + 1, -(2**53) - 1]), INT64
)
FLOATS = st.one_of(
    st.sampled_from([0.0, -0.0, 0.5, 1.0, -1.0, 2.0**53, 2.0**63, -(2.0**63), 1e300, -1e300, 5e-324, 0.1]),
    st.floats(allow_nan=False, allow_infinity=False),
)
# A statement of sqlite ends at the first NUL, so text has none here.
TEXTS = st.one_of(
    st.sampled_from(
        ["", "a", "b", "'", "''", '"', "é", "e\u0301", "\U0001f600", "and", "null", "-1", "%", "\n"]
    ),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4),
)
NUMBERS = st.one_of(INTEGERS, FLOATS, st.sampled_from([2**63, -(2**63) - 1, 2**64, 10**30, -(10**30)]))
# Column names that need quotes, and one word that the text form reserves.
COLUMNS = {
    "whole": (pa.int64(), INTEGERS, NUMBERS),
    "small": (pa.int8(), st.integers(-4, 4), NUMBERS),
    "share": (pa.float64(), st.one_of(FLOATS, st.just(math.nan)), NUMBERS),
    "the text": (pa.string(), TEXTS, TEXTS),
    'odd "name"': (pa.dictionary(pa.int32(), pa.string()), TEXTS, TEXTS),
    "between": (pa.bool_(), st.booleans(), st.booleans()),
    "a.b": (pa.int32(), st.integers(-4, 4), NUMBERS),
    "naïve": (pa.large_string(), TEXTS, TEXTS),
}


@st.composite
def leaves(draw):
    column = draw(st.sampled_from(list(COLUMNS)))
    kind, _, literals = COLUMNS[column]
    shapes = ["equals", "in", "exists"] + ["range"] * (kind != pa.bool_())
    shape = draw(st.sampled_from(shapes))
    if shape == "equals":
        return Equals(column, draw(literals))
    if shape == "in":
        return In(column, tuple(draw(st.lists(literals, min_size=1, max_size=4))))
    if shape == "exists":
        return Exists(column)
    low = draw(st.sampled_from([None, "gte", "gt"]))
    high = draw(st.sampled_from(["lte", "lt"] if low is None else [None, "lte", "lt"]))
    return Range(column, **{bound: draw(literals) for bound in (low, high) if bound})


FILTERS = st.recursive(
    leaves(),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda operands: And(tuple(operands))),
        st.lists(inner, min_size=1, max_size=3).map(lambda operands: Or(tuple(operands))),
        inner.map(Not),
    ),
    max_leaves=6,
)


@st.composite
def tables(draw):
    rows = draw(st.integers(0, 8))
    return pa.table(
        {
            name: pa.array(draw(st.lists(st.none() | values, min_size=rows, max_size=rows)), kind)
            for name, (kind, values, _) in COLUMNS.items()
        }
    )


def sqlite_rows(table, text):
    connection = sqlite3.connect(":memory:")
    try:
        quoted = ['"' + name.replace('"', '""') + '"' for name in table.column_names]
        # Without a declared type sqlite changes nothing that is stored or compared.
        connection.execute(f"CREATE TABLE t ({', '.join(quoted)})")
        marks = ", ".join("?" * len(quoted))
        rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
        connection.executemany(f"INSERT INTO t VALUES ({marks})", rows)
        return [
            rowid - 1 for (rowid,) in connection.execute(f"SELECT rowid FROM t WHERE {text} ORDER BY rowid")
        ]
    finally:
        connection.close()


@examples(200)
@given(tables(), FILTERS)
def test_sqlite_and_the_mask_choose_the_same_rows(table, condition):
    for each in (condition, Not(condition)):
        assert list(np.flatnonzero(each.mask(table))) == sqlite_rows(table, str(each))


@examples(100)
@given(tables(), FILTERS)
def test_the_text_is_read_back_as_the_same_condition(table, condition):
    again = parse_filter(str(condition))
    assert list(again.mask(table)) == list(condition.mask(table))
    assert str(parse_filter(str(again))) == str(again)
    assert parse_filter(str(again)) == again


@examples(200)
@given(FILTERS)
@example(Equals("a", 2**64))
@example(Equals("a", True))
@example(Equals("a", 1.0))
def test_the_json_form_is_read_back_as_the_same_filter(condition):
    again = filter_from_json(condition.to_json())
    assert again == condition
    assert again.key == condition.key


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("whole = 9007199254740993", [1]),
        ("whole > 9007199254740992.0", [1, 2]),
        ("whole < 9223372036854775808", [0, 1, 2]),
        ("whole >= 9.3e18", []),
        ("whole between 9007199254740992.0 and 1e30", [0, 1, 2]),
        ("share = 9007199254740993", []),
        ("share > 9007199254740993", [1, 2]),
        ("share >= 9007199254740993", [1, 2]),
        ("share < 9007199254740993", [0]),
        ("share <= 9007199254740995", [0]),
        ("share < 9007199254740995", [0]),
        ("share in (9007199254740992, 9007199254740993)", [0]),
        ("share = 1000000000000000000000000000000", [2]),
        ("not (share = 1)", [0, 1, 2]),
    ],
)
def test_numbers_are_compared_exactly_whatever_their_type(text, rows):
    table = pa.table(
        {
            "whole": pa.array([2**53, 2**53 + 1, 2**63 - 1, None]),
            "share": pa.array([2.0**53, 2.0**53 + 4, 1e30, None]),
        }
    )
    assert sqlite_rows(table, text) == rows
    assert list(np.flatnonzero(parse_filter(text).mask(table))) == rows
