"""What stands side by side in a tuning was timed in one phase, and a noisy machine is told."""

import json
from dataclasses import replace

import numpy as np
import pytest
from tuning_data import small_data

from recallatk.bench.supervisor import WorkerProcess
from recallatk.reporting.tuned import tuned_to_markdown, tuned_to_text
from recallatk.tuning import final_choice, full_builds
from recallatk.tuning.flow import tune

TARGET = "recall@10 >= 0.9"


def key(candidate):
    return candidate.engine, candidate.build, candidate.search


@pytest.fixture
def machine(monkeypatch):
    """Real answers on a machine whose latencies and pace are made up."""
    asked = WorkerProcess.ask
    state = {
        "calls": 0,
        "slow": lambda count: 1.0,
        "pace": lambda count: 1_000_000,
        "taken": lambda engine, effort: effort,
    }

    def ask(self, search, queries, **how):
        found = asked(self, search, queries, **how)
        state["calls"] += 1
        taken = state["taken"](self.job.engine, search["effort"]) * state["slow"](state["calls"]) * 1e5
        pace = state["pace"](state["calls"]) if how.get("pace") else None
        return replace(found, latencies_ns=np.full(len(queries), int(taken)), pace_ns=pace)

    monkeypatch.setattr(WorkerProcess, "ask", ask)
    return state


def test_a_machine_that_slows_down_while_choosing_does_not_bend_the_front(curved, machine):
    # Every request is slower than the one before: one after the other, less effort would look dearer.
    machine["slow"] = lambda count: 1.03**count
    tuned = tune(small_data(), target=TARGET, engines=["steady"])
    assert len(tuned.front) >= 5
    efforts = [dict(each.search)["effort"] for each in tuned.front]
    p95 = [each.latency_ms["p95"] for each in tuned.front]
    assert p95 == sorted(p95) and efforts == sorted(efforts)
    # Interleaved blocks share the drift, so that costs stand to each other as efforts do.
    assert p95[-1] / p95[0] == pytest.approx(efforts[-1] / efforts[0], rel=0.6)


def test_the_choice_has_the_same_numbers_wherever_it_is_shown(curved, machine):
    machine["slow"] = lambda count: 1.02**count
    tuned = tune(small_data(), target=TARGET, engines=["steady"])
    shown = {key(each): each.latency_ms for each in (*tuned.front, tuned.choice, tuned.runner_up)}
    for each in (*tuned.front, tuned.choice, tuned.runner_up, tuned.knee):
        assert each is None or each.latency_ms == shown[key(each)]
    listed = {(each.engine, each.build, each.search): each.p95_ms for each in tuned.attempts}
    assert all(listed[name] == latency_ms["p95"] for name, latency_ms in shown.items())


def test_a_noisy_machine_is_told_in_the_tuning_and_in_its_text(curved, machine):
    machine["pace"] = lambda count: 1_000_000 * (3 if count % 2 else 1)
    tuned = tune(small_data(), target=TARGET, engines=["steady"])
    (caution,) = [each for each in tuned.cautions if each.kind == "noise"]
    assert caution.value > caution.limit
    assert "the machine was noisy" in tuned_to_text(tuned)
    text = tuned_to_text(tuned, verbose=True)
    for title in ("Cost of more recall", "Runner-up"):
        assert "noisy" in text.partition(title)[2].partition("\n\n")[0], title


def test_a_quiet_machine_is_not_called_noisy(curved, machine):
    tuned = tune(small_data(), target=TARGET, engines=["steady"])
    assert not [each for each in tuned.cautions if each.kind == "noise"]


def test_as_many_settings_are_counted_as_are_listed(curved, data, tmp_path):
    tuned = tune(data, target=TARGET, engines=["capped", "steady"], out=tmp_path)
    listed = [each for each in tuned.attempts if each.search is not None]
    assert tuned.trials == len(listed)
    (journal,) = tmp_path.glob("journal-*.jsonl")
    keys = [json.loads(json.loads(line)["key"]) for line in journal.read_text().splitlines()]
    asked = {json.dumps([*each[1:4], each[5]]) for each in keys if each[0] == "ask"}
    assert tuned.trials == len(asked)


def test_a_choice_that_breaks_its_budget_in_the_final_timing_is_not_met(curved, machine):
    # All that is asked with the machine's pace is the final timing.
    asked = WorkerProcess.ask

    def ask(self, search, queries, **how):
        found = asked(self, search, queries, **how)
        return replace(found, latencies_ns=found.latencies_ns * (20 if how.get("pace") else 1))

    WorkerProcess.ask, before = ask, WorkerProcess.ask
    try:
        tuned = tune(small_data(), target=TARGET, engines=["steady"], budgets=["p95 <= 10ms"])
    finally:
        WorkerProcess.ask = before
    assert not tuned.met and tuned.choice is None
    assert tuned.verdict.outcome == "FAIL"
    (missed,) = [each for each in tuned.verdict.goals if each.outcome == "missed"]
    assert missed.text == "p95 <= 10ms" and missed.value == tuned.nearest.latency_ms["p95"] > 10


@pytest.fixture
def final(machine, monkeypatch):
    """Latencies of the final timing alone, by effort; earlier phases keep those of the machine."""
    asked, factor = WorkerProcess.ask, {}

    def ask(self, search, queries, **how):
        found = asked(self, search, queries, **how)
        # All that is asked with the machine's pace is the final timing.
        times = factor["of"](self.job.engine, search["effort"]) if how.get("pace") else 1
        return replace(found, latencies_ns=(found.latencies_ns * times).astype(np.int64))

    monkeypatch.setattr(WorkerProcess, "ask", ask)
    return factor


def efforts(candidates):
    return [dict(each.search)["effort"] for each in candidates]


def test_a_choice_that_the_final_timing_contradicts_is_replaced_by_a_confirmed_one(
    curved, machine, final, monkeypatch
):
    # A busy machine must not make the second build look too slow to try.
    monkeypatch.setattr(full_builds, "_OF_THE_GRID", 1_000)
    # Before the final timing, effort costs next to nothing and the rival is a little more expensive.
    machine["taken"] = lambda engine, effort: (10 if engine == "steady" else 10.8) + effort / 1_000
    final["of"] = lambda engine, effort: 3 if engine == "steady" else 1
    tuned = tune(small_data(), target=TARGET, engines=["steady", "rival"])
    assert tuned.met and tuned.choice.engine == "rival"
    assert key(tuned.choice) in map(key, tuned.front)
    assert tuned.choice.bound >= 0.9 and tuned.validated["recall@10"].value >= 0.9
    # The replaced choice is confirmed and of another build, which makes it the runner-up.
    assert tuned.runner_up.engine == "steady" and tuned.runner_up.bound >= 0.9
    # Nothing was rejected.
    assert tuned.looks == 1 and not [each for each in tuned.cautions if each.kind in ("looks", "off-front")]
    costs = {key(each): each.latency_ms["p95"] for each in tuned.front if each.bound is not None}
    assert costs[key(tuned.choice)] == min(costs.values())


def test_more_effort_that_the_final_timing_finds_cheaper_is_proven_before_it_is_chosen(curved, final):
    final["of"] = lambda engine, effort: 1
    before = tune(small_data(), target=TARGET, engines=["steady"])
    chosen = dict(before.choice.search)["effort"]
    higher = min(each for each in efforts(before.front) if each > 1.25 * chosen)
    final["of"] = lambda engine, effort: 0.1 if effort == higher else 1
    tuned = tune(small_data(), target=TARGET, engines=["steady"])
    assert dict(tuned.choice.search)["effort"] == higher
    assert tuned.choice.bound >= 0.9 and tuned.choice.queries == before.choice.queries
    assert tuned.validated["recall@10"].value > before.validated["recall@10"].value
    assert str(higher) in tuned.snippet


def test_less_effort_than_was_proven_is_not_chosen_however_cheap(curved, final):
    final["of"] = lambda engine, effort: 1
    before = tune(small_data(), target=TARGET, engines=["steady"])
    assert min(efforts(before.front)) < dict(before.choice.search)["effort"]
    assert key(tune(small_data(), target=TARGET, engines=["steady"]).choice) == key(before.choice)


def test_a_choice_off_the_front_is_in_the_table_with_one_caution(curved, final, monkeypatch):
    final["of"] = lambda engine, effort: 1
    before = tune(small_data(), target=TARGET, engines=["steady"])
    chosen = dict(before.choice.search)["effort"]
    final["of"] = lambda engine, effort: 0.01 if effort > 1.25 * chosen else 1
    # Without a try, nothing cheaper can be confirmed.
    monkeypatch.setattr(final_choice, "_MOST_TRIES", 0)
    tuned = tune(small_data(), target=TARGET, engines=["steady"])
    assert key(tuned.choice) == key(before.choice) and key(tuned.choice) not in map(key, tuned.front)
    (caution,) = [each for each in tuned.cautions if each.kind == "off-front"]
    assert "was not shown to meet every goal" in caution.message and caution.value < caution.limit
    for text in (tuned_to_text(tuned), tuned_to_text(tuned, verbose=True), tuned_to_markdown(tuned)):
        assert any("choice" in line and str(chosen) in line for line in text.splitlines())
        assert "the final timing measured a lower cost" in text.replace("\n", " ").replace("  ", " ")
    assert tuned_to_text(tuned).count("final timing measured") == 1


def test_a_choice_by_memory_is_in_the_table_without_a_caution(curved, final):
    final["of"] = lambda engine, effort: 1
    tuned = tune(small_data(), target=TARGET, engines=["steady"], prefer="build")
    text = tuned_to_text(tuned, width=200)
    assert any(line.split()[:1] == ["choice"] for line in text.splitlines())
    if key(tuned.choice) not in map(key, tuned.front):
        assert "more effort takes the same build time" in text
    assert not [each for each in tuned.cautions if each.kind == "off-front"]


def test_the_verdict_names_every_goal_with_its_bounds(curved, data):
    tuned = tune(data, target=[TARGET, "p5(recall@10) >= 0.3"], engines=["steady"], budgets=["p95 <= 1h"])
    assert tuned.met and tuned.verdict.outcome == "PASS"
    assert [each.text for each in tuned.verdict.goals] == [TARGET, "p5(recall@10) >= 0.3", "p95 <= 1h"]
    recall, tail, latency = tuned.verdict.goals
    assert 0.9 <= recall.low < recall.value <= recall.high
    held_out = f"{tuned.validated['recall@10'].value:.4f} on held-out queries"
    assert recall.note == f"on the tuning queries; {held_out}"
    assert 0.3 <= tail.low <= tail.value
    assert latency.value == tuned.choice.latency_ms["p95"] and latency.low is None


def test_a_percentile_budget_gets_the_calls_that_it_needs(curved, data):
    tuned = tune(data, target=TARGET, engines=["steady"], budgets=["p99.9 <= 1h"])
    assert tuned.choice.latency_ms["p99.9"] is not None
    assert tuned.verdict.outcome == "PASS"


def test_a_tuning_that_gets_more_time_times_what_it_found_then(curved, machine, tmp_path):
    short = tune(small_data(), target=TARGET, engines=["steady"], seconds=0.01, out=tmp_path)
    tuned = tune(small_data(), target=TARGET, engines=["steady"], out=tmp_path)
    assert tuned.met and not short.met
    front = {key(each): each.latency_ms for each in tuned.front}
    assert len(front) >= 3 and front[key(tuned.choice)] == tuned.choice.latency_ms
    listed = {(each.engine, each.build, each.search): each.p95_ms for each in tuned.attempts}
    assert listed[key(tuned.runner_up)] == tuned.runner_up.latency_ms["p95"]
    # All of them in one phase.
    (journal,) = tmp_path.glob("journal-*.jsonl")
    keys = [json.loads(json.loads(line)["key"]) for line in journal.read_text().splitlines()]
    phases = [each[1] for each in keys if each[0] == "timing"]
    asked = [each[5] for each in keys if each[0] == "ask" and f"timing {phases[-1]}" in str(each)]
    assert all(dict(search) in asked for _, _, search in front)


def test_a_resumed_tuning_shows_the_same_numbers(curved, data, tmp_path):
    first = tune(data, target=TARGET, engines=["steady"], out=tmp_path)
    second = tune(data, target=TARGET, engines=["steady"], out=tmp_path)
    assert [each.latency_ms for each in second.front] == [each.latency_ms for each in first.front]
    assert second.choice == first.choice and second.verdict == first.verdict
