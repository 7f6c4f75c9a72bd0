"""From settings to builds and trials: grids, repeats, loads, and what is left out of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recallatk.bench.plan import make_plan
from recallatk.bench.settings import SettingsError, settings_from
from recallatk.core.trials import Load, Trial


def planned(*engines, rows=1000, dimension=16, **tables):
    given = {"data": {"corpus": "corpus.parquet"}, "engine": list(engines), **tables}
    return make_plan(settings_from(given), rows=rows, dimension=dimension)


def refused(*engines, **rest):
    with pytest.raises(SettingsError) as caught:
        planned(*engines, **rest)
    return caught.value.problems


def hnsw(build=None, search=None):
    return {"name": "faiss-hnsw", "build": build or {}, "search": search or {}}


def test_a_plan_has_every_build_and_search_with_every_parameter_settled():
    plan = planned(hnsw({"M": [16, 32]}, {"ef": {"from": 10, "to": 40, "steps": 3}}))
    assert [(each.engine, dict(each.parameters), each.repeat) for each in plan.builds] == [
        ("faiss-hnsw", {"M": 16, "ef_construction": 200}, 0),
        ("faiss-hnsw", {"M": 32, "ef_construction": 200}, 0),
    ]
    assert plan.builds[0].searches == ((("ef", 10),), (("ef", 20),), (("ef", 40),))
    assert plan.dropped == ()


def test_trials_go_by_build_then_load_then_search():
    loads = [{"mode": "latency"}, {"mode": "throughput", "clients": 2}]
    plan = planned(hnsw(search={"ef": [10, 20]}), load=loads, measure={"builds": 2})
    build = (("M", 16), ("ef_construction", 200))
    assert plan.trials == tuple(
        Trial("faiss-hnsw", build, (("ef", ef),), load, repeat)
        for repeat in (0, 1)
        for load in (Load(), Load("throughput", 2))
        for ef in (10, 20)
    )
    assert plan.trials[:4] == plan.builds[0].trials


def test_combinations_of_a_grid_that_cannot_be_are_left_out_and_said():
    entry = {"name": "faiss-ivf-flat", "build": {"nlist": [8, 64]}, "search": {"nprobe": [4, 16, 32]}}
    plan = planned(entry)
    assert [len(each.searches) for each in plan.builds] == [1, 3]
    assert plan.dropped == (
        "engine[0]: 1 combination skipped: faiss-ivf-flat needs nprobe of at most nlist, but has "
        "nprobe = 16, nlist = 8",
        "engine[0]: 1 combination skipped: faiss-ivf-flat needs nprobe of at most nlist, but has "
        "nprobe = 32, nlist = 8",
    )


def test_a_build_without_a_search_is_not_planned():
    entry = {"name": "faiss-ivf-flat", "build": {"nlist": [2, 64]}, "search": {"nprobe": 4}}
    assert [dict(each.parameters)["nlist"] for each in planned(entry).builds] == [64]


def test_what_is_left_out_for_the_same_reason_is_said_once():
    entry = {"name": "hnswlib", "build": {"M": [8, 16]}, "search": {"ef": [10, 100, 200]}}
    plan = planned(entry)
    assert plan.dropped == (
        "engine[0]: 2 combinations skipped: hnswlib needs ef of at least k, but has ef = 10, k = 100",
    )
    assert len(plan.trials) == 4


def test_k_is_at_most_the_rows():
    entry = {"name": "hnswlib", "search": {"ef": [50, 100]}}
    assert len(planned(entry, rows=40).trials) == 2


def test_what_the_shape_of_the_data_does_not_allow_is_refused_all_at_once():
    found = refused(
        {"name": "faiss-ivf-pq", "build": {"M": 8, "nlist": 16}, "search": {"nprobe": 4}},
        {"name": "faiss-nsg", "build": {"R": 32}, "search": {"search_L": 40}},
        rows=90,
        dimension=15,
    )
    assert found == (
        "engine[0]: faiss-ivf-pq needs an M that divides the dimension, but has M = 8, dimension = 15",
        "engine[0]: faiss-ivf-pq needs at least 2^nbits rows to train its codes, but has nbits = 8, "
        "rows = 90",
        "engine[1]: faiss-nsg needs more than 100 rows and more than R + 32, but has R = 32, rows = 90",
    )


def test_an_engine_may_be_named_twice_and_the_same_trial_is_planned_once():
    plan = planned(hnsw(search={"ef": [10, 20]}), hnsw(search={"ef": [20, 30]}), hnsw({"M": 8}))
    assert len(plan.builds) == 2
    assert [dict(each)["ef"] for each in plan.builds[0].searches] == [10, 20, 30]


def test_a_batch_is_left_out_for_engines_that_take_one_query_a_call():
    http = {"name": "http", "build": {"url": "http://here/"}}
    load = [{"mode": "throughput", "batch": [1, 64]}]
    plan = planned(http, hnsw(), load=load)
    assert [len(each.loads) for each in plan.builds] == [1, 2]
    assert plan.dropped == ("engine[0]: http takes one query per call; skipped loads: throughput(batch=64)",)
    assert refused(http, load=[{"mode": "throughput", "batch": 64}]) == (
        "engine[0]: http takes one query per call; skipped loads: throughput(batch=64)",
    )


def test_numbers_are_of_the_kind_that_the_parameter_is():
    entry = {"name": "pynndescent", "search": {"epsilon": [0, 0.1]}}
    values = [value for trial in planned(entry).trials for _, value in trial.search]
    assert values == [0.0, 0.1] and all(isinstance(value, float) for value in values)


@given(
    st.lists(st.integers(1, 200), min_size=1, max_size=5),
    st.lists(st.integers(1, 200), min_size=1, max_size=5),
    st.integers(1, 3),
)
def test_a_plan_has_each_trial_once_and_loses_none_that_can_be(lists, probes, builds):
    entry = {"name": "faiss-ivf-flat", "build": {"nlist": lists}, "search": {"nprobe": probes}}
    possible = {
        (one, two, repeat) for one in lists for two in probes for repeat in range(builds) if two <= one
    }
    if not possible:
        return
    plan = planned(entry, measure={"builds": builds})
    made = [(dict(each.build)["nlist"], dict(each.search)["nprobe"], each.repeat) for each in plan.trials]
    assert len(made) == len(set(made)) and set(made) == possible
    assert bool(plan.dropped) == any(two > one for one in lists for two in probes)
