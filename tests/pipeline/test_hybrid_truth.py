"""The truth of a fusion and the causes of missed neighbors, against the definitions in exact fractions."""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from recallatk import ground_truth, make_corpus, make_queries, open_dataset, parse_filter
from recallatk.adapters.base import resolved
from recallatk.adapters.batch import QueryBatch
from recallatk.analysis.score import score
from recallatk.core import Metric, Truth
from recallatk.errors import MismatchError, UsageError
from recallatk.pipeline.fusion import by_rank, by_score
from recallatk.pipeline.hybrid_truth import (
    FUSION_DEPTH,
    SEVERAL_LEGS,
    exact_list,
    fusion_losses,
    hybrid_truth,
)
from recallatk.pipeline.lexical import Bm25
from recallatk.pipeline.ranking import Ranked

ROWS = 10
CONSTANT = 2


def fused(lines):
    """Reciprocal rank sums in exact arithmetic, by row."""
    totals = {}
    for line in lines:
        for place, row in enumerate(line):
            totals[row] = totals.get(row, 0) + Fraction(1, CONSTANT + place + 1)
    return totals


def in_order(totals):
    return sorted(totals, key=lambda row: (-totals[row], row))


def lost(totals, answers, k):
    """Missed neighbors of one query, with ties as in the definition of recall, and recall itself."""
    order = in_order(totals)
    cut = min(k, len(order))
    if not cut:
        return set(), None
    boundary = totals[order[cut - 1]]
    better = [row for row in order if totals[row] > boundary]
    tied = [row for row in order if totals[row] == boundary]
    returned = answers[:k]
    hits = sum(row in returned for row in better)
    hits += min(cut - len(better), sum(row in returned for row in tied))
    lacking = cut - len(better) - min(cut - len(better), sum(row in returned for row in tied))
    gone = [row for row in better if row not in returned]
    gone += [row for row in tied if row not in returned][:lacking]
    return set(gone), Fraction(hits, cut)


def matrix(lines, width):
    rows = np.full((len(lines), width), -1, np.int64)
    for number, line in enumerate(lines):
        rows[number, : len(line)] = line
    return Ranked(rows, None)


permutation = st.permutations(range(ROWS))
# Exact and returned list of each of three legs; a returned list lacks rows and has some in another order.
leg_lists = st.tuples(permutation, st.integers(0, ROWS), permutation, st.integers(0, ROWS))


def lists_of(drawn, legs):
    """For each leg the exact list and what it returned: its exact list, or any other."""
    exact, found = [], []
    for line, length, other, kept in drawn[:legs]:
        exact.append(list(line[: max(1, length)]))
        found.append(exact[-1] if kept < 4 else [row for row in other if row < kept])
    return exact, found


@examples(150)
@given(
    st.lists(st.lists(leg_lists, min_size=3, max_size=3), min_size=1, max_size=3),
    st.integers(2, 3),
    st.integers(1, 6),
    st.integers(1, 6),
)
def test_every_missed_neighbor_has_the_cause_of_the_definition(queries, legs, k, depth):
    names = ["dense", "bm25", "sparse"][:legs]
    drawn = [lists_of(query, legs) for query in queries]
    exact = {name: matrix([each[0][leg] for each in drawn], ROWS) for leg, name in enumerate(names)}
    found = {name: matrix([each[1][leg][:depth] for each in drawn], depth) for leg, name in enumerate(names)}
    fuse = by_rank(CONSTANT)
    truth = hybrid_truth(exact, fuse, 6)
    loss = fusion_losses(truth, found, exact, fuse, k)
    causes = list(loss.causes)
    assert causes == [FUSION_DEPTH, *names, SEVERAL_LEGS]
    told = {
        (query, row): causes[cause]
        for query, row, cause in zip(loss.query.tolist(), loss.row.tolist(), loss.cause.tolist(), strict=True)
    }
    wanted, recalls = {}, []
    for query, (right, used) in enumerate(drawn):
        used, totals = [each[:depth] for each in used], fused(right)

        def answer(replaced, right=right, used=used):
            return in_order(fused([(right if leg in replaced else used)[leg][:depth] for leg in range(legs)]))

        gone, recall = lost(totals, answer(()), k)
        recalls.append(recall)
        for row in gone:
            if row in lost(totals, answer(range(legs)), k)[0]:
                wanted[query, row] = FUSION_DEPTH
                continue
            alone = [leg for leg in range(legs) if row not in lost(totals, answer((leg,)), k)[0]]
            ranks = {leg: (*answer((leg,))[:k], row).index(row) for leg in alone}
            wanted[query, row] = names[min(alone, key=ranks.get)] if alone else SEVERAL_LEGS
    assert told == wanted
    mean = float(sum(recalls)) / len(recalls)
    assert loss.recall.value == pytest.approx(mean)
    assert sum(each.value for each in loss.causes.values()) == pytest.approx(1 - mean)
    answers = fuse(list(found.values()), k).rows
    assert score(truth, answers, at=[k]).measures[f"recall@{k}"].value == pytest.approx(mean)


scores_of_rows = st.lists(st.integers(0, 6), min_size=ROWS, max_size=ROWS)
# The score of each row in two legs, how long the exact lists are, the scores that a search computed, and
# which rows it found.
scored_legs = st.tuples(
    st.tuples(scores_of_rows, scores_of_rows),
    st.tuples(st.integers(0, ROWS), st.integers(0, ROWS)),
    st.tuples(scores_of_rows, scores_of_rows),
    st.tuples(*[st.one_of(st.none(), st.sets(st.integers(0, ROWS - 1)))] * 2),
)


def weighted_sums(lines, weights):
    """Sums of scores that are scaled to 0 to 1 in each list, in exact arithmetic, by row."""
    totals = {}
    for line, weight in zip(lines, weights, strict=True):
        values = [value for _, value in line]
        low, high = (min(values), max(values)) if values else (0, 0)
        for row, value in line:
            scaled = Fraction(1) if high == low else Fraction(value - low, high - low)
            totals[row] = totals.get(row, 0) + weight * scaled
    return totals


def by_score_then_row(scores, rows, length):
    return sorted(((row, scores[row]) for row in rows), key=lambda pair: (-pair[1], pair[0]))[:length]


def scored_matrix(lines, width):
    rows, scores = np.full((len(lines), width), -1, np.int64), np.full((len(lines), width), np.nan)
    for number, line in enumerate(lines):
        for place, (row, value) in enumerate(line):
            rows[number, place], scores[number, place] = row, value
    return Ranked(rows, scores)


@examples(150)
@given(
    st.lists(scored_legs, min_size=1, max_size=3),
    st.sampled_from([0, 0.25, 0.5, 0.75, 1]),
    st.integers(1, 6),
    st.integers(1, 6),
)
def test_every_neighbor_that_a_weighted_fusion_missed_has_the_cause_of_the_definition(
    queries, weight, k, depth
):
    names, weights = ["dense", "sparse"], [Fraction(weight), 1 - Fraction(weight)]
    drawn = []
    for right, lengths, computed, found in queries:
        exact = [
            by_score_then_row(each, range(ROWS), length) for each, length in zip(right, lengths, strict=True)
        ]
        # A search that found everything computed the right scores; any other has scores of its own.
        used = [
            exact[leg][:depth] if rows is None else by_score_then_row(computed[leg], rows, depth)
            for leg, rows in enumerate(found)
        ]
        drawn.append((exact, used))
    exact = {name: scored_matrix([each[0][leg] for each in drawn], ROWS) for leg, name in enumerate(names)}
    found = {name: scored_matrix([each[1][leg] for each in drawn], depth) for leg, name in enumerate(names)}
    fuse = by_score(weight)
    truth = hybrid_truth(exact, fuse, 6)
    loss = fusion_losses(truth, found, exact, fuse, k)
    causes = list(loss.causes)
    told = {
        (query, row): causes[cause]
        for query, row, cause in zip(loss.query.tolist(), loss.row.tolist(), loss.cause.tolist(), strict=True)
    }
    wanted, recalls = {}, []
    for query, (right, used) in enumerate(drawn):
        totals = weighted_sums(right, weights)

        def answer(replaced, right=right, used=used):
            lines = [right[leg][:depth] if leg in replaced else used[leg] for leg in range(2)]
            return in_order(weighted_sums(lines, weights))

        gone, recall = lost(totals, answer(()), k)
        if recall is not None:
            recalls.append(recall)
        for row in gone:
            if row in lost(totals, answer((0, 1)), k)[0]:
                wanted[query, row] = FUSION_DEPTH
                continue
            alone = [leg for leg in range(2) if row not in lost(totals, answer((leg,)), k)[0]]
            ranks = {leg: (*answer((leg,))[:k], row).index(row) for leg in alone}
            wanted[query, row] = names[min(alone, key=ranks.get)] if alone else SEVERAL_LEGS
    assert told == wanted
    if recalls:
        mean = float(sum(recalls)) / len(recalls)
        assert loss.recall.value == pytest.approx(mean)
        assert sum(each.value for each in loss.causes.values()) == pytest.approx(1 - mean)


@given(st.lists(permutation, min_size=2, max_size=3), st.integers(1, 8))
def test_the_truth_is_the_fusion_with_every_tie_at_its_end(lines, depth):
    exact = {f"leg {number}": matrix([line], ROWS) for number, line in enumerate(lines)}
    truth = hybrid_truth(exact, by_rank(CONSTANT), depth)
    totals = fused(lines)
    order = in_order(totals)
    assert truth.rows[0].tolist() == order[:depth]
    assert truth.scores[0].tolist() == pytest.approx([float(totals[row]) for row in order[:depth]])
    offsets, beyond = truth.overflow
    assert offsets.tolist() == [0, len(beyond)]
    assert beyond.tolist() == [row for row in order[depth:] if totals[row] == totals[order[depth - 1]]]


def test_a_query_without_a_list_has_no_recall():
    exact = {"bm25": matrix([[], [3, 1]], 4), "sparse": matrix([[], [1]], 4)}
    truth = hybrid_truth(exact, by_rank(60), 3)
    assert truth.rows.tolist() == [[-1, -1, -1], [1, 3, -1]]
    assert truth.depth == 3
    scored = score(truth, np.array([[5, 6, 7], [1, 9, 3]]), at=[3])
    assert scored.scored == 1
    assert scored.measures["recall@3"].value == 1.0
    loss = fusion_losses(truth, exact, exact, by_rank(60), 3)
    assert loss.recall.value == 1.0
    assert [each.value for each in loss.causes.values()] == [0, 0, 0, 0]
    assert loss.causes["bm25"].n == 1


def test_any_row_of_a_tie_at_k_counts():
    """Rows 1 and 2 have the ranks (1, 2) and (2, 1): either is a right answer at k = 1."""
    exact = {"dense": matrix([[1, 2, 5]], 3), "bm25": matrix([[2, 1, 6]], 3)}
    truth = hybrid_truth(exact, by_rank(60), 3)
    for answer in (1, 2):
        assert score(truth, np.array([[answer]]), at=[1]).measures["recall@1"].value == 1.0
    assert score(truth, np.array([[5]]), at=[1]).measures["recall@1"].value == 0.0
    # Rows 5 and 6 tie at the last rank of the truth, and one of them is beyond it.
    assert truth.rows.tolist() == [[1, 2, 5]]
    assert truth.overflow[1].tolist() == [6]
    assert score(truth, np.array([[6, 2, 1]]), at=[3]).measures["recall@3"].value == 1.0


def test_a_shallow_fusion_is_the_cause_where_all_legs_are_exact():
    exact = {"dense": matrix([[1, 2, 3, 4]], 4), "bm25": matrix([[5, 6, 4, 3]], 4)}
    truth = hybrid_truth(exact, by_rank(60), 2)
    assert truth.rows.tolist() == [[3, 4]]
    shallow = {name: lists.cut(2) for name, lists in exact.items()}
    loss = fusion_losses(truth, shallow, exact, by_rank(60), 2)
    assert {name: mean.value for name, mean in loss.causes.items()} == {
        FUSION_DEPTH: 1.0,
        "dense": 0,
        "bm25": 0,
        SEVERAL_LEGS: 0,
    }


def test_weights_of_queries_count():
    exact = {"dense": matrix([[1], [1]], 1), "bm25": matrix([[2], [1]], 1)}
    found = {"dense": matrix([[3], [1]], 1), "bm25": exact["bm25"]}
    truth = hybrid_truth(exact, by_rank(60), 1)
    loss = fusion_losses(truth, found, exact, by_rank(60), 1, weights=np.array([3.0, 1.0]))
    assert loss.recall.value == 1.0  # rows 1 and 2 tie in the first query
    truth = hybrid_truth(exact, by_rank(60), 2)
    found = {"dense": matrix([[3], [1]], 1), "bm25": matrix([[4], [1]], 1)}
    loss = fusion_losses(truth, found, exact, by_rank(60), 1, weights=np.array([3.0, 1.0]))
    assert loss.recall.value == 0.25
    assert loss.causes["dense"].value == 0.75
    assert loss.causes["dense"].low <= 0.75 <= loss.causes["dense"].high


@pytest.fixture(scope="module")
def data():
    """Thirty texts about five things with vectors to match, and a filter on one query."""
    random = np.random.default_rng(2)
    things = random.integers(0, 5, 30)
    texts = [f"thing{each} word{number % 7}" for number, each in enumerate(things)]
    vectors = np.eye(5)[things] + 0.3 * random.normal(size=(30, 5))
    table = pa.table({"text": texts, "size": np.arange(30)})
    corpus = make_corpus(vectors, [f"row-{number}" for number in range(30)], table)
    asked = make_queries(
        vectors[:6] + 0.1,
        [f"query-{number}" for number in range(6)],
        pa.table({"text": texts[:6]}),
        filters=[None, parse_filter("size >= 10"), None, None, None, None],
    )
    return open_dataset(corpus, asked, metric="l2")


@pytest.fixture(scope="module")
def leg(data):
    leg = Bm25()
    leg.build(data.corpus, Metric.L2, **resolved("bm25", Bm25.build_knobs, {}))
    leg.configure()
    return leg


def test_a_dense_truth_and_a_lexical_leg_make_a_truth_that_scores(data, leg):
    dense = ground_truth(data, depth=12)
    texts = data.queries.columns.read(["text"], 0, 6)["text"].to_pylist()
    batch = QueryBatch(data.queries.vectors.read(0, 6), data.queries.filters, texts=texts)
    exact = {"dense": exact_list(dense, 12, "dense"), "bm25": leg.scored(batch, 12, exact=True)}
    assert (np.diff(exact["dense"].scores, axis=1) <= 0).all()
    for fuse in (by_rank(60), by_score(0.5)):
        truth = hybrid_truth(exact, fuse, 10, dense=dense, corpus=data.corpus)
        assert truth.eligible.tolist() == [30, 20, 30, 30, 30, 30]
        assert truth.query_ids.to_pylist() == [f"query-{number}" for number in range(6)]
        named = [[f"row-{row}" for row in line] for line in fuse(list(exact.values()), 10).rows.tolist()]
        scored = score(truth, named, at=[10], dataset=data)
        assert scored.measures["recall@10"].value == 1.0
        assert scored.anomalies["ineligible"] == 0
        wrong = np.full((6, 10), 29)
        assert (
            score(truth, wrong, at=[10], corpus=data.corpus, row_numbers=True).measures["recall@10"].value < 1
        )


def test_short_lists_do_not_pass_for_all_eligible_rows():
    dense = Truth(
        np.array([[4, 2]]),
        np.array([[1.0, 0.5]]),
        np.array([3]),
        Metric.IP,
        corpus_rows=5,
        query_ids=pa.array(["q"]),
    )
    legs = {"dense": exact_list(dense, 1, "dense"), "bm25": matrix([[4]], 1)}
    truth = hybrid_truth(legs, by_rank(60), 4, dense=dense)
    assert truth.eligible is None
    # Row 2 is eligible, though no list has it at this depth.
    assert score(truth, np.array([[4, 2]]), at=[1]).anomalies["ineligible"] is None


def test_lists_that_do_not_fit_are_refused():
    truth = Truth(np.array([[1, 2]]), np.array([[0.1, 0.2]]), None, Metric.L2, corpus_rows=5)
    with pytest.raises(
        UsageError, match=r"dense: query 0: the exact list has 2 rows, but the depth in use is 3"
    ):
        exact_list(truth, 3, "dense")
    assert exact_list(truth, 2, "dense").scores.tolist() == [[-0.1, -0.2]]
    whole = Truth(np.array([[1, 2]]), None, np.array([2]), Metric.L2)
    assert exact_list(whole, 3, "dense").scores is None
    legs = {"dense": matrix([[1, 2]], 2), "bm25": matrix([[1, 7]], 2)}
    with pytest.raises(
        MismatchError, match=r"bm25: query 0: the answer at rank 1 is row 7, but the corpus has 5"
    ):
        hybrid_truth(legs, by_rank(60), 2, dense=truth)
    with pytest.raises(MismatchError, match="query mismatch: the truth has 1, dense has 2"):
        hybrid_truth({"dense": matrix([[1], [2]], 1)}, by_rank(60), 2, dense=truth)
    with pytest.raises(MismatchError, match="there is no leg"):
        hybrid_truth({}, by_rank(60), 2)
    fused_truth = hybrid_truth(legs, by_rank(60), 2)
    with pytest.raises(UsageError, match="the exact lists are of bm25, but the path has dense, bm25"):
        fusion_losses(fused_truth, legs, {"bm25": legs["bm25"]}, by_rank(60), 1)
    deeper = {name: matrix([[1, 2, 3]], 3) for name in legs}
    with pytest.raises(
        UsageError, match=r"dense: query 0: the exact list has 2 rows.*Compute them at depth 3"
    ):
        fusion_losses(fused_truth, deeper, legs, by_rank(60), 1)
