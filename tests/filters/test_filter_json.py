"""The JSON form: what it looks like and what it refuses."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from recallatk import Filter, filter_from_json
from recallatk.errors import FilterError
from recallatk.filters import And, ContainsAll, ContainsAny, Equals, Exists, In, Not, Or, Prefix, Range


def test_every_kind_has_its_form():
    condition = And(
        (
            Or((Equals("a", "x"), In("b", (1, 2.5)))),
            Not(Range("c", gt=1, lte=5)),
            Exists("d"),
            Equals("e", False),
            Prefix("f", "x"),
            ContainsAny("g", ("x", 2)),
            Not(ContainsAll("g", ("x", "y"))),
        )
    )
    form = {
        "and": [
            {
                "or": [
                    {"equals": {"column": "a", "value": "x"}},
                    {"in": {"column": "b", "values": [1, 2.5]}},
                ]
            },
            {"not": {"range": {"column": "c", "gt": 1, "lte": 5}}},
            {"exists": {"column": "d"}},
            {"equals": {"column": "e", "value": False}},
            {"prefix": {"column": "f", "prefix": "x"}},
            {"contains_any": {"column": "g", "values": ["x", 2]}},
            {"not": {"contains_all": {"column": "g", "values": ["x", "y"]}}},
        ]
    }
    assert condition.to_json() == form
    assert filter_from_json(json.loads(json.dumps(form))) == condition
    assert condition.columns() == {"a", "b", "c", "d", "e", "f", "g"}


def test_different_conditions_have_different_keys():
    conditions = [
        Equals("a", 1),
        Equals("a", 1.0),
        Equals("a", True),
        Equals("a", "1"),
        In("a", (1,)),
        Exists("a"),
    ]
    conditions += [Range("a", gte=1), Range("a", gt=1), Range("a", lte=1), Range("a", lt=1), Not(Exists("a"))]
    conditions += [Prefix("a", "1"), ContainsAny("a", (1,)), ContainsAll("a", (1,)), ContainsAny("a", ("1",))]
    conditions += [And((Exists("a"),)), Or((Exists("a"),))]
    assert len({each.key for each in conditions}) == len(conditions)


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        "a = 1",
        {},
        {"equals": {"column": "a", "value": 1}, "exists": {"column": "a"}},
        {"equal": {"column": "a", "value": 1}},
        {"equals": {"column": "a"}},
        {"equals": {"column": "a", "value": None}},
        {"equals": {"column": "a", "value": [1]}},
        {"equals": {"column": "a", "value": float("nan")}},
        {"equals": {"column": "a", "value": 10**400}},
        {"equals": {"column": "a", "value": "\ud800"}},
        {"equals": {"column": 1, "value": 1}},
        {"equals": {"column": "a", "value": 1, 2: 3, "x": 4}},
        {"in": {"column": "a", "values": "xyz"}},
        {"in": {"column": "a", "values": []}},
        {"in": {"column": "a", "values": [1, None]}},
        {"range": {"column": "a"}},
        {"range": {"column": "a", "gte": None}},
        {"range": {"column": "a", "gte": 1, "gt": 1}},
        {"range": {"column": "a", "lte": 1, "lt": 1}},
        {"range": {"column": "a", "gt": True}},
        {"range": {"column": "a", "from": 1}},
        {"prefix": {"column": "a"}},
        {"prefix": {"column": "a", "prefix": 5}},
        {"prefix": {"column": "a", "prefix": None}},
        {"contains_any": {"column": "a", "values": "x"}},
        {"contains_any": {"column": "a", "values": []}},
        {"contains_all": {"column": "a", "values": [["x"]]}},
        {"contains_all": {"column": "a", "value": "x"}},
        {"exists": {"column": "a", "value": 1}},
        {"exists": "a"},
        {"and": []},
        {"or": {}},
        {"and": [{"exists": {"column": "a"}}, 1]},
        {"not": []},
        {("a", "tuple"): 1},
    ],
)
def test_what_is_no_filter_is_refused(data):
    with pytest.raises(FilterError):
        filter_from_json(data)


def test_nesting_is_bounded():
    data = {"exists": {"column": "a"}}
    for _ in range(90):
        data = {"not": data}
    assert isinstance(filter_from_json(data), Filter)
    for _ in range(5000):
        data = {"not": data}
    with pytest.raises(FilterError, match="nested more than 100 levels deep"):
        filter_from_json(data)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
KEYS = st.sampled_from(
    [
        "equals",
        "in",
        "range",
        "exists",
        "prefix",
        "contains_any",
        "contains_all",
        "and",
        "or",
        "not",
        "column",
        "value",
        "values",
        "gte",
        "lt",
    ]
)


@examples(200)
@given(
    st.recursive(
        SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)
    )
)
def test_any_json_is_a_filter_or_a_filter_error(data):
    try:
        condition = filter_from_json(data)
    except FilterError:
        return
    assert filter_from_json(condition.to_json()).key == condition.key
