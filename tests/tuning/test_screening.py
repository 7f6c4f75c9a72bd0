"""Builds that are nearly as fast take turns: to be measured on a slow machine is not to be slow."""

from types import SimpleNamespace

import numpy as np
import pytest

from recallatk.bench.supervisor import TrialFailed
from recallatk.tuning import screening
from recallatk.tuning.screening import Proposal

REAL_MS = {"quick": 1.0, "middling": 1.1, "slow": 1.3}


class Drifting:
    """A machine on which every call takes longer than the one before, and three engines on it."""

    def __init__(self, drift, fails=()):
        self.calls, self.drift, self.fails = 0, drift, fails

    def index(self, engine, *_where):
        return SimpleNamespace(ask=lambda *_, **__: self.asked(engine.name))

    def asked(self, name):
        if name in self.fails:
            raise TrialFailed("crash", "searching", "it ended")
        took = REAL_MS[name] * self.drift**self.calls
        self.calls += 1
        return SimpleNamespace(latencies_ns=np.full(5, took * 1e6))


def proposal(name, measured_ms):
    return Proposal(SimpleNamespace(name=name), {}, measured_ms, (), None, None, measured_ms, {})


def turned(machine, measured, over=False, prefer="p95"):
    part = SimpleNamespace(order=lambda _: np.arange(50))
    study = SimpleNamespace(prefer=prefer, seed=1, over=lambda: over, index=machine.index, targets=[])
    return screening._in_turns(study, part, [proposal(*each) for each in measured.items()])


# Measured one after the other on a machine that became slower, or faster, meanwhile.
MISLED = {"quick": 1.5, "middling": 1.2, "slow": 1.4}


@pytest.mark.parametrize("drift", [1.0, 1.02, 0.98])
def test_turns_tell_who_is_faster_whatever_was_measured_before(drift):
    found = turned(Drifting(drift), MISLED)
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
def test_without_turns_what_was_measured_stays(case):
    machine = Drifting(1.0, case.pop("fails", ()))
    found = turned(machine, MISLED, **case)
    assert {each.engine.name: each.cost for each in found} == MISLED
