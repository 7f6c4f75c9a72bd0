"""The least effort that clears a target, on an index whose recall is a known function of effort."""

from types import SimpleNamespace

import numpy as np
import pytest

from recallatk.bench.supervisor import TrialFailed
from recallatk.core import Knob
from recallatk.goals import parse_goal
from recallatk.tuning.effort_search import least_effort, settled_above
from recallatk.tuning.search_space import Ladder, Shape

QUERIES = 600
ENGINE = SimpleNamespace(
    name="made up", search_knobs=(Knob("ef", default=32, low=1, high=4_000, effort=True),), constraints=()
)
LADDER = Ladder(ENGINE, {}, Shape(10_000, 8, 10), {"ef": 32})


class Curve:
    """Ten answers to each query, each right with the recall of the effort; the same at every time."""

    def __init__(self, recall, fails_at=()):
        self.recall, self.fails_at = recall, fails_at
        self.drawn = np.random.default_rng(1).random((QUERIES, 10))
        self.calls = []

    def ask(self, _side, _targets, search, which, *, warm=False, purpose=""):
        self.calls.append((search["ef"], len(which), purpose))
        if search["ef"] in self.fails_at:
            raise TrialFailed("crash", "search", "it ended")
        values = (self.drawn[which] < self.recall(search["ef"])).mean(axis=1)
        return SimpleNamespace(
            weights=None,
            which=which,
            values=(values,),
            raw=(values,),
            latencies_ns=np.full(len(which), 1_000),
        )


def rising(effort):
    return 1 - np.exp(-effort / 10)


def study(over=lambda: False):
    side = SimpleNamespace(weights=None, order=lambda seed: np.random.default_rng(seed).permutation(QUERIES))
    return SimpleNamespace(side=side, targets=[parse_goal("recall@10 >= 0.9")], seed=0, over=over)


def test_the_least_effort_whose_bound_clears_is_found_with_few_queries():
    index = Curve(rising)
    chosen = least_effort(study(), index, LADDER, 0.05)
    assert 0.9 <= rising(chosen.look.effort) < 0.95
    assert chosen.look.settled and chosen.look.bound >= 0.9
    assert not chosen.violated
    assert [each.effort for each in chosen.by_effort] == sorted(chosen.looks)
    assert sum(count for _, count, purpose in index.calls if not purpose) < len(chosen.looks) * QUERIES / 2


def test_more_effort_is_a_new_value_and_leaves_the_old_one_alone():
    index = Curve(rising)
    before = least_effort(study(), index, LADDER, 0.05)
    known = dict(before.looks)
    look, after = settled_above(study(), index, before, before.look.effort, 1.2)
    assert look.effort >= 1.2 * before.look.effort and look.settled
    assert dict(before.looks) == known
    assert after.looks[look.effort] is look and after.look is before.look
    # What is known is not asked again.
    asked = len(index.calls)
    again, _ = settled_above(study(), index, after, before.look.effort, 1.2)
    assert again is look and len(index.calls) == asked


def test_a_crash_on_the_way_up_costs_nothing_that_is_known():
    before = least_effort(study(), Curve(rising), LADDER, 0.05)
    failing = Curve(rising, fails_at=range(5_000))
    with pytest.raises(TrialFailed):
        settled_above(study(), failing, before, before.look.effort, 1.2)
    assert all(look.answers for look in before.by_effort)


def test_there_is_nothing_above_the_top():
    chosen = least_effort(study(), Curve(rising), LADDER, 0.05)
    assert settled_above(study(), Curve(rising), chosen, LADDER.most, 1.2)[0] is None


def test_where_full_effort_is_worst_nothing_above_the_fall_counts():
    chosen = least_effort(
        study(), Curve(lambda effort: rising(effort) if effort < 150 else 0.5), LADDER, 0.05
    )
    assert chosen.violated
    assert chosen.look.effort <= chosen.top < 150
    assert chosen.alpha == 0.05 / 2
    assert all(look.effort <= chosen.top for look in chosen.counted)


def test_without_time_the_least_effort_that_stands_is_settled():
    calls = iter(range(1_000))
    chosen = least_effort(study(over=lambda: next(calls) > 3), Curve(rising), LADDER, 0.05)
    assert chosen.look is not None and chosen.look.settled
    assert rising(chosen.look.effort) >= 0.9
    assert least_effort(study(over=lambda: True), Curve(rising), LADDER, 0.05).look is not None


def test_a_curve_that_stays_below_the_target_has_no_choice():
    chosen = least_effort(study(), Curve(lambda effort: 0.8 * rising(effort)), LADDER, 0.05)
    assert chosen.look is None and chosen.looks
