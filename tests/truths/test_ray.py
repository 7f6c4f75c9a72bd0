"""Truth on a real Ray cluster of two nodes: the same bytes, whoever is killed on the way."""

import json
import os
import signal
import subprocess
import sys
import time

import boto3
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from moto.server import ThreadedMotoServer
from test_updating import contents, numbers

from recallatk import ground_truth, open_dataset
from recallatk.errors import RecallError, UsageError
from recallatk.truths import ray_search, ray_tasks, ray_work, shard_plan
from recallatk.truths.ray_cluster import RayCluster
from recallatk.truths.ray_work import RayWork

# On loopback only, and before Ray is imported.
os.environ.update(
    RAY_USAGE_STATS_ENABLED="0",
    RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0",
    RAY_enable_metrics_collection="0",
    RAY_DEDUP_LOGS_SKIP_REGEX=".*",
    AWS_ACCESS_KEY_ID="testing",
    AWS_SECRET_ACCESS_KEY="testing",
)
MEMORY = "256MiB"
NODE = {"num_cpus": 1, "memory": 1 << 30, "object_store_memory": 100 << 20, "include_dashboard": False}


@pytest.fixture(scope="module")
def cluster():
    """Two nodes, each with a raylet and an object store of its own; one connection for all tests."""
    import ray
    from ray.cluster_utils import Cluster

    config = {"health_check_period_ms": 500, "health_check_failure_threshold": 2}
    nodes = Cluster(initialize_head=True, head_node_args=NODE | {"_system_config": config})
    nodes.second = nodes.add_node(**NODE)
    ray.init(address=nodes.address, log_to_driver=False, logging_level="ERROR")
    yield nodes
    before = psutil.Process().children(recursive=True)
    ray.shutdown()
    nodes.shutdown()
    _, alive = psutil.wait_procs(before, timeout=10)
    assert not [each for each in alive if "ray" in " ".join(each.cmdline())]


@pytest.fixture(autouse=True)
def several_shards(monkeypatch):
    monkeypatch.setattr(shard_plan, "_FEWEST_OPERATIONS", 1)
    monkeypatch.setattr(ray_work, "_WORKERS_ELSEWHERE", 2)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Enough work that a task can be caught at it."""
    folder = tmp_path_factory.mktemp("large data")
    random = np.random.default_rng(0)
    np.save(folder / "corpus.npy", random.standard_normal((60_000, 64), np.float32))
    np.save(folder / "queries.npy", random.standard_normal((2_000, 64), np.float32))
    return open_dataset(folder / "corpus.npy", folder / "queries.npy", metric="l2")


@pytest.fixture(scope="module")
def expected(large):
    return contents(ground_truth(large, depth=50, store=False))


def on_ray(dataset, depth, folder=None, progress=None, memory=MEMORY):
    cluster = RayCluster("auto", None if folder is None else str(folder))
    work = RayWork.of(dataset, depth, memory, 2, ("blas", None), cluster)
    search = work.search(progress)
    return search.run().truth(dataset, work.fingerprints), search.tally, search


def written(folder, corpus, shards, **columns):
    """A corpus in Parquet shards."""
    folder.mkdir()
    for number, part in enumerate(np.array_split(np.arange(len(corpus)), shards)):
        table = {"vector": list(corpus[part]), **{name: each[part] for name, each in columns.items()}}
        pq.write_table(pa.table(table), folder / f"part-{number}.parquet")
    return folder


@pytest.mark.parametrize("metric", ["cosine", "ip", "l2"])
def test_shards_on_two_nodes_give_the_truth_of_one_machine(cluster, tmp_path, metric):
    random = np.random.default_rng(5)
    corpus = numbers(random, 700, "float32", "near" if metric == "cosine" else "ties")
    ids = np.array([f"row {number}" for number in range(700)])
    folder = written(tmp_path / "a corpus", corpus, 3, id=ids, n=np.arange(700) % 10)
    np.save(tmp_path / "q.npy", corpus[:40])
    dataset = open_dataset(folder, tmp_path / "q.npy", metric=metric, where="n != 3")
    found = ground_truth(dataset, depth=20, on="ray", store=tmp_path / "store", memory=MEMORY)
    alone = ground_truth(dataset, depth=20, store=False)
    assert contents(found) == contents(alone)
    assert found.certificate.decided.tolist() == alone.certificate.decided.tolist()
    assert [each.name for each in (tmp_path / "store/truth").rglob("*.npz")] == []


def test_the_queries_may_come_in_several_groups(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(shard_plan, "_RESULT_BYTES", 1)
    random = np.random.default_rng(6)
    np.save(tmp_path / "c.npy", numbers(random, 90, "float64"))
    np.save(tmp_path / "q.npy", numbers(random, 3, "float64"))
    dataset = open_dataset(tmp_path / "c.npy", tmp_path / "q.npy", metric="ip")
    found, tally, _ = on_ray(dataset, 100)
    assert contents(found) == contents(ground_truth(dataset, depth=100, store=False))
    assert len(tally.scans) > 3


def test_thresholds_are_passed_on_and_no_shard_is_in_the_object_store(cluster, large, expected):
    found, tally, _ = on_ray(large, 50)
    assert contents(found) == expected
    assert len(tally.scans) == 8 and tally.merges
    assert min(each.candidates for each in tally.scans) < 0.6 * max(each.candidates for each in tally.scans)


def scanning():
    """Worker processes that scan; raylets are children of this process, workers of the raylets."""
    found = []
    for each in psutil.Process().children(recursive=True):
        try:
            if each.cmdline()[:1] == ["ray::scan"]:
                found.append(each)
        except psutil.Error:
            continue
    return found


def test_workers_and_a_node_killed_at_work_cost_only_their_tasks(cluster, large, expected, tmp_path):
    killed = []

    def kill(done, total):
        if not killed:
            os.kill(cluster.second.all_processes["raylet"][0].process.pid, signal.SIGKILL)
            killed.append("node")
        elif done < total:
            # A task may be between two workers.
            deadline = time.monotonic() + 2
            while not (workers := scanning()) and time.monotonic() < deadline:
                time.sleep(0.02)
            for worker in workers[:1]:
                worker.kill()
                killed.append(worker.pid)

    try:
        found, tally, _ = on_ray(large, 50, tmp_path, progress=kill)
    finally:
        cluster.remove_node(cluster.second)
        cluster.second = cluster.add_node(**NODE)
    assert len(killed) > 1
    assert len(tally.scans) == 8
    assert contents(found) == expected


DRIVER = """
import os, signal, sys
from recallatk import ground_truth, open_dataset
from recallatk.truths import ray_work, shard_plan
shard_plan._FEWEST_OPERATIONS, ray_work._WORKERS_ELSEWHERE = 1, 2
corpus, queries, address, folder = sys.argv[1:]
calls = []
def progress(done, total):
    calls.append(done)
    if len(calls) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
ground_truth(
    corpus, queries, metric="l2", depth=50, store=False, memory="256MiB", threads=2,
    on="ray", address=address, checkpoints=folder, progress=progress,
)
"""


@pytest.fixture(scope="module")
def object_store():
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    store = boto3.client("s3", endpoint_url=f"http://{host}:{port}", region_name="us-east-1")
    store.create_bucket(Bucket="bucket")
    yield f"s3://bucket/done?scheme=http&endpoint_override={host}:{port}&region=us-east-1", store
    store.close()
    server.stop()


def test_a_killed_driver_costs_only_what_no_checkpoint_has(cluster, large, expected, tmp_path, object_store):
    url, store = object_store
    names = [str(each.name) for each in (large.corpus, large.queries)]
    command = [sys.executable, "-c", DRIVER, *names, cluster.address, url]
    driver = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert driver.returncode == -signal.SIGKILL, driver.stderr
    saved = [each["Key"] for each in store.list_objects_v2(Bucket="bucket")["Contents"]]
    finished = sum(name.endswith(".npz") for name in saved)
    assert finished >= 2
    found, tally, search = on_ray(large, 50, url)
    assert sum(each.reused for each in tally.scans) >= finished
    assert contents(found) == expected
    search.forget()
    assert store.list_objects_v2(Bucket="bucket", Prefix="done").get("KeyCount") in (0, 1)


def test_checkpoints_of_other_data_are_refused(cluster, large, tmp_path):
    _, _, search = on_ray(large, 3, tmp_path)
    [plan] = tmp_path.rglob("plan.json")
    said = json.loads(plan.read_text())
    plan.write_text(json.dumps(said | {"identity": "other"}))
    with pytest.raises(RecallError, match="belong to a different computation"):
        on_ray(large, 3, tmp_path)
    plan.write_text("{")
    with pytest.raises(RecallError, match=r"plan\.json"):
        on_ray(large, 3, tmp_path)
    plan.write_text(json.dumps(said))
    for number, file in enumerate(sorted(tmp_path.rglob("*.npz"))[:2]):
        file.write_bytes(file.read_bytes()[: 100 * number])
    _, tally, _ = on_ray(large, 3, tmp_path)
    assert sum(not each.reused for each in tally.scans) == 2
    search.forget()
    assert not list(tmp_path.rglob("*.npz"))


def test_a_straggler_is_started_again(cluster, large, expected, monkeypatch, tmp_path):
    monkeypatch.setattr(ray_search, "_STRAGGLER_SECONDS", 0.5)
    monkeypatch.setattr(ray_search, "_STRAGGLER_RATIO", 0.0)
    monkeypatch.setattr(ray_search, "_LOOK_SECONDS", 0.1)
    stopped = []

    def stop(done, total):
        if not stopped and done >= total / 2:
            stopped.extend(scanning()[:1])
            for each in stopped:
                each.suspend()

    try:
        found, tally, _ = on_ray(large, 50, progress=stop)
    finally:
        for each in stopped:
            if each.is_running():
                each.kill()
    assert stopped and tally.doubled
    assert contents(found) == expected


def test_bad_data_are_found_before_any_work(cluster, tmp_path):
    corpus = np.random.default_rng(0).random((90, 4), np.float32)
    np.save(tmp_path / "q.npy", corpus[:2])
    started = []

    def refused(folder, match, metric="l2"):
        with pytest.raises(RecallError, match=match):
            ground_truth(
                folder, tmp_path / "q.npy", metric=metric, on="ray", address="auto", depth=3, store=False,
                progress=lambda *_: started.append(1), memory=MEMORY,
            )  # fmt: skip

    bad = corpus.copy()
    bad[88, 1] = np.nan
    refused(written(tmp_path / "nan", bad, 3), r"part-2.parquet, row 28: nan")
    other = written(tmp_path / "type", corpus, 3)
    pq.write_table(pa.table({"vector": list(corpus[:9].astype("float64"))}), other / "part-2.parquet")
    refused(other, "columns differ")
    ragged = written(tmp_path / "ragged", corpus, 3)
    pq.write_table(pa.table({"vector": list(corpus[:9, :3])}), ragged / "part-2.parquet")
    refused(ragged, "part-2.parquet, row 0")
    ids = np.arange(90)
    ids[80] = 4
    refused(written(tmp_path / "ids", corpus, 3, id=ids), "duplicate id 4")
    zero = corpus.copy()
    zero[70] = 0
    refused(written(tmp_path / "zero", zero, 3), "zero vector", "cosine")
    assert not started


def test_a_file_that_changes_meanwhile_gives_no_truth(cluster, tmp_path):
    random = np.random.default_rng(0)
    np.save(tmp_path / "c.npy", random.random((90, 4), np.float32))
    np.save(tmp_path / "q.npy", random.random((2, 4), np.float32))
    dataset = open_dataset(tmp_path / "c.npy", tmp_path / "q.npy", metric="l2")
    work = RayWork.of(dataset, 3, MEMORY, 2, ("blas", None), RayCluster("auto"))
    np.save(tmp_path / "c.npy", random.random((90, 4), np.float32))
    with pytest.raises(RecallError, match="a worker reads other vectors"):
        work.search(None).run()
    np.save(tmp_path / "c.npy", random.random((91, 4), np.float32))
    with pytest.raises(UsageError, match=r"reads another corpus: 91 x 4 float32, not 90 x 4"):
        work.search(None).run()
    (tmp_path / "c.npy").unlink()
    with pytest.raises(UsageError, match=r"node .* cannot read the corpus: .*no such file"):
        work.search(None).run()


def test_clusters_without_room_or_of_another_version_are_refused(cluster, tmp_path, monkeypatch):
    np.save(tmp_path / "c.npy", np.ones((9, 4), np.float32))
    again = (tmp_path / "c.npy", tmp_path / "c.npy")
    with pytest.raises(UsageError, match=r"no node .* 1 CPU and 2,048 MiB.* 1 CPU and 1,024 MiB"):
        ground_truth(*again, metric="l2", on="ray", address="auto", memory="2GiB", store=False)
    monkeypatch.setattr("recallatk.truths.ray_cluster.__version__", "9.9")
    with pytest.raises(UsageError, match=r"node .* has recallatk .* this process recallatk 9.9"):
        ground_truth(*again, metric="l2", on="ray", address="auto", memory=MEMORY, store=False)


def test_a_worker_out_of_memory_is_an_error_that_says_so(cluster, tmp_path, monkeypatch):
    def hungry(*_):
        raise MemoryError

    np.save(tmp_path / "c.npy", np.ones((9, 4), np.float32))
    monkeypatch.setattr(ray_tasks, "scan", hungry)
    with pytest.raises(UsageError, match=r"ran out of memory at rows .* to .*Lower --memory"):
        ground_truth(
            tmp_path / "c.npy", tmp_path / "c.npy", metric="l2", on="ray", memory=MEMORY, store=False
        )
