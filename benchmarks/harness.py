"""Whether measuring changes what is measured: queries per second as a run reports them against a bare loop.

For faiss HNSW, hnswlib and usearch at two efforts, on the bundled data, one thread: a bare loop over the
library, written for the purpose, and our timed block, on the same index in the same process, taking turns.
Then the whole `recallatk run` on the bundled data: where its wall time goes.

    python benchmarks/harness.py [--rounds 15]
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import recallatk
from recallatk.adapters import get_engine
from recallatk.analysis.latency import qps
from recallatk.bench.load import Questions, run_block
from recallatk.bench.trial_result import TrialBlocks
from recallatk.core import Load, Metric
from recallatk.datasets.demo import DEMO_FOLDER

K = 10
ENGINES = {
    "faiss-hnsw": {"ef": (32, 128)},
    "hnswlib": {"ef": (32, 128)},
    "usearch": {"expansion": (32, 128)},
}


def bare(name, engine, queries, order):
    """What somebody would write who wants to know how fast the library is."""
    index = engine.index
    views = [queries[i : i + 1] for i in order]
    began = time.perf_counter()
    if name == "faiss-hnsw":
        found = [index.search(view, K)[1] for view in views]
    elif name == "hnswlib":
        found = [index.knn_query(view, K, 1)[0] for view in views]
    else:
        found = [index.search(view, K, threads=1).keys for view in views]
    return len(views) / (time.perf_counter() - began), found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    dataset = recallatk.open_demo()
    truth = recallatk.ground_truth(dataset, depth=K)
    queries = dataset.queries.vectors.read(0, dataset.queries.rows)
    print(
        f"{'engine':12} {'setting':15} {'bare QPS':>9} {'ours QPS':>9} {'ours/bare':>10} {'spread':>14}  "
        "recall"
    )
    for name, knob in ENGINES.items():
        kind = get_engine(name)
        with kind() as engine:
            defaults = {each.name: each.default for each in kind.build_knobs}
            engine.set_threads(2)
            engine.build(dataset.corpus, Metric.COSINE, **defaults)
            engine.set_threads(1)
            ((parameter, efforts),) = knob.items()
            for effort in efforts:
                engine.configure(**{parameter: effort})
                compare(name, engine, f"{parameter}={effort}", queries, truth, rounds)
    split()


def compare(name, engine, setting, queries, truth, rounds):
    questions = Questions(queries, K)
    ratios, bares, ours = [], [], []
    for turn in range(rounds):
        order = np.random.default_rng(turn).permutation(len(queries))

        def by_hand(order=order):
            bares.append(bare(name, engine, queries, order))

        def by_us(order=order):
            collected = TrialBlocks(0, len(queries), K)
            collected.add(run_block(engine, Load(), questions, order), None)
            ours.append((qps(collected.result().calls, one_client=True).median, collected.answers))

        for each in (by_hand, by_us) if turn % 2 else (by_us, by_hand):
            each()
        ratios.append(ours[-1][0] / bares[-1][0])
        answers = np.full((len(queries), K), -1, np.int64)
        answers[order] = np.concatenate([np.atleast_2d(each) for each in bares[-1][1]]).astype(np.int64)
    recalls = [
        recallatk.score(truth=truth, answers=each, at=[K], row_numbers=True)["recall@10"]
        for each in (answers, ours[-1][1])
    ]
    same = "identical" if recalls[0] == recalls[1] else f"DIFFERENT: {recalls}"
    print(
        f"{name:12} {setting:15} {statistics.median(each[0] for each in bares):9,.0f} "
        f"{statistics.median(each[0] for each in ours):9,.0f} {statistics.median(ratios):10.3f} "
        f"{min(ratios):6.3f}-{max(ratios):6.3f}  {recalls[1]:.4f} {same}"
    )


def split():
    """Where the wall time of a whole run on the bundled data goes, start of the interpreter included."""
    with tempfile.TemporaryDirectory() as name:
        command = [sys.executable, "-m", "recallatk", "run", str(DEMO_FOLDER), "--metric", "cosine", "--json"]
        began = time.perf_counter()
        done = subprocess.run([*command, "--out", str(Path(name) / "run")], capture_output=True, check=True)
        wall = time.perf_counter() - began
        seconds = json.loads(done.stdout)["seconds"]
    inside = seconds["building"] + seconds["searching"]
    print(f"\nrecallatk run on the bundled data: {wall:.1f} s, of which")
    for part, spent in seconds.items():
        print(f"  {part:10} {spent:6.1f} s  {spent / wall:5.1%}")
    print(
        f"  {'start':10} {wall - sum(seconds.values()):6.1f} s  {(wall - sum(seconds.values())) / wall:5.1%}"
    )
    print(f"inside engine calls and builds: {inside / wall:.1%} (wanted: at least 80 %)")


if __name__ == "__main__":
    main()
