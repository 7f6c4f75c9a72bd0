"""Engines whose recall is a known function of effort, for the tests of tuning; installed as a plugin."""

import os
import signal
import time

import numpy as np

from recallatk.core import Knob, Metric
from recallatk.engines.base import Engine


class Steady(Engine):
    """An exact search that loses neighbours: each query a fixed set of them at each effort."""

    name = "steady"
    family = "curved"
    metrics = frozenset([Metric.L2])
    search_knobs = (Knob("effort", default=32, low=1, high=4_000, effort=True),)
    ceiling = 1.0

    def build(self, corpus, metric, **parameters):
        self.vectors = np.array(corpus.vectors.read(0, corpus.rows), np.float64)
        self.effort = 32

    def configure(self, **parameters):
        self.effort = parameters["effort"]

    def recall(self, effort):
        return self.ceiling * (1 - np.exp(-effort / 10))

    def search(self, queries, k, filters=None):
        found = []
        for query in queries:
            distances = ((self.vectors - query) ** 2).sum(axis=1)
            nearest = np.argsort(distances, kind="stable")[:k]
            drawn = np.random.default_rng(abs(hash(query.tobytes()))).random(len(nearest))
            found.append(np.where(drawn < self.recall(self.effort), nearest, -1))
        # -1 stands at the end.
        rows = np.array(found, np.int64)
        return np.take_along_axis(rows, np.argsort(rows < 0, axis=1, kind="stable"), axis=1)

    def exercised(self):
        return f"{len(self.vectors)} rows"

    def version(self):
        return "1"


class Partial(Steady):
    """Queries far from everything else take more effort."""

    name = "partial"

    def search(self, queries, k, filters=None):
        effort = self.effort
        self.effort = effort / 3 if queries[0, 0] > 50 else effort
        found = super().search(queries, k, filters)
        self.effort = effort
        return found


class Capped(Steady):
    """No effort brings it beyond 0.8."""

    name = "capped"
    ceiling = 0.8


class Dipping(Steady):
    """Recall falls again between some efforts."""

    name = "dipping"

    def recall(self, effort):
        return 0.5 if 60 <= effort <= 100 else super().recall(effort)


class Breaking(Steady):
    """Some of its builds end the process, some raise."""

    name = "breaking"
    build_knobs = (Knob("how", default="segfault", choices=("segfault", "raise", "fine")),)

    def build(self, corpus, metric, **parameters):
        if parameters["how"] == "segfault":
            os.kill(os.getpid(), signal.SIGSEGV)
        if parameters["how"] == "raise":
            raise RuntimeError("out of luck")
        super().build(corpus, metric)


class Slow(Steady):
    """Its builds take a while, and so do its searches."""

    name = "slow"

    def build(self, corpus, metric, **parameters):
        time.sleep(0.3)
        super().build(corpus, metric)

    def search(self, queries, k, filters=None):
        time.sleep(0.0005)
        return super().search(queries, k, filters)
