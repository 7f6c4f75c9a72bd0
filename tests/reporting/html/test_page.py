"""The page without a browser: what it says, in which order, and how large it may become."""

import base64
import dataclasses
import hashlib
import json
import re
from html import unescape
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_runs import large_run, make_measurement, make_run, scored_run, varied_run

from chromium import LONG as TEN_THOUSAND
from recallatk.analysis import score
from recallatk.core import Load, Trial, Weights
from recallatk.reporting import to_html, to_markdown
from recallatk.reporting.as_dict import run_to_dict
from recallatk.reporting.charts.points import curve_of
from recallatk.reporting.html.page import inert_json
from recallatk.reporting.run_report import RunReport
from recallatk.reporting.verdict_words import spoken_verdict
from recallatk.storage import load_run

LARGEST = 3_000_000
LONG = TEN_THOUSAND[:600]


def plain(page):
    """The words of a page without its scripts."""
    return unescape(re.sub(r"<[^>]+>", " ", re.sub(r"(?s)<(script|style).*?</\1>", "", page)))


def data(page):
    return json.loads(re.search(r'(?s)<script type="application/json" id="data">(.*?)</script>', page)[1])


def test_the_parts_stand_in_the_order_in_which_a_reader_asks(real_page):
    page = real_page.read_text()
    parts = re.findall(r'<section id="([a-z]+)"', page)
    assert parts == [
        "verdict",
        "curves",
        "settings",
        "recall",
        "queries",
        "missed",
        "downstream",
        "cost",
        "care",
        "origin",
    ]
    assert {
        "recall-latency",
        "recall-qps",
        "recall-across-k",
        "distribution",
        "segments",
        "cost",
        "downstream",
    } == set(data(page)["charts"])
    words = plain(page)
    for said in ("The run has no target", "The worst queries", "hardness", "recallatk run bench.toml"):
        assert said in words


@pytest.mark.parametrize("name", ["real_page", "varied_page", "large_page", "hostile_page"])
def test_every_page_is_small_and_loads_nothing(name, request):
    page = request.getfixturevalue(name).read_text()
    assert len(page.encode()) < LARGEST
    markup = re.sub(r"(?s)<(script|style).*?</\1>", "", page)
    linked = re.findall(r'(?:src|href|action|poster|data|srcset)="([^"]*)"', markup)
    assert linked and all(re.fullmatch("#[a-z-]+", each) for each in linked)
    assert "@import" not in page and "url(" not in re.search(r"(?s)<style>(.*?)</style>", page)[1]


def test_the_policy_names_the_very_scripts_and_the_style(varied_page):
    page = varied_page.read_text()
    policy = unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1])
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy and "http" not in policy
    inside = re.findall(r"(?s)<script>(.*?)</script>", page) + re.findall(r"(?s)<style>(.*?)</style>", page)
    hashes = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in inside]
    assert re.findall(r"'sha256-([^']+)'", policy) == hashes


@given(st.recursive(st.text() | st.integers() | st.none(), lambda inner: st.lists(inner), max_leaves=8))
def test_data_in_the_page_is_json_that_cannot_end_its_element(value):
    text = inert_json(value)
    assert not set("<>&") & set(text)
    assert json.loads(text) == value


def test_the_same_run_gives_the_same_page():
    assert to_html(varied_run()) == to_html(varied_run())


def test_four_hundred_long_settings_of_twelve_engines_with_words_stay_below_the_limit():
    run, dataset, truth = scored_run(queries=200, rows=300)
    first = run.measurements[0]
    random = np.random.default_rng(1)
    measured = []
    for place in range(400):
        answers = truth.rows.copy()
        answers[random.random(answers.shape) < (1 + place) / 500] = -1
        build = (("description", f"{place} {LONG}"), ("M", place))
        trial = Trial(f"engine-{place % 12} {LONG}", build, (("ef", place),))
        found = score(truth, answers, (1, 10), row_numbers=True)
        changed = {"trial": trial, "answers": answers, "score": found}
        measured.append(dataclasses.replace(first, build=dataclasses.replace(first.build), **changed))
    page = to_html(dataclasses.replace(run, measurements=tuple(measured)), truth=truth, dataset=dataset)
    assert len(page.encode()) < LARGEST
    assert len(data(page)["charts"]["recall-latency"]["layer"]) > 3


def test_single_queries_are_what_the_means_are_of():
    run, dataset, truth = scored_run(loads=(Load(), Load("throughput", clients=2)))
    found = RunReport(run, truth, dataset)
    for place, measurement in enumerate(run.measurements):
        facts = found.facts[place]
        assert np.nanmean(facts.values) == pytest.approx(measurement.score["recall@10"])
        for poor in facts.worst:
            assert len(poor.missed) == pytest.approx(10 * (1 - poor.recall))
            assert {each.row for each in poor.missed}.isdisjoint(measurement.answers[poor.query, :10])
            assert [truth.rows[poor.query, each.rank - 1] for each in poor.missed] == [
                each.row for each in poor.missed
            ]


def test_without_truth_single_queries_are_left_out_and_it_is_said():
    found = RunReport(varied_run(settings={}))
    assert found.facts == {}
    assert "does not record its data files" in found.untold
    assert "No distribution, segments or worst queries: " in plain(to_html(varied_run(settings={})))


def test_truth_and_data_are_found_again_by_what_the_run_says(measured):
    from recallatk.bench.recorded_benchmark import RecordedBenchmark

    run = load_run(measured)
    opened = RecordedBenchmark(run)
    assert opened.truth is not None and opened.dataset is not None
    (measured / "truth.parquet").rename(measured / "elsewhere.parquet")
    try:
        assert RecordedBenchmark(run).truth is None
    finally:
        (measured / "elsewhere.parquet").rename(measured / "truth.parquet")
    other = dataclasses.replace(run, fingerprints={**run.fingerprints, "truth": "another"})
    assert RecordedBenchmark(other).truth is None


@pytest.mark.parametrize(
    ("goals", "said", "met"),
    [
        ([], "No target", None),
        (["recall@10 >= 0.8", "p95 <= 5ms"], "The cheapest setting that meets", True),
        (["recall@10 >= 0.93"], "The cheapest setting that may meet recall@10 >= 0.93", None),
        (["memory <= 1MiB"], "No setting meets memory <= 1MiB", False),
        (["nonsense"], "The cheapest setting that may meet nonsense", None),
    ],
)
def test_the_verdict_is_against_the_goals_where_there_are_any(goals, said, met):
    run = varied_run(settings={"tune": {"target": goals}})
    found = spoken_verdict(curve_of(run))
    assert said in found.lead
    assert found.met is met
    assert "recall@10 0.9" in found.sentence and "ms" in found.sentence and "MB" in found.sentence
    shown = plain(to_html(run))
    assert len(found.goals) == len(goals)
    assert all(each in shown for each in found.goals)


def test_without_a_target_no_setting_of_poor_recall_is_recommended():
    run = make_run(
        make_measurement(Trial("engine", (), (("ef", ef),)), recall, cost)
        for ef, recall, cost in ((1, 0.20, 1.0), (2, 0.36, 1.1), (4, 0.4, 9.0))
    )
    found = spoken_verdict(curve_of(run))
    assert "no setting reaches recall@10 0.8" in found.lead
    assert run_to_dict(run)["verdict"] == {"outcome": None, "met": None, "trial": None, "goals": []}


def test_a_front_on_which_recall_only_becomes_cheaper_has_no_knee():
    found = spoken_verdict(curve_of(large_run(20)))
    assert found.number == 19
    assert "The highest recall" in found.lead


def test_one_setting_and_none_are_pages_too():
    one = make_run([make_measurement(Trial("engine", (), (("ef", 1),)))])
    assert "The only setting" in plain(to_html(one))
    assert "No setting has both recall and latency" in plain(to_html(make_run([])))
    # Without any measure there is nothing to draw.
    bare = dataclasses.replace(
        one.measurements[0], score=dataclasses.replace(one.measurements[0].score, measures={})
    )
    assert "No recommendation" in plain(to_html(make_run([bare])))


def test_findings_stand_in_the_page_and_none_is_said_apart_from_nobody_looked():
    finding = SimpleNamespace(
        rule="R03", severity="error", title="Too few", message="12 queries", why="Chance.", remedy="Ask more."
    )
    run = varied_run()
    words = plain(to_html(run, findings=[finding]))
    for said in ("R03", "Too few", "12 queries", "Chance.", "Ask more."):
        assert said in words
    assert "Linter findings" in plain(to_html(run, findings=[]))
    assert "Linter findings" not in plain(to_html(run))


def test_what_failed_and_cautions_and_loads_are_said():
    words = plain(to_html(varied_run()))
    for said in ("SIGSEGV", "own pace changed", "Under load", "812", "Time spent"):
        assert said in words
    assert "geheim" not in to_html(varied_run())


def test_runs_of_the_same_data_are_compared_query_by_query():
    run, dataset, truth = scored_run()
    first = run.measurements[0]
    better = dataclasses.replace(
        first, answers=truth.rows, score=score(truth, truth.rows, (1, 10), row_numbers=True)
    )
    other = dataclasses.replace(run, measurements=(better,))
    found = RunReport(run, truth, dataset, others=[other], names=["before", "after"]).comparison
    assert list(found.curves) == ["before", "after"]
    # Without a goal nothing is recommended, here as in the verdict.
    shown = plain(to_html(run, truth=truth, dataset=dataset, others=[other]))
    assert "Verdict of each run" in shown and "Recommended" not in shown and "recommends" not in shown
    gained = 1 - run.measurements[0].score["recall@10"]
    assert found.paired.rows[0][2] == f"{gained:+.4f}"
    assert "significant (p" in found.paired.rows[0][4]
    assert found.paired.rows[0][5] == "1.00"


@pytest.mark.parametrize("render", [to_html, to_markdown])
def test_settings_that_only_one_run_has_are_listed(render):
    run, _, truth = scored_run()
    (first,) = run.measurements
    rebuilt = dataclasses.replace(first.trial, build=(("M", 99),))
    others = [dataclasses.replace(run, measurements=(dataclasses.replace(first, trial=rebuilt),))]
    found = RunReport(run, truth, others=others, names=["before", "after"]).comparison
    assert found.paired is None
    assert [row[:2] for row in found.unpaired.rows] == [
        ["before", "engine(M=8)[ef=10]"],
        ["after", "engine(M=99)[ef=10]"],
    ]
    shown = plain(render(run, truth=truth, others=others, names=["before", "after"])).replace("\\", "")
    for said in ("Comparison of runs", "no setting in common", "Unpaired settings", "engine(M=99)[ef=10]"):
        assert said in shown, said


def test_a_comparison_lists_pairs_and_what_has_none():
    run, dataset, truth = scored_run()
    (first,) = run.measurements
    alone = dataclasses.replace(first, trial=dataclasses.replace(first.trial, search=(("ef", 77),)))
    other = dataclasses.replace(run, measurements=(first, alone))
    found = RunReport(run, truth, dataset, others=[other]).comparison
    assert len(found.paired.rows) == 1 and len(found.unpaired.rows) == 1
    assert "ef=77" in found.unpaired.rows[0][1]


def test_runs_of_other_data_are_refused_with_what_differs():
    run, dataset, truth = scored_run()
    other = dataclasses.replace(run, fingerprints={**run.fingerprints, "queries": "others"})
    found = RunReport(run, truth, dataset, others=[other]).comparison
    assert found.refusals == ["run 2 cannot be compared: different queries."]
    assert found.paired is None
    assert "cannot be compared" in plain(to_html(run, truth=truth, dataset=dataset, others=[other]))


def test_settings_beyond_those_told_in_detail_keep_their_means():
    found = RunReport(large_run(70))
    assert len(found.parts) == 70
    assert all("tails" not in part for part in found.parts)
    assert found.parts[69]["measures"].rows


def test_the_bench_file_in_the_page_measures_the_same(measured):
    from recallatk.bench.settings import read_settings
    from recallatk.reporting.provenance import bench_file

    run = load_run(measured)
    path = measured / "again.toml"
    path.write_text(bench_file(run))
    assert read_settings(path).to_dict() == dict(run.settings)


def test_no_text_of_a_user_is_obeyed_or_endless(hostile_page):
    page = hostile_page.read_text()
    words = plain(page)
    assert not set("\u202e\u200b\x1b\x07\x00\x9b") & set(page)
    assert max(map(len, re.findall("w+", words))) < 1000


def test_only_engines_are_folded_as_engines_and_the_weights_stay_in_sight():
    trials = [Trial(f"engine-{number}", (("M", 8),), (("ef", 10),)) for number in range(6)]
    made = [make_measurement(each) for each in trials]
    weights = Weights("count", np.arange(1.0, 101.0))
    weighted = [
        dataclasses.replace(each, score=dataclasses.replace(each.score, weights=weights)) for each in made
    ]
    assert "6 engines and the parameters" in to_html(make_run(weighted))
    page = to_html(make_run(weighted[:5]))
    assert "engines and the parameters" not in page and "weighted by count" in plain(page)
