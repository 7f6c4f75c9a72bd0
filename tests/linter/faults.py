"""Data with and without faults, engines that do what they should not, and a machine with other work."""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from recallatk import load_truth, make_corpus, make_queries, open_dataset
from recallatk.adapters import Engine
from recallatk.core import Knob, Metric
from recallatk.errors import EngineError
from recallatk.linter import Evidence, audit


def points(count, dimension, seed, centres=40, spread=0.6):
    """Clusters of which no two rows are the same, in an order that says nothing."""
    random = np.random.default_rng([seed, dimension])
    middle = random.normal(size=(centres, dimension))
    found = middle[random.integers(0, centres, count)] + spread * random.normal(size=(count, dimension))
    return (found * random.uniform(0.5, 2.0, (count, 1))).astype(np.float32)


def embedded(metric, rows=4_000, queries=900, dimension=24, seed=0):
    """Like embeddings: clustered, with queries of the same kind that are not among the rows."""
    found = points(rows + queries, dimension, seed)
    if metric == "ip":
        found /= np.linalg.norm(found, axis=1, keepdims=True)
    return open_dataset(make_corpus(found[:rows]), make_queries(found[rows:]), metric=metric)


def clustered(rows=1_000, queries=200, dimension=16, metric="l2", seed=0, metadata=None):
    found = points(rows + queries, dimension, seed)
    return open_dataset(
        make_corpus(found[:rows], metadata=metadata), make_queries(found[rows:]), metric=metric
    )


def vectors(records):
    return np.array(records.vectors.read(0, records.rows))


def with_queries(dataset, queries, filters=None):
    asked = make_queries(queries, filters=filters)
    return open_dataset(dataset.corpus, asked, metric=dataset.metric)


def with_corpus(dataset, corpus):
    return open_dataset(make_corpus(corpus), dataset.queries, metric=dataset.metric)


def found(code, **known):
    """What one rule finds, of evidence or of parts of it."""
    evidence = known.pop("evidence", None) or Evidence(**known)
    return [each for each in audit(evidence) if each.rule == code]


class Forgetful(Engine):
    """An exact search whose index can be left out, and that admits it."""

    name = "forgetful"
    metrics = frozenset(Metric)
    search_knobs = (Knob("index", default="used", choices=("used", "unused")),)

    def build(self, corpus, metric, **parameters):
        self.vectors = np.array(corpus.vectors.read(0, corpus.rows))

    def configure(self, **parameters):
        self.used = parameters["index"] == "used"

    def search(self, batch, k):
        apart = np.linalg.norm(self.vectors[None] - batch.vectors[:, None], axis=2)
        return np.argsort(apart, axis=1, kind="stable")[:, :k]

    def exercised(self):
        if not self.used:
            raise EngineError("the plan shows a sequential scan")
        return "index scan"


class Taking:
    """An exact search that takes so long; of two durations, one for 32 calls and then the other."""

    def __init__(self, corpus, *seconds):
        self.vectors, self.seconds, self.calls = vectors(corpus), seconds, 0

    def __call__(self, queries, k):
        time.sleep(self.seconds[self.calls // 32 % len(self.seconds)])
        self.calls += 1
        apart = np.linalg.norm(self.vectors[None] - np.asarray(queries)[:, None], axis=2)
        return np.argsort(apart, axis=1, kind="stable")[:, :k]


class PostFiltering:
    """An exact search for some rows, from which those that do not pass the filter are taken away."""

    def __init__(self, corpus, fetched):
        self.vectors, self.metadata, self.fetched = vectors(corpus), corpus.metadata, fetched

    def __call__(self, queries, k, filters=None):
        apart = np.linalg.norm(self.vectors[None] - np.asarray(queries)[:, None], axis=2)
        near = np.argsort(apart, axis=1, kind="stable")[:, : self.fetched]
        answers = np.full((len(queries), k), -1)
        for line, rows, each in zip(answers, near, filters or [None] * len(queries), strict=True):
            kept = rows if each is None else rows[each.mask(self.metadata)[rows]]
            line[: len(kept[:k])] = kept[:k]
        return answers


class Switching:
    """A search of every other row that turns into a scan where few rows pass the filter."""

    def __init__(self, corpus, below):
        self.vectors, self.metadata, self.below = vectors(corpus), corpus.metadata, below

    def __call__(self, queries, k, filters):
        answers = np.full((len(queries), k), -1)
        for line, query, each in zip(answers, np.asarray(queries), filters, strict=True):
            passed = (
                np.arange(len(self.vectors)) if each is None else np.flatnonzero(each.mask(self.metadata))
            )
            seen = passed if len(passed) < self.below else passed[passed % 2 == 0]
            near = seen[np.argsort(np.linalg.norm(self.vectors[seen] - query, axis=1), kind="stable")][:k]
            line[: len(near)] = near
        return answers


# What never sleeps is let wait for its turn, and may not be felt for milliseconds; what wakes up goes first.
RESTLESS = """
import time
print(flush=True)
while True:
    time.sleep(0.001)
    end = time.perf_counter() + 0.001
    while time.perf_counter() < end:
        pass
"""


class Neighbours:
    """Processes that again and again want the core of this one, from some block of a run on."""

    def __init__(self, blocks_left):
        self.blocks_left, self.processes = blocks_left, []

    def __call__(self, progress):
        if progress.pace.blocks_left <= self.blocks_left and not self.processes:
            restless = [sys.executable, "-c", RESTLESS]
            self.processes = [subprocess.Popen(restless, stdout=subprocess.PIPE) for _ in range(8)]
            for each in self.processes:
                # Until it speaks it is only starting, and a few blocks may be over by then.
                each.stdout.readline()

    def leave(self):
        for each in self.processes:
            each.kill()
            each.communicate()


@contextlib.contextmanager
def neighbours(blocks_left):
    """Neighbours that move in when so many blocks are left; on one core with them, where that can be had."""
    found = Neighbours(blocks_left)
    cores = os.sched_getaffinity(0) if sys.platform == "linux" else None
    if cores is not None:
        os.sched_setaffinity(0, {min(cores)})
    try:
        yield found
    finally:
        found.leave()
        if cores is not None:
            os.sched_setaffinity(0, cores)


def anonymous(rows, corpus):
    """A truth as another tool writes it: rows in a file, and nothing about where they come from."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "neighbors.npy"
        np.save(path, rows)
        return load_truth(path, corpus=corpus)


def by_product(corpus):
    """A search by inner product, whatever the metric of the data is."""
    rows = vectors(corpus)

    def search(queries, k):
        return np.argsort(-(np.asarray(queries) @ rows.T), axis=1, kind="stable")[:, :k]

    return search
