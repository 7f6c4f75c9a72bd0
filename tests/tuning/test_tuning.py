"""Tuning on engines whose curve is known: what is chosen, dropped, survived and resumed."""

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tuning_data import small_data

from recallatk.bench.supervisor import WorkerProcess
from recallatk.datasets.opening import make_queries
from recallatk.errors import UsageError
from recallatk.linter import Evidence, audit
from recallatk.truths import ground_truth
from recallatk.tuning import final_choice, flow, screening
from recallatk.tuning.flow import tune
from recallatk.tuning.full_builds import FullBuild
from recallatk.tuning.outcome import _about_memory
from recallatk.tuning.query_split import split_sides

TARGET = "recall@10 >= 0.9"


def needed(recall):
    """The effort at which the curve of Steady has this recall."""
    return -10 * np.log(1 - recall)


@pytest.fixture(scope="module")
def journal(tmp_path_factory):
    return tmp_path_factory.mktemp("journal")


@pytest.fixture(scope="module")
def tuned(curved, data, journal):
    """Two engines of which one cannot; effort costs time, so that noise of the machine decides nothing."""
    with pytest.MonkeyPatch.context() as patch:
        virtual_time(patch, lambda engine, effort: effort / 1_000)
        return tune(data, target=TARGET, engines=["capped", "steady"], by=["category"], out=journal)


def test_the_least_effort_that_can_be_proven_is_chosen_and_holds_on_the_whole_curve(tuned, data):
    assert tuned.met
    effort = dict(tuned.choice.search)["effort"]
    assert needed(0.9) <= effort < needed(0.95)
    assert tuned.choice.bound >= 0.9
    assert tuned.validated["recall@10"].value >= 0.9
    assert tuned.validated["recall@10"].n + tuned.choice.queries == data.queries.rows
    assert tuned.looks == 1
    assert tuned.choice.latency_ms["p95"] > 0
    assert tuned.trials > 5
    assert tuned.worst_segment[0] in ("category=even", "category=odd")
    assert tuned.grid_seconds_estimate > 0
    assert tuned.front
    # Easy steps cost few queries.
    asked = [each.why for each in tuned.attempts if each.rows == data.corpus.rows]
    assert any("after 64 queries" in each for each in asked)


def kinds(tuned):
    """Of the cautions, but for that of a machine that is busy with other tests."""
    return [each.kind for each in tuned.cautions if each.kind != "noise"]


def found_by(rule, tuned):
    return [each for each in audit(Evidence(tuned=tuned)) if each.rule == rule]


def test_one_look_is_no_fault_and_one_build_of_a_randomised_index_is(tuned):
    assert not found_by("R34", tuned)
    (warning,) = found_by("R25", tuned)
    assert "steady" in warning.message
    assert "recallatk run" in warning.remedy


def test_the_other_engine_is_chosen_where_one_cannot(tuned):
    assert tuned.choice.engine == "steady"
    assert {each.engine for each in tuned.attempts} == {"capped", "steady"}


def test_the_runner_up_of_a_build_alone_is_its_next_safer_effort(tuned):
    other = tuned.runner_up
    assert (other.engine, other.build) == (tuned.choice.engine, tuned.choice.build)
    assert dict(other.search)["effort"] > dict(tuned.choice.search)["effort"]
    assert other.bound >= 0.9
    assert tuned.no_runner_up is None


def test_the_runner_up_takes_turns_with_the_choice(tuned, journal):
    blocks = [json.loads(each["key"]) for each in lines(journal)]
    turns = {}
    for key in blocks:
        if key[0] == "ask" and key[6].startswith("finalists"):
            turns.setdefault(json.dumps(key[5]), []).append((key[6], key[-1]))
    # The same queries in the same number of turns.
    chosen, other = (json.dumps(dict(each.search)) for each in (tuned.choice, tuned.runner_up))
    assert turns[chosen] == turns[other]
    assert len(turns[chosen]) == 5


def lines(folder):
    (file,) = folder.glob("*.jsonl")
    return [json.loads(line) for line in file.read_bytes().splitlines()]


def test_where_more_effort_would_break_a_budget_it_is_said_that_there_is_no_runner_up(
    curved, tuned, data, monkeypatch
):
    virtual_time(monkeypatch, lambda engine, effort: effort)
    limit = 1.1 * dict(tuned.choice.search)["effort"]
    found = tune(data, target=TARGET, budgets=f"p95 <= {limit}ms", engines=["steady"])
    assert found.met
    assert found.runner_up is None
    assert "more search effort would exceed p95" in found.no_runner_up


def test_a_build_whose_ceiling_misses_the_target_is_dropped_and_said(curved, data):
    tuned = tune(data, target=TARGET, engines=["capped"])
    assert not tuned.met
    assert tuned.choice is None
    assert tuned.runner_up is None
    assert any("full effort" in each.why for each in tuned.attempts)
    assert "out of reach" in tuned.binding or "No setting" in tuned.binding


def test_a_curve_that_falls_again_is_said_and_nothing_below_the_dip_is_chosen(curved, data):
    # 0.97 is reached below the dip; bisection falls into it.
    tuned = tune(data, target="recall@10 >= 0.97", engines=["dipping"])
    assert tuned.met
    assert dict(tuned.choice.search)["effort"] > 100
    # On a busy machine the final timing may rank another setting above the choice.
    assert [each for each in kinds(tuned) if each != "off-front"] == ["monotonicity"]


def test_a_build_that_is_worst_at_full_effort_is_not_given_up(curved, data):
    tuned = tune(data, target=TARGET, engines=["falling"])
    assert tuned.met
    assert needed(0.9) <= dict(tuned.choice.search)["effort"] < 150
    assert dict(tuned.runner_up.search)["effort"] < 150
    assert [each for each in kinds(tuned) if each != "off-front"] == ["monotonicity"]


def virtual_time(monkeypatch, latency_ms):
    """Real answers, with the latencies of a machine that is made up."""
    asked = WorkerProcess.ask

    def ask(self, search, queries, **how):
        found = asked(self, search, queries, **how)
        taken = latency_ms(self.job.engine, search["effort"]) * 1e6
        return replace(found, latencies_ns=np.full(len(queries), int(taken)))

    monkeypatch.setattr(WorkerProcess, "ask", ask)


def whole_builds(tuned, data):
    """The care of every build of the whole corpus, in the order tried."""
    tried = [dict(each.build)["care"] for each in tuned.attempts if each.rows == data.corpus.rows]
    return list(dict.fromkeys(tried))


def test_where_searching_takes_far_more_than_usual_a_more_careful_build_is_tried(curved, monkeypatch):
    virtual_time(monkeypatch, lambda engine, effort: effort)
    data = small_data(rows=5_000, queries=300)
    tuned = tune(data, target=TARGET, engines=["careful"])
    assert whole_builds(tuned, data) == [8, 16]
    assert dict(tuned.choice.build) == {"care": 16}
    assert 2 * needed(0.9) <= dict(tuned.choice.search)["effort"] < 4 * needed(0.9)
    # Nothing is gained by it where building is what is to be cheap, or where searching is cheap as it is.
    assert whole_builds(tune(data, target=TARGET, engines=["careful"], prefer="build"), data) == [8]
    assert whole_builds(tune(data, target="recall@10 >= 0.6", engines=["careful"]), data) == [8]


def test_the_estimate_is_of_a_grid_over_all_efforts_and_queries(curved, data, monkeypatch):
    virtual_time(monkeypatch, lambda engine, effort: effort)
    tuned = tune(data, target=TARGET, engines=["steady"])
    calls = 6 * data.queries.rows * np.geomspace(1, 8 * 32, 12).sum() / 1000
    assert tuned.grid_seconds_estimate == pytest.approx(calls, rel=0.02)


def test_the_grid_of_an_engine_that_was_slower_on_the_part_takes_longer(curved, data, monkeypatch):
    virtual_time(monkeypatch, lambda engine, effort: effort * (4 if engine == "rival" else 1))
    tuned = tune(data, target=TARGET, engines=["steady", "rival"])
    assert {
        each.engine for each in tuned.attempts if each.why == "the lowest effort that meets every target"
    } == {"steady"}
    calls = 6 * data.queries.rows * np.geomspace(1, 8 * 32, 12).sum() / 1000
    assert tuned.grid_seconds_estimate == pytest.approx(5 * calls, rel=0.02)


def test_turns_choose_what_a_drifting_machine_hides(curved, data, tmp_path, monkeypatch):
    # The rival is 8 % dearer, but something else leaves the machine just before it is proven.
    busy = {"factor": 1.25}
    base = {"steady": 10.0, "rival": 10.8}
    virtual_time(monkeypatch, lambda engine, _: base[engine] * busy["factor"])

    def watch(progress):
        if (progress.phase, progress.engine) == ("build", "rival"):
            busy["factor"] = 1.0

    wanted = {"target": TARGET, "engines": ["steady", "rival"], "watch": watch, "out": tmp_path}
    tuned = tune(data, **wanted)
    assert (tuned.choice.engine, tuned.runner_up.engine) == ("steady", "rival")
    # Another build that is proven is the runner-up, before more effort on the same.
    assert tuned.runner_up.bound >= 0.9
    # The same measurements without the turns.
    monkeypatch.setattr(flow, "compare", lambda study, proven, trail: (proven, trail))
    with monkeypatch.context() as patch:
        patch.setattr(final_choice, "_MOST_TRIES", 0)
        assert tune(data, **wanted).choice.engine == "rival"
    # The final timing finds out too.
    assert tune(data, **wanted).choice.engine == "steady"


def test_a_build_that_crashes_costs_itself_only(curved, data, monkeypatch):
    # On a busy machine the crashes alone take longer than an engine that reached nothing is given.
    monkeypatch.setattr(screening, "_PATIENCE", 1_000)
    tuned = tune(data, target=TARGET, engines=["breaking"])
    assert tuned.met
    assert dict(tuned.choice.build)["how"] == "fine"
    crashed = [each for each in tuned.attempts if each.verdict == "crashed"]
    assert {dict(each.build)["how"] for each in crashed} <= {"segfault", "raise"}
    assert crashed


def test_more_time_goes_on_from_what_hardly_any_time_had_measured(curved, data, tmp_path):
    short = tune(data, target=TARGET, engines=["slow"], seconds=0.3, out=tmp_path)
    assert not short.met
    assert any(each.kind == "time" for each in short.cautions)
    assert short.binding
    measured = lines(tmp_path)
    assert tune(data, target=TARGET, engines=["slow"], out=tmp_path).met
    assert lines(tmp_path)[: len(measured)] == measured


def test_a_budget_that_nothing_keeps_binds(tuned, data, journal, tmp_path):
    wanted = {"target": TARGET, "budgets": "p95 <= 0.000001ms", "engines": ["capped", "steady"]}
    # What was measured before is the same under any budget.
    (file,) = journal.glob("*.jsonl")
    tune(data, **wanted, seconds=1e-6, out=tmp_path)
    (other,) = tmp_path.glob("*.jsonl")
    shutil.copy(file, other)
    found = tune(data, **wanted, out=tmp_path)
    assert not found.met
    assert found.nearest is not None
    assert "p95" in found.binding


def test_what_the_held_out_queries_do_not_confirm_is_said_and_followed_by_something_safer(
    curved, data, monkeypatch
):
    virtual_time(monkeypatch, lambda engine, effort: effort / 1_000)
    _, held_out = split_sides(data, ground_truth(data, depth=10), seed=0)
    vectors = np.array(data.queries.vectors.read(0, data.queries.rows))
    vectors[held_out.numbers[::3], 0] += 100
    harder = replace(data, queries=make_queries(vectors))
    tuned = tune(harder, target=TARGET, engines=["partial"])
    assert tuned.looks > 1
    assert tuned.met
    assert tuned.validated["recall@10"].value >= 0.9
    assert kinds(tuned) == ["looks"]
    assert any("held-out" in each.why for each in tuned.attempts)
    assert dict(tuned.choice.search)["effort"] > needed(0.95)
    (warning,) = found_by("R34", tuned)
    assert (warning.severity, warning.measured) == ("warning", tuned.looks)
    # What the held-out queries did not confirm is no alternative either.
    assert dict(tuned.runner_up.search)["effort"] > dict(tuned.choice.search)["effort"]


def test_replaying_a_journal_in_any_order_gives_the_identical_outcome_and_starts_no_process(
    tuned, data, journal, tmp_path, monkeypatch
):
    (file,) = journal.glob("*.jsonl")
    kept = file.read_bytes().splitlines(keepends=True)
    (tmp_path / file.name).write_bytes(b"".join(reversed(kept)))
    monkeypatch.setattr(WorkerProcess, "__init__", None)
    wanted = {"target": TARGET, "engines": ["capped", "steady"], "by": ["category"]}
    assert tune(data, **wanted, out=tmp_path) == tuned
    assert len(lines(tmp_path)) == len(kept)


def test_another_seed_or_target_takes_nothing_from_the_journal(tuned, data, journal, tmp_path):
    (file,) = journal.glob("*.jsonl")
    shutil.copy(file, tmp_path)
    for other in ({"target": "recall@10 >= 0.8"}, {"target": TARGET, "seed": 1}):
        tune(data, engines=["capped", "steady"], seconds=0.1, out=tmp_path, **other)
    assert len(list(tmp_path.glob("journal-*.jsonl"))) == 3
    assert (tmp_path / file.name).read_bytes() == file.read_bytes()


KILLED = """
import sys
sys.path.insert(0, {tests!r})
from tuning_data import small_data
from recallatk.tuning.flow import tune
tune(small_data(), target={target!r}, engines=["fatal"], out={out!r})
"""


def test_what_a_killed_call_had_measured_is_not_measured_again(curved, data, tmp_path, monkeypatch):
    counted, out = tmp_path / "count", tmp_path / "out"
    monkeypatch.setenv("FATAL_COUNT", str(counted))
    counted.write_text("9")
    script = KILLED.format(tests=str(Path(__file__).parent), target=TARGET, out=str(out))
    process = subprocess.run([sys.executable, "-c", script], env={**os.environ}, check=False)
    assert process.returncode == -signal.SIGKILL
    (file,) = out.glob("*.jsonl")
    before = file.read_bytes().splitlines()
    with file.open("ab") as half:
        half.write(b'{"key": "half a li')
    tuned = tune(data, target=TARGET, engines=["fatal"], out=out)
    after = file.read_bytes().splitlines()
    assert tuned.met
    # The build and eight of nine questions, then what was left to do.
    assert len(before) == 9
    assert len(after) > len(before)
    assert after[: len(before)] == before
    keys = [json.loads(line)["key"] for line in after]
    assert len(set(keys)) == len(keys)
    # Had nobody been killed, the same measurements would have said the same.
    monkeypatch.setattr(WorkerProcess, "__init__", None)
    assert tune(data, target=TARGET, engines=["fatal"], out=out) == tuned


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


def test_little_memory_is_told_in_a_unit_that_shows_it():
    build = FullBuild(None, SimpleNamespace(engine="e"), corrected=(2048, 10_240))
    (caution,) = _about_memory([build])
    assert "2.0 KiB, less than the 10.0 KiB" in caution.message
