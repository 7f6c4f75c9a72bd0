"""Paths through `measure`: clients, repeated builds in another order, ties, deep legs, and changed texts."""

import sys

import numpy as np
import pytest
import scipy.sparse as sp

import recallatk
from recallatk import Load, Path, make_corpus, make_queries, measure
from recallatk.bench.job import inputs_digest
from recallatk.core import Dataset, Metric
from recallatk.datasets.sparse_vectors import write_csr
from recallatk.errors import BadValueError, FormatError, UsageError
from recallatk.pipeline.path_engine import path_engine
from recallatk.tuning.flow import usable

ROWS, QUERIES, DIMENSION = 200, 20, 8
WORDS = ("amber", "basalt", "cobalt", "dolomite", "emerald", "feldspar", "garnet", "hematite")


def dataset(seed=0, copies=1):
    random = np.random.default_rng(seed)
    texts = [[" ".join(random.choice(WORDS, 4)) for _ in range(count)] for count in (ROWS, QUERIES)]
    vectors = np.random.default_rng(0).normal(size=(ROWS // copies, DIMENSION)).astype("float32")
    corpus = make_corpus(np.repeat(vectors, copies, axis=0), metadata={"text": texts[0]})
    queries = make_queries(
        np.random.default_rng(1).normal(size=(QUERIES, DIMENSION)).astype("float32"),
        metadata={"text": texts[1]},
    )
    return Dataset(corpus, queries, Metric.L2)


@pytest.mark.parametrize(
    "stages",
    [
        [{"retrieve": "faiss-hnsw", "oversample": 3}, {"rerank": "exact"}],
        [{"retrieve": "exact", "depth": 20}, {"retrieve": "bm25", "depth": 20}, {"fuse": "rrf"}],
    ],
)
def test_several_clients_share_the_indexes_of_a_path(stages):
    load = Load("throughput", clients=2, seconds=0.1)
    run = measure(Path("shared", stages, 10), dataset(), rounds=2, at=10, load=load)
    alone = measure(Path("shared", stages, 10), dataset(), rounds=1, at=10)
    assert run.measurements[0].score["recall@10"] == alone.measurements[0].score["recall@10"]


def own(measurement):
    return {each.name: each.recall for each in measurement.stages.stages}


def test_repeated_builds_keep_the_rows_of_sparse_files(tmp_path):
    write_csr(sp.random(ROWS, 60, 0.1, random_state=1), tmp_path / "c.csr")
    write_csr(sp.random(QUERIES, 60, 0.2, random_state=2), tmp_path / "q.csr")
    sparse = {
        "retrieve": "sparse",
        "depth": 50,
        "build": {"file": str(tmp_path / "c.csr")},
        "queries": str(tmp_path / "q.csr"),
    }
    path = Path("files", [{"retrieve": "exact", "depth": 50}, sparse, {"fuse": "rrf"}], 10)
    run = measure(path, dataset(), rounds=1, builds=2, at=10)
    for each in run.measurements:
        np.testing.assert_allclose(own(each)["sparse"], 1.0)
    first, second = (each.score["recall@10"] for each in run.measurements)
    assert first == pytest.approx(second, abs=0.02)


def nearest_terms(corpus, queries, depth):
    """The rows of the largest inner products of each query among those that share a term, by scipy."""
    products = (queries @ corpus.T).toarray()
    order = np.lexsort((np.tile(np.arange(products.shape[1]), (len(products), 1)), -products))
    return [
        [row for row in line[:depth].tolist() if products[place, row]] for place, line in enumerate(order)
    ]


@pytest.mark.parametrize("layout", ["csr", "coo"])
def test_sparse_matrices_in_memory_are_columns_with_exact_inner_products_as_truth(layout):
    random = np.random.default_rng(6)
    corpus, queries = (
        sp.random_array((rows, 60), density=0.2, format=layout, rng=random) for rows in (ROWS, QUERIES)
    )
    vectors, asked = (random.normal(size=(rows, 4)).astype("float32") for rows in (ROWS, QUERIES))
    data = {"vector": vectors, "terms": corpus}, {"vector": asked, "terms": queries}
    terms = {"retrieve": "sparse", "column": "terms", "search": {"drop_ratio": [0, 0.5]}}
    best = nearest_terms(corpus.tocsr(), queries.tocsr(), 10)
    run = measure(Path("alone", [terms], 10), *data, metric="ip", rounds=1, at=10, builds=2)
    for each in run.measurements:
        dropped = dict(each.trial.search)["drop_ratio"] > 0
        shares = [len({*line} & {*true}) / 10 for line, true in zip(each.answers.tolist(), best, strict=True)]
        assert each.score["recall@10"] == pytest.approx(np.mean(shares))
        assert (each.score["recall@10"] < 1) == dropped
    stages = [{"retrieve": "exact", "depth": 30}, {**terms, "depth": 30}, {"fuse": "weighted", "weight": 0.3}]
    run = measure(Path("hybrid", stages, 10), *data, metric="ip", rounds=1, at=10)
    best = nearest_terms(corpus.tocsr(), queries.tocsr(), 30)
    for each in run.measurements:
        leg = each.stages.stages[1]
        shares = [
            len({*line} & {*true}) / len(true) for line, true in zip(leg.rows.tolist(), best, strict=True)
        ]
        np.testing.assert_allclose(leg.recall, shares)
        np.testing.assert_allclose(sum(each.stages.lost.values()), 1 - each.values("recall@10"), atol=1e-12)


def test_a_sparse_matrix_that_is_no_column_is_refused():
    vectors = np.ones((3, 2), np.float32)
    with pytest.raises(FormatError, match="3 vectors but 2 values of 'terms'"):
        make_corpus(vectors, metadata={"terms": sp.csr_array(np.eye(2))})
    with pytest.raises(FormatError, match="a sparse array of shape"):
        make_corpus(vectors, metadata={"terms": sp.coo_array(np.ones(3))})
    with pytest.raises(BadValueError, match=r"corpus \(terms\), row 1: the weight nan of term 0"):
        make_corpus(vectors, metadata={"terms": sp.csr_array([[1.0], [np.nan], [0]])})
    with pytest.raises(FormatError, match="Pass sparse vectors as a column beside the dense ones"):
        make_corpus(sp.csr_array(np.eye(2)))


def test_repeated_builds_tell_functions_the_same_ids(tmp_path, monkeypatch):
    (tmp_path / "by_number.py").write_text(
        "def rank(query, candidates):\n    return [(each.id * 37) % 101 for each in candidates]\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    path = Path("numbers", [{"retrieve": "exact", "oversample": 3}, {"rerank": "by_number:rank"}], 10)
    run = measure(path, dataset(), rounds=1, builds=2, at=10)
    assert [each.score["recall@10"] for each in run.measurements] == [1.0, 1.0]


def test_exact_legs_lose_only_to_their_depth_however_deep_the_lexical_one_is():
    def recall(depth):
        stages = [{"retrieve": "exact", "depth": 20}, {"retrieve": "bm25", "depth": depth}, {"fuse": "rrf"}]
        return measure(Path("deep", stages, 10), dataset(), rounds=1, at=10).measurements[0]

    for depth in (20, 100, ROWS):
        found = recall(depth)
        assert found.stages.truth.depth >= 10
        np.testing.assert_allclose(own(found)["bm25"], 1.0)
        np.testing.assert_allclose(own(found)["exact"], 1.0)
        lost = {name: np.nanmean(values) for name, values in found.stages.lost.items()}
        assert lost["exact"] == lost["bm25"] == lost["several legs"] == 0


def test_causes_of_lost_neighbors_add_up_through_processes_and_builds_in_another_order():
    legs = [{"retrieve": "faiss-hnsw", "depth": 12, "search": {"ef": 12}}, {"retrieve": "bm25", "depth": 12}]
    path = Path("weighted", [*legs, {"fuse": "weighted", "weight": 0.6}], 10)
    run = measure(
        path,
        dataset(copies=4),
        rounds=2,
        builds=2,
        at=10,
        load=Load("throughput", batch=7, clients=1, seconds=0.05),
    )
    for each in run.measurements:
        lost = each.stages.lost
        assert list(lost) == ["fusion depth", "faiss-hnsw", "bm25", "several legs"]
        np.testing.assert_allclose(sum(lost.values()), 1 - each.values("recall@10"), atol=1e-12)
        assert sum(values.sum() for values in lost.values()) > 0


def test_rows_that_tie_at_the_end_of_a_list_are_all_right():
    stages = [{"retrieve": "faiss-hnsw", "depth": 15, "search": {"ef": 200}}, {"rerank": "exact"}]
    truth = recallatk.ground_truth(dataset(copies=10), depth=50)
    run = measure(Path("tied", stages, 10), dataset(copies=10), rounds=1, at=10, truth=truth)
    np.testing.assert_allclose(own(run.measurements[0])["faiss-hnsw"], 1.0)


def test_other_texts_are_other_data_for_a_path_that_reads_them():
    lexical = path_engine(Path("lexical", [{"retrieve": "bm25"}], 10))
    plain = path_engine(Path("plain", [{"retrieve": "exact", "oversample": 2}, {"rerank": "exact"}], 10))
    one, other = dataset(), dataset(seed=5)
    assert inputs_digest(lexical, one) == inputs_digest(lexical, dataset())
    assert inputs_digest(lexical, one) != inputs_digest(lexical, other)
    assert inputs_digest(plain, one) is None


def test_two_paths_of_one_name_are_refused_by_a_tuning():
    first = Path("same", [{"retrieve": "exact", "oversample": 2}, {"rerank": "exact"}], 10)
    second = Path("same", [{"retrieve": "faiss-hnsw", "oversample": 2}, {"rerank": "exact"}], 10)
    with pytest.raises(UsageError, match="two paths are called same"):
        usable([first, second], dataset())


def test_a_tuning_refuses_functions_that_other_processes_cannot_import():
    path = Path("local", [{"retrieve": "exact", "oversample": 2}, {"rerank": lambda q, c: [0] * len(c)}], 10)
    with pytest.raises(UsageError, match="module:function"):
        usable([path], dataset())


@pytest.mark.parametrize(
    ("stages", "said"),
    [
        ([{"retrieve": "sparse"}], "need a column or a file"),
        ([{"retrieve": "bm25", "column": ["text", "title"]}], "Accepted: one name"),
        ([{"retrieve": "sparse", "column": "v", "queries": 5}], "Accepted: one name"),
        ([{"retrieve": "exact"}, {"rerank": "m:f", "timeout": float("inf")}], "timeout"),
        ([{"retrieve": "exact"}, {"rerank": "m:f", "column": 5}], "Accepted: one name"),
        ([{"retrieve": "faiss-ivf-pq"}, {"rerank": "native", "depth": 50}], "state it in search"),
        (
            [{"retrieve": "exact"}, {"retrieve": "bm25"}, {"fuse": "rrf"}, {"filter": "after"}],
            "no exact counterpart",
        ),
    ],
)
def test_stages_that_mean_nothing_are_refused(stages, said):
    with pytest.raises(UsageError, match=said):
        Path("odd", stages, 10)
