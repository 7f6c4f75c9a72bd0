"""A real Milvus server, as its package on PyPI brings one: what Lite cannot show."""

import fcntl
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recallatk.adapters import QueryBatch
from recallatk.adapters.milvus import SMALLEST_SEGMENT, Milvus
from recallatk.errors import EngineError
from recallatk.filters import parse_filter
from recallatk.testing.contract_ground import K, batch_of, data, rebuild, recall, vectors_of

from commands import recallatk  # isort: skip

pytestmark = pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"),
    reason="the package with the server is for Linux on x86-64 alone",
)


@pytest.fixture(scope="module")
def uri(tmp_path_factory):
    """The address of a server, stopped in the end."""
    # Its parts have fixed ports among themselves, so that workers of one suite take turns.
    lock = (tmp_path_factory.getbasetemp().parent / "milvus-server.lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [Path(sys.executable).with_name("milvus-server"), "--data", tmp_path_factory.mktemp("milvus")]
    process = subprocess.Popen(
        [*command, "--proxy-port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_for(f"http://127.0.0.1:{port}", process)
        yield f"http://127.0.0.1:{port}"
    finally:
        # The command has a process of its own for the server.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(20)
        lock.close()


def wait_for(uri, process):
    from pymilvus import MilvusClient, MilvusException

    until = time.monotonic() + 120
    while time.monotonic() < until and process.poll() is None:
        try:
            client = MilvusClient(uri, timeout=5)
            client.list_collections()
            client.close()
        except MilvusException:
            time.sleep(0.5)
        else:
            return
    pytest.fail("the server does not answer")


@pytest.fixture
def engine():
    with Milvus() as made:
        yield made


@pytest.mark.parametrize(
    ("build", "least", "most"),
    [
        ({"M": 4, "ef_construction": 16}, {"ef": K, "nprobe": 1}, {"ef": 1000, "nprobe": 1}),
        ({"index": "IVF_FLAT", "nlist": 16}, {"ef": K, "nprobe": 1}, {"ef": K, "nprobe": 16}),
    ],
    ids=["graph", "clusters"],
)
def test_its_index_answers_and_effort_tells(engine, uri, build, least, most):
    dataset = data(rows=2_000)
    rebuild(engine, dataset, {**build, "uri": uri}, least)
    low = recall(engine.search(batch_of(dataset), K), dataset)
    assert engine.exercised() == f"2,000 of 2,000 rows in {build.get('index', 'HNSW')} indexes"
    assert engine.call() == "gRPC round trip"
    assert engine.version().startswith("milvus ")
    engine.configure(**most)
    assert low < recall(engine.search(batch_of(dataset), K), dataset) > 0.98


def test_filters_deletions_small_collections_and_the_end(uri):
    from pymilvus import MilvusClient

    client, dataset = MilvusClient(uri), data(rows=300)
    asked, before = vectors_of(dataset), client.list_collections()
    sizes = dataset.corpus.columns.read(["size"], 0, 300)["size"].to_numpy()
    limit = int(np.median(sizes))
    with Milvus() as engine:
        rebuild(engine, dataset, {"uri": uri}, {})
        with pytest.raises(EngineError, match=f"no index below {SMALLEST_SEGMENT:,} rows"):
            engine.exercised()
        found = engine.search(QueryBatch(asked, [parse_filter(f"size >= {limit}")] * len(asked)), K)
        assert found.min() >= 0 and sizes[found].min() >= limit
        first = engine.search(QueryBatch(asked), K)[:, 0]
        engine.delete(np.unique(first))
        assert not np.isin(engine.search(QueryBatch(asked), K), first).any()
        assert len(client.list_collections()) == len(before) + 1
    assert client.list_collections() == before
    client.close()


@pytest.fixture
def in_use(uri):
    """A collection as a user made it, which is not loaded; its client and its vectors."""
    from pymilvus import DataType, MilvusClient

    client = MilvusClient(uri)
    schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("key", DataType.VARCHAR, is_primary=True, max_length=20)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=32)
    schema.add_field("price", DataType.INT64)
    client.create_collection("items", schema=schema)
    vectors = np.random.default_rng(0).normal(size=(2_000, 32)).astype("f4")
    lines = [{"key": f"k{row}", "vector": each, "price": row % 100} for row, each in enumerate(vectors)]
    client.insert("items", lines)
    client.flush("items")
    index = client.prepare_index_params()
    build = {"M": 6, "efConstruction": 40}
    index.add_index("vector", index_name="by_vector", index_type="HNSW", metric_type="L2", params=build)
    client.create_index("items", index)
    yield client, vectors
    client.drop_collection("items")
    client.close()


def state(client):
    names = client.list_collections()
    loads = [str(client.get_load_state(each)) for each in names]
    return names, loads, client.list_indexes("items"), client.get_collection_stats("items")


def test_a_collection_in_use_is_probed_and_tuned_as_it_is(in_use, uri, tmp_path):
    client, vectors = in_use
    target, environment = uri.replace("http", "milvus") + "/items", {"MILVUS_TOKEN": "root:of-the-shop"}
    asked = np.random.default_rng(1).normal(size=(90, 32)).astype("f4")
    pq.write_table(pa.table({"vector": list(asked)}), tmp_path / "queries.parquet")

    def run(command, *more):
        words = ("--queries", tmp_path / "queries.parquet", "--max-rate", "none", *more)
        done = recallatk(command, target, *words, env=environment)
        assert "of-the-shop" not in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done

    before = state(client)
    refused = run("probe")
    assert refused.returncode != 0
    assert "client.load_collection('items')" in refused.stderr
    assert state(client) == before
    client.load_collection("items")
    before = state(client)
    for where, mask in ((None, np.ones(2_000, bool)), ("price < 40", np.arange(2_000) % 100 < 40)):
        far = np.linalg.norm(vectors[None].astype(float) - asked[:, None], axis=2)
        right = np.argsort(np.where(mask, far, np.inf), axis=1)[:, :K]
        effort = {"params": {"ef": 40}}
        # The first answers after loading, and after a new filter, are not yet those of later calls.
        for _ in range(2):
            found = client.search("items", list(asked), filter=where or "", limit=K, search_params=effort)
        expected = [
            len({hit["id"] for hit in hits} & {f"k{row}" for row in rows}) / K
            for hits, rows in zip(found, right, strict=True)
        ]
        more = () if where is None else ("--where", where)
        said = json.loads(run("probe", "--search", "ef=40", "--json", *more).stdout)
        assert said["recall"]["value"] == pytest.approx(np.mean(expected), abs=0.03)
        assert 0.2 < np.mean(expected) < 0.99
        assert said["index"] == "HNSW on vector (L2, M=6, efConstruction=40)"
        assert said["settings"] == {"consistency_level": "Bounded", "ef": "40"}
        assert any("may miss the latest writes" in each for each in said["notes"])
    low = run("probe", "--search", "ef=5")
    assert (low.returncode, "--search ef=10" in low.stderr) == (2, True)
    tuned = json.loads(run("tune", "--target", "recall@10 >= 0.6", "--json").stdout)
    assert tuned["met"] is True
    assert min(each["search"]["ef"] for each in tuned["tried"]) >= K
    assert state(client) == before


def test_a_server_that_is_not_there_is_named():
    done = recallatk("probe", "milvus://127.0.0.1:1/items")
    assert done.returncode != 0
    assert "127.0.0.1:1 cannot be reached" in done.stderr
    assert "Traceback" not in done.stderr
