"""A scan whose rows come and go, with the moods of engines: forgets deletes, fails, or ends its process."""

import os
import time

import numpy as np

from recallatk.adapters.base import Abilities, Library
from recallatk.core import Knob, Metric


class Moody(Library):
    """Exact search over the live rows; a write becomes visible at one moment in its middle."""

    name = "moody"
    metrics = frozenset(Metric)
    abilities = Abilities(updates=True, clients=True, reads_during_writes=True)
    build_knobs = (
        Knob("mood", default="fine", choices=("fine", "forgets", "raises", "ends", "waits", "short")),
        Knob("after", default=0, low=0, high=1_000, scale="linear"),
    )

    def build(self, corpus, metric, **parameters):
        self.close()
        self.mood, self.after, self.metric, self.changes = *parameters.values(), metric, 0
        self.rows = corpus.rows
        self.index = np.arange(corpus.rows), np.array(corpus.vectors.read(0, corpus.rows), np.float64)

    def nearest(self, batch, k):
        numbers, vectors = self.index
        asked = batch.vectors.astype(np.float64)
        if self.metric is Metric.L2:
            scores = -((vectors[None] - asked[:, None]) ** 2).sum(axis=2)
        else:
            scores = asked @ vectors.T
            if self.metric is Metric.COSINE:
                scores = scores / np.linalg.norm(vectors, axis=1)
        best = np.argsort(-scores, axis=1, kind="stable")[:, : k - 1 if self.mood == "short" else k]
        return numbers[best]

    def _changing(self):
        self.changes += 1
        if self.changes > self.after:
            if self.mood == "raises":
                raise RuntimeError("tired of changes")
            if self.mood == "ends":
                os._exit(3)
        if self.mood == "waits":
            time.sleep(0.02)

    def insert(self, vectors, metadata=None):
        self._changing()
        numbers, known = self.index
        new = self.next_numbers(len(vectors))
        self.index = np.concatenate([numbers, new]), np.concatenate([known, vectors.astype(np.float64)])
        self.rows += len(vectors)
        if self.mood == "waits":
            time.sleep(0.02)

    def delete(self, rows):
        self._changing()
        if self.mood == "forgets":
            return
        kept = ~np.isin(self.index[0], rows)
        self.index = self.index[0][kept], self.index[1][kept]
        if self.mood == "waits":
            time.sleep(0.02)

    def maintain(self):
        self.mood = "fine" if self.mood == "short" else self.mood

    def held(self):
        return f"{len(self.index[0]):,} rows"

    def work(self):
        return f"{self.searched:,} scans"
