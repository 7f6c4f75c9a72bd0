"""The published test vectors: ours are right, the definition says so too, and others are as stated."""

import json
import math
from dataclasses import replace
from fractions import Fraction
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
from faiss.contrib.evaluation import knn_intersection_measure
from naive_measures import distinct_known

from recallatk import make_corpus, score
from recallatk.analysis.answers import align
from recallatk.analysis.compared import Compared
from recallatk.analysis.measures import InverseRatio
from recallatk.core import Metric, Truth
from recallatk.filters.eligibility import Eligibility
from recallatk.filters.lookup import RowSet

DOCS = Path(__file__).parents[2] / "docs"
FILE = json.loads((DOCS / "test-vectors.json").read_text(encoding="utf-8"))
VECTORS = FILE["vectors"]
KINDS = ["duplicate", "padding", "unknown", "ineligible", "short"]
every_vector = pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])


def padding(each):
    return each is None or (not isinstance(each, str) and each == -1)


def naive(vector):
    """Recall, recall by ids and anomalies, step by step as the definitions have them."""
    k, ids = vector["k"], [row["id"] for row in vector["eligible"]]
    scores = {row["id"]: row["score"] for row in vector["eligible"]}
    corpus = ids + vector.get("known", [])
    counts = dict.fromkeys(KINDS, 0)
    distinct = []
    for each in vector["answer"]:
        if padding(each):
            counts["padding"] += 1
        elif each not in corpus:
            counts["unknown"] += 1
        else:
            counts["ineligible"] += each not in ids
            if each in distinct:
                counts["duplicate"] += 1
            else:
                distinct.append(each)
    cut = min(k, len(ids))
    counts["short"] = int(len(distinct) < cut)
    if cut == 0:
        return None, None, counts
    first = distinct[:k]
    boundary = sorted(scores.values(), reverse=True)[cut - 1]
    better = [each for each in ids if scores[each] > boundary]
    tied = [each for each in ids if scores[each] == boundary]
    found = sum(each in better for each in first)
    found += min(cut - len(better), sum(each in tied for each in first))
    return Fraction(found, cut), Fraction(sum(each in ids[:cut] for each in first), cut), counts


def naive_ratio(vector):
    """1/ratio@k in fractions, with the distance 1 - score."""
    distances = {row["id"]: 1 - Fraction(repr(row["score"])) for row in vector["eligible"]}
    known = [*distances, *vector.get("known", [])]
    counted = distinct_known([each for each in vector["answer"] if not padding(each)], known)
    cut = min(vector["k"], len(distances))
    answered = sorted(distances[each] for each in counted[: vector["k"]] if each in distances)
    pairs = zip(sorted(distances.values()), answered, strict=False)
    return sum(best / mine for best, mine in list(pairs)[:cut]) / cut if cut else None


@every_vector
def test_the_stated_ratio_follows_from_the_definition(vector):
    assert fraction(vector["inverse_ratio"]) == naive_ratio(vector)


@every_vector
@pytest.mark.parametrize("deeper", [0, 3])
def test_our_ratio_is_the_stated_one(vector, deeper):
    truth, corpus = truth_and_corpus(vector, vector["k"] + deeper)
    truth = replace(truth, metric=Metric.COSINE)
    aligned = align([answer_of(vector)], truth, corpus)
    scores = np.array([row["score"] for row in vector["eligible"]] + [np.nan] * (1 + corpus.rows))
    measured = InverseRatio(vector["k"]).per_query(
        Compared(truth, aligned.rows, scores[np.where(aligned.rows < 0, -1, aligned.rows)])
    )
    expected = fraction(vector["inverse_ratio"])
    assert measured == pytest.approx([math.nan if expected is None else float(expected)], nan_ok=True)


def fraction(pair):
    return None if pair is None else Fraction(*pair)


@every_vector
def test_the_stated_values_follow_from_the_definition(vector):
    recall, by_ids, counts = naive(vector)
    assert fraction(vector["recall"]) == recall
    assert fraction(vector["recall_by_ids"]) == by_ids
    assert vector["anomalies"] == counts
    if recall is not None:
        assert vector["recall"][1] == vector["recall_by_ids"][1] == min(vector["k"], len(vector["eligible"]))


def truth_and_corpus(vector, depth):
    eligible = vector["eligible"]
    rows, scores = np.full((1, depth), -1), np.full((1, depth), np.nan)
    shown = eligible[:depth]
    rows[0, : len(shown)] = range(len(shown))
    scores[0, : len(shown)] = [row["score"] for row in shown]
    beyond = [
        place
        for place in range(depth, len(eligible))
        if eligible[place]["score"] == eligible[depth - 1]["score"]
    ]
    ids = [row["id"] for row in eligible] + vector.get("known", [])
    truth = Truth(
        rows,
        scores,
        np.array([len(eligible)]),
        Metric.IP,
        overflow=(np.array([0, len(beyond)]), np.array(beyond, np.int64)),
        corpus_rows=len(ids),
    )
    return truth, make_corpus(np.ones((len(ids), 1)), ids)


def answer_of(vector):
    if not vector.get("answer_nan"):
        return vector["answer"]
    return [float("nan") if each is None else each for each in vector["answer"]]


@every_vector
@pytest.mark.parametrize("deeper", [0, 1, 100])
@pytest.mark.parametrize("with_eligibility", [True, False])
def test_our_score_is_the_stated_one(vector, deeper, with_eligibility):
    k, eligible = vector["k"], len(vector["eligible"])
    truth, corpus = truth_and_corpus(vector, k + deeper)
    eligibility = None
    if with_eligibility:
        sets = (RowSet.of_rows(np.arange(eligible), corpus.rows),)
        eligibility = Eligibility(sets, np.array([0]), None, corpus.rows)
    found = score(truth=truth, answers=[answer_of(vector)], at=[k], corpus=corpus, eligibility=eligibility)
    mean = found.measures[f"recall@{k}"]
    recall, by_ids = fraction(vector["recall"]), fraction(vector["recall_by_ids"])
    assert mean.value == (None if recall is None else float(recall))
    assert mean.ids == (None if by_ids is None else float(by_ids))
    assert found.scored == (recall is not None)
    assert found.anomalies["no_eligible"] == (recall is None)
    ours = {kind: found.anomalies[kind] for kind in KINDS}
    if eligibility is None and eligible > truth.depth and eligible < corpus.rows:
        # Without a filter, rows that the truth does not name may be eligible or not.
        assert ours.pop("ineligible") is None
        assert ours == {kind: count for kind, count in vector["anomalies"].items() if kind != "ineligible"}
    else:
        assert ours == vector["anomalies"]


def truth_ids(vector):
    return [row["id"] for row in vector["eligible"][: vector["k"]]]


def distances(vector):
    """Angular distances, as a benchmark that has the vectors computes them."""
    return {row["id"]: 1.0 - row["score"] for row in vector["eligible"]}


def ann_benchmarks(vector):
    """`knn` of ann_benchmarks/plotting/metrics.py: distances up to the k-th true one and 1e-3 more count."""
    k, by_id = vector["k"], distances(vector)
    limit = sorted(by_id.values())[k - 1] + 1e-3
    return sum(by_id.get(each, float("inf")) <= limit for each in vector["answer"][:k]) / k


def vectordbbench(vector):
    """`calc_recall` of vectordb_bench/metric.py: each of k places is a hit or not, whatever it repeats."""
    places = [0.0] * vector["k"]
    for place, each in enumerate(vector["answer"]):
        if each in truth_ids(vector):
            places[place] = 1.0
    return sum(places) / len(places)


def qdrant(vector):
    """`_search_one` of engine/base_client/search.py: 1 where none is expected, else shared ids over top."""
    expected = truth_ids(vector)
    return len(set(vector["answer"]) & set(expected)) / vector["k"] if expected else 1.0


def faiss(vector):
    """The function itself, on tables of k columns padded with -1, as every faiss index returns them."""
    k = vector["k"]
    answer = (vector["answer"] + [-1] * k)[:k]
    return knn_intersection_measure(np.array([answer]), np.array([(truth_ids(vector) + [-1] * k)[:k]]))


def big_ann(vector):
    """The recall with ties of benchmark/plotting/metrics.py: the ids of the best k groups of distances count.

    A group is what is within 1e-6 of its first distance.
    """
    starts, by_id = [], distances(vector)
    for distance in by_id.values():
        new = not starts or abs(distance - starts[-1]) >= 1e-6
        starts.append(distance if new else starts[-1])
    groups = [list(members) for _, members in groupby(zip(starts, by_id, strict=True), lambda pair: pair[0])]
    right = {each for members in groups[: vector["k"]] for _, each in members}
    return len(right & set(vector["answer"])) / vector["k"]


TOOLS = {
    "ann-benchmarks": ann_benchmarks,
    "VectorDBBench": vectordbbench,
    "qdrant vector-db-benchmark": qdrant,
    "faiss knn_intersection_measure": faiss,
    "big-ann-benchmarks": big_ann,
}


@every_vector
def test_what_others_are_said_to_give_is_what_their_definitions_give(vector):
    for other in vector["others"]:
        assert set(other) == {"tool", "value", "why"}
        tool = TOOLS[other["tool"]]
        if other["value"] == "error":
            with pytest.raises(IndexError):
                tool(vector)
        else:
            assert tool(vector) == pytest.approx(other["value"], abs=1e-12)
            right = fraction(vector["recall"])
            assert right is None or abs(other["value"] - right) > 0.01


@pytest.mark.parametrize("tool", TOOLS)
def test_every_definition_is_right_where_nothing_is_odd(tool):
    vector = next(vector for vector in VECTORS if vector["name"] == "all found")
    assert TOOLS[tool](vector) == 1.0
    half = {**vector, "answer": [1, 4, 3]}
    assert TOOLS[tool](half) == pytest.approx(2 / 3)


def test_the_file_is_complete():
    assert FILE["version"] == 1
    assert "recall" in FILE["about"]
    assert len(VECTORS) >= 20
    assert len({vector["name"] for vector in VECTORS}) == len(VECTORS)
    assert {other["tool"] for vector in VECTORS for other in vector["others"]} == set(TOOLS)
    for vector in VECTORS:
        scores = [row["score"] for row in vector["eligible"]]
        assert scores == sorted(scores, reverse=True)
        assert vector["why"].endswith(".")
        assert set(vector["anomalies"]) == set(KINDS)


def test_the_page_lists_every_vector_with_its_values():
    page = (DOCS / "test-vectors.md").read_text(encoding="utf-8")
    for vector in VECTORS:
        recall, by_ids = (
            "none" if pair is None else "{}/{}".format(*pair)
            for pair in (vector["recall"], vector["recall_by_ids"])
        )
        ratio = fraction(vector["inverse_ratio"])
        shown = "none" if ratio is None else f"{round(float(ratio), 3):g}"
        assert f"| {vector['name']} | {recall} | {by_ids} | {shown} | " in page
        assert f" | {vector['why']} |" in page
