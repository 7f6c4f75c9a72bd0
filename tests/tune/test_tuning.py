"""Tuning on engines whose curve is known: what is chosen, dropped, survived and resumed."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tuning_data import small_data

from recallatk.bench.conversation import Conversation
from recallatk.datasets.opening import make_queries
from recallatk.errors import UsageError
from recallatk.truth import ground_truth
from recallatk.tune.sides import split_sides
from recallatk.tune.tuning import tune


def needed(recall):
    """The effort at which the curve of Steady has this recall."""
    return -10 * np.log(1 - recall)


def test_the_least_effort_that_can_be_proven_is_chosen_and_holds_on_the_whole_curve(curved, data):
    tuned = tune(data, target="recall@10 >= 0.9", engines=["steady"], by=["category"])
    assert tuned.met
    effort = dict(tuned.choice.search)["effort"]
    assert needed(0.9) <= effort < needed(0.95)
    assert tuned.choice.bound >= 0.9
    assert tuned.validated["recall@10"].value >= 0.9
    assert tuned.validated["recall@10"].n + tuned.choice.queries == 800
    assert tuned.looks == 1
    assert tuned.choice.latency_ms["p95"] > 0
    assert tuned.trials > 5
    assert tuned.worst_segment[0] in ("category=even", "category=odd")
    assert tuned.grid_seconds_estimate > 0
    assert tuned.front
    # Easy steps cost few queries.
    asked = [each.why for each in tuned.attempts if each.rows == 600]
    assert any("after 64 queries" in each for each in asked)


def test_a_build_whose_ceiling_misses_the_target_is_dropped_and_said(curved, data):
    tuned = tune(data, target="recall@10 >= 0.9", engines=["capped"])
    assert not tuned.met
    assert tuned.choice is None
    assert any("full effort" in each.why for each in tuned.attempts)
    assert "binds" in tuned.binding or "No setting" in tuned.binding


def test_the_other_engine_is_chosen_where_one_cannot(curved, data):
    tuned = tune(data, target="recall@10 >= 0.9", engines=["capped", "steady"])
    assert tuned.choice.engine == "steady"
    assert {each.engine for each in tuned.attempts} == {"capped", "steady"}


def test_a_curve_that_falls_again_is_said_and_nothing_below_the_dip_is_chosen(curved, data):
    # 0.97 is reached below the dip; bisection falls into it.
    tuned = tune(data, target="recall@10 >= 0.97", engines=["dipping"])
    assert tuned.met
    assert dict(tuned.choice.search)["effort"] > 100
    assert [each.kind for each in tuned.cautions] == ["monotonicity"]


def test_a_build_that_crashes_costs_itself_only(curved, data):
    tuned = tune(data, target="recall@10 >= 0.9", engines=["breaking"])
    assert tuned.met
    assert dict(tuned.choice.build)["how"] == "fine"
    crashed = [each for each in tuned.attempts if each.verdict == "crashed"]
    assert {dict(each.build)["how"] for each in crashed} <= {"segfault", "raise"}
    assert crashed


def test_with_hardly_any_time_it_returns_what_it_has(curved, data):
    tuned = tune(data, target="recall@10 >= 0.9", engines=["slow"], seconds=0.5)
    assert not tuned.met
    assert any(each.kind == "time" for each in tuned.cautions)
    assert tuned.binding


def test_a_budget_that_nothing_keeps_binds(curved):
    tuned = tune(small_data(queries=300), target="recall@10 >= 0.9", budgets="p95 <= 0.4ms", engines=["slow"])
    assert not tuned.met
    assert tuned.nearest is not None
    assert "p95" in tuned.binding


def test_targets_of_percentiles_and_segments_are_kept_together(curved, data):
    wanted = ["recall@10 >= 0.9 in category=even", "p10(recall@10) >= 0.6"]
    tuned = tune(data, target=wanted, engines=["steady"])
    assert tuned.met
    assert len(tuned.validated) == 2


def test_what_the_held_out_queries_do_not_confirm_is_said_and_followed_by_something_safer(curved, data):
    _, held_out = split_sides(data, ground_truth(data, depth=10), seed=0)
    vectors = np.array(data.queries.vectors.read(0, data.queries.rows))
    vectors[held_out.numbers[::3], 0] += 100
    harder = replace(data, queries=make_queries(vectors))
    tuned = tune(harder, target="recall@10 >= 0.9", engines=["partial"])
    assert tuned.looks > 1
    assert tuned.met
    assert tuned.validated["recall@10"].value >= 0.9
    assert [each.kind for each in tuned.cautions] == ["looks"]
    assert any("held-out" in each.why for each in tuned.attempts)
    assert dict(tuned.choice.search)["effort"] > needed(0.95)


def test_more_time_goes_on_from_what_less_time_had_measured(curved, tmp_path):
    data = small_data(queries=300)
    short = tune(data, target="recall@10 >= 0.9", engines=["slow"], seconds=0.5, out=tmp_path)
    long = tune(data, target="recall@10 >= 0.9", engines=["slow"], out=tmp_path)
    assert (short.met, long.met) == (False, True)
    assert len(list(tmp_path.glob("journal-*.jsonl"))) == 1


def test_replaying_a_journal_gives_the_identical_outcome_and_starts_no_process(
    curved, data, tmp_path, monkeypatch
):
    wanted = {"target": "recall@10 >= 0.9", "engines": ["steady", "capped"], "out": tmp_path / "out"}
    before = tune(data, **wanted)
    monkeypatch.setattr(Conversation, "__post_init__", None)
    assert tune(data, **wanted) == before


def test_another_call_in_the_same_folder_takes_nothing_from_the_journal(curved, data, tmp_path):
    for wanted in ("recall@10 >= 0.9", "recall@10 >= 0.8"):
        tune(data, target=wanted, engines=["steady"], seconds=0.1, out=tmp_path)
    assert len(list(tmp_path.glob("journal-*.jsonl"))) == 2


KILLED = """
import sys
sys.path.insert(0, {tests!r})
from tuning_data import small_data
from recallatk.tune.tuning import tune
tune(small_data(queries=300), target="recall@10 >= 0.9", engines=["slow"], out={out!r})
"""


def test_what_a_killed_call_had_measured_is_not_measured_again(curved, tmp_path):
    out = tmp_path / "out"
    script = KILLED.format(tests=str(Path(__file__).parent), out=str(out))
    process = subprocess.Popen([sys.executable, "-c", script], env={**os.environ})
    lines = []
    while len(lines) < 14 and process.poll() is None:
        time.sleep(0.02)
        lines = [line for file in out.glob("*.jsonl") for line in file.read_bytes().splitlines()]
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    (journal,) = out.glob("*.jsonl")
    with journal.open("ab") as file:
        file.write(b'{"key": "half a li')
    tuned = tune(small_data(queries=300), target="recall@10 >= 0.9", engines=["slow"], out=out)
    after = journal.read_bytes().splitlines()
    assert tuned.met
    assert after[: len(lines)] == lines
    keys = [json.loads(line)["key"] for line in after]
    assert len(set(keys)) == len(keys)


def test_only_the_side_to_choose_by_can_be_asked_while_choosing(data):
    side, held_out = split_sides(data, ground_truth(data, depth=10), seed=0)
    assert not set(side.numbers.tolist()) & set(held_out.numbers.tolist())
    assert len(side) + len(held_out) == data.queries.rows
    assert (side.asked(np.arange(len(side))) == side.numbers).all()
    for wrong in (len(side), -1):
        with pytest.raises(IndexError):
            side.asked(np.array([wrong]))
    assert (side.truth.rows == ground_truth(replace(data, queries=side.dataset.queries), depth=10).rows).all()


def test_what_cannot_be_tuned_is_refused_at_once(curved, data):
    with pytest.raises(UsageError, match="prove"):
        tune(data, target="recall@10 >= 1", engines=["steady"])
    with pytest.raises(UsageError, match="prefer"):
        tune(data, target="recall@10 >= 0.9", prefer="beauty", engines=["steady"])
    with pytest.raises(UsageError, match="no target"):
        tune(data, target=[], engines=["steady"])
