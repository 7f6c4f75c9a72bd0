"""The truth of a path and the recall of its stages, against fusion and counting by hand."""

import time
from dataclasses import replace

import numpy as np
import pytest

from recallatk import Path, ground_truth, make_corpus, make_queries, parse_filter
from recallatk.adapters import QueryBatch
from recallatk.adapters.base import resolved
from recallatk.analysis.compared import Compared
from recallatk.analysis.measures import Recall
from recallatk.bench.path_truths import PathTruths
from recallatk.core import Dataset, Metric, Trial
from recallatk.errors import UsageError
from recallatk.pipeline.lexical import _alone
from recallatk.pipeline.path_engine import path_engine, truth_depth

# With jax, which bm25s imports where it can, no later test of this process could fork.
with _alone():
    import bm25s

ROWS, QUERIES, DIMENSION, K = 200, 15, 12, 10
WORDS = ("amber", "basalt", "cobalt", "dolomite", "emerald", "feldspar", "garnet", "hematite")
EXACT = {"rerank": "exact"}
PQ = {
    "retrieve": "faiss-ivf-pq",
    "oversample": 3,
    "build": {"nlist": 4, "M": 3, "nbits": 5, "refine": "none"},
    "search": {"nprobe": 2},
}
LEXICAL = {"retrieve": "bm25", "depth": 20}
RRF = {"fuse": "rrf", "constant": 60}


def dataset(metric="l2", filters=None):
    random = np.random.default_rng(0)
    texts = [[" ".join(random.choice(WORDS, 4)) for _ in range(count)] for count in (ROWS, QUERIES)]
    corpus = make_corpus(
        random.normal(size=(ROWS, DIMENSION)).astype("float32"),
        metadata={"text": texts[0], "group": np.arange(ROWS) % 3},
    )
    vectors = random.normal(size=(QUERIES, DIMENSION)).astype("float32")
    queries = make_queries(vectors, metadata={"text": texts[1]}, filters=filters)
    return Dataset(corpus, queries, Metric(metric))


class Measured:
    """A path over a dataset: its engine class, its trial, the lists of its stages, and its truths."""

    def __init__(self, data, *stages, k=K, depth=ROWS):
        self.data, self.k = data, k
        self.kind = path_engine(Path("mine", stages, k))
        given = self.kind.knobs.given()
        build = resolved("mine", self.kind.build_knobs, given[0])
        search = resolved("mine", self.kind.search_knobs, given[1])
        self.trial = Trial("mine", tuple(build.items()), tuple(search.items()))
        self.engine = self.kind()
        self.engine.build(data.corpus, data.metric, **build)
        self.engine.configure(**search)
        self.truth = ground_truth(data, depth=depth, store=False)
        self.truths = PathTruths(data, self.truth)
        self.texts = data.queries.columns.read(["text"], 0, QUERIES)["text"].to_pylist()

    def batch(self, rows):
        filters = self.data.queries.filters
        return QueryBatch(
            self.data.queries.vectors.read(0, QUERIES)[rows],
            None if filters is None else [filters[row] for row in rows],
            rows=rows,
            texts=[self.texts[row] for row in rows],
        )

    def traced(self, *calls):
        """The trace of these calls, and the nanoseconds of each; every query on its own by default."""
        self.engine.begin_trace()
        latencies = []
        self.answers = []
        for rows in calls or [[row] for row in range(QUERIES)]:
            asked = self.batch(rows)
            began = time.perf_counter_ns()
            self.answers.append(self.engine.search(asked, self.k))
            latencies.append(time.perf_counter_ns() - began)
        return self.engine.end_trace(), np.array(latencies)

    def results(self):
        trace, _ = self.traced()
        return self.truths.results(self.kind, self.trial, trace, self.k)


def shares(lists, truth):
    return [
        len({*line[line >= 0]} & {*true[true >= 0]}) / (true >= 0).sum()
        for line, true in zip(lists, truth, strict=True)
    ]


def test_the_stages_of_a_reranked_search_against_counting():
    measured = Measured(dataset(), PQ, EXACT)
    results = measured.results()
    first, last = results.stages
    best = measured.truth.rows
    assert (first.name, last.name, results.k) == ("faiss-ivf-pq", "rerank", K)
    assert first.rows.shape == last.rows.shape == (QUERIES, 3 * K)
    assert first.contained.tolist() == pytest.approx(shares(first.rows, best[:, :K]))
    assert first.recall.tolist() == pytest.approx(shares(first.rows, best[:, : 3 * K]))
    assert last.recall.tolist() == pytest.approx(shares(last.rows[:, :K], best[:, :K]))
    # Exact reranking loses nothing that its candidates contain, and adds nothing.
    assert last.recall.tolist() == first.contained.tolist() == last.contained.tolist()
    assert 0.1 < last.recall.mean() < 0.95
    assert results.truth is None, "the truth is exact search by vectors"


def test_a_list_that_is_longer_than_the_truth_has_no_recall_of_its_own():
    measured = Measured(dataset(), PQ, EXACT, depth=K)
    first, last = measured.results().stages
    assert first.recall is None
    assert last.recall.tolist() == first.contained.tolist()


def test_a_smaller_first_stage_is_told_what_it_contains_and_no_recall_of_whole_vectors():
    leg = {"retrieve": "exact", "dimensions": 5, "oversample": 2}
    first, last = Measured(dataset(), leg, EXACT).results().stages
    assert first.recall is None
    assert last.recall.tolist() == first.contained.tolist()


def test_a_depth_of_reranking_can_lose_what_the_candidates_contain():
    leg = {"retrieve": "exact", "dimensions": 3, "depth": 60}
    measured = Measured(dataset(), leg, {**EXACT, "depth": 15})
    first, last = measured.results().stages
    best = measured.truth.rows[:, :K]
    assert first.contained.tolist() == pytest.approx(shares(first.rows, best))
    assert last.recall.tolist() == pytest.approx(shares(last.rows[:, :K], best))
    assert last.recall.mean() < first.contained.mean()


def by_hand(lists, constant=60):
    """Reciprocal rank sums of each query by row."""
    found = []
    for lines in zip(*lists, strict=True):
        totals = {}
        for line in lines:
            for rank, row in enumerate(line[line >= 0].tolist(), 1):
                totals[row] = totals.get(row, 0) + 1 / (constant + rank)
        found.append(totals)
    return found


def in_order(totals, k):
    return sorted(totals, key=lambda row: (-round(totals[row], 12), row))[:k]


@pytest.mark.parametrize("fuse", [RRF, {"fuse": "weighted", "weight": 0.4}])
@pytest.mark.parametrize("filters", [None, ["group = 1", "group <> 0", None] * 5])
@pytest.mark.parametrize("later", [(), (EXACT,)])
def test_exact_and_deep_legs_lose_nothing(fuse, filters, later):
    legs = {"retrieve": "exact", "depth": ROWS}, {"retrieve": "bm25", "depth": ROWS}
    results = Measured(dataset("cosine", filters), *legs, fuse, *later).results()
    for stage in results.stages[2:]:
        assert stage.recall.tolist() == stage.contained.tolist() == [1.0] * QUERIES
    assert [stage.recall.tolist() for stage in results.stages[:2]] == [[1.0] * QUERIES] * 2


def test_the_truth_of_a_hybrid_is_the_fusion_of_exact_lists_twice_as_deep():
    data = dataset("cosine")
    leg = {"retrieve": "exact", "dimensions": 6, "depth": 20}
    measured = Measured(data, leg, LEXICAL, RRF, depth=40)
    assert truth_depth(measured.kind, dict(measured.trial.search), K) == 40
    lexical = Measured(data, {"retrieve": "exact"}, {**LEXICAL, "depth": ROWS}, RRF)
    lists = lexical.truths.exact_lists(lexical.kind, lexical.trial, K, 40)["bm25"]
    totals = by_hand([measured.truth.rows[:, :40], lists.rows])
    truth = measured.truths.of(measured.kind, measured.trial, K)
    for query in range(QUERIES):
        assert truth.rows[query, :K].tolist() == in_order(totals[query], K)
    results = measured.results()
    dense, terms, fused = results.stages
    assert dense.recall is None and terms.recall.tolist() == [1.0] * QUERIES
    # What the stage would return from exact lists of its own depth, and what the path should return.
    own = by_hand([measured.truth.rows[:, :20], lists.rows[:, :20]])
    for query in range(QUERIES):
        answers = {*fused.rows[query, :K].tolist()}
        for share, sums in ((fused.contained, totals), (fused.recall, own)):
            assert share[query] == pytest.approx(hits(sums[query], answers)), query
    assert 0 < fused.contained.mean() < 1
    assert results.truth.rows.shape[1] >= K


def hits(totals, answers):
    """Recall with ties at the boundary: any of the tied rows counts, as many as have room."""
    rounded = {row: round(total, 12) for row, total in totals.items()}
    boundary = sorted(rounded.values(), reverse=True)[K - 1]
    better = {row for row, total in rounded.items() if total > boundary}
    tied = {row for row, total in rounded.items() if total == boundary}
    return (len(answers & better) + min(K - len(better), len(answers & tied))) / K


def test_either_of_two_rows_that_tie_in_a_fusion_is_a_hit():
    # Vectors along two axes: each leg sees one of them, so that its order is the other's turned around.
    turned = np.array([[1, 0], [0, 1]], np.float32)
    corpus = make_corpus(
        np.concatenate([turned, -turned]), metadata={"text": ["basalt", "amber", "x1", "x2"]}
    )
    queries = make_queries(np.array([[1, 0]] * QUERIES, np.float32), metadata={"text": ["amber"] * QUERIES})
    data = Dataset(corpus, queries, Metric("ip"))
    legs = {"retrieve": "exact", "depth": 1}, {"retrieve": "bm25", "depth": 1}
    measured = Measured(data, *legs, RRF, k=1, depth=4)
    # One row is the best by vectors and the other the best by words, and neither list has both.
    lists = list(measured.truths.exact_lists(measured.kind, measured.trial, 1).values())
    truth = measured.truths._as_truth(measured.truths._fused(measured.kind, measured.trial, lists))
    assert truth.rows[0].tolist()[:2] == [0, 1] and truth.scores[0, 0] == truth.scores[0, 1]
    for answer, share in ((0, 1.0), (1, 1.0), (2, 0.0)):
        answers = np.full((QUERIES, 1), answer)
        assert Recall(1).per_query(Compared(truth, answers)).tolist() == [share] * QUERIES


def test_the_truth_after_a_function_is_the_function_over_exact_lists():
    def backwards(query, candidates):
        return [each.rank for each in candidates]

    leg = {"retrieve": "faiss-ivf-flat", "build": {"nlist": 8}, "search": {"nprobe": 1}, "depth": 20}
    measured = Measured(dataset(), leg, {"rerank": backwards})
    truth = measured.truths.of(measured.kind, measured.trial, K)
    assert (truth.rows[:, :K] == measured.truth.rows[:, 19 : 19 - K : -1]).all()
    first, last = measured.results().stages
    assert first.recall.tolist() == pytest.approx(shares(first.rows, measured.truth.rows[:, :20]))
    assert last.recall.tolist() == pytest.approx(shares(last.rows[:, :K], truth.rows[:, :K]))


def test_a_filter_after_the_search_is_compared_with_filtered_exact_search():
    filters = [parse_filter(text) for text in ("group = 0", "group <> 1", "group = 2")] * 5
    leg = {"retrieve": "exact", "oversample": 2}
    measured = Measured(dataset(filters=filters), leg, {"filter": "after"})
    first, last = measured.results().stages
    best = measured.truth.rows[:, :K]
    assert first.contained.tolist() == pytest.approx(shares(first.rows, best))
    assert last.recall.tolist() == pytest.approx(shares(last.rows[:, :K], best))
    assert last.recall.mean() < 1


def test_truths_that_do_not_differ_are_made_once():
    measured = Measured(dataset(), {"retrieve": "exact", "depth": 20}, LEXICAL, RRF)
    first = measured.truths.of(measured.kind, measured.trial, K)
    deeper = replace(measured.trial, search=(*measured.trial.search[:-1], ("constant", 61)))
    assert measured.truths.of(measured.kind, measured.trial, K) is first
    assert measured.truths.of(measured.kind, deeper, K) is not first


def test_a_truth_that_is_too_shallow_is_refused_with_the_depth_that_is_needed():
    measured = Measured(dataset(), {"retrieve": "exact", "depth": 30}, LEXICAL, RRF, depth=59)
    with pytest.raises(UsageError) as caught:
        measured.truths.of(measured.kind, measured.trial, K)
    assert str(caught.value) == (
        "the truth lists 59 neighbors, and the path mine needs 60 to compare its lists with exact ones. "
        "Compute a deeper truth: depth = 60"
    )


def lengths(query, candidates):
    return [len(each.text) for each in candidates]


SHAPES = {
    "alone": [{"retrieve": "exact", "dimensions": 5}],
    "reranked": [PQ, EXACT],
    "shallow reranking": [{"retrieve": "exact", "dimensions": 3, "depth": 60}, {**EXACT, "depth": 15}],
    "filtered after": [{"retrieve": "exact", "oversample": 2}, {"filter": "after"}, EXACT],
    "function": [{**PQ, "oversample": 2}, {"rerank": lengths}],
    "rrf": [{"retrieve": "exact", "dimensions": 6, "depth": 20}, LEXICAL, RRF],
    "weighted": [{"retrieve": "exact", "dimensions": 6, "depth": 20}, LEXICAL, {"fuse": "weighted"}],
    "weighted reranked": [
        {"retrieve": "faiss-ivf-flat", "depth": 20, "search": {"nprobe": 1}},
        LEXICAL,
        {"fuse": "weighted"},
        EXACT,
    ],
    "rrf reranked": [{"retrieve": "exact", "dimensions": 6, "depth": 20}, LEXICAL, RRF, EXACT],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_losses_by_cause_add_up_to_what_is_missing(shape):
    filters = ["group = 0", "group <> 1", "group = 2"] * 5 if shape == "filtered after" else None
    measured = Measured(dataset("cosine", filters), *SHAPES[shape])
    results = measured.results()
    truth = measured.truths.of(measured.kind, measured.trial, K)
    answers = np.concatenate(measured.answers)
    recall = Recall(K).per_query(Compared(truth, answers))
    lost = np.sum(list(results.lost.values()), axis=0)
    assert lost.tolist() == pytest.approx((1 - recall).tolist())
    assert recall.mean() < 1 and all((each >= 0).all() for each in results.lost.values())


def scaled_sums(lines, share):
    """Weighted sums of scores that are scaled to 0 to 1 in each list, by row."""
    totals = {}
    for line, weight in zip(lines, (share, 1 - share), strict=True):
        low, high = min(line.values(), default=0), max(line.values(), default=0)
        for row, score in line.items():
            totals[row] = totals.get(row, 0) + weight * (1 if high == low else (score - low) / (high - low))
    return {row: round(total, 10) for row, total in totals.items()}


def first_rows(scores, depth):
    order = sorted(scores, key=lambda row: (-round(scores[row], 10), row))[:depth]
    return {row: scores[row] for row in order}


def absent(totals, line, k=K):
    """Rows that belong to the first k and are not there; of rows that tie at k, as many as are lacking."""
    order = in_order(totals, len(totals))
    boundary = totals[order[k - 1]]
    better = [row for row in order if totals[row] > boundary]
    tied = [row for row in order if totals[row] == boundary]
    lacking = max(0, k - len(better) - len({*tied} & {*line}))
    return {*better} - {*line} | {*[row for row in tied if row not in line][:lacking]}


def test_the_losses_of_a_weighted_fusion_by_leg_against_counting():
    """Scores by NumPy and bm25s; a cause is the leg whose exact list alone brings the neighbor back."""
    share, depths = 0.4, (15, 12)
    data = dataset("cosine")
    leg = {"retrieve": "faiss-ivf-flat", "depth": depths[0], "build": {"nlist": 8}, "search": {"nprobe": 1}}
    stages = [leg, {"retrieve": "bm25", "depth": depths[1]}, {"fuse": "weighted", "weight": share}]
    measured = Measured(data, *stages, depth=30)
    results = measured.results()
    vectors, asked = (
        np.asarray(each.vectors.read(0, each.rows), float) for each in (data.corpus, data.queries)
    )
    cosines = asked @ vectors.T / np.outer(*(np.linalg.norm(each, axis=1) for each in (asked, vectors)))
    texts = data.corpus.columns.read(["text"], 0, ROWS)["text"].to_pylist()
    index = bm25s.BM25(dtype="float64")
    index.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)
    causes = {name: np.zeros(QUERIES) for name in results.lost}
    assert list(causes) == ["fusion depth", "faiss-ivf-flat", "bm25", "several legs"]
    for query in range(QUERIES):
        words = index.get_scores(
            bm25s.tokenize([measured.texts[query]], show_progress=False, return_ids=False)[0]
        )
        right = [dict(enumerate(cosines[query])), {row: each for row, each in enumerate(words) if each > 0}]
        truth = scaled_sums([first_rows(each, 30) for each in right], share)
        exact = [first_rows(each, depth) for each, depth in zip(right, depths, strict=True)]
        used = [
            {row: right[leg][row] for row in stage.rows[query].tolist() if row >= 0}
            for leg, stage in enumerate(results.stages[:2])
        ]
        assert used[1] == pytest.approx(exact[1]), "the lexical leg is exact"

        def answer(*replaced, used=used, exact=exact):
            lines = [exact[leg] if leg in replaced else used[leg] for leg in range(2)]
            return in_order(scaled_sums(lines, share), K)

        gone = absent(truth, results.stages[2].rows[query].tolist())
        for row in gone:
            missed_alone = [row in absent(truth, answer(leg)) for leg in range(2)]
            cause = "several legs"
            if row in absent(truth, answer(0, 1)):
                cause = "fusion depth"
            elif not all(missed_alone):
                cause = ["faiss-ivf-flat", "bm25"][missed_alone.index(False)]
            causes[cause][query] += 1 / K
    for name, shares_lost in causes.items():
        assert results.lost[name].tolist() == pytest.approx(shares_lost.tolist()), name
    assert causes["faiss-ivf-flat"].sum() > 0 < causes["fusion depth"].sum()
    assert causes["bm25"].sum() == causes["several legs"].sum() == 0


def test_the_losses_of_a_reranked_hybrid_by_leg_against_counting():
    data = dataset("cosine")
    flat = {"retrieve": "faiss-ivf-flat", "depth": 15, "build": {"nlist": 8}, "search": {"nprobe": 1}}
    sparse = {"retrieve": "bm25", "name": "words", "depth": 15}
    measured = Measured(data, flat, sparse, {**RRF, "depth": 18}, EXACT)
    results = measured.results()
    exact = measured.truths.exact_lists(measured.kind, measured.trial, K)
    truth = measured.truths.of(measured.kind, measured.trial, K).rows[:, :K]
    dense, words, fused, last = (stage.rows for stage in results.stages)
    counts = dict.fromkeys(("faiss-ivf-flat", "words", "fuse", "rerank"), 0)
    for query, best in enumerate(truth.tolist()):
        for row in {*best} - {*last[query, :K].tolist()}:
            lists = [found[query].tolist() for found in (dense, words)]
            right = [[*exact[name].rows[query]] for name in ("faiss-ivf-flat", "words")]
            if row in fused[query]:
                counts["rerank"] += 1
            elif row in lists[0] or row in lists[1]:
                counts["fuse"] += 1
            else:
                ranks = [line.index(row) if row in line else ROWS for line in right]
                counts[["faiss-ivf-flat", "words"][ranks[1] < ranks[0]]] += 1
    assert list(results.lost) == list(counts)
    for name, count in counts.items():
        assert results.lost[name].sum() * K == pytest.approx(count), name
    assert counts["faiss-ivf-flat"] > 0 < counts["fuse"]


# Spans


def slow(query, candidates):
    time.sleep(0.002)
    return [0] * len(candidates)


def test_the_times_of_the_stages_are_most_of_a_call_and_never_more():
    stages = {"retrieve": "exact", "depth": 20}, LEXICAL, RRF, {"rerank": slow}
    trace, latencies = Measured(dataset(), *stages).traced()
    assert trace.names == ("exact", "bm25", "fuse", "rerank")
    assert trace.spans_ns.shape == (QUERIES, 4) and (trace.spans_ns > 0).all()
    sums = trace.spans_ns.sum(axis=1)
    assert (sums <= latencies).all()
    assert np.median(sums / latencies) > 0.9
    assert (trace.spans_ns[:, 3] >= 2_000_000).all(), "the time of a stage is its own"


def test_every_query_has_the_lists_that_it_got_first():
    measured = Measured(dataset(), {"retrieve": "exact", "oversample": 2}, EXACT)
    trace, _ = measured.traced([3, 1], [1, 3], [0])
    assert trace.queries.tolist() == [0, 1, 3]
    assert trace.spans_ns.shape == (3, 2)
    first, last = trace.rows
    assert first.shape == (3, 2 * K)
    assert (last[:, :K] == measured.truth.rows[[0, 1, 3], :K]).all()
    results = measured.truths.results(measured.kind, measured.trial, trace, K)
    assert results.stages[1].contained[[0, 1, 3]].tolist() == [1.0] * 3
    assert (results.stages[0].rows[2] == -1).all(), "a query that was not sent has no rows"


def test_nothing_is_recorded_unless_it_is_asked_for():
    measured = Measured(dataset(), {"retrieve": "exact"})
    measured.engine.search(measured.batch([0]), K)
    assert measured.engine.end_trace() is None
    measured.engine.begin_trace()
    assert measured.engine.end_trace() is None
