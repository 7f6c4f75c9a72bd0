"""Chroma: the contract in process and over its real server, and when a change of ef_search takes effect."""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from recallatk.adapters.chroma import Chroma, close_client, quiet
from recallatk.adapters.http import Http
from recallatk.errors import EngineError
from recallatk.testing import EngineContract
from recallatk.testing.contract_ground import K, batch_of, data, rebuild, recall, vectors_of

# A graph so thin that the effort of a search shows.
THIN = {"M": 4, "ef_construction": 20}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The address of a real server, stopped in the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tmp_path_factory.mktemp("chroma")
    command = [Path(sys.executable).with_name("chroma"), "run", "--path", folder]
    process = subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "ANONYMIZED_TELEMETRY": "False"},
    )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(f"{url}/api/v2/heartbeat", process)
        yield url
    finally:
        process.terminate()
        process.wait(20)


def wait_for(url, process):
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    pytest.fail("the server does not answer")


class TestChroma(EngineContract):
    engine = "chroma"


class TestServer(EngineContract):
    engine = "chroma"

    @pytest.fixture(autouse=True)
    def _at_the_server(self, monkeypatch, server):
        monkeypatch.setattr(type(self), "build", {"url": server})


@pytest.fixture(params=["process", "server"])
def url(request):
    return "" if request.param == "process" else request.getfixturevalue("server")


@pytest.fixture
def engine():
    with Chroma() as made:
        yield made


def recall_of(engine, dataset):
    return recall(engine.search(batch_of(dataset), K), dataset)


def test_another_ef_search_takes_effect(engine, url):
    dataset = data(rows=1500)
    rebuild(engine, dataset, {**THIN, "url": url}, {"ef_search": 1})
    low = recall_of(engine, dataset)
    engine.configure(ef_search=1000)
    high = recall_of(engine, dataset)
    engine.configure(ef_search=1)
    assert low + 0.1 < high
    assert recall_of(engine, dataset) + 0.1 < high


def test_a_loaded_collection_would_keep_its_ef_search(engine, url):
    """Why the engine loads or makes collections anew: if this fails, modifying them has become enough."""
    dataset = data(rows=1500)
    rebuild(engine, dataset, {**THIN, "url": url}, {"ef_search": 1})
    before = engine.search(batch_of(dataset), K)
    with quiet():
        engine.collection.modify(configuration={"hnsw": {"ef_search": 1000}})
    assert (engine.search(batch_of(dataset), K) == before).all()


def test_a_server_does_not_forget_updates_for_another_ef_search(engine, server):
    dataset = data(rows=50)
    rebuild(engine, dataset, {"url": server}, {})
    engine.insert(vectors_of(dataset))
    with pytest.raises(EngineError, match="after rows were updated"):
        engine.configure(ef_search=7)


def test_the_evidence_is_the_graph_on_the_disk(engine):
    dataset = data()
    rebuild(engine, dataset, {}, {})
    assert engine.exercised().startswith("graph of 300 rows on disk, of 300")
    for file in engine.folder.path.glob("*/length.bin"):
        file.write_bytes(b"")
    with pytest.raises(EngineError, match="no graph"):
        engine.exercised()


def test_more_rows_than_a_batch_takes(engine):
    dataset = data(rows=6000)
    rebuild(engine, dataset, {}, {"ef_search": 500})
    assert engine.connection.get_max_batch_size() < 6000
    assert recall_of(engine, dataset) > 0.95
    assert engine.collection.count() == 6000


def test_closing_leaves_nothing_behind(engine, server):
    rebuild(engine, data(rows=20), {}, {})
    folder = engine.folder.path
    engine.close()
    assert not folder.exists()
    rebuild(engine, data(rows=20), {"url": server}, {})
    name = engine.collection.name
    engine.close()
    with Chroma() as other:
        rebuild(other, data(rows=20), {"url": server}, {})
        assert name not in [each.name for each in other.connection.list_collections()]


def test_an_address_has_a_scheme(engine):
    with pytest.raises(EngineError, match="http://host:8000"):
        rebuild(engine, data(rows=20), {"url": "localhost:8000"}, {})


def test_any_http_client_can_ask_the_same_server(server):
    """The engine `http`, which knows nothing of Chroma, on a collection that somebody else has made."""
    import chromadb

    dataset = data()
    client = chromadb.HttpClient(host="127.0.0.1", port=int(server.rpartition(":")[2]))
    collection = client.create_collection("of-somebody-else", configuration={"hnsw": {"space": "l2"}})
    ids = dataset.corpus.ids.to_pylist()
    collection.add(ids=ids, embeddings=dataset.corpus.vectors.read(0, len(ids)))
    path = f"api/v2/tenants/default_tenant/databases/default_database/collections/{collection.id}/query"
    parameters = {
        "url": f"{server}/{path}",
        "body": '{"query_embeddings": ["$vector"], "n_results": "$k", "include": []}',
        "ids": "ids[0]",
    }
    with Http() as engine:
        rebuild(engine, dataset, parameters, {})
        assert recall_of(engine, dataset) >= 0.95
        assert "queries answered by" in engine.exercised()
    client.delete_collection("of-somebody-else")
    close_client(client)
