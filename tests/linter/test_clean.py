"""No false errors: on sound benchmarks and on the bundled demo; and no rule that raises, whatever the run."""

import dataclasses
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from faults import Forgetful, clustered
from hypothesis import given
from hypothesis import strategies as st

from recallatk import ground_truth, load_run, make_corpus, make_queries, measure, open_dataset, open_demo
from recallatk.core import Failure, Metric
from recallatk.linter import RULES, Evidence, Severity, Waiver, audit, audit_run
from recallatk.linter.survey import survey

sys.path.insert(0, str(Path(__file__).parent.parent / "reporting"))
from made_runs import HOSTILE, large_run, make_run, scored_run, varied_run

ROOT = Path(__file__).parents[2]


def errors(findings):
    return [each for each in findings if each.severity is Severity.ERROR]


def test_sound_benchmarks_have_no_errors(clean):
    for evidence in clean:
        assert errors(audit(evidence)) == []


def test_sound_benchmarks_have_no_errors_against_production_of_their_own_kind(clean):
    for evidence in clean:
        queries = evidence.dataset.queries.vectors.read(0, 900)
        half = open_dataset(
            evidence.dataset.corpus, make_queries(queries[:450]), metric=evidence.dataset.metric
        )
        assert errors(audit(Evidence(dataset=half, production=make_queries(queries[450:])))) == []


def test_the_demo_has_no_errors_and_its_copies_are_said():
    demo = open_demo()
    truth = ground_truth(demo, depth=100)
    quick = {"ef_construction": 40}
    run = measure("faiss-hnsw", demo, truth=truth, build=quick, search=[{"ef": 10}, {"ef": 160}], rounds=1)
    findings = audit(Evidence(dataset=demo, truth=truth, run=run))
    assert errors(findings) == []
    assert {"R03", "R05"} <= {each.rule for each in findings}


def test_findings_come_in_the_same_order_every_time(few):
    found = audit(few)
    assert found == audit(dataclasses.replace(few))
    ranks = [list(Severity).index(each.severity) for each in found]
    assert ranks == sorted(ranks)
    assert len(found) > 3


def test_a_waived_finding_is_kept_with_its_reason_and_counts_no_more(few):
    assert any(each.counts for each in audit(few) if each.rule == "R01")
    waived = audit(few, [Waiver("R01", "thirty are all there are")])
    assert [each.waived for each in waived if each.rule == "R01"] == ["thirty are all there are"]
    assert not any(each.counts for each in waived if each.rule == "R01")
    assert len(waived) == len(audit(few))


def test_a_rule_without_what_it_needs_finds_nothing():
    assert audit(Evidence()) == []


ODD = {
    "nothing was measured": lambda: make_run([]),
    "everything failed": lambda: make_run(
        [],
        failures=tuple(
            Failure(each.trial, kind, "search", HOSTILE)
            for each in varied_run().measurements
            for kind in ("crash", "no evidence")
        ),
    ),
    "every load and a failure": varied_run,
    "hundreds of settings": large_run,
    "one query": lambda: scored_run(queries=1)[0],
    "open loops only": lambda: dataclasses.replace(
        varied_run(),
        measurements=tuple(each for each in varied_run().measurements if each.trial.load.mode == "rate"),
    ),
    "hostile names": lambda: varied_run(engines=(HOSTILE, "hnswlib")),
    "the first format": lambda: load_run(ROOT / "tests" / "storage" / "format-1"),
}


@pytest.mark.parametrize("name", ODD)
def test_no_rule_raises_on_odd_runs(name):
    for targets in ((), ("recall@10 >= 0.99", "p95 <= 5ms", "recall@1 >= 1")):
        for each in audit(Evidence(run=ODD[name](), targets=targets)):
            assert each.message


def test_nothing_could_be_measured_of_what_has_no_evidence():
    dataset = clustered(rows=50, queries=3)
    run = measure(Forgetful, dataset, search=[{"index": "used"}, {"index": "unused"}], at=(5,), rounds=1)
    only = dataclasses.replace(run, measurements=())
    assert [each.rule for each in errors(audit(Evidence(dataset=dataset, run=only)))] == ["R01", "R22"]


@given(
    rows=st.integers(1, 40),
    queries=st.integers(1, 5),
    dimension=st.integers(1, 4),
    dtype=st.sampled_from(["float16", "float32", "float64", "int8", "uint8"]),
    metric=st.sampled_from(list(Metric)),
    same=st.booleans(),
    seed=st.integers(0, 99),
)
def test_no_rule_raises_on_odd_data(rows, queries, dimension, dtype, metric, same, seed):
    drawn = (
        np.random.default_rng(seed).integers(1, 5 if same else 120, (rows + queries, dimension)).astype(dtype)
    )
    dataset = open_dataset(make_corpus(drawn[:rows]), make_queries(drawn[rows:]), metric=metric)
    truth = ground_truth(dataset, depth=7)
    for known in (truth, dataclasses.replace(truth, scores=None, tied=None, metric=None)):
        audited = audit(
            Evidence(dataset=dataset, truth=known, production=dataset.queries, tuning_queries=dataset.queries)
        )
        assert not {each.rule for each in errors(audited)} & {"R06", "R07", "R09", "R16", "R17", "R18"}


def test_a_run_and_other_data_of_any_shape_do_not_raise():
    run, dataset, truth = scored_run()
    other = clustered(rows=12, queries=3, dimension=5)
    for data in (dataset, other):
        for known in (truth, ground_truth(other, depth=4)):
            audit(Evidence(dataset=data, truth=known, run=run, production=other.queries))


def test_a_run_is_audited_without_its_folder():
    run, dataset, truth = scored_run()
    assert {each.rule for each in audit_run(run, dataset=dataset, truth=truth)} >= {"R01", "R26"}


def test_rules_say_everything_about_themselves():
    assert [each.code for each in RULES] == [f"R{number:02}" for number in range(1, len(RULES) + 1)]
    assert len({each.name for each in RULES}) == len(RULES)
    for rule in RULES:
        assert len(re.findall(r"[.)](?:\s|$)", rule.why)) >= 2, rule.code
        assert rule.why.endswith((".", ")."))
        assert rule.remedy.endswith("."), rule.code
        assert rule.source.endswith("."), rule.code
        assert not rule.threshold.endswith("."), rule.code
        assert rule.needs <= {"dataset", "truth", "run", "production"}


def test_every_rule_has_its_own_module():
    modules = sorted((ROOT / "src" / "recallatk" / "linter" / "rules").glob("r*.py"))
    assert len(modules) == len(RULES)
    names = [f"{each.code.lower()}_{each.name.replace('-', '_')}" for each in RULES]
    assert [path.stem for path in modules] == names
    assert [type(each).__module__.rpartition(".")[2] for each in RULES] == names


def test_secrets_and_endless_messages_of_engines_are_not_repeated():
    trial = varied_run().measurements[0].trial
    message = "postgresql://user:geheim@host/db refused: " + "word " * 5_000
    run = make_run([], failures=(Failure(trial, "no evidence", "search", message),))
    (error,) = errors(audit(Evidence(run=run)))
    assert "geheim" not in error.message
    assert len(error.message) < 500


def test_what_was_looked_at_before_a_run_is_not_looked_at_again_after_it(cosine):
    before = Evidence(dataset=cosine.dataset, truth=cosine.truth)
    looked = before.survey
    after = before.measured(cosine.run)
    assert after.survey is looked
    assert (after.run, after.truth) == (cosine.run, cosine.truth)


@pytest.mark.parametrize("looked_before", [True, False])
def test_a_tuning_is_audited_without_looking_at_the_corpus_again(looked_before, monkeypatch):
    rng = np.random.default_rng(0)
    corpus = rng.normal(size=(500, 8)).astype(np.float32)
    # Some queries are rows, and some are asked twice: of one pair both are of the side, of the other one.
    queries = np.concatenate([corpus[:3], rng.normal(size=(5, 8)).astype(np.float32)])[
        [0, 3, 4, 1, 4, 5, 2, 5]
    ]
    numbers = np.array([1, 2, 4, 5, 6])
    dataset, side = (
        open_dataset(make_corpus(corpus), make_queries(each), metric="l2")
        for each in (queries, queries[numbers])
    )
    truth = ground_truth(side, depth=5)
    before = Evidence(dataset=dataset)
    if looked_before:
        assert before.survey is not None
        monkeypatch.setattr("recallatk.linter.survey._Pass", None)
    after = before.tuned_on(side, truth, numbers, None, dataset.queries)
    told = after.survey
    monkeypatch.undo()
    for name, value in vars(survey(side)).items():
        assert np.array_equal(getattr(told, name), value), name
    assert told.repeated_queries.tolist() == [False, True, True, False, False]
    assert told.found_queries.tolist() == [False, False, False, False, True]
