"""A real Milvus server, as its package on PyPI brings one: what Lite cannot show."""

import fcntl
import os
import platform
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from recallatk.adapters import QueryBatch
from recallatk.adapters.milvus import SMALLEST_SEGMENT, Milvus
from recallatk.errors import EngineError
from recallatk.filters import parse_filter
from recallatk.testing.contract_ground import K, batch_of, data, rebuild, recall, vectors_of

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
