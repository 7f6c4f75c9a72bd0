"""Recall by corpus row against its definition, written down with Python's sets and fractions."""

from collections import defaultdict
from datetime import date
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from examples import examples
from recallatk import assess, make_corpus
from recallatk.analysis.compared import Compared
from recallatk.analysis.ratios import ratio_interval, ratio_of
from recallatk.analysis.row_segments import row_groupings, segments_by_row, wanted_rows
from recallatk.analysis.segments import by_column
from recallatk.core import Metric, Truth, Weights
from recallatk.errors import UsageError

ROWS, SOURCES = 10, ["a", "b", "c", None, "a", "a", "b", "c", "a", "b"]
LABELS = {"a", "b", "c", "(no value)"}


def corpus_of(**columns):
    count = len(next(iter(columns.values())))
    return make_corpus(np.ones((count, 1)), [f"id-{row}" for row in range(count)], columns)


def truth_of(queries, depth):
    """The truth of rows by (score, row), smaller scores first, with ties beyond the depth."""
    rows, scores = np.full((len(queries), depth), -1), np.full((len(queries), depth), np.nan)
    beyond = []
    for number, scored in enumerate(queries):
        order = sorted(scored)
        for place, (value, row) in enumerate(order[:depth]):
            rows[number, place], scores[number, place] = row, value
        last = order[min(depth, len(order)) - 1][0] if order else None
        beyond.append([row for value, row in order[depth:] if value == last])
    flat = np.array([row for block in beyond for row in block], np.int64)
    offsets = np.cumsum([0, *map(len, beyond)])
    eligible = np.array([len(scored) for scored in queries])
    return Truth(rows, scores, eligible, Metric.L2, overflow=(offsets, flat), corpus_rows=ROWS)


def naive_parts(answer, scored, k):
    """The wanted and the found part of every row of one query."""
    order = sorted(scored)
    cut = min(k, len(order))
    if not cut:
        return {}
    returned = set([each for each in dict.fromkeys(answer) if each >= 0][:k])
    boundary = order[cut - 1][0]
    better = [row for score, row in order if score < boundary]
    tied = [row for score, row in order if score == boundary]
    left, hit = cut - len(better), [row for row in tied if row in returned]
    parts = {row: (Fraction(1), Fraction(row in returned)) for row in better}
    for row in tied:
        if row in returned:
            part = min(Fraction(1), Fraction(left, len(hit)))
            parts[row] = (part, part)
        elif left > len(hit):
            parts[row] = (Fraction(left - len(hit), len(tied) - len(hit)), Fraction(0))
    return parts


QUERY = st.tuples(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, ROWS - 1)), max_size=ROWS, unique_by=lambda e: e[1]),
    st.lists(st.integers(-1, ROWS - 1), min_size=6, max_size=6),
)


@examples(200)
@given(st.lists(QUERY, min_size=1, max_size=6), st.integers(1, 6), st.integers(0, 2))
def test_shares_equal_their_definition(queries, k, deeper):
    scored, answers = zip(*queries, strict=True)
    compared = Compared(truth_of(scored, k + deeper), np.array(answers))
    wanted, found = defaultdict(Fraction), defaultdict(Fraction)
    for rows, answer in queries:
        for row, (part, hit) in naive_parts(answer, rows, k).items():
            wanted[SOURCES[row] or "(no value)"] += part
            found[SOURCES[row] or "(no value)"] += hit
    groupings = row_groupings(corpus_of(source=SOURCES), ["source"])
    told = segments_by_row(compared, k, groupings).columns["source"]
    assert {each.name for each in told} == {name for name in LABELS if wanted[name]}
    for each in told:
        assert each.neighbors == pytest.approx(float(wanted[each.name]))
        assert each.share.value == pytest.approx(float(found[each.name] / wanted[each.name]))
    values = [each.share.value for each in told]
    assert values == sorted(values)
    # The parts of a query add up to its hits and to the number of rows to find.
    parts, hits = wanted_rows(compared, k), compared.hits(k)
    for sums, whole in ((parts.wanted, hits.cut), (parts.found, hits.tie_aware)):
        assert np.bincount(parts.query, sums, len(queries)) == pytest.approx(whole)


@examples(60)
@given(st.lists(st.tuples(QUERY, st.integers(0, 4)), min_size=1, max_size=6), st.integers(1, 4))
def test_a_weight_counts_a_query_as_often(weighted, k):
    queries, counts = zip(*weighted, strict=True)
    scored, answers = zip(*queries, strict=True)
    groupings = row_groupings(corpus_of(source=SOURCES), ["source"])
    weights = Weights("count", np.array(counts, np.float64))
    truth, given = truth_of(scored, k), np.array(answers)
    told = segments_by_row(Compared(truth, given), k, groupings, weights)
    again = np.repeat(np.arange(len(counts)), counts)
    plain = segments_by_row(Compared(truth, given), k, groupings)
    assert told.weight == "count" and plain.weight is None
    assert told.never_found.count == plain.never_found.count
    if not len(again):
        assert told.share.value is None and told.columns["source"] == []
        return
    repeated = truth_of([scored[each] for each in again], k)
    expected = segments_by_row(Compared(repeated, given[again]), k, groupings)
    values = {each.name: each.share.value for each in expected.columns["source"]}
    assert {each.name: each.share.value for each in told.columns["source"]} == pytest.approx(values)
    unweighted = {each.name: each.share.value for each in plain.columns["source"]}
    for each in told.columns["source"]:
        assert each.share.unweighted == pytest.approx(unweighted[each.name])
        assert each.share.low - 1e-9 <= each.share.value <= each.share.high + 1e-9
        assert each.share.effective <= each.share.n + 1e-9


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 5)), min_size=1, max_size=40), st.integers(1, 9))
def test_equal_weights_change_no_bit_of_a_ratio(pairs, weight):
    wholes = np.array([whole for _, whole in pairs], np.float64)
    parts = np.minimum([part for part, _ in pairs], wholes)
    plain, found = ratio_of(parts, wholes), ratio_of(parts, wholes, np.full(len(parts), float(weight)))
    assert (found.value, found.low, found.high, found.n) == (plain.value, plain.low, plain.high, plain.n)
    assert (found.unweighted, found.effective) == (plain.value, pytest.approx(plain.n))


def test_heavy_queries_without_a_miss_leave_room_for_one():
    wholes, weights = np.full(100, 10.0), np.repeat([1000.0, 1.0], 50)
    parts = np.concatenate([np.full(90, 10.0), np.zeros(10)])
    found = ratio_of(parts, wholes, weights)
    assert found.value == pytest.approx(1 - 10 / 50_050)
    assert 0.9 < found.low < 1 - 2 / 50 and found.effective == pytest.approx(50.1, abs=0.01)


def test_rows_that_no_query_receives_are_named_with_their_counts():
    truth = Truth(np.tile([[3, 1, 2]], (12, 1)), None, None, Metric.L2, corpus_rows=ROWS)
    answers = np.tile([[1, 9, 8]], (12, 1))
    answers[:2, 1] = 2
    # A query without answers says nothing about single rows.
    answers[11] = -1
    told = segments_by_row(Compared(truth, answers), 3, [])
    assert [(each.row, each.queries, each.found) for each in told.never_found.rows] == [(3, 11, 0)]
    assert [(each.row, each.queries, each.found) for each in told.lost_hubs.rows] == [(2, 11, 2)]
    few = segments_by_row(Compared(truth.take(np.arange(4)), answers[:4]), 3, [])
    assert few.never_found.count == 0


def test_at_most_twenty_rows_are_named_and_all_are_counted():
    truth = Truth(np.tile(np.arange(30), (5, 1)), None, None, Metric.L2, corpus_rows=100)
    told = segments_by_row(Compared(truth, np.full((5, 1), 50)), 30, [])
    assert (told.never_found.count, len(told.never_found.rows)) == (30, 20)


def test_values_that_few_queries_want_are_not_ranked():
    truth = Truth(np.tile([[0, 1]], (30, 1)), None, None, Metric.L2, corpus_rows=3)
    truth.rows[:9, 1] = 2
    answers = np.tile([[0, -1]], (30, 1))
    groupings = row_groupings(corpus_of(source=["x", "y", "z"]), ["source"])
    told = segments_by_row(Compared(truth, answers), 2, groupings).columns["source"]
    assert [(each.name, each.share.n, each.judged) for each in told] == [
        ("y", 21, True),
        ("x", 30, True),
        ("z", 9, False),
    ]


def test_ratios_of_equal_wholes_are_means_with_about_their_interval():
    random = np.random.default_rng(1)
    parts, wholes = random.integers(0, 11, 400) / 1.0, np.full(400, 10.0)
    found = ratio_of(parts, wholes)
    whole = stats.bootstrap(
        (parts / 10,), np.mean, random_state=random, n_resamples=4_999
    ).confidence_interval
    assert found.value == pytest.approx((parts / 10).mean())
    assert (found.low, found.high) == pytest.approx((whole.low, whole.high), abs=0.004)


def test_ratios_resample_queries_like_scipy():
    random = np.random.default_rng(2)
    wholes = random.integers(1, 11, 300) / 1.0
    parts = random.binomial(wholes.astype(int), random.beta(4, 1, 300)) / 1.0
    drawn = stats.bootstrap(
        (parts, wholes),
        lambda x, y, axis: x.sum(axis=axis) / y.sum(axis=axis),
        paired=True,
        n_resamples=4_999,
        random_state=random,
    ).confidence_interval
    assert ratio_interval(parts, wholes) == pytest.approx((drawn.low, drawn.high), abs=0.006)


@pytest.mark.parametrize(("queries", "recall"), [(15, 0.7), (60, 0.9), (300, 0.95)])
def test_the_interval_holds_the_true_share(queries, recall):
    """Clustered neighbors: the recall of a query varies, and so does the number of neighbors it has."""
    random, repeats = np.random.default_rng(queries), 300
    wholes = random.integers(1, 11, (repeats, queries))
    parts = random.binomial(wholes, random.beta(4 * recall, 4 * (1 - recall), wholes.shape))
    ends = [ratio_interval(x / 1.0, y / 1.0) for x, y in zip(parts, wholes, strict=True)]
    covered = np.mean([low <= recall <= high for low, high in ends])
    assert 0.91 <= covered <= 0.985


def test_nothing_that_varies_still_leaves_uncertainty():
    low, high = ratio_interval(np.full(20, 3.0), np.full(20, 3.0))
    assert (low, high) == (pytest.approx(0.05 ** (1 / 20)), 1.0)
    assert ratio_of(np.zeros(2), np.zeros(2)).value is None


def test_dates_are_grouped_by_year_or_by_quarter():
    days = [date(2019, 5, 1), date(2021, 1, 31), None, date(2020, 12, 31)]
    assert list(by_column(pa.table({"day": days}), "day").labels) == ["2019", "2021", None, "2020"]
    near = [date(2020, 5, 1), date(2021, 1, 31), None, date(2020, 12, 31)]
    grouped = by_column(pa.table({"day": pa.array(near).cast(pa.timestamp("us"))}), "day")
    assert list(grouped.labels) == ["2020 Q2", "2021 Q1", None, "2020 Q4"]
    assert grouped.order == ("2020 Q2", "2020 Q4", "2021 Q1")


def test_assessments_group_true_neighbors_by_corpus_columns():
    corpus = corpus_of(source=SOURCES, age=list(range(ROWS)))
    given = {"truth": [["id-1", "id-0"]] * 12, "answers": [["id-1", "id-2"]] * 12, "corpus": corpus}
    found = assess(**given, at=[2], by_row=["source", "age"])
    told = found.rows.columns["source"]
    assert [(each.name, each.share.value) for each in told] == [("a", 0.0), ("b", 1.0)]
    assert [each.id for each in found.rows.never_found.rows] == ["id-0"]
    assert "1 row is never found, although it is a true neighbor of" in str(found)
    with pytest.raises(UsageError, match=r"no corpus column .sorce.\. Did you mean source"):
        assess(**given, by_row=["sorce"])
    with pytest.raises(UsageError, match="needs the corpus"):
        assess(**given | {"corpus": None}, by_row=["source"])
