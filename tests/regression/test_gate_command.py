"""`recallatk gate`: verdicts, exit codes, the baseline file and what CI reads, on real runs."""

import json
import re
import shlex
import subprocess
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from scipy import stats

from commands import command, recallatk
from recallatk import accept_baseline, gate_results, load_run
from recallatk.errors import UsageError
from recallatk.reporting.gate import MARKER


def gated(folder, *words, code=0, env=None):
    ran = recallatk("gate", *words, cwd=folder, env=env)
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran


def as_json(folder, *words, code=0):
    return json.loads(gated(folder, *words, "--json", "--quiet", code=code).stdout)


@pytest.fixture(scope="module")
def baseline(runs):
    """The accepted setting nprobe=4, as a file."""
    said = gated(runs, "recall-baseline.json", "before#3", "--accept").stdout
    assert "before#3 is the baseline, 1 setting." in said
    return runs / "recall-baseline.json"


def test_pass_fail_and_undecided_have_codes_of_their_own(runs, baseline):
    assert (
        "PASS: after#1 against recall-baseline.json, 2 goals." in gated(runs, baseline.name, "after#1").stdout
    )
    assert "PASS" in gated(runs, baseline.name, "after#2").stdout
    said = gated(runs, baseline.name, "before#2", code=1).stdout
    assert "FAIL: before#2" in said
    assert "Worst segment: " in said and "text of " in said
    # A margin right at the loss.
    loss = mean(runs, "before", 3, "recall@10") - mean(runs, "before", 4, "recall@10")
    goal = ("--target", f"recall@10 >= baseline - {-loss:.4f}")
    found = as_json(runs, baseline.name, "before#2", *goal, code=3)
    assert found["verdict"]["outcome"] == "UNDECIDED" and found["verdict"]["met"] is None
    assert found["queries"] == 300
    gated(runs, baseline.name, "before#2", *goal, "--undecided", "fail", code=1)
    gated(runs, baseline.name, "before#2", *goal, "--undecided", "pass")


def mean(folder, run, nprobe, measure):
    return recalls(folder, run, nprobe, measure).mean()


def recalls(folder, run, nprobe, measure):
    found = load_run(folder / run).measurements
    return next(each for each in found if dict(each.trial.search)["nprobe"] == nprobe).score.per_query[
        measure
    ]


def test_bounds_and_needed_queries_are_those_of_paired_differences(runs, baseline):
    one, other = (recalls(runs, "before", nprobe, "recall@10") for nprobe in (4, 3))
    margin = one.mean() - other.mean() + 0.005
    found = as_json(
        runs, baseline.name, "before#2", "--target", f"recall@10 >= baseline - {margin:.6f}", code=3
    )
    [goal] = found["goals"]
    ends = stats.t.interval(0.9, 299, (other - one).mean(), stats.sem(other - one))
    assert [goal["low"], goal["high"]] == pytest.approx([one.mean() + each for each in ends], abs=0.003)
    assert goal["value"] == pytest.approx(other.mean())
    assert goal["limit"] == pytest.approx(one.mean() - margin, abs=1e-6)
    width = goal["value"] - goal["low"]
    assert goal["needed"] == found["needed"] == pytest.approx(300 * ((width / 0.005) ** 2 - 1), rel=0.02)


def test_factors_segments_tails_and_absolute_goals_are_judged(runs, baseline):
    goals = {
        "recall@10 >= 0.9x baseline": "missed",
        "recall@10 >= baseline - 0.5 in lang=de": "met",
        "p5(recall@10) >= baseline - 0.5": "met",
        "robust(0.8)@10 >= baseline - 0.9": "met",
        "recall@10 >= 0.99": "missed",
        "size <= 1.1x baseline": "met",
        "size <= 0.5x baseline": "missed",
    }
    words = [word for goal in goals for word in ("--target", goal)]
    found = as_json(runs, baseline.name, "before#1", *words, code=1)
    assert {each["text"]: each["outcome"] for each in found["goals"]} == goals
    assert [each["text"] for each in found["goals"]][-2:] == [
        "size <= 1.1x baseline",
        "size <= 0.5x baseline",
    ]
    assert found["compared"]["settings"][0]["values"]


def test_times_of_other_runs_never_fail_but_those_of_interleaved_rounds_do(runs, baseline):
    tight = ("--budget", "p50 <= 0.001x baseline")
    said = gated(runs, baseline.name, "after#1", *tight, code=3).stdout
    assert "measured across runs" in " ".join(said.split())
    gated(runs, baseline.name, "after#1", "--budget", "p50 <= 1000x baseline")
    found = as_json(runs, "before#1", "before#3", *tight, code=1)
    assert found["goals"][0]["outcome"] == "missed"
    gated(runs, "before#1", "before#3", "--budget", "p50 <= 1000x baseline")


def test_a_goal_that_matches_nothing_measured_is_an_error(runs, baseline):
    for goal in ("recall@50 >= baseline", "mrr@10 >= 0.1", "nDCG@10 loss <= baseline + 0.01"):
        said = gated(runs, baseline.name, "after#1", "--target", goal, code=2).stderr
        assert f"not measured on both sides: {goal}. Measured: recall@1, recall@10" in said
    said = gated(
        runs, baseline.name, "after#1", "--target", "recall@10 >= baseline in lang=xx", code=2
    ).stderr
    assert "no query has lang = 'xx'" in said
    assert (
        "5 has no unit"
        in gated(runs, baseline.name, "after", "--budget", "p95 <= baseline + 5", code=2).stderr
    )


def test_several_builds_and_answers_are_gated(runs):
    assert as_json(runs, "built#2", "built#2")["verdict"]["outcome"] == "PASS"
    found = as_json(runs, "built#2", "built#1", code=1)
    assert found["verdict"]["outcome"] == "FAIL"
    words = ("good.parquet", "bad.parquet", "--truth", "truth.parquet")
    assert as_json(runs, *words, code=1)["goals"][-1]["value"] == pytest.approx(0.8)
    gated(runs, "answers.json", "good.parquet", "--truth", "truth.parquet", "--accept")
    gated(runs, "answers.json", "good.parquet", "--truth", "truth.parquet")
    # A run of the same queries against accepted answers of other settings.
    gated(runs, "answers.json", "before#1", code=1)


def test_the_baseline_file_is_small_exact_and_replaced_whole(runs, baseline, tmp_path):
    assert baseline.stat().st_size < 6_000
    from recallatk.regression.baseline_file import read_baseline

    side = read_baseline(baseline, "base")
    [setting] = side.settings
    for name in ("recall@1", "recall@10"):
        assert np.array_equal(setting.by_build(name)[0], recalls(runs, "before", 4, name))
    stored = json.loads(baseline.read_text())
    assert (stored["format_version"], stored["metric"]) == (1, "l2")
    other = tmp_path / "again.json"
    accept_baseline(runs / "before", other)
    accept_baseline(runs / "after", other)
    assert len(json.loads(other.read_text())["settings"]) == 2
    assert gate_results(other, runs / "after").verdict.outcome == "PASS"
    notes = tmp_path / "notes.json"
    notes.write_text("{}")
    assert "not replaced" in gated(runs, notes, "before", "--accept", code=2).stderr
    assert notes.read_text() == "{}"
    with pytest.raises(UsageError, match=r"a baseline is a \.json file"):
        accept_baseline(runs / "before", tmp_path / "base.txt")


def test_a_setting_that_the_candidate_lost_is_an_error(runs, tmp_path):
    file = tmp_path / "three.json"
    gated(runs, file, "before", "--accept")
    assert "not measured by before#3" in gated(runs, file, "before#3", code=2).stderr


def test_outputs_never_replace_inputs_and_accept_takes_no_goals(runs, baseline, tmp_path):
    before = baseline.read_bytes()
    for words in (("--markdown", baseline.name), ("--junit", "before/run.json")):
        assert "part of the input" in gated(runs, baseline.name, "before", *words, code=2).stderr
    assert baseline.read_bytes() == before
    said = gated(runs, baseline.name, "before#3", "--accept", "--target", "recall@10 >= 2", code=2).stderr
    assert "--target cannot be combined with --accept" in said


def test_a_reader_that_is_gone_changes_no_exit_code(runs, baseline):
    words = command("gate", baseline.name, "before#2", "--target", "recall@10 >= 0.999")
    line = f"{shlex.join(words)} | true; exit ${{PIPESTATUS[0]}}"
    assert subprocess.run(["bash", "-c", line], cwd=runs, check=False).returncode == 1


def test_the_first_baseline_stays_in_the_file_and_shows_a_slow_slide(runs, tmp_path):
    file = tmp_path / "slide.json"
    answers = ("--truth", "truth.parquet")
    for accepted in ("good.parquet", "bad.parquet", "bad.parquet"):
        gated(runs, file, accepted, *answers, "--accept")
    assert "PASS" in gated(runs, file, "bad.parquet", *answers, code=0).stdout
    found = json.loads(gated(runs, file, "bad.parquet", *answers, "--since-first", "--json", code=1).stdout)
    slid = [each for each in found["goals"] if each["setting"].startswith("since the first baseline: ")]
    assert len(slid) * 2 == len(found["goals"])
    assert {each["outcome"] for each in found["goals"] if each not in slid} == {"met"}
    assert any(each["outcome"] == "missed" for each in slid)
    # Other data begin anew.
    accept_baseline(runs / "others", file)
    assert json.loads(file.read_text())["first"] is None
    refused = gated(runs, "before#3", "after#1", "--since-first", code=2)
    assert "needs a baseline file" in refused.stderr


def test_damaged_merged_newer_and_other_baselines_are_refused_by_name(runs, baseline, tmp_path):
    text, path = baseline.read_text(), tmp_path / "base.json"
    merged = text.replace('"name"', '<<<<<<< HEAD\n "name"', 1) + ">>>>>>> other\n"
    cases = {
        merged: "git conflict markers",
        text[: len(text) // 2]: "a damaged baseline",
        text.replace('"format_version": 1', '"format_version": 2'): "format version 2 of a baseline",
        text.replace('"queries": 300', '"queries": 301'): "its checksum differs",
    }
    for damaged, said in cases.items():
        assert damaged != text
        path.write_text(damaged)
        for more in ((), ("--accept",)):
            ran = gated(runs, path, "after#1", *more, code=2)
            assert said in ran.stderr and str(path) in ran.stderr
            assert path.read_text() == damaged
    said = gated(runs, baseline.name, "others", code=2).stderr
    assert "Different: the queries" in said
    assert "have no setting in common" in gated(runs, baseline.name, "built", code=2).stderr


def test_pull_requests_annotations_and_junit_say_the_same(runs, baseline, tmp_path):
    comment, cases, summary = tmp_path / "comment.md", tmp_path / "junit.xml", tmp_path / "summary.md"
    summary.write_text("before\n")
    env = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)}
    words = (baseline.name, "before#2", "--markdown", comment, "--junit", cases)
    ran = gated(
        runs,
        *words,
        "--target",
        "recall@10 >= baseline - 1%",
        "--budget",
        "p50 <= 0.1x baseline",
        code=1,
        env=env,
    )
    text = comment.read_text()
    assert text.startswith(f"{MARKER}\n# Recall gate: FAIL\n")
    assert "Worst segment: " in text and "text of " in text and "## Reproduce" in text
    assert "recallatk gate recall-baseline.json 'before#2' --target" in text
    assert summary.read_text() == f"before\n{text}\n"
    # Between the two, the runner takes no line as a command, whatever a query is called.
    stop, shown = ran.stdout.split("\n", 1)
    token = re.fullmatch(r"::stop-commands::(\w{32})", stop)[1]
    verdict, after = shown.split(f"\n::{token}::\n")
    assert "FAIL" in verdict
    annotations = after.splitlines()
    assert [line.partition(" ")[0] for line in annotations] == ["::error", "::warning"]
    assert "title=recallatk gate::FAIL: recall@10 >= baseline - 0.01" in annotations[0]
    [suite] = ET.parse(cases).getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("2", "1", "1")
    assert [case.find("failure") is not None for case in suite] == [True, False]
    assert [case.find("skipped") is not None for case in suite] == [False, True]
    ran = gated(runs, baseline.name, "before#2", "--json", code=1, env=env)
    assert json.loads(ran.stdout)["verdict"]["outcome"] == "FAIL"
    assert "::error" in ran.stderr
