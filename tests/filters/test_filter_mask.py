"""Filters on columns of every type that Arrow files hold."""

import datetime as dt
import decimal

import numpy as np
import pyarrow as pa
import pytest

from recallatk import parse_filter
from recallatk.errors import FilterError

D = decimal.Decimal


def rows(table, text):
    return list(np.flatnonzero(parse_filter(text).mask(table)))


def test_null_is_neither_true_nor_false():
    table = pa.table({"a": [1, 2, None], "b": [None, True, None]})
    assert rows(table, "a = 1") == [0]
    assert rows(table, "a != 1") == [1]
    assert rows(table, "a in (1, 2)") == [0, 1]
    assert rows(table, "a not in (1, 2)") == []
    assert rows(table, "a = 1 or b = true") == [0, 1]
    assert rows(table, "not (a = 1 and b = true)") == [1]
    assert rows(table, "a = 3 and b = true") == []
    assert rows(table, "not (a = 3 and b = true)") == [0, 1]
    assert rows(table, "a is null") == [2]
    assert rows(table, "a is not null and b is null") == [0]


def test_nan_counts_as_null():
    table = pa.table({"x": pa.array([1.0, float("nan"), None, float("inf")])})
    assert rows(table, "x > 0") == [0, 3]
    assert rows(table, "not (x > 0)") == []
    assert rows(table, "x is null") == [1, 2]
    assert rows(table, "x != 1") == [3]


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()]
)
def test_integers_of_every_width_compare_with_any_number(kind):
    table = pa.table({"a": pa.array([0, 1, 2, None], kind)})
    assert rows(table, "a = 1.0") == [1]
    assert rows(table, "a = 1.5") == []
    assert rows(table, "a > 0.5") == [1, 2]
    assert rows(table, "a <= 1.5") == [0, 1]
    assert rows(table, "a > -1e300") == [0, 1, 2]
    assert rows(table, "not (a < 1000000000000000000000)") == []


def test_unsigned_integers_of_64_bits_are_compared_exactly():
    table = pa.table({"a": pa.array([0, 2**63, 2**64 - 1], pa.uint64())})
    assert rows(table, f"a = {2**64 - 1}") == [2]
    assert rows(table, f"a = {2**64}") == []
    assert rows(table, f"a >= {2**63}") == [1, 2]
    assert rows(table, f"a < {2**64}") == [0, 1, 2]
    assert rows(table, "a > -1") == [0, 1, 2]
    assert rows(table, "a < -0.5") == []


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
def test_floats_of_every_width_compare_as_the_numbers_they_hold(kind):
    table = pa.table({"a": pa.array(np.array([0.1, 0.5, 3.0], kind))})
    assert rows(table, "a = 0.5") == [1]
    assert rows(table, "a in (3, 0.5)") == [1, 2]
    assert rows(table, "a = 0.1") == ([0] if kind == pa.float64() else [])


def test_the_two_zeros_are_one_number():
    table = pa.table({"a": [0.0, -0.0, None]})
    for text in ("a = 0", "a = -0.0", "a in (0.0)", "a >= 0", "a <= -0.0"):
        assert rows(table, text) == [0, 1]
    assert rows(table, "a < 0") == []


def test_decimals_compare_with_the_number_as_it_is_written():
    table = pa.table({"a": pa.array([D("0.10"), D("0.12"), D("0.13"), None], pa.decimal128(38, 2))})
    assert rows(table, "a = 0.1") == [0]
    assert rows(table, "a = 0.125") == []
    assert rows(table, "a > 0.125") == [2]
    assert rows(table, "a < 1") == [0, 1, 2]
    assert rows(table, "a in (0.12, 0.13, 7)") == [1, 2]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
def test_text_of_every_layout_compares_by_bytes(kind):
    table = pa.table({"a": pa.array(["", "b", "é", "a\0b", None]).cast(pa.string()).cast(kind)})
    assert rows(table, "a = ''") == [0]
    assert rows(table, "a >= 'b'") == [1, 2]
    assert rows(table, "a in ('a\0b', 'é')") == [2, 3]


def test_a_dictionary_may_hold_numbers_and_a_null_of_its_own():
    codes = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None]), pa.array([5, None, 7]))
    table = pa.table({"a": codes})
    assert rows(table, "a >= 5") == [0, 2]
    assert rows(table, "a is null") == [1, 3]
    assert rows(table, "a is not null") == [0, 2]


def test_dates_and_timestamps_compare_with_text():
    day = dt.date(2024, 2, 29)
    moment = dt.datetime(2024, 2, 29, 12)
    table = pa.table(
        {
            "day": pa.array([day, None]),
            "at": pa.array([moment, None], pa.timestamp("ns")),
            "zoned": pa.array([moment, None], pa.timestamp("us", "UTC")),
        }
    )
    assert rows(table, "day = '2024-02-29'") == [0]
    assert rows(table, "day > '2024-02-29'") == []
    assert rows(table, "at between '2024-02-29' and '2024-03-01'") == [0]
    assert rows(table, "at in ('2024-02-29 12:00:00', '2024-02-29 12:00:00.000000001')") == [0]
    assert rows(table, "zoned = '2024-02-29T12:00:00Z'") == [0]
    for text in ("day = 'yesterday'", "at > 'x'", "zoned = '2024-02-29'", "day = 5"):
        with pytest.raises(FilterError, match=r"column '(day|at|zoned)' holds (date|timestamp)"):
            rows(table, text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("n = 'x'", "int64"),
        ("n > 'x'", "int64"),
        ("n = true", "int64"),
        ("n in (1, 'x')", "int64"),
        ("x = 'x'", "double"),
        ("s = 1", "string"),
        ("s < 1.5", "string"),
        ("flag = 1", "bool"),
        ("flag > 0", "bool"),
        ("tags = 'x'", "list<item: string>"),
        ("tags starts with 'x'", "list<item: string>"),
        ("n starts with 'x'", "int64"),
        ("s contains 'x'", "string"),
        ("n contains 1", "int64"),
        ("tags contains 1", "large_string"),
        ("raw = 'x'", "binary"),
    ],
)
def test_a_value_of_another_type_is_refused_with_the_column_and_its_type(text, kind):
    table = pa.table({"n": [1], "x": [1.0], "s": ["x"], "flag": [True], "tags": [["x"]], "raw": [b"x"]})
    column = text.split()[0]
    with pytest.raises(FilterError) as caught:
        rows(table, text)
    assert f"column {column!r} holds {kind}" in str(caught.value)


def test_an_unknown_column_is_refused_with_the_known_ones():
    table = pa.table({"category": ["x"], "n_words": [1]})
    with pytest.raises(FilterError, match=r"no column 'catgory'. The columns are: category, n_words"):
        rows(table, "n_words > 1 and catgory = 'x'")
    with pytest.raises(FilterError, match="The columns are: none"):
        rows(pa.table({}), "a = 1")


def test_a_column_that_stands_twice_is_refused():
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(FilterError, match="2 columns 'a'"):
        rows(table, "a = 1")


def test_a_column_without_a_type_is_all_null():
    table = pa.table({"a": pa.nulls(3), "b": [1, 2, 3]})
    for text in ("a = 1", "a != 'x'", "a > 5", "a in (true)", "a is not null"):
        assert rows(table, text) == []
    assert rows(table, "a is null") == [0, 1, 2]
    assert rows(table, "a = 1 or b = 2") == [1]


@pytest.mark.parametrize("text", ["a = 1", "a > 1.5", "not (a in (1, 2))", "a is null", "b < 0.5", "c = 'x'"])
def test_an_empty_table_has_an_empty_mask(text):
    schema = pa.schema({"a": pa.int64(), "b": pa.float64(), "c": pa.dictionary(pa.int32(), pa.string())})
    for table in (schema.empty_table(), pa.Table.from_batches([], schema)):
        found = parse_filter(text).mask(table)
        assert found.shape == (0,)
        assert found.dtype == bool


def test_a_mask_runs_through_all_chunks():
    table = pa.concat_tables([pa.table({"a": [1, None]}), pa.table({"a": [2]}), pa.table({"a": [1]})])
    assert rows(table, "a = 1") == [0, 3]


@pytest.mark.parametrize(
    ("kind", "value", "accepted"),
    [
        (pa.date32(), "2024-1-31", "'2024-01-31'"),
        (pa.date32(), "2024-02-30", "'2024-01-31'"),
        (pa.date64(), "2024-01-31T00:00:00", "'2024-01-31'"),
        (pa.date32(), "\u0662\u0660\u0662\u0664-01-31", "'2024-01-31'"),
        (pa.timestamp("us"), "2024-01-31T24:00:00", "'2024-01-31' or '2024-01-31T10:30:00'"),
        (pa.timestamp("us"), "2024-01-31T10:00:00Z", "'2024-01-31' or '2024-01-31T10:30:00'"),
        (pa.timestamp("ns", "UTC"), "2024-01-31", "'2024-01-31T10:30:00Z', with a time zone"),
        (pa.timestamp("s", "Europe/Berlin"), "2024-01-31T10:00:00+25:00", "with a time zone"),
        (pa.time32("s"), "10:61", "'10:30:00'"),
    ],
)
def test_a_bad_date_is_refused_with_the_column_the_value_and_the_accepted_form(kind, value, accepted):
    table = pa.table({"at": pa.array([None], kind)})
    for text in (f"at = '{value}'", f"at >= '{value}'", f"at in ('{value}')"):
        with pytest.raises(FilterError) as caught:
            rows(table, text)
        assert f"column 'at' holds {kind} and cannot be compared with '{value}'" in str(caught.value)
        assert str(caught.value).endswith(accepted)


def test_a_literal_between_two_ticks_equals_none_and_bounds_all():
    at = pa.array([0, 1, 2, None], pa.timestamp("s"))
    table = pa.table({"at": at, "day": pa.array([0, 1, -1, None], pa.date32())})
    assert rows(table, "at = '1970-01-01T00:00:00.5'") == []
    assert rows(table, "at > '1970-01-01T00:00:00.5'") == [1, 2]
    assert rows(table, "at <= '1970-01-01T00:00:01.999999999'") == [0, 1]
    assert rows(table, "at != '1970-01-01T00:00:00.5'") == [0, 1, 2]
    wide = pa.table({"at": pa.array([0, None], pa.timestamp("ns"))})
    assert rows(wide, "at < '9999-12-31'") == [0]
    assert rows(wide, "at >= '0001-01-01'") == [0]
    assert rows(wide, "at = '9999-12-31'") == []
    assert rows(table, "day between '1969-12-31' and '1970-01-01'") == [0, 2]


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.string()),
        pa.large_list(pa.large_string()),
        pa.list_(pa.string(), 3),
        pa.list_(pa.dictionary(pa.int8(), pa.string())),
        pa.list_(pa.string_view()),
    ],
)
def test_tags_of_every_layout_are_compared_element_by_element(kind):
    lists = [["x", "y"], [], None, ["y", None, "y"], [None]]
    if pa.types.is_fixed_size_list(kind):
        lists = [each and each + [None] * (3 - len(each)) for each in [["x", "y"], [None], None, *lists[3:]]]
    table = pa.concat_tables([pa.table({"tags": pa.array(lists, kind)})] * 2).slice(0, 5)
    assert rows(table, "tags contains 'x'") == [0]
    assert rows(table, "tags contains any ('x', 'y')") == [0, 3]
    assert rows(table, "tags contains all ('y', 'y')") == [0, 3]
    assert rows(table, "tags contains all ('x', 'y')") == [0]
    assert rows(table, "not (tags contains 'y')") == [1, 4]
    assert rows(table, "tags contains 'unknown'") == []
    assert rows(table, "tags is null") == [2]


def test_numbers_in_lists_are_compared_exactly():
    table = pa.table({"n": pa.array([[1, 2**62 + 1], [2**62], [3], None, []], pa.list_(pa.int64()))})
    assert rows(table, f"n contains {2**62 + 1}") == [0]
    assert rows(table, f"n contains any (1.0, {2**62}, 2.5)") == [0, 1]
    assert rows(table, "n contains all (1, 2.5)") == []
    assert rows(table, "not (n contains all (1, 2.5))") == [0, 1, 2, 4]
    assert rows(pa.table({"n": [[], None]}), "not (n contains 1)") == [0]
    assert rows(pa.table({"n": pa.nulls(2)}), "n contains 1 or n starts with 'x'") == []
