"""`recallatk show`: the same tables again, from a folder."""

import json
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from recallatk.cli.exits import guarded
from recallatk.cli.show import show
from recallatk.core import Failure, Load, Trial
from recallatk.storage import save_run

sys.path.insert(0, str(Path(__file__).parent.parent / "reporting"))
from made_runs import scored_run

app = typer.Typer(rich_markup_mode=None)
app.command()(guarded(show))

LOADS = (Load(), Load("throughput", batch=8), Load("throughput", clients=2), Load("rate", rate=10.0))


@pytest.fixture
def folder(tmp_path):
    failed = Trial("engine", (("M", 8),), (("ef", 20),))
    failure = Failure(failed, "crash", "build", "ended with signal SIGSEGV", "the end")
    run, dataset, _ = scored_run(loads=LOADS, failures=(failure,))
    (tmp_path / "run" / "logs").mkdir(parents=True)
    return save_run(run, dataset, tmp_path / "run")


def shown(*arguments):
    ran = CliRunner().invoke(app, list(map(str, arguments)))
    assert ran.exit_code == 0, ran.output
    return ran.stdout


def test_a_folder_and_its_run_json_show_the_same(folder):
    text = shown(folder)
    assert text == shown(folder / "run.json")
    for words in ("Latency: ", "Throughput: ", "Rate: ", "recall@10", "crash in build", "failed: "):
        assert words in text
    assert str(folder / "logs") in text


def test_json_is_one_object_with_every_trial(folder):
    found = json.loads(shown(folder, "--json"))
    assert [each["status"] for each in found["trials"]] == ["done"] * 4 + ["failed"]
    assert found["trials"][0]["latency_ms"]["p50"] > 0
    assert found["complete"] is True


def test_wide_has_intervals_and_by_load_a_table_each(folder):
    assert "p99.9 ms" in shown(folder, "--wide")
    assert "p99.9 ms" not in shown(folder)
    assert "\nthroughput(batch=8)\n" in shown(folder, "--by", "load")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "nowhere"),
        (["nowhere/run.json"], "nowhere"),
        (["FOLDER", "--by", "engine"], "mode or load"),
    ],
)
def test_what_cannot_be_shown_is_one_line_and_code_2(arguments, said, folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    ran = CliRunner().invoke(app, [str(folder) if each == "FOLDER" else each for each in arguments])
    assert ran.exit_code == 2
    assert said in ran.stderr
    assert len(ran.stderr.strip().splitlines()) == 1


def test_the_verdict_on_the_goals_is_in_text_and_json(tmp_path):
    goals = ["recall@10 >= 1%", "p5(recall@10) >= 0.99", "memory <= 1MiB"]
    run, dataset, _ = scored_run(settings={"tune": {"target": goals}})
    folder = save_run(run, dataset, tmp_path / "run")
    verdict = json.loads(shown(folder, "--json"))["verdict"]
    assert verdict["outcome"] == "FAIL" and verdict["met"] is False and verdict["trial"] == 1
    assert [each["text"] for each in verdict["goals"]] == ["recall@10 >= 0.01", *goals[1:]]
    assert [each["outcome"] for each in verdict["goals"]] == ["met", "missed", "missed"]
    assert verdict["goals"][0]["low"] <= verdict["goals"][0]["value"] <= verdict["goals"][0]["high"]
    text = shown(folder)
    assert text.startswith("Missed: no setting meets 3 goals")
    assert "  recall@10 >= 0.01: met, " in text and "  memory <= 1MiB: missed, " in text
