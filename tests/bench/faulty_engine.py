"""Engines that fail in every way that an engine can, for the tests of faults; installed as a plugin."""

import os
import signal
import sys
import tempfile
import time

import numpy as np

from recallatk.adapters.exact import Exact
from recallatk.core import Knob

HOWS = (
    "fine",
    "segfault",
    "leak",
    "hang",
    "garbage",
    "shapes",
    "raise",
    "exit",
    "kill",
    "slow",
    "forget",
    "forgetful",
    "drop",
    "stubborn",
    "litter",
)


class Picky(Exact):
    """An exact search that refuses filters on one column, and ends where one arrives nevertheless."""

    name = "picky"

    def refusal(self, condition):
        return "the column rare has no index" if "rare" in condition.columns() else None

    def nearest(self, batch, k):
        if any(each is not None and self.refusal(each) for each in batch.filters or ()):
            os._exit(7)
        return super().nearest(batch, k)


class Faulty(Exact):
    """An exact search that goes wrong as its search parameter says, after so many queries."""

    name = "faulty"
    build_knobs = (
        Knob("build", default="fine", choices=("fine", "raise", "hang", "segfault", "leak", "other", "mute")),
    )
    search_knobs = (
        Knob("how", default="fine", choices=HOWS),
        Knob("after", default=0, low=0, high=10_000, scale="linear"),
    )

    built = None

    def call(self):
        """As an engine that drives a database: what a call is, it knows once it is built."""
        if self.built is None or self.built == "mute":
            raise self.unbuilt()
        return "faulty call"

    def build(self, corpus, metric, **parameters):
        how = self.built = parameters.pop("build", "fine")
        if how == "raise":
            raise RuntimeError("out of luck")
        if how == "hang":
            time.sleep(600)
        if how == "segfault":
            os.kill(os.getpid(), signal.SIGSEGV)
        if how == "leak":
            leak()
        super().build(corpus, metric)

    def configure(self, **parameters):
        self.how, self.after, self.count = parameters["how"], parameters["after"], 0

    def nearest(self, batch, k):
        self.count += 1
        found = super().nearest(batch, k)
        if self.how == "fine" or self.count <= self.after:
            return found
        return getattr(self, self.how)(found)

    def segfault(self, found):
        sys.stderr.write("about to touch what is not mine\n")
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGSEGV)

    def leak(self, found):
        leak()

    def hang(self, found):
        time.sleep(600)

    def garbage(self, found):
        os.write(1, b'\\xff\\x00{"event": "Finished", "number": 0}\\n' * 10)
        os.write(2, os.urandom(100))
        return found

    def shapes(self, found):
        return found[:, :1].repeat(99, axis=1)

    def raise_(self, found):
        raise ValueError(f"query {self.count} was too much")

    def exit(self, found):
        os._exit(3)

    def litter(self, found):
        tempfile.mkdtemp()
        os.kill(os.getpid(), signal.SIGKILL)

    def kill(self, found):
        os.kill(os.getpid(), signal.SIGKILL)

    def slow(self, found):
        time.sleep(0.02)
        return found

    def drop(self, found):
        return np.where(found % 5 == 0, -1, found)

    def forgetful(self, found):
        return found if self.count % 2 else np.roll(found, 1, axis=1)


def leak():
    held = []
    while True:
        held.append(np.ones(2_000_000))
        time.sleep(0.01)


setattr(Faulty, "raise", Faulty.raise_)
