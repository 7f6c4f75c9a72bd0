"""Engines that are nothing but a behaviour under load, and questions whose answers tell who asked."""

import os
import threading
import time

import numpy as np

from recallatk.adapters.base import Abilities, Engine
from recallatk.bench.load import Questions
from recallatk.core import Metric


def numbered(queries, k=3, filters=None):
    """Queries whose first component is their number."""
    vectors = np.zeros((queries, 4), np.float32)
    vectors[:, 0] = np.arange(queries)
    return Questions(vectors, k, filters)


def expected(queries, k=3):
    """What an echo answers to these."""
    return np.asarray(queries)[:, None] * 10 + np.arange(k)


class Echo(Engine):
    """Answers query q with 10q, 10q + 1, ...; every client is another object, and knows its end."""

    name = "echo"
    metrics = frozenset(Metric)
    abilities = Abilities(filters=True, clients=True, forks=True)

    def __init__(self, seconds=0.0):
        self.seconds = seconds
        self.clients, self.closed, self.threads = [], False, set()
        self.asked = []

    def client(self):
        made = type(self)(self.seconds)
        self.clients.append(made)
        return made

    def nearest(self, batch, k):
        self.threads.add(threading.get_ident())
        self.asked.append((len(batch), batch.filters))
        if self.seconds:
            time.sleep(self.seconds)
        return batch.vectors[:, :1].astype(np.int64) * 10 + np.arange(k)

    def close(self):
        self.closed = True


class Alone(Echo):
    """Takes one call at a time, from one client."""

    name = "alone"
    abilities = Abilities(batch=False)

    def client(self):
        raise AssertionError("one client alone is the engine itself")


class Failing(Echo):
    """Raises when it is asked query 7."""

    def nearest(self, batch, k):
        if 7 in batch.vectors[:, 0]:
            raise ValueError("query 7 is one too many")
        return super().nearest(batch, k)


class Unreachable(Echo):
    """Has no second client to give."""

    def client(self):
        if self.clients:
            raise ValueError("no more connections")
        return super().client()


class Killed(Echo):
    """Ends its process when it is asked query 7."""

    def nearest(self, batch, k):
        if 7 in batch.vectors[:, 0]:
            os.kill(os.getpid(), 9)
        return super().nearest(batch, k)


class Gone(Echo):
    """Leaves without a word when it is asked query 7."""

    def nearest(self, batch, k):
        if 7 in batch.vectors[:, 0]:
            os._exit(3)
        return super().nearest(batch, k)


class Reusing(Echo):
    """Writes every answer into the same memory."""

    def nearest(self, batch, k):
        self.memory = getattr(self, "memory", np.empty((1, k), np.int64))
        self.memory[:] = super().nearest(batch, k)
        return self.memory


class Answering(Echo):
    """Answers with the same thing always."""

    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def client(self):
        return self

    def nearest(self, batch, k):
        return self.answer
