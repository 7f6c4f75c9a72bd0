"""Milvus Lite: the contract, and whether it built the index that it says it has."""

import faiss
import pytest

from recallatk.adapters.base import require_constraints
from recallatk.adapters.milvus import Milvus
from recallatk.errors import EngineError, UsageError
from recallatk.testing import EngineContract
from recallatk.testing.contract_ground import K, batch_of, data, rebuild, recall, vectors_of


class TestMilvus(EngineContract):
    engine = "milvus"


@pytest.fixture
def engine():
    with Milvus() as made:
        yield made


def built(engine):
    """The one index on the disk."""
    (file,) = engine.folder.path.rglob("*.vector.*.idx")
    return faiss.read_index(str(file))


def test_parameters_reach_the_graph(engine):
    rebuild(engine, data(), {"M": 4, "ef_construction": 33}, {})
    index = built(engine)
    assert isinstance(index, faiss.IndexHNSWFlat)
    assert index.hnsw.nb_neighbors(0) == 8
    assert index.hnsw.efConstruction == 33


def test_parameters_reach_the_clusters(engine):
    dataset = data(rows=600)
    rebuild(engine, dataset, {"index": "IVF_FLAT", "nlist": 7}, {"nprobe": 1})
    assert built(engine).nlist == 7
    low = recall(engine.search(batch_of(dataset), K), dataset)
    engine.configure(ef=1, nprobe=7)
    assert low < recall(engine.search(batch_of(dataset), K), dataset) == 1
    assert engine.exercised() == "600 of 600 rows in IVF_FLAT indexes"


def test_a_flat_index_says_that_it_scans(engine):
    dataset = data()
    rebuild(engine, dataset, {"index": "FLAT"}, {})
    assert recall(engine.search(batch_of(dataset), K), dataset) == 1
    assert engine.exercised().startswith("flat scan of 300 rows")


def test_rows_that_are_scanned_are_no_evidence_even_if_lite_calls_them_indexed(engine):
    dataset = data()
    rebuild(engine, dataset, {}, {})
    engine._add(vectors_of(dataset), [{} for _ in range(24)])
    engine.search(batch_of(dataset), K)
    assert engine.connection.describe_index(engine.collection, "vector")["indexed_rows"] == 324
    with pytest.raises(EngineError, match="300 of 324 rows are in an index"):
        engine.exercised()


def test_inserted_rows_are_indexed(engine):
    dataset = data()
    rebuild(engine, dataset, {}, {})
    engine.insert(vectors_of(dataset))
    engine.search(batch_of(dataset), K)
    assert engine.exercised() == "324 of 324 rows in HNSW indexes"


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({"index": "HNSW", "ef": 9, "k": 10}, "ef of at least k with HNSW"),
        ({"index": "IVF_FLAT", "nprobe": 9, "nlist": 8}, "nprobe of at most nlist with IVF_FLAT"),
    ],
)
def test_an_effort_that_would_be_another_is_refused(known, said):
    with pytest.raises(UsageError, match=said):
        require_constraints(Milvus, **known)
    require_constraints(Milvus, **{**known, "index": "FLAT"})


def test_closing_leaves_nothing_behind(engine):
    from milvus_lite.server_manager import server_manager_instance

    others = set(server_manager_instance._servers)  # which other tests of this process may have left
    rebuild(engine, data(rows=20), {}, {})
    folder = engine.folder.path
    assert set(server_manager_instance._servers) > others
    engine.close()
    assert not folder.exists()
    assert set(server_manager_instance._servers) == others
