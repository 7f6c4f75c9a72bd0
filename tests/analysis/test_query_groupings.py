"""Groupings of queries by name: what each stands for, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from recallatk import assess, ground_truth, make_corpus, make_queries, open_dataset
from recallatk.analysis.filtered import filter_facts, named_grouping
from recallatk.analysis.query_groupings import KnownQueries, query_grouping, require_groupable, without_effort
from recallatk.analysis.segments import selectivity_grouping
from recallatk.core import Weights
from recallatk.errors import UsageError

RANDOM = np.random.default_rng(2)
LANGS = ["de", "en", None, "en"] * 10
KINDS = ["a", "b"] * 20
TEXTS = ["one two", "one two three four five six seven"] * 20
FILTERS = ["size > 5" if row % 2 else None for row in range(40)]


@pytest.fixture(scope="module")
def known():
    corpus = make_corpus(RANDOM.normal(size=(60, 4)), metadata={"size": list(range(60))})
    columns = {"lang": LANGS, "kind": KINDS, "text": TEXTS}
    queries = make_queries(RANDOM.normal(size=(40, 4)), metadata=columns, filters=FILTERS)
    dataset = open_dataset(corpus, queries, metric="l2")
    truth = ground_truth(dataset, depth=10)
    return KnownQueries(truth, queries.metadata, queries)


def labels(name, known):
    return list(query_grouping(name, known).labels)


def test_names_of_columns_come_first(known):
    assert labels("lang", known) == LANGS
    assert without_effort(["effort", "kind"], ["effort"]) == (["effort", "kind"], False)


def test_automatic_segments_have_short_names(known):
    assert query_grouping("hardness", known).name == "hardness by intrinsic dimension"
    assert query_grouping("contrast", known).name == "hardness by contrast"
    assert set(labels("selectivity", known)) == {"all rows", "10 to 100 % of the rows"}
    assert set(labels("text length", known)) == {"up to 5 words", "6 to 10 words"}
    with pytest.raises(UsageError, match="cannot be grouped by text length"):
        query_grouping("text length", KnownQueries(known.truth))


def test_weighted_queries_are_grouped_by_frequency(known):
    weights = Weights("count", np.repeat([9.0, 1.0], [10, 30]))
    weighted = replace(known, weights=weights)
    assert labels("query frequency", weighted) == ["head (half of the weight)"] * 10 + ["tail"] * 30
    assert set(labels("query frequency*kind", weighted)) >= {"tail × a", "tail × b"}
    require_groupable("query frequency*kind", known.names, weighted=True)
    require_groupable("query frequency", ["query frequency"])
    for name in ("query frequency", "kind*query frequency"):
        with pytest.raises(UsageError, match=r"no weights.*--weight COLUMN"):
            query_grouping(name, known)
        with pytest.raises(UsageError, match=r"no weights.*--weight COLUMN"):
            require_groupable(name, known.names)


def test_each_query_can_be_grouped_by_its_own_filter(known):
    assert set(labels("filter", known)) == {"no filter", "size > 5"}
    with pytest.raises(UsageError, match="no filters are known"):
        query_grouping("filter", KnownQueries(known.truth, known.columns))


@examples(30)
@given(st.sampled_from(["de", "en", "fr"]), st.sampled_from(["a", "b"]))
def test_expressions_divide_the_queries(known, lang, kind):
    text = f"lang = '{lang}' and kind = '{kind}'"
    expected = [
        text if (one, other) == (lang, kind) else "other queries"
        for one, other in zip(LANGS, KINDS, strict=True)
    ]
    assert labels(text, known) == expected


def test_two_groupings_are_crossed(known):
    crossed = labels("kind*lang", known)
    assert crossed[:4] == ["a × de", "b × en", None, "b × en"]


def test_effort_is_taken_out_of_the_names():
    assert without_effort(["kind", "effort"]) == (["kind"], True)
    assert without_effort(["kind*effort", "kind"]) == (["kind"], True)
    assert without_effort(["kind*lang"]) == (["kind*lang"], False)


@pytest.mark.parametrize("name", ["knid", "knid*lang", "knid = 'a'", "kind*", "kind*knid"])
def test_names_that_stand_for_nothing_are_refused(known, name):
    with pytest.raises(UsageError, match="no query column"):
        require_groupable(name, known.names)
    with pytest.raises(UsageError, match="no query column"):
        query_grouping(name, known)


def test_scores_take_every_form_but_effort(known):
    given = {"truth": known.truth, "answers": known.truth.rows[:, :10], "at": [10]}
    found = assess(**given, by=["kind*lang", "lang = 'de'", "hardness"]).segments
    assert {"kind × lang", "lang = 'de'", "hardness by intrinsic dimension"} <= set(found)
    assert [each.queries for each in found["lang = 'de'"]] == [10, 30]
    with pytest.raises(UsageError, match="groups the settings of a run"):
        assess(**given, by=["effort"])


def test_queries_that_exclude_only_their_own_row_may_return_all_rows():
    vectors = RANDOM.normal(size=(60, 4))
    corpus = make_corpus(vectors, metadata={"size": list(range(60))})
    queries = replace(make_queries(vectors[:40], filters=FILTERS), corpus_rows=np.arange(40))
    dataset = open_dataset(corpus, queries, metric="l2")
    expected = ["all rows" if each is None else "10 to 100 % of the rows" for each in FILTERS]
    assert labels("selectivity", KnownQueries(ground_truth(dataset, depth=10))) == expected
    facts = filter_facts(dataset)
    assert facts.eligible.max() == 59
    assert list(named_grouping("selectivity", facts).labels) == expected
    # A corpus of one row leaves such a query nothing.
    assert list(selectivity_grouping(np.array([0, 1]), 1).labels) == [None, "all rows"]
