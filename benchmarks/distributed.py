"""What Ray costs and what it survives: truth on Ray against truth on one machine, interleaved in one run.

    python benchmarks/distributed.py [--rows 1000000] [--queries 10000] [--dimension 128] [--rounds 3]
                                     [--only cost,split,memory,kills,plan] [--kills 20]

A corpus is written to a temporary folder and opened from there, as workers open it. All clusters are local.

- cost: Ray on a warm cluster against one machine with the same two cores, and the same bytes. Target: 1.15.
- split: 1, 2 and 4 workers: the work of each, which should fall as 1/N, and the share of merging, under 5 %.
  More workers than cores share these, so that their work is counted in CPU seconds, not in time.
- memory: the peak of a worker as the corpus doubles. It should stay.
- kills: workers, and a second node, killed with -9 at random moments; the truth must be the same bytes.
- plan: the time that --plan predicts against the time it takes, for three sizes. Target: within 25 %.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

# Before Ray is imported: loopback only, nothing reported, and the priority of what it is compared with.
os.environ.update(
    RAY_USAGE_STATS_ENABLED="0",
    RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0",
    RAY_enable_metrics_collection="0",
    RAY_DEDUP_LOGS_SKIP_REGEX=".*",
    RAY_worker_niceness="0",
)

import psutil
import ray
from ray.cluster_utils import Cluster

from recallatk import open_dataset, plan_truth, save_truth
from recallatk.truths import ground_truth, shard_plan
from recallatk.truths.ray_cluster import RayCluster
from recallatk.truths.ray_work import RayWork

if TYPE_CHECKING:
    from recallatk.core import Dataset, Truth

DEPTH, CORES = 100, 2
MEMORY = 1 << 30


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--dimension", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--only", default="cost,split,memory,kills,plan")
    chosen = parser.parse_args()
    parts = {"cost": cost, "split": split, "memory": memory, "kills": kills, "plan": plan}
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen.only.split(","):
            print(f"\n{name}")
            parts[name](Path(folder), chosen)


def generated(folder: Path, rows: int, queries: int, dimension: int) -> Dataset:
    made = np.random.default_rng(0)
    for name, count in (("corpus", rows), ("queries", queries)):
        path = folder / f"{name}-{count}-{dimension}.npy"
        if not path.exists():
            np.save(path, made.standard_normal((count, dimension), np.float32))
    corpus, asked = (folder / f"{n}-{c}-{dimension}.npy" for n, c in (("corpus", rows), ("queries", queries)))
    return open_dataset(corpus, asked, metric="l2")


def nodes(*cpus: int) -> Cluster:
    """A cluster with a node for each number of CPUs, connected and with its workers started."""
    options = [{"num_cpus": count, "memory": 8 << 30, "object_store_memory": 1 << 30} for count in cpus]
    config = {"health_check_period_ms": 500, "health_check_failure_threshold": 2}
    head = options[0] | {"include_dashboard": False, "_system_config": config}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    cluster.others = [(cluster.add_node(**each), each) for each in options[1:]]
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    return cluster


def stop(cluster: Cluster) -> None:
    ray.shutdown()
    cluster.shutdown()


def on_ray(
    dataset: Dataset, workers: int, progress: Any = None, folder: str | None = None, memory: int = MEMORY
) -> Any:
    """Truth, tally of tasks and seconds on the connected cluster."""
    # A new dataset: fingerprints of one that is known would not be taken again.
    began = time.perf_counter()
    work = RayWork.of(dataset, DEPTH, memory, workers, ("blas", None), RayCluster(None, folder))
    search = work.search(progress)
    truth = search.run().truth(dataset, work.fingerprints)
    return truth, search.tally, time.perf_counter() - began


def same(one: Truth, other: Truth, folder: Path) -> str:
    """Whether two truths are the same file, byte for byte."""
    for name, truth in (("one", one), ("other", other)):
        save_truth(truth, folder / f"{name}.parquet")
    both = [(folder / f"{name}.parquet").read_bytes() for name in ("one", "other")]
    return "same bytes" if both[0] == both[1] else "DIFFERENT BYTES"


def cost(folder: Path, chosen: argparse.Namespace) -> None:
    shape = (chosen.rows, chosen.queries, chosen.dimension)
    cluster = nodes(CORES)
    on_ray(generated(folder, min(chosen.rows, 100_000), 1_000, chosen.dimension), CORES)
    alone, apart, ratios = [], [], []
    for _ in range(chosen.rounds):
        began = time.perf_counter()
        expected = ground_truth(generated(folder, *shape), depth=DEPTH, threads=CORES, memory=2 * MEMORY)
        alone.append(time.perf_counter() - began)
        truth, tally, seconds = on_ray(generated(folder, *shape), CORES)
        apart.append(seconds)
        ratios.append(apart[-1] / alone[-1])
    stop(cluster)
    print(
        f"{shape[0]:,} x {shape[2]}, {shape[1]:,} queries: one machine {statistics.median(alone):.2f} s, Ray "
        f"{statistics.median(apart):.2f} s, ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to "
        f"{max(ratios):.2f}), {len(tally.scans)} shards, {same(expected, truth, folder)}"
    )


def split(folder: Path, chosen: argparse.Namespace) -> None:
    shape = (chosen.rows, chosen.queries, chosen.dimension)
    for workers in (1, 2, 4):
        cluster = nodes(workers)
        _, tally, seconds = on_ray(generated(folder, *shape), 4)
        stop(cluster)
        scanned, merging = total(tally.scans), total(tally.merges)
        print(
            f"{workers} workers: {scanned / workers:6.2f} CPU s of scanning each, merging "
            f"{merging:5.2f} CPU s, {merging / (scanned + merging):.1%} of all; {seconds:.2f} s in all"
        )


def total(reports: list[Any]) -> float:
    return sum(each.cpu_seconds for each in reports)


def memory(folder: Path, chosen: argparse.Namespace) -> None:
    for rows in (chosen.rows // 4, chosen.rows // 2, chosen.rows):
        # A new cluster, because a worker keeps its peak.
        cluster = nodes(CORES)
        data = generated(folder, rows, chosen.queries // 10, chosen.dimension)
        # A small budget, so that every size is cut into several shards.
        _, tally, _ = on_ray(data, CORES, memory=MEMORY // 4)
        stop(cluster)
        peak = max(each.peak_bytes for each in tally.scans)
        print(f"{rows:10,} rows, {len(tally.scans):3} shards: {peak / (1 << 20):,.0f} MiB at most per worker")


def kills(folder: Path, chosen: argparse.Namespace) -> None:
    dataset = generated(folder, chosen.rows, chosen.queries, chosen.dimension)
    expected = ground_truth(dataset, depth=DEPTH, threads=CORES)
    # Small tasks, so that there are enough to kill.
    shard_plan._FEWEST_OPERATIONS = 1e9
    killed: list[str] = []
    chance = random.Random(0)
    rounds = 0
    cluster = nodes(1, 1)
    while len(killed) < chosen.kills:
        # Nodes are added by the main thread, because Ray sets signal handlers with each.
        with ThreadPoolExecutor(1) as beside:
            coming = beside.submit(on_ray, dataset, 4, None, str(folder / f"done-{rounds}"))
            kill(cluster, chosen.kills, killed, coming, chance)
            truth, tally, _ = coming.result()
        rounds += 1
        said = same(expected, truth, folder)
        reused = sum(each.reused for each in tally.scans)
        print(
            f"computation {rounds}: {len(killed)} killed so far, {len(tally.scans)} shards, {reused} reused, "
            f"{said}"
        )
    stop(cluster)
    print(
        f"{killed.count('worker')} workers and {killed.count('node')} nodes killed in {rounds} computations"
    )


def kill(cluster: Cluster, most: int, killed: list[str], coming: Any, chance: random.Random) -> None:
    while len(killed) < most and not wait([coming], chance.uniform(0.2, 2.0)).done:
        if chance.random() < 0.2:
            node, options = cluster.others.pop()
            os.kill(node.all_processes["raylet"][0].process.pid, signal.SIGKILL)
            cluster.remove_node(node, allow_graceful=False)
            cluster.others.append((cluster.add_node(**options), options))
            killed.append("node")
            continue
        busy = [each for each in psutil.Process().children(recursive=True) if is_scanning(each)]
        if busy:
            chance.choice(busy).kill()
            killed.append("worker")


def is_scanning(process: psutil.Process) -> bool:
    try:
        return process.cmdline()[:1] == ["ray::scan"]
    except psutil.Error:
        return False


def plan(folder: Path, chosen: argparse.Namespace) -> None:
    for share in (10, 3, 1):
        rows = chosen.rows // share
        measured, planned = [], []
        for _ in range(chosen.rounds):
            found = plan_truth(generated(folder, rows, chosen.queries, chosen.dimension), threads=CORES)
            planned.append(found.lines[0].seconds)
            dataset = generated(folder, rows, chosen.queries, chosen.dimension)
            began = time.perf_counter()
            ground_truth(dataset, depth=DEPTH, threads=CORES)
            measured.append(time.perf_counter() - began)
        ratios = [one / other for one, other in zip(planned, measured, strict=True)]
        print(
            f"{rows:10,} rows: planned {statistics.median(planned):.2f} s, measured "
            f"{statistics.median(measured):.2f} s, ratio {statistics.median(ratios):.2f} "
            f"({min(ratios):.2f} to {max(ratios):.2f})"
        )


if __name__ == "__main__":
    main()
