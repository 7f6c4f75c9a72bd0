"""The engines against the truth and against their contract."""

import dataclasses

import numpy as np
import pytest

from recallatk import ground_truth, make_corpus, make_queries, open_dataset, open_demo, score
from recallatk.adapters import Engine, QueryBatch, get_engine
from recallatk.adapters.base import require_metric, resolved
from recallatk.core import Knob, Metric
from recallatk.errors import EngineError, UsageError
from recallatk.filters import parse_filter
from recallatk.testing import tiny_dataset
from recallatk.testing.contract_ground import batch_of

NAMES = ("exact", "faiss-hnsw")


def built(name, dataset, build=None, search=None):
    engine = get_engine(name)()
    engine.build(dataset.corpus, dataset.metric, **resolved(name, engine.build_knobs, build or {}))
    engine.configure(**resolved(name, engine.search_knobs, search or {}))
    return engine


def queries_of(dataset):
    return dataset.queries.vectors.read(0, dataset.queries.rows)


@pytest.mark.parametrize("metric", list(Metric))
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint8"])
def test_the_flat_scan_is_the_truth_on_data_without_ties(metric, dtype):
    dataset = tiny_dataset(500, 20, 16, metric=metric, dtype=dtype)
    truth = ground_truth(dataset, depth=10)
    found = built("exact", dataset).search(batch_of(dataset), 10)
    assert found.dtype == np.int64
    assert score(truth=truth, answers=found, at=[10], row_numbers=True)["recall@10"] == 1.0
    if dtype.startswith("float"):
        assert (found == truth.rows).all()


@pytest.mark.parametrize("metric", list(Metric))
@pytest.mark.parametrize("dtype", ["float16", "float32", "int8"])
def test_the_graph_at_full_effort_finds_the_truth(metric, dtype):
    dataset = tiny_dataset(500, 20, 16, metric=metric, dtype=dtype)
    found = built("faiss-hnsw", dataset, search={"ef": 500}).search(batch_of(dataset), 10)
    assert (
        score(truth=ground_truth(dataset, depth=10), answers=found, at=[10], row_numbers=True)["recall@10"]
        >= 0.99
    )


def test_more_effort_finds_more_on_real_data():
    demo = open_demo()
    corpus = make_corpus(demo.corpus.vectors.read(0, 5000))
    dataset = open_dataset(corpus, make_queries(demo.queries.vectors.read(0, 200)), metric="cosine")
    truth = ground_truth(dataset, depth=10)
    engine = built("faiss-hnsw", dataset, {"M": 8, "ef_construction": 60})
    recalls = []
    for ef in (10, 40, 1000):
        engine.configure(ef=ef)
        recalls.append(
            score(truth=truth, answers=engine.search(batch_of(dataset), 10), at=[10], row_numbers=True)[
                "recall@10"
            ]
        )
    assert recalls[0] < recalls[1] - 0.02 < recalls[1] < recalls[2]
    assert recalls[2] >= 0.99


@pytest.mark.parametrize("name", NAMES)
def test_answers_that_there_are_not_are_minus_one_at_the_end(name):
    dataset = tiny_dataset(7, 3, 4)
    found = built(name, dataset).search(batch_of(dataset), 10)
    assert found.shape == (3, 10)
    for row in found:
        assert sorted(row[:7]) == list(range(7))
        assert list(row[7:]) == [-1, -1, -1]


@pytest.mark.parametrize("name", NAMES)
def test_an_index_is_evidence_until_it_is_dropped(name):
    dataset = tiny_dataset(50, 3)
    engine = built(name, dataset)
    assert "50" in engine.exercised()
    engine.search(batch_of(dataset), 5)
    assert "50" in engine.exercised()
    engine.index.reset()
    with pytest.raises(EngineError, match=f"{name}: the index holds no rows"):
        engine.exercised()
    engine.close()
    with pytest.raises(EngineError, match=f"{name}: no index is built"):
        engine.exercised()


def test_the_searches_of_another_index_are_no_evidence():
    dataset = tiny_dataset(50, 3)
    built("faiss-hnsw", dataset).search(batch_of(dataset), 5)
    engine = get_engine("faiss-hnsw")()
    engine.build(dataset.corpus, dataset.metric, M=8, ef_construction=40)
    assert engine.exercised().endswith("levels")
    engine.searched = 1  # by what is no walk over a graph
    with pytest.raises(EngineError, match="no search has used the graph"):
        engine.exercised()


@pytest.mark.parametrize(
    "name", ["faiss-ivf-flat", "sqlite-vec", "pgvector-hnsw", "lancedb", "qdrant", "milvus"]
)
def test_inserted_rows_have_no_values_to_filter_by(name):
    """Nulls, as filters know them."""
    dataset = tiny_dataset(100, 4, 8, metric="l2")
    most = {"faiss-ivf-flat": {"nprobe": 4}, "pgvector-hnsw": {"ef": 200}, "milvus": {"ef": 200}}.get(
        name, {}
    )
    with built(name, dataset, {"nlist": 4} if "ivf" in name else {}, most) as engine:
        asked = queries_of(dataset)
        before = engine.search(QueryBatch(asked, [parse_filter("size is null")] * 4), 4)
        assert (before == -1).all()
        engine.insert(asked)
        found = engine.search(QueryBatch(asked, [parse_filter("size is null")] * 4), 4)
        assert sorted(found[0]) == [100, 101, 102, 103]
        found = engine.search(QueryBatch(asked, [parse_filter("not (size < 0)")] * 4), 104)
        assert found.max() < 100
        assert (found >= 0).sum(axis=1).tolist() == [100] * 4


DROPPED = {
    "sqlite-vec": lambda engine: engine.connection.execute("DROP TABLE items"),
    "duckdb": lambda engine: engine.connection.execute("DROP INDEX items_vector"),
    "pgvector-hnsw": lambda engine: engine.connection.execute("DROP INDEX items_vector"),
    "lancedb": lambda engine: engine.table.drop_index("vector_idx"),
    "chroma": lambda engine: engine.connection.delete_collection(engine.collection.name),
    "milvus": lambda engine: (
        engine.connection.release_collection(engine.collection),
        engine.connection.drop_index(engine.collection, "vector"),
    ),
}


@pytest.mark.filterwarnings("ignore:chroma. the collection .* could not be dropped:UserWarning")
@pytest.mark.parametrize("name", DROPPED)
def test_an_index_that_is_dropped_is_no_evidence(name):
    dataset = tiny_dataset(400, 4, 8, metric="l2")
    with built(name, dataset) as engine:
        assert engine.exercised()
        DROPPED[name](engine)
        with pytest.raises(EngineError, match=name):
            engine.exercised()


def test_an_engine_that_says_nothing_gives_no_evidence():
    class Silent(Engine):
        name = "silent"

    with pytest.raises(EngineError, match="silent gives no evidence"):
        Silent().exercised()
    assert Silent().size_bytes() is None


@pytest.mark.parametrize("name", NAMES)
def test_an_engine_says_its_size_and_version(name):
    with built(name, tiny_dataset(100, 2, 8)) as engine:
        assert engine.size_bytes() >= 100 * 8 * 4
        assert engine.version().startswith("faiss ")
    engine.close()


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("exact", {"M": 16}, "exact: no parameter 'M'. Accepted: none"),
        ("faiss-hnsw", {"m": 16}, "faiss-hnsw: no parameter 'm'. Did you mean M?"),
        ("faiss-hnsw", {"M": 1}, "faiss-hnsw: M = 1. Accepted: whole numbers from 2 to 256"),
        ("faiss-hnsw", {"M": 257}, "whole numbers from 2 to 256"),
        ("faiss-hnsw", {"M": 16.0}, "whole numbers from 2 to 256"),
        ("faiss-hnsw", {"M": True}, "whole numbers from 2 to 256"),
        ("faiss-hnsw", {"M": "16"}, "whole numbers from 2 to 256"),
    ],
)
def test_parameters_that_cannot_be_are_refused_with_those_that_can(name, given, said):
    with pytest.raises(UsageError) as caught:
        resolved(name, get_engine(name).build_knobs, given)
    assert said in str(caught.value)


def test_parameters_that_are_not_given_have_their_defaults():
    knobs = (Knob("a", 1, 1, 9), Knob("b", 2, 1, 9))
    found = resolved("x", knobs, {"b": np.int64(9)})
    assert found == {"a": 1, "b": 9}
    assert type(found["b"]) is int


def test_an_unknown_engine_is_refused_with_the_known_ones():
    with pytest.raises(
        UsageError, match=r"no engine 'hnsw'\. Did you mean faiss-hnsw\? Accepted: .*exact, .*faiss-hnsw,"
    ):
        get_engine("hnsw")


def test_a_metric_that_an_engine_cannot_search_by_is_refused():
    class OnlyDistance(Engine):
        name = "only-distance"
        metrics = frozenset([Metric.L2])

    with pytest.raises(EngineError, match=r"only-distance does not support the metric ip\. Accepted: l2"):
        require_metric(OnlyDistance, Metric.IP)


def test_the_norm_of_a_row_does_not_change_its_cosine():
    random = np.random.default_rng(0)
    vectors = random.normal(size=(200, 8)) * np.logspace(-6, 6, 200)[:, None]
    dataset = tiny_dataset(200, 10, 8)
    dataset = dataclasses.replace(dataset, corpus=make_corpus(vectors))
    truth = ground_truth(dataset, depth=10)
    for name in NAMES:
        found = built(name, dataset, search={"ef": 500} if name != "exact" else {}).search(
            batch_of(dataset), 10
        )
        assert score(truth=truth, answers=found, at=[10], row_numbers=True)["recall@10"] >= 0.99
