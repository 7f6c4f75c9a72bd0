"""Every measure against its definition, and what must hold of measures whatever the answers are."""

import math

import naive_measures as naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from recallatk import ground_truth, make_corpus, make_queries, open_dataset, parse_measure, score
from recallatk.analysis.measures import (
    DiscountedGain,
    DistanceError,
    EpsilonRecall,
    InverseRatio,
    RankBiasedOverlap,
    Recall,
    RecallWithin,
    ReciprocalRank,
    Robustness,
)
from recallatk.core import Metric, Truth
from recallatk.errors import UsageError
from recallatk.filters import parse_filter

ROWS, DEPTH = 10, 6
NAMES = [f"id-{row}" for row in range(ROWS)]
CORPUS = make_corpus(np.ones((ROWS, 1)), NAMES)
AT = st.integers(1, DEPTH)
SHARES = st.sampled_from([0.1, 0.2, 0.25, 0.3, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 0.95])
SCORED = st.dictionaries(st.integers(0, ROWS - 1), st.integers(0, 3)).map(
    lambda found: sorted((value, row) for row, value in found.items())
)
ANSWER = st.lists(
    st.one_of(st.sampled_from(NAMES), st.sampled_from([None, -1, "unknown", "-1"])), max_size=16
)
QUERIES = st.lists(st.tuples(SCORED, ANSWER), min_size=1, max_size=5)


def truth_of(queries):
    """A truth of little depth, with all that ties with the last row beyond it."""
    rows, scores = np.full((len(queries), DEPTH), -1), np.full((len(queries), DEPTH), np.nan)
    beyond = []
    for number, scored in enumerate(queries):
        for place, (value, row) in enumerate(scored[:DEPTH]):
            rows[number, place], scores[number, place] = row, value
        beyond.append([row for value, row in scored[DEPTH:] if value == scored[DEPTH - 1][0]])
    offsets = np.cumsum([0, *map(len, beyond)])
    flat = np.array([row for block in beyond for row in block], np.int64)
    return Truth(rows, scores, np.array([len(each) for each in queries]), Metric.L2, overflow=(offsets, flat))


def per_query(answers, truth, *measures, **options):
    measures = [str(each) for each in measures]
    found = score(truth=truth, answers=answers, at=[1], measures=measures, **options)
    return [found.per_query[each] for each in measures]


def same(ours, expected):
    wanted = [math.nan if each is None else float(each) for each in expected]
    np.testing.assert_allclose(ours, wanted, rtol=0, atol=1e-12, equal_nan=True)


def by_names(queries):
    """Each query's rows by name, and its distinct known answers."""
    return [
        (naive.distinct_known(answer, NAMES), [(value, NAMES[row]) for value, row in scored])
        for scored, answer in queries
    ]


@examples(200)
@given(QUERIES, AT, st.integers(0, 12), SHARES, SHARES)
def test_every_measure_is_what_its_definition_says(queries, k, further, least, persistence):
    truth, answers = truth_of([scored for scored, _ in queries]), [answer for _, answer in queries]
    within = k + further
    expected = {
        Recall(k): [naive.recall(*each, k) for each in by_names(queries)],
        Recall(k, strict=True): [naive.recall_by_ids(*each, k) for each in by_names(queries)],
        RecallWithin(within, k): [naive.recall(*each, k, within) for each in by_names(queries)],
        Robustness(k, least): [naive.robust(*each, k, least) for each in by_names(queries)],
        Robustness(k, 1.0): [naive.robust(*each, k, 1) for each in by_names(queries)],
        ReciprocalRank(within): [naive.reciprocal_rank(*each, within) for each in by_names(queries)],
        DiscountedGain(k): [naive.discounted_gain(*each, k) for each in by_names(queries)],
        RankBiasedOverlap(k, persistence): [
            naive.rank_biased_overlap(*each, k, persistence) for each in by_names(queries)
        ],
    }
    found = score(truth=truth, answers=answers, at=[k], measures=list(expected), corpus=CORPUS)
    for measure, values in expected.items():
        same(found.per_query[str(measure)], values)
        there = [float(each) for each in values if each is not None]
        mean = found.measures[str(measure)]
        assert mean.n == len(there)
        assert mean.value == (pytest.approx(sum(there) / len(there), abs=1e-12) if there else None)
    by_ids = [naive.recall_by_ids(*each, k, within) for each in by_names(queries)]
    there = [float(each) for each in by_ids if each is not None]
    if there:
        assert found.measures[f"recall{k}@{within}"].ids == pytest.approx(sum(there) / len(there), abs=1e-12)


POINT = st.tuples(st.integers(1, 3), st.integers(1, 3))
GROUPS = {"x": ["x"], "y": ["y"], "x or y": ["x", "y"], None: ["x", "y", "z"]}
FILTERS = {
    "x": parse_filter("group = 'x'"),
    "y": parse_filter("group = 'y'"),
    "x or y": parse_filter("group in ('x', 'y')"),
    None: None,
}


def exact_scores(metric, query, points):
    if metric == "l2":
        return [math.sqrt((query[0] - x) ** 2 + (query[1] - y) ** 2) for x, y in points]
    products = [query[0] * x + query[1] * y for x, y in points]
    if metric == "ip":
        return products
    # Rounding must not tear apart what ties.
    return [
        round(product / math.sqrt((query[0] ** 2 + query[1] ** 2) * (x * x + y * y)), 12)
        for product, (x, y) in zip(products, points, strict=True)
    ]


@st.composite
def vector_queries(draw):
    points = draw(st.lists(st.tuples(POINT, st.sampled_from("xyz")), min_size=1, max_size=8))
    names = [f"p{number}" for number in range(len(points))]
    answer = st.lists(st.sampled_from([*names, None, "unknown"]), max_size=10)
    asked = draw(st.lists(st.tuples(POINT, st.sampled_from(list(FILTERS)), answer), min_size=1, max_size=4))
    return points, names, asked


@examples(80)
@given(vector_queries(), st.sampled_from(["l2", "cosine", "ip"]), AT, st.sampled_from([0, 0.1, 0.3, 2]))
def test_measures_of_distance_are_what_their_definitions_say(data, metric, k, epsilon):
    points, names, asked = data
    places = [place for place, _ in points]
    dataset = open_dataset(
        make_corpus(np.array(places, "float32"), names, {"group": [group for _, group in points]}),
        make_queries(
            np.array([place for place, _, _ in asked], "float32"),
            filters=[FILTERS[which] for _, which, _ in asked],
        ),
        metric=metric,
    )
    truth = ground_truth(dataset, depth=DEPTH, threads=1)
    wanted = [EpsilonRecall(k, epsilon), Recall(k)] + ([DistanceError(k)] if metric != "ip" else [])
    found = score(
        truth=truth, answers=[answer for _, _, answer in asked], at=[k], measures=wanted, dataset=dataset
    )
    close, errors, recalls = [], [], []
    for query, which, answer in asked:
        allowed = [group in GROUPS[which] for _, group in points]
        scored = [
            (value, name)
            for value, name, may in zip(exact_scores(metric, query, places), names, allowed, strict=True)
            if may
        ]
        scored.sort(key=lambda pair: pair[0] if metric == "l2" else -pair[0])
        counted = naive.distinct_known(answer, names)
        close.append(naive.near_enough(counted, scored, k, epsilon, metric))
        errors.append(naive.distance_error(counted, scored, k, metric))
        flipped = [(value if metric == "l2" else -value, name) for value, name in scored]
        recalls.append(naive.recall(counted, flipped, k))
    same(found.per_query[str(EpsilonRecall(k, epsilon))], close)
    same(found.per_query[str(Recall(k))], recalls)
    if metric != "ip":
        wanted_errors = [math.nan if each is None else each for each in errors]
        # What is parallel to its query has a test of its own.
        apart = [metric == "l2" or (query[0], query[1]) not in parallel(places) for query, _, _ in asked]
        ours = found.per_query[f"rde@{k}"]
        np.testing.assert_allclose(ours[apart], np.array(wanted_errors)[apart], atol=1e-6, equal_nan=True)


@examples(120)
@given(vector_queries(), st.sampled_from(["l2", "cosine"]), AT)
def test_the_inverse_ratio_is_what_exact_arithmetic_says(data, metric, k):
    points, names, asked = data
    places = [place for place, _ in points]
    dataset = open_dataset(
        make_corpus(np.array(places, "float32"), names, {"group": [group for _, group in points]}),
        make_queries(
            np.array([place for place, _, _ in asked], "float32"),
            filters=[FILTERS[which] for _, which, _ in asked],
        ),
        metric=metric,
    )
    truth = ground_truth(dataset, depth=DEPTH, threads=1)
    answers = [answer for _, _, answer in asked]
    found = score(truth=truth, answers=answers, at=[k], measures=[InverseRatio(k)], dataset=dataset)
    expected = []
    for query, which, answer in asked:
        distances = {
            name: naive.exact_distance(metric, query, place)
            for name, (place, group) in zip(names, points, strict=True)
            if group in GROUPS[which]
        }
        expected.append(naive.inverse_ratio(naive.distinct_known(answer, names), distances, k))
    ours = found.per_query[f"1/ratio@{k}"]
    np.testing.assert_allclose(
        ours, [math.nan if each is None else float(each) for each in expected], rtol=0, atol=1e-9
    )
    there = ~np.isnan(ours)
    assert ((ours[there] >= 0) & (ours[there] <= 1)).all()
    # Whoever returns all true neighbors returns their distances.
    perfect = found.per_query[f"recall@{k}"] == 1
    np.testing.assert_allclose(ours[perfect], 1.0, rtol=0, atol=1e-12)


def test_ratios_of_inner_products_are_refused_with_the_reason():
    dataset = open_dataset(
        make_corpus(np.array([[1, 1], [1, 2]], "float32")),
        make_queries(np.array([[1, 1]], "float32")),
        metric="ip",
    )
    truth = ground_truth(dataset, depth=2, threads=1)
    for measure in ("rde@1", "1/ratio@1"):
        with pytest.raises(UsageError, match=f"{measure}: inner products are not distances"):
            score(truth=truth, answers=[[1]], at=[1], measures=[measure], dataset=dataset)


def parallel(places):
    """The points that lie in the same direction as one of these."""
    near = range(1, 4)
    return {(x, y) for x in near for y in near for a, b in places if x * b == y * a}


def test_a_true_neighbour_parallel_to_its_query_is_at_distance_0_under_cosine():
    dataset = open_dataset(
        make_corpus(np.array([[1, 1], [1, 2], [1, 3]], "float32")),
        make_queries(np.array([[1, 1]], "float32")),
        metric="cosine",
    )
    truth = ground_truth(dataset, depth=2, threads=1)
    found = score(truth=truth, answers=[[1, 2]], at=[1, 2], measures=["rde@1", "rde@2"], dataset=dataset)
    assert found["rde@1"] is None
    second, third = (1 - 3 / math.sqrt(10)), (1 - 4 / math.sqrt(20))
    assert found["rde@2"] == pytest.approx((third - second) / second)


@examples(60)
@given(QUERIES, AT, st.randoms(use_true_random=False))
def test_the_order_within_the_first_k_changes_no_recall(queries, k, random):
    truth = truth_of([scored for scored, _ in queries])
    answers = [naive.distinct_known(answer, NAMES) for _, answer in queries]
    mixed = [[*random.sample(answer[:k], len(answer[:k])), *answer[k:]] for answer in answers]
    measures = (Recall(k), Recall(k, strict=True), RecallWithin(k, 1), Robustness(k, 0.5))
    for before, after in zip(
        per_query(answers, truth, *measures, corpus=CORPUS),
        per_query(mixed, truth, *measures, corpus=CORPUS),
        strict=True,
    ):
        np.testing.assert_array_equal(before, after)


@examples(60)
@given(QUERIES, AT, SHARES, st.sampled_from(["unknown", None, -1]))
def test_what_stands_behind_the_first_k_changes_nothing(queries, k, share, wrong):
    truth, answers = truth_of([scored for scored, _ in queries]), [answer for _, answer in queries]
    measures = (
        *(Recall(k), Recall(k, strict=True), RecallWithin(k, 1), Robustness(k, share)),
        *(ReciprocalRank(k), DiscountedGain(k), RankBiasedOverlap(k, share)),
    )
    longer = []
    for answer in answers:
        full = len(naive.distinct_known(answer, NAMES)) >= k
        longer.append([*answer, wrong, *(NAMES if full else [])])
    for before, after in zip(
        per_query(answers, truth, *measures, corpus=CORPUS),
        per_query(longer, truth, *measures, corpus=CORPUS),
        strict=True,
    ):
        np.testing.assert_array_equal(before, after)


@examples(60)
@given(st.lists(SCORED, min_size=1, max_size=5), AT, SHARES)
def test_the_truth_against_itself_is_perfect(queries, k, share):
    truth = truth_of(queries)
    measures = (
        *(
            Recall(k),
            Recall(k, strict=True),
            RecallWithin(k + 3, k),
            Robustness(k, share),
            Robustness(k, 1.0),
        ),
        *(ReciprocalRank(k), DiscountedGain(k), RankBiasedOverlap(k, share)),
    )
    wanted = [1.0 if scored else math.nan for scored in queries]
    for values in per_query(truth.rows, truth, *measures):
        np.testing.assert_allclose(values, wanted, rtol=0, atol=1e-12, equal_nan=True)


@examples(60)
@given(QUERIES, AT, st.data())
def test_one_right_id_more_never_harms_and_ties_never_lower_recall(queries, k, data):
    scored = [each for each, _ in queries]
    truth = truth_of(scored)
    answers = [answer for _, answer in queries]
    more = [
        [NAMES[data.draw(st.sampled_from(each))[1]], *answer] if len(answer) < k and each else answer
        for each, answer in zip(scored, answers, strict=True)
    ]
    measures = (Recall(k), Recall(k, strict=True), RecallWithin(k, 1), Robustness(k, 0.5))
    before = per_query(answers, truth, *measures, corpus=CORPUS)
    after = per_query(more, truth, *measures, corpus=CORPUS)
    there = [bool(each) for each in scored]
    for lower, higher in zip(before, after, strict=True):
        assert (higher[there] >= lower[there]).all()
    assert (before[0][there] >= before[1][there]).all()
    for values in (*before, *after):
        assert ((values[there] >= 0) & (values[there] <= 1)).all()
        assert np.isnan(values[~np.array(there)]).all()


def test_recall1_is_the_share_of_queries_that_have_the_nearest_row():
    truth = [[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 12]]
    answers = [[9, 1], [5, 6, 4], [8, 9, 5, 7], [11]]
    found = score(
        truth=truth, answers=answers, at=[1], measures=["recall1@2", "recall1@3", "recall1@4", "recall1@100"]
    )
    assert [found[f"recall1@{k}"] for k in (2, 3, 4, 100)] == [0.25, 0.5, 0.75, 0.75]
    assert found["recall@1"] == 0.0
    # A share of queries: Wilson's interval for 3 of 4.
    mean = found.measures["recall1@4"]
    assert (mean.low, mean.high) == (pytest.approx(0.3006, abs=1e-4), pytest.approx(0.9544, abs=1e-4))


def test_robustness_counts_queries():
    ten = list(range(10))
    answers = [ten[:found] for found in (0, 5, 8, 9, 10)]
    found = score(
        truth=[ten] * 5, answers=answers, at=[10], measures=[f"robust({share})@10" for share in (0.5, 0.9, 1)]
    )
    assert [found[f"robust({share})@10"] for share in ("0.5", "0.9", "1")] == [0.8, 0.4, 0.2]


@pytest.mark.parametrize("cut", [1, 2, 3, 5, 7, 10, 15, 21, 30])
def test_a_share_that_is_reached_exactly_is_reached(cut):
    answers = [list(range(found)) for found in range(cut + 1)]
    truth = [list(range(cut))] * (cut + 1)
    for reached in range(1, cut + 1):
        robust = Robustness(cut, reached / cut)
        assert per_query(answers, truth, robust)[0].sum() == cut + 1 - reached


MEASURES = st.one_of(
    st.builds(Recall, st.integers(1, 10**9 - 1), st.booleans()),
    st.integers(1, 10**6).flatmap(lambda k: st.builds(RecallWithin, st.just(k), st.integers(1, k))),
    st.builds(Robustness, st.integers(1, 999), st.floats(0, 1, exclude_min=True)),
    st.builds(ReciprocalRank, st.integers(1, 999)),
    st.builds(DiscountedGain, st.integers(1, 999)),
    st.builds(RankBiasedOverlap, st.integers(1, 999), st.floats(0, 1, exclude_min=True, exclude_max=True)),
    st.builds(EpsilonRecall, st.integers(1, 999), st.floats(0, 1e6)),
    st.builds(DistanceError, st.integers(1, 999)),
    st.builds(InverseRatio, st.integers(1, 999)),
)


@examples(300)
@given(MEASURES)
def test_the_text_of_a_measure_says_all_of_it(measure):
    assert parse_measure(str(measure)) == measure
    assert parse_measure(f"  {measure}\n") == measure


def test_a_large_epsilon_is_read_back_too():
    measure = EpsilonRecall(10, 1e16)
    assert parse_measure(str(measure)) == measure


REFUSED = """
recall recall@ recall@0 recall@-1 recall@1.5 recall10 Recall@10 recall@10(id) recall@1e3 recall@9999999999
recall@10x recall0@10 recall11@10 recall-1@10 recall@\u0661\u0660 robust@10 robust()@10 robust(0)@10
robust(1.1)@10 robust(-0.5)@10 robust(nan)@10 rbo(1)@10 rbo(0)@10 rbo@10 rbo(0.9)@0 eps@10 eps(-1)@10
eps(inf)@10 eps(1e999)@10 mrr@0 mrr ndcg@0 ndcg@10 nDCG@10 ndcg_truth@0
ndcg(1)@10 rde@0 rde(0.1)@10 precision@10 ratio@10 1/ratio@0 1/ratio 2/ratio@10
"""


@pytest.mark.parametrize("text", [*REFUSED.split(), "", "recall@ 10", "recall@10 (ids)", "recall@10\n@5"])
def test_a_bad_text_is_refused(text):
    with pytest.raises(UsageError):
        parse_measure(text)


@pytest.mark.parametrize("measure", ["recall@4", "ndcg_truth@4", "rbo(0.9)@4", "robust(0.5)@4", "recall4@9"])
def test_what_is_deeper_than_the_truth_is_refused_by_name(measure):
    truth = Truth(np.array([[0, 1, 2]]), None, None, None)
    with pytest.raises(UsageError) as problem:
        score(truth=truth, answers=[[1]], at=[1], measures=[measure])
    assert measure in str(problem.value)
    # The nearest row is known, however many answers are looked at.
    assert (
        score(truth=truth, answers=[[1, 0]], at=[1], measures=["mrr@9", "recall1@9", "recall3@9"])["mrr@9"]
        == 0.5
    )


def test_measures_of_distance_say_what_they_lack():
    for measure in ("eps(0.1)@1", "rde@1", "1/ratio@1"):
        with pytest.raises(UsageError, match="needs the vectors"):
            score(truth=Truth(np.array([[0]]), None, None, None), answers=[[1]], at=[1], measures=[measure])
