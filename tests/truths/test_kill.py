"""Processes that are killed while they compute a truth: whoever starts them again gets the same bytes."""

import dataclasses
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_updating import contents, numbers

from recallatk import load_truth, open_dataset
from recallatk.truths import ground_truth

# Every computation is a process of its own, forked where the imports, which cost more, are done already.
SCRIPT = """
import dataclasses, json, os, sys
import numpy as np
import psutil, pyarrow.csv, pyarrow.json, pyarrow.parquet, threadpoolctl
from recallatk import open_dataset
from recallatk.truths import compute as computation, obtain_truth
from recallatk.truths.memory_plan import MemoryPlan

def compute(asked, store):
    computation.plan = lambda *_: MemoryPlan(asked["block_rows"], asked["group_queries"])
    for corpus in asked["corpora"]:
        dataset = open_dataset(corpus, asked["queries"], metric=asked["metric"], where=asked["where"])
        if asked["own"]:
            queries = dataclasses.replace(dataset.queries, corpus_rows=np.asarray(asked["own"]))
            dataset = dataclasses.replace(dataset, queries=queries)
        print("begin", flush=True)
        obtain_truth(
            dataset, depth=7, store=store, threads=asked["threads"],
            progress=lambda done, _: print(done, flush=True), checkpoint_seconds=0,
        )
    print("end", flush=True)

for line in sys.stdin:
    process = os.fork()
    if not process:
        print(os.getpid(), flush=True)
        compute(*json.loads(line))
        os._exit(0)
    os.waitpid(process, 0)
    # On a line of its own, though whoever was killed had not come to the end of one.
    print("\\nover", flush=True)
"""
MOST_KILLS = 2


@dataclasses.dataclass(frozen=True)
class Case:
    """Data on disk, and how to compute its truth."""

    corpora: tuple[np.ndarray, ...]
    """The last one is the one that counts; its truth may be brought up to date from the one before."""
    queries: np.ndarray
    metric: str
    parquet: bool = False
    where: str | None = None
    own: tuple[int, ...] = ()
    threads: int = 1

    def written(self, folder, number):
        """What the script is asked, as text."""
        asked = {"block_rows": 60, "group_queries": 8, "queries": str(folder / f"queries-{number}.npy")}
        asked |= {name: getattr(self, name) for name in ("metric", "where", "own", "threads")}
        asked["corpora"] = []
        np.save(asked["queries"], self.queries)
        for part, vectors in enumerate(self.corpora):
            path = folder / f"corpus-{number}-{part}.{'parquet' if self.parquet else 'npy'}"
            asked["corpora"].append(str(path))
            if self.parquet:
                columns = {"vector": list(vectors), "n": np.arange(len(vectors)) % 100}
                pq.write_table(pa.table(columns), path, row_group_size=100)
            else:
                np.save(path, vectors)
        return json.dumps(asked)


def easy(random):
    metric = str(random.choice(["cosine", "ip", "l2"]))
    return Case((numbers(random, 600, "float32"),), numbers(random, 24, "float32"), metric, threads=2)


def whole_numbers(random):
    corpus, own = numbers(random, 600, "int8", "ties"), random.integers(0, 600, 24)
    return Case((corpus,), corpus[own], "l2", parquet=True, own=tuple(own.tolist()))


def filtered(random):
    corpus, queries = numbers(random, 600, "float32"), numbers(random, 24, "float32")
    where = f"n < {random.integers(1, 100)}"
    return Case((corpus,), queries, "cosine", parquet=True, where=where)


def far_from_zero(random):
    """Cosines that float32 cannot tell apart: the second stage is on its way half of the time."""
    return Case((numbers(random, 600, "float64", "far"),), numbers(random, 16, "float64", "far"), "cosine")


def copies(random):
    """More ties than the first two stages put up with."""
    corpus = np.concatenate([np.ones((500, 4)), random.normal(9, 1, (100, 4))]).astype("float32")
    queries = np.concatenate([np.ones((4, 4)), random.normal(9, 1, (8, 4))]).astype("float32")
    return Case((random.permutation(corpus),), random.permutation(queries), "l2")


def updated(random):
    """Half of the queries lose a neighbor, and there are new rows for the others."""
    corpus, queries = numbers(random, 600, "float32", "near"), numbers(random, 24, "float32", "near")
    after = np.delete(corpus, random.integers(0, 600, 30), 0)
    return Case((corpus, np.concatenate([after, queries[:3]])), queries, "cosine")


CASES = [easy, whole_numbers, filtered, far_from_zero, copies, updated]


class Worker:
    """Starts one process of the script after the other."""

    def __init__(self):
        self.parent = subprocess.Popen(
            [sys.executable, "-c", SCRIPT], stdin=PIPE, stdout=PIPE, stderr=DEVNULL, text=True
        )

    def run(self, asked, store, lines=None, seconds=0.0):
        """All lines a process printed; with a number of lines, it is killed so many seconds after these."""
        print(json.dumps([json.loads(asked), str(store)]), file=self.parent.stdin, flush=True)
        process = int(self.parent.stdout.readline())
        left = iter(self.parent.stdout.readline, "over\n")
        said = list(itertools.islice(left, lines))
        if lines is not None:
            time.sleep(seconds)
            # One that has come to its end is no more.
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        said += left
        return [line.strip() for line in said if line.strip()]


@pytest.fixture(scope="module")
def worker():
    worker = Worker()
    with worker.parent:
        yield worker


def truths(store):
    """What the store holds; scratch files that a killed process left behind are hidden ones."""
    found = {path.parent.name: path.read_bytes() for path in Path(store).glob("truth/*/truth.parquet")}
    assert found
    return found


def expected_truth(asked):
    asked = json.loads(asked)
    dataset = open_dataset(
        asked["corpora"][-1], asked["queries"], metric=asked["metric"], where=asked["where"]
    )
    if asked["own"]:
        queries = dataclasses.replace(dataset.queries, corpus_rows=np.asarray(asked["own"]))
        dataset = dataclasses.replace(dataset, queries=queries)
    return ground_truth(dataset, depth=7)


def killed_until_done(worker, asked, store, random, usual):
    """Kill it at random moments, start it again, and let it finish at last; returns what each one said."""
    said = []
    for _ in range(MOST_KILLS):
        lines = int(random.integers(1, usual + 1))
        said.append(worker.run(asked, store, lines, random.uniform(0, 0.01)))
        if said[-1][-1:] == ["end"]:
            return said
    return [*said, worker.run(asked, store)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked here")
@pytest.mark.parametrize("seed", range(3))
def test_a_process_that_is_killed_and_started_again_writes_the_same_bytes(tmp_path, worker, seed):
    randoms = [np.random.default_rng([seed, number]) for number in range(len(CASES))]
    cases = [make(randoms[number]).written(tmp_path, number) for number, make in enumerate(CASES)]
    killed = resumed = 0
    for number, case in enumerate(cases):
        store, undisturbed = tmp_path / f"killed-{number}", tmp_path / f"usual-{number}"
        usual = worker.run(case, undisturbed)
        said = killed_until_done(worker, case, store, randoms[number], len(usual))
        assert usual[-1] == said[-1][-1] == "end"
        assert truths(store) == truths(undisturbed)
        found = [contents(load_truth(path)) for path in store.glob("truth/*/truth.parquet")]
        assert contents(expected_truth(case)) in found
        killed += len(said) - 1
        # Progress that begins with another number than that of a fresh start.
        resumed += sum(lines[1:2] not in ([], ["end"], ["begin"], usual[1:2]) for lines in said[1:])
    assert killed >= len(CASES) - 1
    assert resumed >= len(CASES) / 2
