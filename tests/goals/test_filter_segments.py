"""Targets for queries by their filters: segments that need no column."""

import dataclasses

import numpy as np
import pyarrow as pa
import pytest

from recallatk import make_corpus, make_queries, open_dataset, parse_filter
from recallatk.analysis.filtered import filter_facts
from recallatk.core import FilterFacts
from recallatk.errors import UsageError
from recallatk.goals import parse_goal, require_answerable

FACTS = FilterFacts(
    np.array([False, True, True, True, True]),
    np.array([1000, 300, 50, 50, 5]),
    1000,
    np.array([100, 30, 40, 5, 0]),
    100,
)


def inside(text, columns=None, facts=FACTS):
    return np.flatnonzero(parse_goal(f"recall@10 >= 0.9 in {text}").members(columns, 5, facts)).tolist()


@pytest.mark.parametrize(
    ("text", "members"),
    [
        ("filter=filtered", [1, 2, 3, 4]),
        ("filter=unfiltered", [0]),
        ("selectivity='all rows'", [0]),
        ("selectivity='10 to 100 %'", [1]),
        ("selectivity='1 to 10 %'", [2, 3]),
        ("selectivity='1 to 10% of the rows'", [2, 3]),
        ("selectivity='0.1 to 1 %'", [4]),
        ("correlation=positive", [2]),
        ("correlation=none", [1, 3, 4]),
    ],
)
def test_segments_by_filter_need_no_column(text, members):
    assert inside(text) == members
    goal = parse_goal(f"recall@10 >= 0.9 in {text}")
    assert parse_goal(str(goal)) == goal


def test_a_query_column_of_the_name_comes_first():
    columns = pa.table({"selectivity": ["a", "b", "b", "a", "a"]})
    assert inside("selectivity=b", columns) == [1, 2]
    assert inside("selectivity='1 to 10 %'", columns) == [2, 3], "no query has this value in the column"


@pytest.mark.parametrize(
    ("text", "facts", "said"),
    [
        ("selectivity='2 to 3 %'", FACTS, r"no query has selectivity = '2 to 3 %'. Its values: 0.1 to 1%"),
        (
            "correlation=negative",
            FACTS,
            "correlation = 'negative'. Its values: none or positive",
        ),
        ("selectivity='1 to 10 %'", None, "no query column 'selectivity', and the filters"),
        ("correlation=none", dataclasses.replace(FACTS, near=None), "no query column 'correlation'"),
    ],
)
def test_what_cannot_be_told_is_refused_with_what_can(text, facts, said):
    with pytest.raises(UsageError, match=said):
        inside(text, facts=facts)


def test_goals_are_checked_against_the_data_before_anything_is_measured():
    corpus = make_corpus(np.eye(40, dtype="float32"), metadata={"n": np.arange(40)})
    queries = make_queries(np.eye(40, dtype="float32")[:4])
    plain = open_dataset(corpus, queries, metric="l2")
    filtered = open_dataset(corpus, queries.where(parse_filter("n < 20")), metric="l2")
    assert filter_facts(filtered).eligible.tolist() == [20] * 4
    fine = [parse_goal("recall@1 >= 0.9 in selectivity='10 to 100 %'"), parse_goal("recall@1 >= 0.9")]
    require_answerable(fine, filtered)
    with pytest.raises(UsageError, match="the filters of the queries do not tell it"):
        require_answerable(fine, plain)
    with pytest.raises(UsageError, match="no query has selectivity = '1 to 10 %'"):
        require_answerable([parse_goal("recall@1 >= 0.9 in selectivity='1 to 10 %'")], filtered)
    with pytest.raises(UsageError, match="Accepted: negative, none or positive"):
        require_answerable([parse_goal("recall@1 >= 0.9 in correlation=some")], filtered)
