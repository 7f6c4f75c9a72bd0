"""A tuned setting must still meet its target after a runbook, by the choice or by more effort."""

import json

import pytest

from recallatk import tune
from recallatk.core import Mean
from recallatk.core.tuned import Candidate, ChurnedEffort, Tuned
from recallatk.datasets.opening import open_dataset
from recallatk.errors import EngineError, UsageError
from recallatk.goals import sort_goals
from recallatk.reporting.tuned import tuned_to_markdown, tuned_to_text
from recallatk.reporting.tuned_file import tuned_from_dict, tuned_to_dict
from recallatk.streaming.generators import Generator
from recallatk.streaming.opening import runbook_for
from recallatk.tuning.lasting_effort import after_runbook

BOOK = "random-replacement:steps=2,share=20%"


def outcome(search, build=(("nlist", 16),)):
    choice = Candidate("faiss-ivf-flat", build, search)
    return Tuned(("recall@5 >= 0.6",), (), "p95", True, choice, {}, 1)


def test_more_effort_of_the_same_build_is_tried(arrays):
    dataset = open_dataset(*arrays, metric="l2")
    targets, _ = sort_goals(["recall@5 >= 0.6"])
    book = runbook_for(Generator.parse(BOOK), dataset)
    found = after_runbook(outcome((("nprobe", 1),)), dataset, book, targets)
    assert [dict(each.search)["nprobe"] for each in found.churned] == [1, 2, 3, 4]
    assert found.churned[0].outcome == "FAIL"
    assert found.lasting is None or dict(found.lasting)["nprobe"] > 1
    assert found.met is (found.lasting is not None)
    whole = after_runbook(outcome((("nprobe", 16),)), dataset, book, targets)
    assert whole.met
    assert whole.lasting == (("nprobe", 16),)
    assert [each.last.value for each in whole.churned] == [1.0]


def test_without_a_choice_nothing_is_replayed(arrays):
    dataset = open_dataset(*arrays, metric="l2")
    book = runbook_for(Generator.parse(BOOK), dataset)
    nothing = Tuned(("recall@5 >= 0.6",), (), "p95", False, None, {}, 0)
    assert after_runbook(nothing, dataset, book, ()).churned == ()


def test_it_is_said_and_read_back():
    mean = Mean(0.9, None, 30, 0.8, 0.95)
    efforts = (
        ChurnedEffort((("nprobe", 2),), mean, mean, "UNDECIDED"),
        ChurnedEffort((("nprobe", 4),), mean, mean, "PASS"),
    )
    found = outcome((("nprobe", 2),))
    found = Tuned(**{**vars(found), "churn": "a month", "churned": efforts})
    again = tuned_from_dict(json.loads(json.dumps(tuned_to_dict(found))))
    assert (again.churn, again.churned, again.lasting) == ("a month", efforts, (("nprobe", 4),))
    for form in (tuned_to_text(found), tuned_to_markdown(found)):
        assert "nprobe=4 still meets it" in " ".join(form.split())


def test_engines_and_targets_that_churn_cannot_judge_are_refused_at_once(arrays):
    with pytest.raises(EngineError, match="faiss-hnsw cannot insert and delete"):
        tune(*arrays, metric="l2", target="recall@5 >= 0.6", engines=["faiss-hnsw"], churn=BOOK)
    with pytest.raises(UsageError, match="no such runbook"):
        tune(*arrays, metric="l2", target="recall@5 >= 0.6", engines=["usearch"], churn="gorwth")
