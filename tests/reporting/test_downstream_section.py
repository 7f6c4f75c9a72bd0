"""Downstream quality in every form: screen, text, Markdown, page, chart and JSON."""

import dataclasses
import json

import numpy as np
import pytest
from made_runs import make_measurement, make_run

from recallatk.analysis.downstream import downstream_of
from recallatk.core import Trial
from recallatk.core.judged import Judged
from recallatk.reporting import run_to_dict, to_markdown, to_text
from recallatk.reporting.charts.theme import specification
from recallatk.reporting.run_report import RunReport

EXACT = np.random.default_rng(0).beta(2, 2, 100)


def judged(ef, recall, cost):
    """A setting that loses so much on every third query."""
    trial = Trial("hnsw", (("M", 16),), (("ef", ef),))
    lost = np.where(np.arange(100) % 3 == 0, cost, 0.0)
    names = {"nDCG@10": EXACT, "RR@10": EXACT**2}
    values = Judged("qrels", {name: each - lost for name, each in names.items()}, names, ("a | note",))
    made = make_measurement(trial, recall=recall)
    score = dataclasses.replace(made.score, per_query={"recall@10": np.full(100, recall)})
    return dataclasses.replace(made, score=score, judged=values)


@pytest.fixture
def run():
    return make_run([judged(10, 0.7, 0.3), judged(20, 0.8, 0.2), judged(80, 0.99, 0.0)])


def test_the_screen_says_the_verdict_on_ndcg_alone(run):
    shown = " ".join(to_text(run, width=100).split())
    assert "downstream: from recall@10 0.990 up, no loss of nDCG@10 is measurable" in shown
    assert "each 0.01 of recall costs 0.0034 nDCG@10" in shown
    assert "RR@10" not in shown and "exact search" not in shown


@pytest.mark.parametrize("form", [lambda run: to_text(run, verbose=True), to_markdown])
def test_prose_has_every_setting_beside_exact_search(run, form):
    text = form(run)
    assert "Downstream quality" in text and "exact search" in text and "RR@10 lost" in text
    [line] = [line for line in text.splitlines() if "ef=10" in line and "+0.1020" in line]
    assert "0.700" in line and line.count("[+0.") == 2
    assert "A | note" in text or r"A \| note" in text


def test_the_page_has_the_curve_with_exact_search_as_a_line(run):
    page = RunReport(run).page
    [section] = [each for each in page.sections if each.name == "downstream"]
    assert section.link == "Downstream"
    drawn = specification(page.charts["downstream"])
    rows = next(iter(drawn["datasets"].values())) if "datasets" in drawn else drawn["data"]["values"]
    assert [row["recall"] for row in rows] == pytest.approx([0.7, 0.8, 0.99])
    assert [row["exact"] for row in rows] == pytest.approx([EXACT.mean()] * 3)
    assert rows[0]["quality"] == pytest.approx(EXACT.mean() - 0.102) and rows[0]["low"] < rows[0]["quality"]
    assert page.charts["downstream"].to_dict(validate=True)


def test_json_has_what_the_analysis_has_and_a_run_without_judgments_has_no_key(run):
    told = json.loads(json.dumps(run_to_dict(run), allow_nan=False))["downstream"]
    for each, found in zip(told, downstream_of(run), strict=True):
        assert each["in_words"] == found.in_words and each["exact"]["value"] == found.exact.value
        assert [one["trial"] for one in each["trials"]] == [1, 2, 3]
        assert each["plateau"] == {"from": pytest.approx(0.99), "lost_at_most": found.bound, "trials": 1}
        assert each["per_hundredth_of_recall"]["value"] == found.slope.value
    bare = make_run([make_measurement(Trial("hnsw", (), ()))])
    assert "downstream" not in run_to_dict(bare) and "Downstream" not in to_markdown(bare)
