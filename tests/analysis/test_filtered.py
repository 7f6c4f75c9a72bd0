"""Filtered queries apart from unfiltered ones, against definitions written out in plain Python."""

import dataclasses
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom

from recallatk import ground_truth, make_corpus, make_queries, open_dataset, parse_filter
from recallatk.analysis.filtered import (
    CORRELATION,
    FILTER,
    NEGATIVE,
    NONE,
    POSITIVE,
    by_correlation,
    filter_facts,
    filter_groups,
    violations,
)
from recallatk.analysis.segments import SELECTIVITY
from recallatk.core import (
    Build,
    Calls,
    FilterFacts,
    Measurement,
    Refusals,
    RefusedFilter,
    Score,
    Trial,
    Weights,
)

ROWS = 60


def naive_label(rows, passing, drawn, near):
    """The definition in exact fractions: numbers of ways, counted."""
    ways = {
        count: comb(passing, count) * comb(rows - passing, drawn - count)
        for count in range(drawn + 1)
        if count <= passing and drawn - count <= rows - passing
    }
    total = comb(rows, drawn)
    if near * rows > 2 * drawn * passing and 40 * sum(n for c, n in ways.items() if c >= near) < total:
        return POSITIVE
    if 2 * near * rows < drawn * passing and 40 * sum(n for c, n in ways.items() if c <= near) < total:
        return NEGATIVE
    return NONE


@given(data=st.data(), rows=st.integers(2, 400))
def test_correlation_is_a_ratio_of_shares_beyond_chance(data, rows):
    drawn = data.draw(st.integers(1, min(rows, 100)))
    passing = data.draw(st.integers(1, rows))
    near = data.draw(st.integers(max(0, drawn - rows + passing), min(drawn, passing)))
    facts = FilterFacts(np.array([True]), np.array([passing]), rows, np.array([near]), drawn)
    tails = hypergeom.cdf(near, rows, passing, drawn), hypergeom.sf(near - 1, rows, passing, drawn)
    if min(abs(tail - 0.025) for tail in tails) > 1e-9:
        assert by_correlation(facts).labels[0] == naive_label(rows, passing, drawn, near)


def test_unfiltered_queries_and_those_without_eligible_rows_have_no_correlation():
    facts = FilterFacts(np.array([False, True, True]), np.array([10, 0, 5]), 10, np.array([3, 0, 2]), 3)
    assert by_correlation(facts).labels.tolist() == [None, None, NONE]
    assert by_correlation(dataclasses.replace(facts, near=None, depth=None)) is None


@pytest.fixture(scope="module")
def planted():
    """Two clusters; filters pass a part of the near one, the far one, a random third, or all rows."""
    random = np.random.default_rng(0)
    centers = np.repeat([[0.0, 0.0], [9.0, 9.0]], [200, 800], axis=0)
    corpus = make_corpus(
        (centers + random.normal(size=(1000, 2))).astype("float32"),
        metadata={"side": np.repeat(["near", "far"], [200, 800]), "third": random.integers(0, 3, 1000)},
    )
    queries = make_queries(random.normal(size=(40, 2)).astype("float32"))
    texts = ["side = 'near' and third = 0", "side = 'far'", "third = 1", None] * 10
    filters = tuple(None if each is None else parse_filter(each) for each in texts)
    return open_dataset(corpus, dataclasses.replace(queries, filters=filters), metric="l2")


def test_planted_correlations_are_recovered(planted):
    without = dataclasses.replace(planted, queries=planted.queries.where(None))
    truth = ground_truth(without, depth=100)
    facts = filter_facts(planted, truth)
    masks = [None if each is None else each.mask(planted.corpus.metadata) for each in planted.queries.filters]
    for query, mask in enumerate(masks):
        passing = 1000 if mask is None else int(mask.sum())
        near = sum(mask is None or bool(mask[row]) for row in truth.rows[query])
        assert (facts.filtered[query], facts.eligible[query]) == (mask is not None, passing)
        assert facts.near[query] == near
    labels = by_correlation(facts).labels.tolist()
    assert set(labels[0::4]) == {POSITIVE}
    assert set(labels[1::4]) == {NEGATIVE} and set(labels[2::4]) == {NONE} and set(labels[3::4]) == {None}
    assert filter_facts(without, truth) is None
    assert filter_facts(planted).near is None


def naive_groups(measurement, facts, labels):
    """Recall, short answers, violations and refusals of each group, query by query."""
    values, found = measurement.values("recall@3"), {}
    for name in {each for each in labels if each is not None}:
        members = [query for query, label in enumerate(labels) if label == name]
        answered = [query for query in members if measurement.asked[query]]
        weights = np.ones(len(values)) if measurement.weights is None else measurement.weights
        scored = [query for query in answered if not np.isnan(values[query]) and weights[query]]
        total = sum(weights[query] for query in scored)
        gained = sum(values[query] * weights[query] for query in scored)
        listed = [[row for row in measurement.answers[query] if 0 <= row < ROWS] for query in answered]
        short = [
            len(set(rows)) < min(3, facts.eligible[query])
            for rows, query in zip(listed, answered, strict=True)
        ]
        returned = sum(map(len, listed))
        found[name] = (
            len(members),
            sum(measurement.refused.numbers[query] >= 0 for query in members),
            pytest.approx(gained / total) if scored else None,
            pytest.approx(sum(short) / len(short)) if short else None,
            pytest.approx(sum(measurement.violations[query] for query in answered) / returned)
            if returned
            else None,
        )
    return found


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), queries=st.integers(1, 12))
def test_rates_of_groups_are_as_counted_query_by_query(seed, queries):
    random = np.random.default_rng(seed)
    filtered = random.random(queries) < 0.7
    eligible = np.where(filtered, random.integers(0, ROWS, queries), ROWS)
    near = np.where(filtered, random.integers(0, 1 + np.minimum(eligible, 10)), 10)
    facts = FilterFacts(filtered, eligible, ROWS, near, 10)
    refused = filtered & (random.random(queries) < 0.3)
    asked = ~refused
    answers = np.where(asked[:, None], random.integers(-1, ROWS + 3, (queries, 3)), -1)
    recalls = np.where(eligible[asked] > 0, random.integers(0, 4, asked.sum()) / 3, np.nan)
    weights = Weights("count", random.integers(0, 5, asked.sum()).astype(float)) if seed % 2 else None
    order = np.flatnonzero(asked).astype(np.int32)
    calls = Calls(
        order,
        *(np.zeros(len(order), dtype) for dtype in (np.int16, np.int16, np.int64)),
        latency_ns=np.arange(len(order)),
        late_ns=np.zeros(len(order), np.int64),
        round_ns=np.array([9]),
    )
    measurement = Measurement(
        Trial("e", (), ()),
        Build("e", None, (), 1, None, None, None),
        3,
        answers,
        calls,
        None,
        Score(len(order), len(order), {}, {}, {"recall@3": recalls}, weights=weights),
        refused=Refusals(np.where(refused, 0, -1), (RefusedFilter("f", int(refused.sum()), "why"),)),
        filters=facts,
        violations=np.minimum(random.integers(0, 3, queries), (answers >= 0).sum(axis=1)),
    )
    groups = filter_groups(measurement, "recall@3")
    share = eligible / ROWS
    decades = [
        None if each == 0 else "all rows" if each == 1 else "10 to 100 %" if each >= 0.1 else "1 to 10 %"
        for each in share
    ]
    labels = {
        FILTER: ["filtered" if each else "unfiltered" for each in filtered],
        SELECTIVITY: [each if each in (None, "all rows") else f"{each} of the rows" for each in decades],
        CORRELATION: by_correlation(facts).labels.tolist(),
    }
    for grouping, named in labels.items():
        found = {
            each.name: (each.queries, each.refused, each.recall.value, each.short, each.violations)
            for each in groups[grouping]
        }
        assert found == naive_groups(measurement, facts, named)


def test_violations_are_the_returned_rows_that_do_not_pass(planted):
    random = np.random.default_rng(1)
    answers = random.integers(-1, 1003, (40, 7))
    passing = [
        np.ones(1000, bool) if each is None else each.mask(planted.corpus.metadata)
        for each in planted.queries.filters
    ]
    expected = [
        sum(0 <= row < 1000 and not mask[row] for row in line)
        for mask, line in zip(passing, answers, strict=True)
    ]
    assert violations(planted, answers).tolist() == expected
