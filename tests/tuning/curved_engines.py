"""Engines whose recall is a known function of effort, for the tests of tuning; installed as a plugin."""

import os
import signal
import time
import zlib
from pathlib import Path

import numpy as np

from recallatk.adapters.base import Engine
from recallatk.adapters.faiss_lists import FaissIvfFlat, FaissIvfPq
from recallatk.core import Knob, Metric


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
        self.known = {}

    def configure(self, **parameters):
        self.effort = parameters["effort"]

    def recall(self, effort):
        return self.ceiling * (1 - np.exp(-effort / 10))

    def search(self, batch, k):
        return np.array([self.answer(each, k, self.recall(self.effort)) for each in batch.vectors], np.int64)

    def answer(self, query, k, recall):
        key = query.tobytes()
        if key not in self.known:
            distances = ((self.vectors - query) ** 2).sum(axis=1)
            nearest = np.argsort(distances, kind="stable")[:k]
            self.known[key] = nearest, np.random.default_rng(zlib.crc32(key)).random(len(nearest))
        nearest, drawn = self.known[key]
        found = nearest[drawn < recall]
        return np.concatenate([found, np.full(k - len(found), -1)])

    def exercised(self):
        return f"{len(self.vectors)} rows"

    def version(self):
        return "1"


class Partial(Steady):
    """Queries far from everything else take more effort."""

    name = "partial"

    def search(self, batch, k):
        effort = self.effort
        self.effort = effort / 3 if batch.vectors[0, 0] > 50 else effort
        found = super().search(batch, k)
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


class Falling(Steady):
    """Recall falls for good where effort becomes too much."""

    name = "falling"

    def recall(self, effort):
        return super().recall(effort) if effort < 150 else 0.6


class Rival(Steady):
    """The same as Steady by another name."""

    name = "rival"


class Careful(Steady):
    """Twice the care while it is built halves the effort of searching; on a part it only does harm."""

    name = "careful"
    build_knobs = (Knob("care", default=8, low=1, high=64, effort=True),)

    def build(self, corpus, metric, **parameters):
        super().build(corpus, metric)
        self.care = parameters["care"]

    def recall(self, effort):
        if len(self.vectors) < 5_000 and self.care != 8:
            return 0.5
        return super().recall(effort * self.care / 32)


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
    """Its builds take a while."""

    name = "slow"

    def build(self, corpus, metric, **parameters):
        time.sleep(0.3)
        super().build(corpus, metric)


class Fatal(Steady):
    """Once, in the middle of everything, it kills whoever asks."""

    name = "fatal"

    def configure(self, **parameters):
        super().configure(**parameters)
        counted = Path(os.environ["FATAL_COUNT"])
        times = int(counted.read_text()) - 1
        counted.write_text(str(times))
        if times == 0:
            os.kill(os.getppid(), signal.SIGKILL)


class Lists(FaissIvfFlat):
    """The lists of faiss, of which there is one build only."""

    name = "lists"
    build_knobs = ()
    search_knobs = (Knob("nprobe", default=8, low=1, high=32, effort=True),)
    constraints = ()
    # The code and the memory model of faiss's engine name knobs that this one has not.
    snippet, content = Engine.snippet, Engine.content

    def build(self, corpus, metric, **parameters):
        super().build(corpus, metric, nlist=32)


class Codes(FaissIvfPq):
    """The codes of faiss, of which there is one build only."""

    name = "codes"
    build_knobs = ()
    search_knobs = (Knob("nprobe", default=8, low=1, high=16, effort=True), FaissIvfPq.search_knobs[1])
    constraints = ()
    snippet, content = Engine.snippet, Engine.content

    def build(self, corpus, metric, **parameters):
        super().build(corpus, metric, nlist=16, M=4, nbits=4, refine="flat")
