"""The text form: what it accepts, what it says when it does not, and how names and values are quoted."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from examples import examples
from recallatk import Filter, parse_filter
from recallatk.errors import FilterError
from recallatk.filters import And, ContainsAll, ContainsAny, Equals, Exists, In, Not, Or, Prefix, Range


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        (
            "category = 'noun.animal' and n_words >= 5",
            And((Equals("category", "noun.animal"), Range("n_words", gte=5))),
        ),
        ("a = 1 or b = 2 and not c = 3", Or((Equals("a", 1), And((Equals("b", 2), Not(Equals("c", 3))))))),
        ("(a = 1 or b = 2) and c = 3", And((Or((Equals("a", 1), Equals("b", 2))), Equals("c", 3)))),
        ("a == -1", Equals("a", -1)),
        ("a = +1.5e3", Equals("a", 1500.0)),
        ("a = .5", Equals("a", 0.5)),
        ("a != 'x'", Not(Equals("a", "x"))),
        ("a <> 'x'", Not(Equals("a", "x"))),
        ("a in (1, 2.5, -3)", In("a", (1, 2.5, -3))),
        ("a not in ('x')", Not(In("a", ("x",)))),
        ("a between 1 and 2 and b = 1", And((Range("a", gte=1, lte=2), Equals("b", 1)))),
        ("a not between 1 and 2", Not(Range("a", gte=1, lte=2))),
        ("a is null", Not(Exists("a"))),
        ("a is not null", Exists("a")),
        ("a exists", Exists("a")),
        ("a", Equals("a", True)),
        ("not a or (b and c)", Or((Not(Equals("a", True)), And((Equals("b", True), Equals("c", True)))))),
        ("a like 'x%'", Prefix("a", "x")),
        ("a LIKE '%'", Prefix("a", "")),
        ("a not like 'x%'", Not(Prefix("a", "x"))),
        ("a starts with '50%_'", Prefix("a", "50%_")),
        ("a not starts with 'x'", Not(Prefix("a", "x"))),
        ("a contains 'x'", ContainsAny("a", ("x",))),
        ("a contains any ('x', 2)", ContainsAny("a", ("x", 2))),
        ("a contains all ('x')", ContainsAll("a", ("x",))),
        ("a not contains 3", Not(ContainsAny("a", (3,)))),
        ("like = 1 and all contains any (1)", And((Equals("like", 1), ContainsAny("all", (1,))))),
        ("NOT a = TRUE AND B = False", And((Not(Equals("a", True)), Equals("B", False)))),
        ("not not a = 1", Not(Not(Equals("a", 1)))),
        ("meta.year < 2000", Range("meta.year", lt=2000)),
        ("\"and\" = 'it''s'", Equals("and", "it's")),
        ('"say ""hi""" = 1', Equals('say "hi"', 1)),
        ("'' <> a", None),
        ("a=1and b=2", None),
        ("\"\" = ''", Equals("", "")),
        ("\u00a0a\u2003=\n1\t", Equals("a", 1)),
    ],
)
def test_the_text_form_reads_as_sql_does(text, condition):
    if condition is None:
        with pytest.raises(FilterError, match="expected"):
            parse_filter(text)
    else:
        assert parse_filter(text) == condition


@pytest.mark.parametrize(
    ("text", "expected", "position"),
    [
        ("", "a column name", 1),
        ("   ", "a column name", 4),
        ("a b", "=, !=, <, <=, >, >=, in, between, is, like, starts with or contains", 3),
        ("a =", "'text', a number, true or false", 4),
        ("a = b", "'text', a number, true or false", 5),
        ("a = null", "is null", 5),
        ("a = 1 b = 2", "'and', 'or' or the end", 7),
        ("(a = 1", "'\\)'", 7),
        ("a in ()", "'text', a number, true or false", 7),
        ("a in (1 2)", "'\\)'", 9),
        ("a is 1", "'null'", 6),
        ("a not = 1", "in, between, like, starts with or contains", 7),
        ("a like 5", "'text%', without other", 8),
        ("a like 'x'", "'text%', without other", 8),
        ("a like '%x%'", "write starts with 'text'", 8),
        ("a like 'x_%'", "'text%', without other", 8),
        ("a like 'x\\\\%'", "'text%', without other", 8),
        ("a starts 'x'", "'with'", 10),
        ("a starts with 5", "'text'", 15),
        ("a contains", "'text', a number, true or false", 11),
        ("a contains any 'x'", "'\\('", 16),
        ("a contains all ()", "'text', a number, true or false", 17),
        ("a between 1 or 2", "'and'", 13),
        ("and = 1", "a column name", 1),
        ("a = 'open", "a column, a value or an operator", 5),
        ("a = 1   ; drop", "a column, a value or an operator", 9),
        ("a = 1x", "a column, a value or an operator", 5),
        ("a = ٣", "a column, a value or an operator", 5),
    ],
)
def test_a_syntax_error_names_the_place_and_what_was_expected(text, expected, position):
    with pytest.raises(FilterError, match=expected) as caught:
        parse_filter(text)
    assert f"(character {position})" in str(caught.value)


@pytest.mark.parametrize("text", ["a = 1e999", "a = " + "9" * 400, "a = -" + "9" * 5000, "flag >= true"])
def test_numbers_that_no_column_holds_are_refused(text):
    with pytest.raises(FilterError):
        parse_filter(text)


WORDS = (
    "a and or not in is null between exists true ( ) , = < >= <> 'x' \"q\" 1 -2.5 1e9 ' \" . ! \0 é \ud800 "
    "like starts with contains any all 'x%'"
)
TOKENS = st.sampled_from(WORDS.split(" "))


@examples(400)
@given(st.one_of(st.text(), st.lists(TOKENS, max_size=12).map(" ".join)))
@example("a = '\ud800'")
@example("(" * 5000)
@example("not " * 5000 + "a = 1")
@example("a = " + "1" * 100_000)
def test_any_text_is_a_filter_or_a_filter_error(text):
    try:
        condition = parse_filter(text)
    except FilterError:
        return
    assert isinstance(condition, Filter)
    assert parse_filter(str(condition)).columns() == condition.columns()


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"])))
def test_every_column_name_and_every_text_can_be_written(column, value):
    assert parse_filter(str(Equals(column, value))) == Equals(column, value)


@pytest.mark.parametrize(
    "word", ["and", "OR", "Not", "in", "is", "null", "between", "true", "false", "exists"]
)
def test_reserved_words_are_quoted_as_names(word):
    assert str(Exists(word)) == f'"{word}" is not null'
    assert parse_filter(str(Exists(word))) == Exists(word)


def test_a_dotted_name_is_written_in_quotes_because_sql_would_read_a_table():
    assert str(Equals("a.b", 1)) == '"a.b" = 1'


def test_numbers_of_numpy_are_written_as_numbers():
    assert str(Equals("a", np.float64(0.5))) == "a = 0.5"
    assert parse_filter(str(Equals("a", np.float64(0.5)))) == Equals("a", 0.5)


def test_nesting_is_bounded_and_the_bound_is_said():
    deep = "(" * 90 + "a = 1" + ")" * 90
    assert parse_filter(deep) == Equals("a", 1)
    for text in ("(" * 200 + "a = 1" + ")" * 200, "not " * 200 + "a = 1"):
        with pytest.raises(FilterError, match="nested more than 100 levels deep"):
            parse_filter(text)


def test_many_negations_are_read_back_as_they_were_written():
    condition = parse_filter("not " * 80 + "a = 1")
    assert parse_filter(str(condition)) == condition


def test_a_long_chain_is_wide_and_not_deep():
    both, either = Equals("a", 0), Equals("a", 0)
    for value in range(1, 3000):
        both, either = both & Equals("a", value), either | Equals("a", value)
    assert len(both.operands) == len(either.operands) == 3000
    assert parse_filter(str(both)) == both
    assert parse_filter(str(either)) == either
    assert str(~(both.operands[0] | both.operands[1])) == "not (a = 0 or a = 1)"


def test_a_list_of_a_hundred_thousand_values_is_read_in_one_pass():
    condition = parse_filter(f"a in ({', '.join(map(str, range(100_000)))})")
    assert condition.values[-1] == 99_999
