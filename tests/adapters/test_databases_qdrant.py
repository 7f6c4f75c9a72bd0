"""Qdrant: the contract over a shard in process and over the client, and what its index evidence is worth."""

import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

from recallatk import make_corpus, make_queries, open_dataset
from recallatk.adapters.qdrant import Qdrant
from recallatk.adapters.qdrant_store import Server
from recallatk.errors import EngineError
from recallatk.filters import parse_filter
from recallatk.testing import EngineContract
from recallatk.testing.contract_ground import Gap, K, Kind, batch_of, data, rebuild, recall, vectors_of


@pytest.fixture(autouse=True)
def _in_memory(monkeypatch):
    """A shard syncs its files many times, which takes a second of every build on a disk."""
    if Path("/dev/shm").is_dir():
        monkeypatch.setattr(tempfile, "tempdir", "/dev/shm")


class TestQdrant(EngineContract):
    engine = "qdrant"


# The client's own stand-in for a server warns that it has no index and scans instead.
def stand_in(test):
    for message in ("Payload indexes have no effect", "Local mode performs exact"):
        test = pytest.mark.filterwarnings(f"ignore:{message}:UserWarning")(test)
    return test


@stand_in
class TestClient(EngineContract):
    """The code for servers, over what the client has for tests instead of a server."""

    engine = "qdrant"
    build: ClassVar = {"url": ":memory:"}
    gaps: ClassVar = {
        "test_it_shows_that_its_index_answered": Gap(
            Kind.NEVER, "the stand-in scans, and says that nothing is indexed"
        )
    }

    @pytest.fixture(autouse=True)
    def _no_waiting(self, monkeypatch):
        monkeypatch.setattr(Server, "patience", 0)


@pytest.fixture
def engine():
    with Qdrant() as made:
        yield made


def test_the_evidence_is_the_shards_own_count(engine):
    dataset = data()
    rebuild(engine, dataset, {}, {})
    assert engine.exercised().startswith("300 of 300 points indexed")


@pytest.mark.parametrize(
    ("rows", "reason"), [(14, "0 of 14 points are indexed"), (150, "full_scan_threshold = 10 KB")]
)
def test_a_corpus_that_is_scanned_is_no_evidence(engine, rows, reason):
    dataset = data(rows=rows)
    rebuild(engine, dataset, {"M": 2, "ef_construct": 4}, {"hnsw_ef": 1})
    assert recall(engine.search(batch_of(dataset), K), dataset) == 1
    with pytest.raises(EngineError, match=reason):
        engine.exercised()


def test_the_graph_answers_just_above_the_threshold(engine):
    dataset = data(rows=170)
    rebuild(engine, dataset, {"M": 2, "ef_construct": 4}, {"hnsw_ef": 1})
    assert recall(engine.search(batch_of(dataset), K), dataset) < 0.99
    assert engine.exercised()


# A point of 16 dimensions has 64 bytes, so that 160 points are 10 KB.
@pytest.mark.parametrize(("passing", "scanned"), [(20, True), (150, True), (170, False), (600, False)])
def test_a_filter_that_few_points_pass_makes_qdrant_scan_and_the_evidence_says_so(engine, passing, scanned):
    random = np.random.default_rng(0)
    vectors = random.normal(size=(2_000, 16)).astype("f4")
    rank = random.permutation(2_000)
    corpus = make_corpus(vectors, None, {"rank": rank})
    dataset = open_dataset(corpus, make_queries(vectors[:50] + 1), metric="l2")
    rebuild(engine, dataset, {"M": 2, "ef_construct": 4}, {"hnsw_ef": 1})
    filters = [parse_filter(f"rank < {passing}")] * 50
    found = engine.search(batch_of(dataset, filters), 1)[:, 0]
    allowed = np.flatnonzero(rank < passing)
    distances = ((vectors[allowed] - (vectors[:50] + 1)[:, None]) ** 2).sum(axis=2)
    right = (found == allowed[distances.argmin(axis=1)]).mean()
    assert right == 1 if scanned else right < 0.95
    engine.search(batch_of(dataset), 1)
    assert ("50 of 100 queries (50.0%) walked the graph" in engine.exercised()) == scanned
    engine.configure(hnsw_ef=2)
    engine.search(batch_of(dataset), 1)
    assert "walked" not in engine.exercised(), "filters of the last setting do not count"


@pytest.mark.parametrize("quantization", ["scalar", "binary"])
def test_exact_search_is_not_over_quantised_vectors(engine, quantization):
    dataset = data(rows=600)
    rebuild(engine, dataset, {"quantization": quantization}, {"hnsw_ef": 600})
    assert recall(engine.search(batch_of(dataset), K), dataset) < 1
    assert recall(engine.exact_search(batch_of(dataset), K), dataset) == 1


def test_the_folder_goes_with_the_engine(engine):
    rebuild(engine, data(rows=20), {}, {})
    folder = engine.store.folder.path
    assert folder.is_dir()
    engine.close()
    assert not folder.exists()


def test_inserted_rows_have_no_values(engine):
    dataset = data()
    rebuild(engine, dataset, {}, {"hnsw_ef": 1000})
    engine.insert(vectors_of(dataset))
    filters = [parse_filter("size is null")] * dataset.queries.rows
    found = engine.search(batch_of(dataset, filters), K)
    assert found.min() >= 300
    filters = [parse_filter("not (size < 0)")] * dataset.queries.rows
    assert engine.search(batch_of(dataset, filters), K).max() < 300


@stand_in
def test_a_collection_that_stays_on_a_server_is_said(engine, monkeypatch):
    monkeypatch.setattr(Server, "patience", 0)
    rebuild(engine, data(rows=20), {"url": ":memory:"}, {})
    name = engine.store.collection

    def refused(_):
        raise PermissionError("not yours")

    monkeypatch.setattr(engine.store.client, "delete_collection", refused)
    said = f"qdrant: the collection {name} could not be dropped .PermissionError."
    with pytest.warns(UserWarning, match=said):
        engine.close()


def test_a_server_is_waited_for_until_its_points_are_indexed(monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _: None)
    states = iter([("yellow", 0), ("green", 0), ("green", 0), ("yellow", 100), ("green", 300), ("never", 0)])
    server = Server(":memory:")
    server.client.close()

    def told(_):
        status, count = next(states)
        return SimpleNamespace(status=status, indexed_vectors_count=count)

    server.client = SimpleNamespace(get_collection=told)
    server.settle(300)
    assert next(states) == ("never", 0)
