"""Leaderboards at equal recall: what is compared, which setting stands for an engine, and shared ranks."""

import dataclasses

import numpy as np
import pytest
from published_runs import MACHINE, PRINTS, compared, measured, ranking, run_of

from recallatk.core import Load
from recallatk.core.filtering import Refusals, RefusedFilter
from recallatk.errors import UsageError
from recallatk.publishing.leaderboards import checked_levels


def boards(*runs, levels=(0.9,)):
    ([data], left_out) = compared(*runs, levels=levels)
    assert left_out == []
    ([contest]) = data.contests
    return [each for each in contest.boards if each.measure == contest.measures[0]]


def test_the_bound_decides_and_the_cheapest_setting_stands_for_its_engine():
    run = run_of(
        measured("hnswlib", 10, recall=0.94, scale=0.1),
        measured("hnswlib", 20, recall=0.96, scale=0.5),
        measured("hnswlib", 40, recall=0.99, scale=2.0),
        measured("usearch", 20, recall=0.97, scale=5.0),
        measured("voyager", 10, recall=0.93, scale=0.1),
        measured("voyager", 20, recall=0.94, scale=0.1),
    )
    (board,) = boards(run)
    # A mean of 0.94 is above the level, its bound of 0.89 is not.
    assert ranking(board) == [("hnswlib", 20, 1), ("usearch", 20, 2), ("voyager", 20, None)]
    assert board.standings[-1].cost is None
    assert [each.engine for each in board.ranked] == ["hnswlib", "usearch"]


def test_every_level_has_a_board_and_nothing_is_interpolated():
    run = run_of(measured("hnswlib", 10, recall=0.90), measured("hnswlib", 40, recall=0.999, scale=3))
    low, high, top = boards(run, levels=(0.8, 0.9, 0.95))
    assert ranking(low) == [("hnswlib", 10, 1)]
    # Half way between both settings would be cheaper; nobody measured it.
    assert ranking(high) == [("hnswlib", 40, 1)]
    assert ranking(top) == [("hnswlib", 40, None)]


def test_engines_within_uncertainty_share_a_rank():
    run = run_of(measured("a", 10, scale=1.0), measured("b", 10, scale=1.001), measured("c", 10, scale=9.0))
    (board,) = boards(run)
    assert [(each.engine, each.rank) for each in board.standings] == [("a", 1), ("b", 1), ("c", 3)]


def test_the_newest_run_of_a_setting_counts_even_if_it_is_slower():
    old = run_of(measured(ef=10, scale=1.0), begun="2026-01-01T00:00:00+00:00")
    new = run_of(measured(ef=10, scale=3.0), begun="2026-02-01T00:00:00+00:00")
    for runs in ((old, new), (new, old)):
        (board,) = boards(*runs)
        (standing,) = board.standings
        assert standing.contender.first.begun.startswith("2026-02")


def test_the_worst_build_of_a_setting_counts():
    run = run_of(
        measured(ef=10, recall=0.96, scale=1.0),
        measured(ef=10, recall=0.955, scale=4.0, repeat=1),
        measured(ef=20, recall=0.97, scale=1.0),
        measured(ef=20, recall=0.93, scale=1.0, repeat=1),
    )
    (board,) = boards(run)
    (standing,) = board.standings
    assert dict(standing.contender.first.trial.search) == {"ef": 10}
    assert standing.cost.value == pytest.approx(4 * 1.9)
    assert standing.contender.worst_recall("recall@10").means["recall@10"].value == 0.955


def test_versions_of_a_library_are_engines_of_their_own():
    run = run_of(measured(version="hnswlib 1"), measured(ef=20, version="hnswlib 2", scale=3))
    (board,) = boards(run)
    assert [(each.version, each.rank) for each in board.standings] == [("hnswlib 1", 1), ("hnswlib 2", 2)]


@pytest.mark.parametrize(
    "changed",
    [
        run_of(measured("usearch"), environment={**MACHINE, "processor": "Another"}),
        run_of(measured("usearch", load=Load("throughput", clients=4))),
        run_of(dataclasses.replace(measured("usearch"), k=100)),
        run_of(
            dataclasses.replace(
                measured("usearch"), build=dataclasses.replace(measured("usearch").build, search_threads=2)
            )
        ),
    ],
    ids=["machine", "load", "k", "search threads"],
)
def test_other_conditions_are_another_contest(changed):
    ([data], _) = compared(run_of(measured("hnswlib")), changed)
    assert [len(each.contenders) for each in data.contests] == [1, 1]
    assert {board.standings[0].rank for each in data.contests for board in each.boards[:1]} == {1}


@pytest.mark.parametrize(
    ("changed", "title"),
    [
        ({"metric": "l2"}, "data, l2"),
        ({"fingerprints": {**PRINTS, "truth": "u" * 32}}, "data, cosine, truth uuuuuuuu"),
    ],
    ids=["metric", "truth"],
)
def test_another_metric_or_truth_is_another_table(changed, title):
    from recallatk.core import Metric

    changed = {**changed, **({"metric": Metric.L2} if "metric" in changed else {})}
    other = dataclasses.replace(run_of(measured("usearch")), **changed)
    found, left_out = compared(run_of(measured("hnswlib")), other)
    assert left_out == [] and len(found) == 2
    assert title in {each.title for each in found}
    assert len({each.title for each in found}) == 2


def test_other_data_under_the_same_name_are_left_out_with_what_differs():
    other = run_of(measured("usearch"), prints={**PRINTS, "vectors": "w" * 32, "queries": "r" * 32})
    ([data], [left]) = compared(run_of(measured()), other, run_of(measured(ef=20)))
    assert [each.name for each in data.runs] == ["one", "three"]
    assert left.name == "two"
    for words in ("other data under the name data", "corpus vectors and queries", "one"):
        assert words in left.why


def test_of_as_many_runs_those_that_were_measured_first_keep_the_name():
    first = run_of(measured(), begun="2026-01-01T00:00:00+00:00")
    later = run_of(measured(), begun="2026-03-01T00:00:00+00:00", prints={**PRINTS, "vectors": "a" * 32})
    for runs, kept_name in (((first, later), "one"), ((later, first), "two")):
        ([data], _) = compared(*runs)
        assert [each.name for each in data.runs] == [kept_name]


def test_a_run_without_fingerprints_is_left_out():
    found, [left] = compared(run_of(measured(), prints={}))
    assert found == [] and "fingerprints" in left.why


def test_settings_that_refused_or_left_out_queries_are_not_ranked():
    refused = Refusals(np.where(np.arange(100) < 1, 0, -1), (RefusedFilter("x", 1, "no"),))
    run = run_of(
        dataclasses.replace(measured("refuses"), refused=refused),
        dataclasses.replace(measured("sampled"), times=np.where(np.arange(100) < 1, 0, 2)),
        measured("whole"),
    )
    ([data], _) = compared(run)
    ([contest]) = data.contests
    assert [each.engine[0] for each in contest.contenders] == ["whole"]
    assert data.unranked == ("1 × did not send every query", "1 × refused queries")


def test_throughput_is_ranked_by_queries_per_second_and_one_round_decides_nothing():
    load = Load("throughput", clients=4)
    two = [measured(name, load=load, scale=scale) for name, scale in (("fast", 1), ("slow", 50))]
    (board,) = boards(run_of(*two))
    assert board.axis.name == "qps" and [each.engine for each in board.standings] == ["fast", "slow"]
    assert [each.rank for each in board.standings] == [1, 2]
    once = [measured(name, load=load, scale=scale, rounds=1) for name, scale in (("fast", 1), ("slow", 50))]
    (board,) = boards(run_of(*once))
    assert [each.rank for each in board.standings] == [1, 1]


@pytest.mark.parametrize("levels", [(), (0.0,), (1.0,), (0.9, 95.0), (float("nan"),)])
def test_levels_that_are_no_recalls_are_refused(levels):
    with pytest.raises(UsageError, match=r"such as 0\.95"):
        checked_levels(levels)
    assert checked_levels([0.99, 0.9, 0.9]) == (0.9, 0.99)


def test_a_level_that_so_few_queries_cannot_show_is_said():
    low, high = boards(run_of(measured(recall=0.99)), levels=(0.9, 0.99))
    assert low.out_of_reach is None
    # 100 answers that are all right: whoever is wrong once in 34 shows that in 5 % of samples.
    assert 0.95 < high.out_of_reach < 0.99
