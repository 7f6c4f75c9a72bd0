"""Builds that are nearly as fast take turns: to be measured on a slow machine is not to be slow."""

from types import SimpleNamespace

import numpy as np
import pytest

from recallatk.bench.supervisor import TrialFailed
from recallatk.tune import halving
from recallatk.tune.halving import Proposal
from recallatk.tune.outcome import _about_memory

REAL_MS = {"quick": 1.0, "middling": 1.1, "slow": 1.3}


class Drifting:
    """A machine on which every call takes longer than the one before, and three engines on it."""

    def __init__(self, drift, fails=()):
        self.calls, self.drift, self.fails = 0, drift, fails

    def index(self, _room, _journal, name, *_where):
        return SimpleNamespace(ask=lambda *_, **__: self.asked(name))

    def asked(self, name):
        if name in self.fails:
            raise TrialFailed("crash", "searching", "it ended")
        took = REAL_MS[name] * self.drift**self.calls
        self.calls += 1
        return SimpleNamespace(latencies_ns=np.full(5, took * 1e6))


def proposal(name, measured_ms):
    return Proposal(SimpleNamespace(name=name), {}, measured_ms, (), None, None, measured_ms, {})


def turned(monkeypatch, machine, measured, over=False, prefer="p95"):
    monkeypatch.setattr(halving, "IndexClient", machine.index)
    corpus = SimpleNamespace(rows=100)
    part = SimpleNamespace(order=lambda _: np.arange(50), rows=None, dataset=SimpleNamespace(corpus=corpus))
    search = SimpleNamespace(prefer=prefer, seed=1, over=lambda: over, room=None, journal=None, targets=[])
    return halving._in_turns(search, part, [proposal(*each) for each in measured.items()])


# Measured one after the other on a machine that became slower, or faster, meanwhile.
MISLED = {"quick": 1.5, "middling": 1.2, "slow": 1.4}


@pytest.mark.parametrize("drift", [1.0, 1.02, 0.98])
def test_turns_tell_who_is_faster_whatever_was_measured_before(monkeypatch, drift):
    found = turned(monkeypatch, Drifting(drift), MISLED)
    by_name = {each.engine.name: each.cost for each in found}
    assert sorted(by_name, key=by_name.get) == ["quick", "middling", "slow"]
    assert all(each.cost == each.median_ms for each in found)


def test_an_order_that_is_not_random_would_be_misled():
    # What the test above is worth: one turn each, in order, on the same machine.
    machine = Drifting(0.9)
    taken = {name: machine.asked(name).latencies_ns[0] for name in ("quick", "middling", "slow")}
    assert min(taken, key=taken.get) != "quick"


@pytest.mark.parametrize(
    "case", [{"over": True}, {"prefer": "memory"}, {"prefer": "build"}, {"fails": ("slow",)}]
)
def test_without_turns_what_was_measured_stays(monkeypatch, case):
    machine = Drifting(1.0, case.pop("fails", ()))
    found = turned(monkeypatch, machine, MISLED, **case)
    assert {each.engine.name: each.cost for each in found} == MISLED


def test_little_memory_is_told_in_a_unit_that_shows_it():
    search = SimpleNamespace(contradicted={}, corrected={"e": (2048, 10_240)})
    (caution,) = _about_memory(search)
    assert "2.0 KiB, less than the 10.0 KiB" in caution.message
