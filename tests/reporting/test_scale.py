"""Runs of thousands of trials: work grows as their number does, and the page stays one to read."""

import base64
import cProfile
import csv
import gzip
import io
import json
import pstats
import re
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import typer
from made_runs import large_run, make_measurement, make_run
from typer.testing import CliRunner

from recallatk.cli.exits import guarded
from recallatk.cli.export import export
from recallatk.cli.report import report
from recallatk.cli.show import show
from recallatk.core import Caution, Failure, Load, Trial, WarmUp
from recallatk.linter import audit_run
from recallatk.reporting import run_to_dict, to_html, to_markdown, to_text
from recallatk.reporting.charts.points import MOST_SHOWN, curve_of, shortened
from recallatk.reporting.run_report import RunReport
from recallatk.reporting.verdict_words import spoken_verdict

sys.path.insert(0, str(Path(__file__).parents[1] / "storage"))

FEW, MANY = 60, 240
# Four times as many trials; what grows with their square would be at sixteen times.
MOST_GROWTH = 5.5


def under_many_loads(count):
    return make_run(
        make_measurement(Trial("engine", (), (("ef", 1 + n % 5),), Load("rate", rate=10.0 + n)), 0.9, 1 + n)
        for n in range(count)
    )


def of_many_engines(count):
    return make_run(
        make_measurement(Trial(f"engine-{n}", (("M", 8),), (("ef", 10),)), (1 + n) / (count + 1), 1 + n)
        for n in range(count)
    )


def of_many_builds(count):
    return make_run(
        make_measurement(Trial("engine", (("M", n),), (("ef", 10),)), (count - n) / (count + 1), 1 + n)
        for n in range(count)
    )


def in_trouble(count):
    """Every trial gives rise to a caution and notes, and as many have failed."""
    warm = {"warm_up": WarmUp(100, False), "anomalies": {"short": 1}}
    measured = [
        make_measurement(Trial("engine", (), (("ef", 1 + n),)), (1 + n) / (count + 1), 1 + n, **warm)
        for n in range(count)
    ]
    failed = [Trial("engine", (), (("ef", 100_000 + n),)) for n in range(count)]
    return make_run(
        measured,
        planned=(*(each.trial for each in measured), *failed),
        failures=tuple(Failure(each, "crash", "search", "it ended") for each in failed),
        cautions=tuple(Caution("cold", f"{each.trial} was cold") for each in measured),
    )


SHAPES = (large_run, under_many_loads, of_many_engines, of_many_builds, in_trouble)
FORMS = {
    "text": to_text,
    "markdown": to_markdown,
    "html": to_html,
    "json": run_to_dict,
    "audit": audit_run,
}


def calls(work, *arguments):
    """How many functions are called."""
    counted = cProfile.Profile()
    counted.runcall(work, *arguments)
    return pstats.Stats(counted, stream=io.StringIO()).total_calls


# An audit compares every two engines, of which there are a few dozen in the world.
CASES = [(form, make) for form in FORMS for make in SHAPES if (form, make) != ("audit", of_many_engines)]


@pytest.mark.parametrize(("form", "make"), CASES)
def test_the_work_of_a_report_grows_as_the_number_of_trials_does(form, make):
    work = FORMS[form]
    work(make(3))  # what is imported or computed once is no part of it
    few, many = (calls(work, make(count)) for count in (FEW, MANY))
    assert many < MOST_GROWTH * few


@pytest.mark.parametrize("command", [show, report, export])
def test_the_work_of_a_command_grows_as_the_number_of_trials_does(tmp_path, command):
    from run_making import ROWS, make_plan, make_trial
    from run_making import make_measurement as measured

    from recallatk.storage import save_run
    from recallatk.testing import tiny_dataset

    app = typer.Typer(rich_markup_mode=None)
    app.command()(guarded(command))

    def work(folder):
        words = {show: [], report: ["--out", "x.html"], export: ["--to", "csv", "--out", "x.csv"]}[command]
        words = [str(tmp_path / word) if word.startswith("x.") else word for word in words]
        ran = CliRunner().invoke(app, [str(folder), *words])
        assert ran.exit_code == 0, ran.output

    for count in (3, FEW, MANY):
        trials = tuple(make_trial(number) for number in range(count))
        run = make_plan(planned=trials, measurements=tuple(measured(number) for number in range(count)))
        save_run(run, tiny_dataset(ROWS, 3), tmp_path / str(count))
    work(tmp_path / "3")
    few, many = (calls(work, tmp_path / str(count)) for count in (FEW, MANY))
    assert many < MOST_GROWTH * few


def scattered(count=1_500, loads=1, **changes):
    """Settings of which few are on a front; the cheaper half of the others is nearer to it."""
    kinds = [Load(), Load("throughput", clients=2)][:loads]
    measured = []
    for n in range(count):
        recall = 0.5 + 0.45 * (n % 50) / 50
        cost = (1 + n % 50) * (1 + n // 50)
        trial = Trial(f"engine-{n % 2}", (("M", n // 50),), (("ef", 1 + n % 50),), kinds[n % len(kinds)])
        measured.append(make_measurement(trial, recall, cost))
    return make_run(measured, **changes)


def test_a_page_of_few_settings_shows_all():
    curve = curve_of(large_run(MOST_SHOWN))
    assert shortened(curve, 7) == (curve, 7)


def test_of_many_settings_the_fronts_and_the_nearest_are_shown():
    whole = curve_of(scattered())
    part, _ = shortened(whole)
    assert (len(part.points), len(part.lines), part.left_out) == (MOST_SHOWN, MOST_SHOWN, 500)
    assert [each["n"] for each in part.points] == list(range(MOST_SHOWN))
    shown = {line.trial for line in part.lines}
    for flag in ("latencyFront", "qpsFront", "latencyEngineFront", "qpsEngineFront"):
        assert {whole.lines[each["n"]].trial for each in whole.points if each[flag]} <= shown
    # Those far from the front are the ones that are left out.
    assert {dict(line.trial.build)["M"] for line in whole.lines if line.trial not in shown} == set(
        range(20, 30)
    )
    for point, line in zip(part.points, part.lines, strict=True):
        assert point["search"] == f"ef={dict(line.trial.search)['ef']}"


def test_a_front_of_too_many_settings_is_thinned_evenly_with_both_ends():
    whole = curve_of(large_run(2_500))
    part, _ = shortened(whole)
    recalls = sorted(each["recall"] for each in part.points)
    assert len(recalls) == MOST_SHOWN
    assert (recalls[0], recalls[-1]) == (whole.points[0]["recall"], whole.points[-1]["recall"])
    assert max(b - a for a, b in pairwise(recalls)) < 4 / 2_501


def test_every_load_that_is_shown_has_its_settings():
    whole = curve_of(under_many_loads(1_200))
    part, _ = shortened(whole)
    assert len(part.loads) == MOST_SHOWN
    assert [part.loads[each["load"]] for each in part.points] == [line.trial.load for line in part.lines]


def test_the_recommended_setting_is_shown_wherever_it_is():
    # The goal is about another measure, so that the cheapest that keeps it need not be on the front.
    run = scattered()
    far = len(run.measurements) - 1
    whole = curve_of(run)
    part, number = shortened(whole, far)
    assert part.lines[number].trial == run.measurements[far].trial
    assert len(part.points) == MOST_SHOWN
    stated = scattered(settings={"tune": {"target": ["recall@10 >= 0.8"]}})
    assert RunReport(stated).verdict.sentence == spoken_verdict(curve_of(stated)).sentence
    found = RunReport(stated)
    assert found.curve.points[found.verdict.number]["label"] in found.verdict.sentence


def test_the_page_says_what_is_left_out_and_has_it_in_its_files():
    run = scattered(loads=2)
    page = to_html(run)
    said = "1,000 of 1,500 settings are shown: the Pareto fronts and the settings nearest to them."
    assert page.count(said) == 2
    assert len(re.findall("<tr data-row=", page)) == MOST_SHOWN
    data = json.loads(re.search(r'<script[^>]*id="data"[^>]*>(.*?)</script>', page, re.DOTALL)[1])
    assert len(data["parts"]) == MOST_SHOWN
    files = {name: gzip.decompress(base64.b64decode(text)).decode() for name, text in data["files"].items()}
    assert len(list(csv.reader(io.StringIO(files["trials.csv"])))) == 1_501
    assert len(json.loads(files["run.json"])["trials"]) == 1_500
    assert len(page) < 6e6


def test_long_lists_of_failures_and_cautions_end_with_how_many_there_are_beside():
    page = to_html(in_trouble(250))
    assert page.count("crash in search: it ended") == 100
    assert page.count("150 more in run.json, under Data") == 2
