"""Settings that take turns, and the safer ones beside them."""

from types import SimpleNamespace

import numpy as np

from recallatk.bench.supervisor import TrialFailed
from recallatk.core import Knob
from recallatk.core.tuned import Candidate
from recallatk.goals import parse_goal
from recallatk.tuning.effort_search import Chosen
from recallatk.tuning.finalists import in_turns, next_safer
from recallatk.tuning.full_builds import Proven
from recallatk.tuning.search_space import Ladder, Shape
from recallatk.tuning.study import Log, Trail

SIDE = SimpleNamespace(order=lambda _: np.arange(100))
STUDY = SimpleNamespace(
    side=SIDE, targets=[parse_goal("recall@10 >= 0.9")], seed=0, elapsed=0.0, over=lambda: False
)


class Timed:
    """An index that takes a fixed time, and fails in some of the turns."""

    def __init__(self, ns, fails=()):
        self.ns, self.fails = ns, fails

    def ask(self, _side, _targets, _search, which, *, purpose="", **_how):
        if purpose in self.fails:
            raise TrialFailed("crash", "search", "it ended")
        return SimpleNamespace(latencies_ns=np.full(len(which), self.ns), pace_ns=self.ns * 10)


def test_a_turn_that_fails_costs_its_own_block_only():
    entrants = [(Timed(1), Candidate("a", (), ())), (Timed(2, fails=("final 1",)), Candidate("b", (), ()))]
    blocks = [np.arange(10), np.arange(10, 20), np.arange(0)]
    latencies, paces = in_turns(STUDY, entrants, blocks, "final", pace=True)
    assert latencies[0].tolist() == [1] * 20
    assert latencies[1].tolist() == [2] * 10
    assert sorted(paces) == [10, 10, 20]


def test_a_crash_on_the_way_up_means_that_nothing_safer_is_known():
    knob = Knob("ef", default=32, low=1, high=4_000, effort=True)
    engine = SimpleNamespace(name="made up", search_knobs=(knob,), constraints=())
    ladder = Ladder(engine, {}, Shape(10_000, 8, 10), {"ef": 32})
    index = Timed(1, fails=("", "settle"))
    proven = Proven(None, index, None, Chosen(ladder, {}, 0.05, ladder.most), None)
    log = Log(STUDY, Trail())
    assert next_safer(STUDY, log, proven, 10.0, 1.2) == (None, proven)
    assert log.trail == Trail()
