"""Dates, prefixes, booleans and tags: DuckDB gives the same rows as `mask` does."""

import datetime as dt

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from recallatk.filters import (
    And,
    ContainsAll,
    ContainsAny,
    Equals,
    Exists,
    In,
    Not,
    Or,
    Prefix,
    Range,
    filter_from_json,
    parse_filter,
)
from recallatk.filters.expression import literal_text

DAYS = st.dates(dt.date(1969, 12, 30), dt.date(1970, 1, 2)) | st.sampled_from(
    [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(2024, 2, 29)]
)
MOMENTS = st.datetimes(
    dt.datetime(1969, 12, 31, 23, 59, 59), dt.datetime(1970, 1, 1, 0, 0, 1)
) | st.sampled_from(
    [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999), dt.datetime(1970, 1, 1)]
)
WORDS = st.sampled_from(
    ["", "a", "ab", "ab%", "a_", "b", "é", "éa", "\U0001f600", "\U0010ffff", "A", "a'b", "\n"]
)
OFFSETS = st.sampled_from(["Z", "+00:00", "+05:30", "-0800", "+01"])
# Type in Arrow, values, literals, and the type of a literal in DuckDB.
COLUMNS = {
    "day": (pa.date32(), DAYS, DAYS.map(str), "DATE"),
    "milliday": (pa.date64(), DAYS, DAYS.map(str), "DATE"),
    "moment": (
        pa.timestamp("us"),
        MOMENTS,
        st.builds(dt.datetime.isoformat, MOMENTS, st.sampled_from(" T")),
        "TIMESTAMP",
    ),
    "second": (
        pa.timestamp("s"),
        MOMENTS.map(lambda each: each.replace(microsecond=0)),
        MOMENTS.map(str) | DAYS.map(str),
        "TIMESTAMP",
    ),
    "zoned": (
        pa.timestamp("us", "UTC"),
        MOMENTS.filter(lambda each: 1 < each.year < 9999),
        st.builds(
            lambda moment, zone: moment.isoformat() + zone,
            MOMENTS.filter(lambda each: 1 < each.year < 9999),
            OFFSETS,
        ),
        "TIMESTAMPTZ",
    ),
    "clock": (pa.time64("us"), st.times(), st.times().map(str), "TIME"),
    "word": (pa.string(), WORDS, WORDS, ""),
    "flag": (pa.bool_(), st.booleans(), st.booleans(), ""),
    "tags": (pa.list_(pa.string()), st.lists(st.none() | WORDS, max_size=3), WORDS, ""),
    "counts": (
        pa.list_(pa.int64()),
        st.lists(st.none() | st.integers(0, 3), max_size=3),
        st.integers(0, 4),
        "",
    ),
}


@st.composite
def leaves(draw):
    column = draw(st.sampled_from(list(COLUMNS)))
    literals = COLUMNS[column][2]
    several = tuple(draw(st.lists(literals, min_size=1, max_size=3)))
    if draw(st.integers(0, 5)) == 0:
        return Exists(column)
    if column in ("tags", "counts"):
        return draw(st.sampled_from([ContainsAny, ContainsAll]))(column, several)
    if column == "word" and draw(st.booleans()):
        return Prefix(column, several[0])
    if column == "flag" or draw(st.booleans()):
        return draw(st.sampled_from([Equals(column, several[0]), In(column, several)]))
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
    max_leaves=5,
)


@st.composite
def tables(draw):
    rows = draw(st.integers(0, 8))
    return pa.table(
        {
            name: pa.array(draw(st.lists(st.none() | values, min_size=rows, max_size=rows)), kind)
            for name, (kind, values, _, _) in COLUMNS.items()
        }
    )


def in_duckdb(condition):
    """The condition in DuckDB's own words."""
    operators = {"gte": ">=", "gt": ">", "lte": "<=", "lt": "<"}

    def literal(column, value):
        return f"{COLUMNS[column][3]} {literal_text(value)}"

    match condition:
        case And(operands) | Or(operands):
            return "(" + f" {condition.word} ".join(map(in_duckdb, operands)) + ")"
        case Not(operand):
            return f"(NOT {in_duckdb(operand)})"
        case Exists(column):
            return f"({column} IS NOT NULL)"
        case Equals(column, value):
            return f"({column} = {literal(column, value)})"
        case In(column, values):
            return f"({column} IN ({', '.join(literal(column, each) for each in values)}))"
        case Prefix(column, prefix):
            return f"starts_with({column}, {literal_text(prefix)})"
        case ContainsAny(column, values) | ContainsAll(column, values):
            listed = ", ".join(map(literal_text, values))
            return f"list_has_{condition.word}({column}, [{listed}])"
        case Range(column):
            bounds = condition.bounds().items()
            return (
                "(" + " AND ".join(f"{column} {operators[b]} {literal(column, v)}" for b, v in bounds) + ")"
            )


@pytest.fixture(scope="module")
def database():
    connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    yield connection
    connection.close()


def test_duckdb_and_the_mask_choose_the_same_rows(database):
    @examples(200)
    @given(tables(), FILTERS)
    def agree(table, condition):
        database.register("t", table.append_column("place", pa.array(np.arange(table.num_rows))))
        for each in (condition, Not(condition)):
            asked = f"SELECT place FROM t WHERE {in_duckdb(each)} ORDER BY place"
            assert np.flatnonzero(each.mask(table)).tolist() == [
                row for (row,) in database.execute(asked).fetchall()
            ]

    agree()


@examples(200)
@given(FILTERS)
def test_text_and_json_are_read_back_as_the_same_filter(condition):
    assert filter_from_json(condition.to_json()) == condition
    again = parse_filter(str(condition))
    assert str(parse_filter(str(again))) == str(again)
    assert parse_filter(str(again)) == again


@examples(200)
@given(st.lists(st.text(max_size=3) | WORDS, min_size=1), st.text(max_size=2) | WORDS)
def test_a_prefix_is_a_range_of_bytes(words, prefix):
    table = pa.table({"word": words})
    condition = Prefix("word", prefix)
    expected = [each.encode().startswith(prefix.encode()) for each in words]
    assert condition.mask(table).tolist() == expected
    assert condition.range().mask(table).tolist() == expected
