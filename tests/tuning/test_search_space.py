"""What can be tried of an engine, and how the error is shared."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recallatk.adapters import get_engine
from recallatk.bench.settings.grid import violations
from recallatk.tuning.flow import USUAL_ENGINES
from recallatk.tuning.full_builds import ALPHA, alpha_of
from recallatk.tuning.screening import larger_rows, part_rows
from recallatk.tuning.search_space import Builds, Ladder, Shape, ladders, usual_build

SHAPE = Shape(20_000, 384, 10)


@pytest.mark.parametrize("name", USUAL_ENGINES)
def test_builds_begin_with_the_usual_one_keep_the_constraints_and_are_all_different(name):
    engine = get_engine(name)
    builds, found = Builds(engine, SHAPE, seed=3), []
    for cost in range(6):
        trial, build = builds.ask()
        builds.tell(trial, cost or None)
        found.append(build)
    assert found[0] == usual_build(engine, SHAPE)
    assert len({repr(sorted(each.items())) for each in found}) == 6
    for build in found:
        assert not any(violations(engine, {**SHAPE.known, **build}))
        assert set(build) == {knob.name for knob in engine.build_knobs}


def test_the_same_costs_bring_the_same_builds():
    def drawn():
        builds, found = Builds(get_engine("usearch"), SHAPE, seed=1), []
        for cost in (3.0, 1.0, 2.0, 5.0, 4.0, 2.5):
            trial, build = builds.ask()
            builds.tell(trial, cost)
            found.append(build)
        return found

    assert drawn() == drawn()


@pytest.mark.parametrize("name", USUAL_ENGINES)
@pytest.mark.parametrize("rows", [40, 2_000, 1_000_000])
def test_every_effort_of_a_ladder_is_allowed(name, rows):
    engine, shape = get_engine(name), Shape(rows, 384, 10)
    build = usual_build(engine, shape)
    found = list(ladders(engine, build, shape))
    if name == "faiss-ivf-pq" and rows == 40:
        return  # too few rows for its codes
    assert found
    for ladder in found:
        assert ladder.least <= ladder.generous <= ladder.most
        for effort in (ladder.least, ladder.generous, ladder.most):
            assert ladder.allows(effort)
            assert set(ladder.search(effort)) == {knob.name for knob in engine.search_knobs}


@given(st.integers(1, 5_000), st.integers(1, 5_000))
def test_bisection_ends_between_neighbours(one, other):
    engine = get_engine("hnswlib")
    ladder = Ladder(engine, usual_build(engine, SHAPE), SHAPE, {})
    low, high = sorted((one, other))
    steps = 0
    while (middle := ladder.between(low, high)) is not None:
        assert low < middle < high
        low, steps = middle, steps + 1
    assert high <= low * 1.04 or high <= low + 1
    assert steps < 20


def test_two_effort_knobs_are_one_ladder_for_each_of_few_values():
    engine = get_engine("faiss-ivf-pq")
    found = [each.others["k_factor"] for each in ladders(engine, usual_build(engine, SHAPE), SHAPE)]
    assert found[0] == 4
    assert len(found) == len(set(found)) > 1
    bare = {**usual_build(engine, SHAPE), "refine": "none"}
    assert [each.others["k_factor"] for each in ladders(engine, bare, SHAPE)] == [0]


def test_all_ladders_together_have_no_more_error_than_validation_halves():
    assert alpha_of(0) == ALPHA
    assert sum(alpha_of(ladder) for ladder in range(100)) <= 2 * ALPHA


@given(st.integers(1, 10**8))
def test_parts_are_parts(rows):
    first, second = part_rows(rows), larger_rows(rows)
    assert 1 <= first <= rows
    assert all(2 * first <= each <= rows / 5 for each in second)
