"""Compact sets of rows, the lookup of values and the eligibility of queries, against plain Python."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from recallatk import parse_filter
from recallatk.errors import FilterError
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
)
from recallatk.filters.eligibility import Eligibility, eligibility
from recallatk.filters.lookup import Lookup, RowSet

NAN = float("nan")


@st.composite
def row_sets(draw, corpus_rows=None):
    """Some rows of a corpus: none, a few, most or all of them."""
    rows = draw(st.integers(0, 300)) if corpus_rows is None else corpus_rows
    share = draw(st.sampled_from([0.0, 0.01, 0.03, 0.5, 1.0]))
    seed = draw(st.integers(0, 2**32 - 1))
    return rows, set(np.flatnonzero(np.random.default_rng(seed).random(rows) < share).tolist())


def packed(rows, members):
    return RowSet.of_rows(np.array(sorted(members), np.int64), rows)


@given(row_sets(), st.booleans(), st.data())
def test_a_row_set_is_a_set(drawn, by_mask, data):
    rows, members = drawn
    mask = np.array([row in members for row in range(rows)], bool)
    found = RowSet.of_mask(mask) if by_mask else packed(rows, members)
    assert (found.corpus_rows, found.count) == (rows, len(members))
    assert found.nbytes == min(4 * len(members), -(-rows // 8))
    asked = np.array([*range(-3, rows), -(2**40)])
    contained = found.contains(asked)
    assert contained.dtype == bool
    assert list(contained) == [row in members for row in asked.tolist()]
    start, stop = sorted(data.draw(st.tuples(st.integers(0, rows), st.integers(0, rows))))
    part, truth = found.between(start, stop), found.mask(start, stop)
    assert (part.dtype, truth.dtype) == (np.int64, bool)
    assert list(part) == [row - start for row in range(start, stop) if row in members]
    assert list(truth) == [row in members for row in range(start, stop)]


def test_a_row_set_of_a_corpus_beyond_32_bits_keeps_its_numbers():
    rows = np.array([0, 2**32 - 1, 2**32, 2**33 - 1])
    for corpus_rows in (2**33, 2**40):
        found = RowSet.of_rows(rows, corpus_rows)
        assert found.contains(np.append(rows, [-1, 1, 2**32 + 1])).tolist() == [True] * 4 + [False] * 3
        assert found.between(2**32, 2**33).tolist() == [0, 2**32 - 1]
    found = RowSet.of_rows(rows[:2], 2**32)
    assert found.between(0, 2**32).tolist() == [0, 2**32 - 1]
    found = RowSet.of_rows(rows[:1], 2**32 - 1)
    assert found.contains(np.array([-1, 0, -(2**32)])).tolist() == [False, True, False]
    assert found.between(0, 2**32 - 1).tolist() == [0]


def test_a_row_set_does_not_change_with_what_it_was_made_from():
    rows = np.array([2**32])
    found = RowSet.of_rows(rows, 2**33)
    rows[0] = 5
    assert found.contains(np.array([5, 2**32])).tolist() == [False, True]
    mask = np.ones(4, bool)
    found = RowSet.of_mask(mask)
    found.mask(0, 4)[:] = False
    mask[:] = False
    assert found.mask(0, 4).all()


# What a column holds, and what a filter may compare it with without an error.
KINDS = {
    "text": (st.sampled_from(["", "a", "b", "é", "1"]), st.sampled_from(["", "a", "é", "1", "missing"])),
    "whole": (st.integers(-2, 3), st.sampled_from([-1, 0, 1, 1.0, 2.5, 10**30, 1e300])),
    "small": (st.integers(0, 3), st.sampled_from([0, 1, 1.0, -1, 2.5])),
    "broken": (
        st.sampled_from([0.0, -0.0, 1.0, NAN, 0.5]),
        st.sampled_from([0, -0.0, 0.0, 1, 0.5, 2**53 + 1]),
    ),
    "coded": (st.sampled_from(["a", "b", "c"]), st.sampled_from(["a", "b", "missing"])),
    "flag": (st.booleans(), st.booleans()),
    "nothing": (st.none(), st.sampled_from([1, "a", True])),
    "day": (st.integers(0, 3), st.sampled_from(["1970-01-01", "1970-01-03", "9999-12-31"])),
    "tags": (
        st.lists(st.sampled_from(["a", "b", None, ""]), max_size=3),
        st.sampled_from(["a", "b", "", "missing"]),
    ),
    "counts": (st.lists(st.integers(0, 3), max_size=3), st.sampled_from([0, 1, 1.0, 2.5, 10**30])),
}
TYPES = {
    "text": pa.string(),
    "whole": pa.int64(),
    "small": pa.uint8(),
    "broken": pa.float32(),
    "coded": pa.dictionary(pa.int8(), pa.string()),
    "flag": pa.bool_(),
    "nothing": pa.null(),
    "day": pa.date32(),
    "tags": pa.list_(pa.string()),
    "counts": pa.large_list(pa.int16()),
}


def nulls_like(table, rows):
    return pa.table({field.name: pa.nulls(rows, field.type) for field in table.schema})


@st.composite
def tables(draw):
    """A table with nulls in all of its columns, in one or two pieces; long ones make for sparse sets."""
    rows = draw(st.integers(0, 40))
    cells = {
        name: draw(st.lists(st.none() | held, min_size=rows, max_size=rows))
        for name, (held, _) in KINDS.items()
    }
    table = pa.table({name: pa.array(column, TYPES[name]) for name, column in cells.items()})
    if draw(st.booleans()):
        table = pa.concat_tables([table, table.schema.empty_table(), nulls_like(table, 1000)])
    cut = draw(st.integers(0, rows))
    return draw(st.sampled_from([table, pa.concat_tables([table[:cut], table[cut:]])]))


@st.composite
def leaves(draw):
    name = draw(st.sampled_from(sorted(KINDS)))
    value = KINDS[name][1]
    if name in ("tags", "counts"):
        kind = draw(st.sampled_from([ContainsAny, ContainsAll]))
        return kind(name, tuple(draw(st.lists(value, min_size=1, max_size=3))))
    if draw(st.booleans()):
        return Equals(name, draw(value))
    return In(name, tuple(draw(st.lists(value, min_size=1, max_size=4))))


LEAVES = leaves()
OTHERS = st.one_of(
    st.builds(lambda low: Range("whole", gte=low), st.integers(-2, 3)),
    st.builds(lambda text: Prefix("text", text), st.sampled_from(["", "a", "é"])),
    st.sampled_from(sorted(KINDS)).map(Exists),
    LEAVES.map(Not),
    st.builds(lambda *pair: Or(pair), LEAVES, LEAVES),
)
FILTERS = st.recursive(
    st.one_of(LEAVES, LEAVES, OTHERS),
    lambda inner: st.lists(inner, min_size=1, max_size=3).map(lambda parts: And(tuple(parts))),
    max_leaves=4,
)


@pytest.fixture
def always_indexed(monkeypatch):
    """Columns are indexed however few filters name them, and no set of rows is too large to check."""
    monkeypatch.setattr("recallatk.filters.lookup._WORTHWHILE", 0)
    monkeypatch.setattr("recallatk.filters.lookup._SELECTIVE", 0)


@pytest.mark.usefixtures("always_indexed")
def test_the_lookup_agrees_with_the_mask():
    answered = 0

    @examples(100)
    @given(tables(), st.lists(FILTERS, min_size=1, max_size=6))
    def agree(table, filters):
        nonlocal answered
        lookup = Lookup(filters, table)
        answered += sum(lookup.find(condition) is not None for condition in filters)
        found = eligibility(filters, table, None, table.num_rows)
        for group, condition in zip(found.group, filters, strict=True):
            expected = np.flatnonzero(condition.mask(table)).tolist()
            assert found.sets[group].between(0, table.num_rows).tolist() == expected
            assert found.sets[group].count == len(expected)

    agree()
    assert answered > examples(100).max_examples // 2


def filters_of(texts):
    return [text and parse_filter(text) for text in texts]


def test_few_filters_on_a_column_are_left_to_their_masks():
    table = pa.table({"a": np.arange(200) % 20, "b": np.arange(200)})
    few = filters_of(f"a = {value}" for value in range(8))
    assert not Lookup(few, table).indexes
    many = [*few, *filters_of(["a in (8, 9)", "a = 3 and b > 100", "a in (1, 2, 3) and b > 100", "a >= 0"])]
    lookup = Lookup(many, table)
    assert lookup.indexes.keys() == {("a", False)}
    # Of the last but one, too many rows remain for checking these to be any quicker.
    assert [each is not None for each in map(lookup.find, many)] == [True] * 10 + [False] * 2
    assert lookup.find(many[9]).between(0, 200).tolist() == [103, 123, 143, 163, 183]


def test_values_that_are_one_to_the_column_find_the_same_rows():
    table = pa.table({"n": [1, 2, *[None] * 500], "x": [-0.0, 0.0, *[NAN] * 500]})
    ones = filters_of(["n = 1", "n = 1.0", "n in (1, 1.0)", "n = 1 and n = 1.0"])
    zeros = filters_of(["x = 0", "x = 0.0", "x = -0.0", "x in (0, -0.0, 0.0)"])
    others = filters_of(f"n = {value} and x = {value}" for value in range(10, 20))
    assert Lookup([*ones, *zeros, *others], table).indexes.keys() == {("n", False), ("x", False)}
    found = eligibility([*ones, *zeros, *others], table, None, 502)
    assert [each.between(0, 502).tolist() for each in found.sets[:8]] == [[0]] * 4 + [[0, 1]] * 4
    assert list(found.counts) == [1] * 4 + [2] * 4 + [0] * 10


MANY = [f"n = {value}" for value in range(20)]


@pytest.mark.parametrize(
    "faulty",
    [
        "n = 'x'",
        "n in (1, 'x')",
        "n = true",
        "n = 1 and s = 1",
        "n = 1 and s > 2",
        "n = 1 and missing = 2",
        "missing = 1",
        "twice = 1",
        "n = 1 and twice = 1",
        "tags = 'x'",
        "n = 1 and tags in ('x', 'y')",
        "raw > 'x'",
    ],
)
@pytest.mark.parametrize("before", [[], MANY])
def test_errors_are_those_of_the_mask(faulty, before):
    names = ["n", "s", "tags", "raw", "twice", "twice"]
    columns = [[1, None], ["x", "y"], [["x"], []], [b"x", b"y"], [1, 2], [1, 2]]
    table = pa.Table.from_arrays([pa.array(column) for column in columns], names=names)
    with pytest.raises(FilterError) as expected:
        parse_filter(faulty).mask(table)
    with pytest.raises(FilterError) as caught:
        eligibility(filters_of([*before, faulty, "n = 'a later error'", *MANY]), table, None, 2)
    assert str(caught.value) == f"query {len(before)}: {expected.value}"


def test_a_value_that_no_mask_can_hold_is_refused_wherever_it_stands():
    wide = pa.array([*["1"] * 99, "9" * 60]).cast(pa.decimal256(76, 0))
    table = pa.table({"n": np.arange(100), "wide": wide})
    texts = [*MANY, *(f"n = 1 and wide = {value}" for value in range(10))]
    with pytest.raises(FilterError) as expected:
        parse_filter("n = 1 and wide = 0").mask(table)
    with pytest.raises(FilterError) as caught:
        eligibility(filters_of(texts), table, None, 100)
    assert str(caught.value) == f"query {len(MANY)}: {expected.value}"


def test_dates_and_decimals_are_looked_up_as_they_are_compared():
    days = pa.array(["2024-02-28", "2024-02-29", None]).cast(pa.date32())
    table = pa.table({"day": days, "price": pa.array([1, None, 2]).cast(pa.decimal128(21, 2))})
    texts = [f"day = '2024-02-{day}'" for day in range(10, 30)]
    texts += [f"price in ({price}, {price}.00, {price + 1})" for price in range(20)]
    filters = filters_of(texts)
    assert Lookup(filters, table).indexes.keys() == {("day", False), ("price", False)}
    for members, condition in zip(eligibility(filters, table, None, 3).sets, filters, strict=True):
        assert list(members.mask(0, 3)) == list(condition.mask(table))


@pytest.mark.parametrize("rows", [3, 5])
def test_metadata_of_another_length_is_refused_though_it_was_looked_up(rows):
    with pytest.raises(FilterError, match=f"the metadata has {rows}, the corpus 4"):
        eligibility(filters_of(MANY), pa.table({"n": np.arange(rows)}), None, 4)


@st.composite
def eligibilities(draw):
    """Sets as Python has them, with the Eligibility of some queries on them."""
    rows = draw(st.integers(1, 60))
    some = st.lists(st.none() | row_sets(rows).map(lambda drawn: drawn[1]), min_size=1, max_size=5)
    sets = draw(some)
    group = draw(st.lists(st.integers(0, len(sets) - 1), min_size=1, max_size=12))
    own = st.lists(st.integers(-1, rows - 1), min_size=len(group), max_size=len(group))
    own_rows = draw(st.none() | own)
    made = Eligibility(
        tuple(None if each is None else packed(rows, each) for each in sets),
        np.array(group),
        None if own_rows is None else np.array(own_rows),
        rows,
    )
    return made, [set(range(rows)) if sets[number] is None else sets[number] for number in group]


@given(eligibilities(), st.data())
def test_eligible_rows_are_those_of_the_set_but_the_own_one(drawn, data):
    found, members = drawn
    own = [None] * len(members) if found.own_rows is None else found.own_rows.tolist()
    assert list(found.counts) == [len(each - {row}) for each, row in zip(members, own, strict=True)]
    pair = st.tuples(st.integers(0, len(members) - 1), st.integers(-2, found.corpus_rows - 1))
    pairs = data.draw(st.lists(pair, max_size=60))
    queries, rows = np.array(pairs, np.int64).reshape(-1, 2).T
    assert list(found.allowed(queries, rows, own=True)) == [row in members[query] for query, row in pairs]
    expected = [row in members[query] - {own[query]} for query, row in pairs]
    assert list(found.allowed(queries, rows)) == expected
    which = np.array(data.draw(st.permutations(range(len(members)))))[: len(members) // 2 + 1]
    part = found.subset(which)
    assert list(part.counts) == list(found.counts[which])
    assert len(part.sets) == len(set(part.group.tolist()))
    everything = np.arange(found.corpus_rows)
    for place, query in enumerate(which):
        of_part, of_all = (np.full(found.corpus_rows, number) for number in (place, query))
        assert list(part.allowed(of_part, everything)) == list(found.allowed(of_all, everything))


def test_more_sets_than_16_bits_can_number():
    rows = 2**16 + 10
    sets = tuple(RowSet.of_rows(np.array([row]), rows) for row in range(rows))
    found = Eligibility(sets, np.arange(rows), None, rows)
    queries = np.array([rows - 1, 9, rows - 1, 9])
    assert found.allowed(queries, np.array([rows - 1, 9, 9, rows - 1])).tolist() == [True, True, False, False]


def test_thousands_of_filters_take_little_memory():
    rows, count = 200_000, 2_000
    table = pa.table({"n": np.arange(rows) % count, "even": np.arange(rows) % 2 == 0})
    found = eligibility(
        filters_of([*(f"n = {value}" for value in range(count)), "even = true"]), table, None, rows
    )
    assert len(found.sets) == count + 1
    assert sum(each.nbytes for each in found.sets) < rows * count / 4
    assert list(found.counts) == [rows // count] * count + [rows // 2]
