"""What people may say of a target, and what it means for each query."""

from dataclasses import replace
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recallatk import make_corpus, make_queries, open_dataset, run
from recallatk.analysis.compared import Compared
from recallatk.analysis.measures import Recall, RecallWithin, Robustness
from recallatk.analysis.relevance import relevance_loss
from recallatk.errors import MismatchError, UsageError
from recallatk.goals import Target, parse_goal, require_answerable
from recallatk.testing import tiny_dataset
from recallatk.truths import ground_truth

ks = st.integers(1, 10_000)
recalls = st.floats(0.0001, 1)
words = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=12)
segments = st.none() | st.tuples(words, words)


@st.composite
def targets(draw):
    k, value, segment = draw(ks), draw(recalls), draw(segments)
    kind = draw(st.sampled_from(["recall", "ids", "within", "robust", "percentile", "nDCG", "mrr"]))
    if kind in ("nDCG", "mrr"):
        return Target(
            Recall(k), draw(st.floats(0, 1, exclude_max=True)), relevance=f"{kind}@{k}", segment=segment
        )
    within = RecallWithin(k, draw(st.integers(1, k)))
    measure = {"ids": Recall(k, strict=True), "within": within, "robust": Robustness(k, draw(recalls))}
    if kind == "percentile":
        below = st.floats(0, 100, exclude_min=True, exclude_max=True)
        return Target(Recall(k), value, percentile=draw(below), segment=segment)
    return Target(measure.get(kind, Recall(k)), value, segment=segment)


@given(targets())
def test_the_text_of_a_target_reads_back_to_it(target):
    assert parse_goal(str(target)) == target


@pytest.mark.parametrize(
    ("text", "threshold", "k"),
    [
        ("recall@10 >= 0.95", 0.95, 10),
        ("recall@100>=0.9", 0.9, 100),
        (" recall1@50 >= 0.99 ", 0.99, 50),
        ("robust(0.8)@10 >= 0.95", 0.95, 10),
        ("p5(recall@10) >= 0.6", 0.95, 10),
        ("p0.1(recall@10) >= 0.6", 0.999, 10),
        ("ndcg@10 loss <= 0.005", 0.4975, 10),
        ("recall@10 ≥ 0.9 in category=noun.animal", 0.9, 10),
    ],
)
def test_every_form_says_what_the_mean_has_to_reach(text, threshold, k):
    target = parse_goal(text)
    assert target.threshold == pytest.approx(threshold, abs=1e-15)
    assert target.measure.k == k


@pytest.mark.parametrize(
    "text",
    [
        "",
        "fast",
        "recall@10",
        "recall@10 > 0.9",
        "recall@10 <= 0.9",
        "recall@10 >= 1.2",
        "recall@10 >= 0",
        "recall@10 >= 195%",
        "recall@0 >= 0.9",
        "recall9@5 >= 0.9",
        "rde@10 >= 0.9",
        "rbo(0.9)@10 <= 0.9",
        "banana >= 0.9",
        "p97 <= 5ms",
        "recall@10 >= 5ms",
        "recall@10 >= 0.9 >= 0.8",
        "p100(recall@10) >= 0.5",
        "p0(recall@10) >= 0.5",
        "p5(robust(0.8)@10) >= 0.5",
        "p5(recall@10) <= 0.5",
        "ndcg@10 loss >= 0.1",
        "ndcg@10 loss <= 1",
        "recall@10 >= 0.9 in category",
        "recall@10 >= 0.9 in a b=c",
    ],
)
def test_what_is_no_target_is_refused_with_what_is(text):
    with pytest.raises(UsageError, match="Accepted"):
        parse_goal(text)


@pytest.mark.parametrize("value", ["noun.animal", "'noun.animal'", '"noun.animal"'])
def test_a_segment_may_be_quoted(value):
    target = parse_goal(f"recall@10 >= 0.9 in category={value}")
    assert target.segment == ("category", "noun.animal")
    assert str(target) == "recall@10 >= 0.9 in category=noun.animal"


def test_members_are_the_queries_of_the_segment():
    columns = pa.table({"kind": ["a", None, "b", "a"], "year": [1, 2, 1, 3]})
    assert parse_goal("recall@5 >= 0.9").members(None, 3).tolist() == [True] * 3
    inside = parse_goal("recall@5 >= 0.9 in kind=a").members(columns, 4)
    assert inside.tolist() == [True, False, False, True]
    assert parse_goal("recall@5 >= 0.9 in year=1").members(columns, 4).tolist() == [
        True,
        False,
        True,
        False,
    ]
    with pytest.raises(UsageError, match=r"no query column 'sort'\. Accepted: kind or year"):
        parse_goal("recall@5 >= 0.9 in sort=a").members(columns, 4)
    with pytest.raises(UsageError, match=r"no query has kind = 'z'\. Its values: a or b"):
        parse_goal("recall@5 >= 0.9 in kind=z").members(columns, 4)
    with pytest.raises(UsageError, match="Accepted: none"):
        parse_goal("recall@5 >= 0.9 in kind=z").members(None, 4)


@cache
def truth_of(queries):
    return ground_truth(tiny_dataset(60, queries), depth=10)


def compared(hits):
    """Answers that hold so many of the true rows of each query."""
    truth = truth_of(len(hits))
    rows = np.array(truth.rows)
    for query, found in enumerate(hits):
        rows[query, found:] = -1
    return Compared(truth, rows)


def shaped(text, found):
    """The values that a goal is decided by."""
    target = parse_goal(text)
    return target.shaped(target.measure.per_query(found))


def test_a_percentile_is_a_share_of_queries():
    hits = [0, 3, 6, 6, 10]
    found = compared(hits)
    values = shaped("p40(recall@10) >= 0.6", found)
    assert values.tolist() == [0, 0, 1, 1, 1]
    mean = parse_goal("p40(recall@10) >= 0.6").mean(values)
    assert (mean.value, mean.n) == (0.6, 5)


@given(st.lists(st.integers(0, 10), min_size=20, max_size=20), st.integers(1, 99), st.integers(1, 10))
def test_a_percentile_is_kept_as_numpy_has_it(hits, percentile, tenths):
    target = parse_goal(f"p{percentile}(recall@10) >= {tenths / 10}")
    values = target.shaped(target.measure.per_query(compared(hits)))
    # The smallest value that at least so many per cent of the queries do not exceed leaves those above it.
    least = np.quantile(np.array(hits), percentile / 100, method="inverted_cdf")
    reached = values.mean() > target.threshold - 1e-9
    if reached:
        assert np.quantile(np.array(hits), percentile / 100, method="higher") >= tenths
    else:
        assert least < tenths


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("recall@10 >= 0.9", "recall@10"),
        ("p5(recall@10) >= 0.6", "robust(0.6)@10"),
        ("p5(recall1@50) >= 0.6 in kind=a", "share(recall1@50 >= 0.6) in kind=a"),
        ("ndcg@10 loss <= 0.01", "nDCG@10 loss"),
    ],
)
def test_a_report_calls_the_mean_by_what_it_is(text, name):
    assert parse_goal(text).name == name


@given(st.lists(st.integers(0, 10), min_size=20, max_size=20), st.integers(1, 10))
def test_the_share_of_a_percentile_is_robustness(hits, tenths):
    found = compared(hits)
    percentile, robust = (
        shaped(text, found)
        for text in (f"p5(recall@10) >= {tenths / 10}", f"robust({tenths / 10})@10 >= 0.95")
    )
    assert (percentile == robust).all()


def test_other_targets_are_their_measure():
    found = compared([5, 8, 9, 10])
    assert shaped("recall@10 >= 0.9", found).tolist() == [0.5, 0.8, 0.9, 1]
    assert shaped("robust(0.8)@10 >= 0.9", found).tolist() == [0, 1, 1, 1]
    assert parse_goal("robust(0.8)@10 >= 0.9").is_share


def judged():
    dataset = tiny_dataset(80, 6, metric="l2")
    truth = ground_truth(dataset, depth=10)
    qrels = {f"query-{query}": {f"row-{truth.rows[query, 2]}": 1} for query in range(5)}
    return replace(dataset, qrels=qrels), truth


def test_the_exact_ranking_loses_nothing():
    dataset, truth = judged()
    lost = relevance_loss(np.array(truth.rows), truth, dataset, "ndcg@10")
    assert lost[:5].tolist() == [0] * 5 and np.isnan(lost[5])


def test_a_loss_is_what_the_exact_ranking_has_and_the_answers_have_not():
    dataset, truth = judged()
    rows = np.array(truth.rows)
    rows[0, 2] = -1  # lost
    rows[1, [0, 2]] = rows[1, [2, 0]]  # better than the exact ranking
    ndcg = relevance_loss(rows, truth, dataset, "ndcg@10")
    assert ndcg[:2].tolist() == pytest.approx([0.5, -0.5]) and ndcg[2:5].tolist() == [0] * 3
    assert relevance_loss(rows, truth, dataset, "mrr@10")[:2].tolist() == pytest.approx([1 / 3, -2 / 3])
    target = parse_goal("ndcg@10 loss <= 0.005")
    values = target.shaped(ndcg)
    assert np.nanmin(values) >= 0 and np.nanmax(values) <= 1
    assert np.nanmean(values) == pytest.approx(0.5) and target.threshold < 0.5
    assert target.mean(values).value == pytest.approx(0)
    assert target.reached_by(target.mean(values))


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=50), st.floats(0, 0.99))
def test_a_loss_is_kept_when_its_values_reach_the_threshold(losses, most):
    target = Target(Recall(10), most, relevance="ndcg@10")
    values = target.shaped(np.array(losses))
    assert ((values >= 0) & (values <= 1)).all()
    if abs(np.mean(losses) - most) > 1e-9:
        assert (values.mean() >= target.threshold) == (np.mean(losses) <= most)
    mean = target.mean(values)
    assert mean.low - 1e-9 <= mean.value <= mean.high + 1e-9


def test_a_query_without_answers_loses_all_that_there_was():
    dataset, truth = judged()
    rows = np.array(truth.rows)
    rows[3] = -1
    rows[4, 1:] = rows[4, 0]  # repeats count once
    lost = relevance_loss(rows, truth, dataset, "ndcg@10")
    assert lost[:5].tolist() == pytest.approx([0, 0, 0, 0.5, 0.5])
    assert relevance_loss(np.full_like(rows, -1), truth, dataset, "ndcg@10")[:5].tolist() == [0.5] * 5


def test_a_loss_without_judgements_is_refused():
    dataset, truth = judged()
    target = parse_goal("ndcg@10 loss <= 0.005")
    assert target.needs_qrels
    with pytest.raises(UsageError, match="needs relevance judgments"):
        relevance_loss(truth.rows, truth, replace(dataset, qrels=None), "ndcg@10")
    with pytest.raises(MismatchError, match="none of the 6 queries"):
        relevance_loss(truth.rows, truth, replace(dataset, qrels={"x": {"y": 1}}), "ndcg@10")


def test_no_value_is_no_mean():
    target = parse_goal("recall@10 >= 0.9")
    assert target.mean(np.array([np.nan])).value is None
    assert target.reached_by(target.mean(np.array([np.nan]))) is None


@pytest.mark.parametrize("text", ["1/ratio@10 >= 0.9", "rde@10 <= 0.1"])
def test_a_ratio_of_inner_products_is_refused_before_anything_is_measured(text):
    target = parse_goal(text)
    vectors = np.ones((3, 2), "float32")
    for metric in ("cosine", "l2"):
        require_answerable([target], open_dataset(make_corpus(vectors), make_queries(vectors), metric=metric))
    with pytest.raises(UsageError, match="inner products are not distances"):
        require_answerable([target], open_dataset(make_corpus(vectors), make_queries(vectors), metric="ip"))


def test_a_run_with_such_a_measure_is_refused_too(tmp_path):
    np.save(tmp_path / "c.npy", np.ones((3, 2), "float32"))
    bench = tmp_path / "bench.toml"
    bench.write_text(
        f'[data]\ncorpus = "{tmp_path}/c.npy"\nqueries = "{tmp_path}/c.npy"\nmetric = "ip"\n'
        '[measure]\nat = [1]\nmeasures = ["1/ratio@1"]\n[[engine]]\nname = "exact"\n'
    )
    with pytest.raises(UsageError, match="1/ratio@1: inner products are not distances"):
        run(bench, out=tmp_path / "run")
