"""`assert_recall`: passes, fails with what helps, and asks as few queries as it takes."""

import faiss
import numpy as np
import pytest

from recallatk import ground_truth, make_corpus, make_queries, open_dataset
from recallatk.errors import EngineError, MismatchError, UsageError
from recallatk.testing import assert_recall

ROWS, QUERIES, DIMENSION, K = 3_000, 600, 16, 10
RANDOM = np.random.default_rng(0)
VECTORS = RANDOM.normal(size=(ROWS, DIMENSION)).astype("float32")
ASKED = RANDOM.normal(size=(QUERIES, DIMENSION)).astype("float32")
IDS = [f"row {row}" for row in range(ROWS)]


@pytest.fixture(scope="module")
def dataset():
    names = [f"query {number}" for number in range(QUERIES)]
    return open_dataset(make_corpus(VECTORS, ids=IDS), make_queries(ASKED, ids=names), metric="l2")


@pytest.fixture(scope="module")
def graph():
    faiss.omp_set_num_threads(1)
    found = faiss.IndexHNSWFlat(DIMENSION, 8)
    found.add(VECTORS)
    return found


def search(kept=ROWS, depth=None):
    """A search of the first rows, that returns ids."""

    def find(queries, k):
        far = ((VECTORS[None, :kept] - np.asarray(queries)[:, None]) ** 2).sum(axis=2)
        return [[IDS[row] for row in np.argsort(each)[: depth or k]] for each in far]

    return find


def test_a_good_search_passes_after_few_queries(dataset):
    found = assert_recall(search(), dataset, at=K, min=0.9)
    assert found.recall.value == 1
    assert found.counts.asked < QUERIES / 4


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint16])
def test_whole_numbers_of_numpy_inside_lists_are_ids(kind):
    numbered = open_dataset(make_corpus(VECTORS), make_queries(ASKED), metric="l2")

    def find(queries, k):
        far = ((VECTORS[None] - np.asarray(queries)[:, None]) ** 2).sum(axis=2)
        return [list(np.argsort(each)[:k].astype(kind)) for each in far]

    assert assert_recall(find, numbered, min=0.9).recall.value == 1
    with pytest.raises(EngineError, match="an id is an object"):
        assert_recall(lambda queries, k: [[object()]] * len(queries), numbered, min=0.9)


def test_an_index_object_is_searched_as_it_is_and_left_so(dataset, graph):
    graph.hnsw.efSearch = 17
    good = assert_recall(graph, dataset, min=0.9, parameters={"efSearch": 400})
    assert good.recall.value > 0.95
    with pytest.raises(AssertionError, match=r"recall@10 >= 0\.999"):
        assert_recall(graph, dataset, min=0.999, parameters={"efSearch": 10})
    assert graph.hnsw.efSearch == 17


def test_a_failure_names_the_worst_queries_and_what_they_share(dataset):
    with pytest.raises(AssertionError) as failed:
        assert_recall(search(kept=ROWS // 2), dataset, min=0.95)
    said = str(failed.value)
    assert "FAIL" in said and "Worst queries" in said
    listed = said.split("Worst queries\n")[1].split("\n\n", maxsplit=1)[0]
    named = [line.split() for line in listed.splitlines()]
    assert named
    for _, number, recall in named:
        far = ((VECTORS.astype("f8") - ASKED[int(number)]) ** 2).sum(axis=1)
        right = np.argsort(far)[:K]
        assert float(recall) == pytest.approx((right < ROWS // 2).mean())
    with pytest.raises(AssertionError, match="too short: the search returns fewer than 10 ids"):
        assert_recall(search(depth=4), dataset, min=0.95)
    with pytest.raises(AssertionError, match="compare ids, metric and normalization"):
        assert_recall(lambda queries, k: [IDS[:k] for _ in queries], far_dataset(), min=0.5)


def far_dataset():
    """The nearest rows of these queries are the last ones."""
    return open_dataset(make_corpus(VECTORS, ids=IDS), make_queries(VECTORS[-20:]), metric="l2")


def test_one_means_that_no_neighbor_is_missed(dataset):
    assert assert_recall(search(), dataset, min=1).counts.asked == QUERIES
    with pytest.raises(AssertionError):
        assert_recall(search(kept=ROWS - 1), dataset, min=1)


def test_what_the_queries_cannot_decide_fails_unless_it_may_pass(dataset):
    mean = np.mean([np.mean([int(each.split()[1]) < 2_900 for each in found])
                    for found in search()(ASKED, K)])  # fmt: skip
    with pytest.raises(AssertionError, match="UNDECIDED"):
        assert_recall(search(kept=2_900), dataset, min=float(mean))
    found = assert_recall(search(kept=2_900), dataset, min=float(mean), undecided="pass")
    assert found.recall.value == pytest.approx(mean)


def test_a_truth_that_is_there_is_taken(dataset):
    truth = ground_truth(dataset, depth=K, store=False)
    assert assert_recall(search(), dataset, min=0.9, truth=truth).truth_source == "the truth that was given"
    with pytest.raises(MismatchError, match="Compute a deeper one"):
        assert_recall(search(), dataset, at=20, truth=truth)


@pytest.mark.parametrize(
    ("held", "options", "said"),
    [
        (3, {}, "is no search"),
        (search(), {"min": 0}, "above 0"),
        (search(), {"min": 95}, "up to 1"),
        (search(), {"min": "0.9"}, "a number above 0"),
    ],
)
def test_wrong_calls_say_what_is_accepted(dataset, held, options, said):
    with pytest.raises(UsageError, match=said):
        assert_recall(held, dataset, **options)
