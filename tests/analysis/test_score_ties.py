"""Runs with equal scores: what trec_eval counts otherwise is counted and said, and nothing else differs."""

import json

import ir_measures
import numpy as np
import pytest
from ir_measures import RR, P, R, Success, nDCG
from typer.testing import CliRunner

from recallatk import assess, ground_truth, make_corpus, make_queries, open_dataset, read_answers, save_truth
from recallatk.analysis.answer_scores import ties_at
from recallatk.cli import app

ROWS, QUERIES, ANSWERED = 400, 120, 30
NAMES = [f"d{row}" for row in range(ROWS)]


@pytest.fixture(scope="module")
def dataset():
    random = np.random.default_rng(5)
    vectors, asked = (random.normal(size=(count, 8)).astype("float32") for count in (ROWS, QUERIES))
    queries = make_queries(asked, [f"q{number}" for number in range(QUERIES)])
    return open_dataset(make_corpus(vectors, NAMES), queries, metric="cosine")


@pytest.fixture(scope="module")
def folder(dataset, tmp_path_factory):
    """The exact answers as a run, with all digits and with two, and the true top 10 as judgements."""
    folder = tmp_path_factory.mktemp("runs")
    truth = ground_truth(dataset, depth=ANSWERED)
    save_truth(truth, folder / "truth.parquet")
    lines = [
        (f"q{query}", NAMES[row], place + 1, score)
        for query in range(QUERIES)
        for place, (row, score) in enumerate(zip(truth.rows[query], truth.scores[query], strict=True))
    ]
    for name, digits in (("full", 17), ("rounded", 2)):
        text = "".join(f"{q} Q0 {d} {place} {score:.{digits}f} mine\n" for q, d, place, score in lines)
        (folder / f"{name}.run").write_text(text)
    judged = "".join(f"{q}\t{d}\t1\n" for q, d, place, _ in lines if place <= 10)
    (folder / "qrels.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    return folder


def by_ir_measures(folder, name, measures):
    """What ir-measures makes of the file itself, by measure and query."""
    qrels = [
        ir_measures.Qrel(query, document, int(grade))
        for query, document, grade in map(str.split, (folder / "qrels.tsv").read_text().splitlines()[1:])
    ]
    run = list(ir_measures.read_trec_run(str(folder / f"{name}.run")))
    found = {str(each): {} for each in measures}
    for each in ir_measures.iter_calc(measures, qrels, run):
        found[str(each.measure)][each.query_id] = each.value
    return found


def shown(folder, name, *options):
    run = [str(folder / each) for each in ("truth.parquet", f"{name}.run")]
    ran = CliRunner().invoke(app, ["score", *run, "--qrels", str(folder / "qrels.tsv"), *options])
    assert ran.exit_code == 0, ran.output
    return ran.stdout


def test_rounded_scores_give_others_a_lower_recall_and_it_is_said(folder):
    found = json.loads(shown(folder, "rounded", "--at", "1,10", "--json"))
    theirs = np.mean(list(by_ir_measures(folder, "rounded", [R @ 10])["R@10"].values()))
    assert found["measures"]["recall@10"]["value"] == found["relevance"]["R@10"]["value"] == 1.0
    assert theirs < 0.99
    ties = found["score_ties"]
    assert set(ties["queries"]) == {"1", "10"}
    assert 20 < ties["queries"]["10"] < QUERIES
    assert "by rank" in ties["order"]
    assert "document id" in ties["other_tools"]
    assert "like recall@k" in found["relevance_order"]


def test_the_warning_counts_the_queries_and_the_relevance_table_says_its_rule(folder):
    counts = json.loads(shown(folder, "rounded", "--at", "1,10", "--json"))["score_ties"]["queries"]
    text = shown(folder, "rounded", "--at", "1,10")
    assert "warning: answers tie by score at rank k: " in text
    assert f"{counts['10']} at k=10" in text
    rule = "Judged relevance orders answers by score, equal scores by rank, then by line, like recall@k; "
    below_the_table = " ".join(text.split("Success@10", 1)[1].split("\n", 1)[1].split())
    assert below_the_table.startswith(rule + "trec_eval and ir-measures order")


def test_a_run_with_all_digits_has_no_warning_and_everybody_agrees(folder):
    text = shown(folder, "full", "--at", "1,10")
    assert "tie by score" not in text
    found = json.loads(shown(folder, "full", "--at", "1,10", "--json"))["relevance"]
    for name, values in by_ir_measures(
        folder, "full", [R @ 10, P @ 10, nDCG @ 10, Success @ 10, RR @ 10]
    ).items():
        assert found[name]["value"] == pytest.approx(np.mean(list(values.values())), abs=1e-12)


def test_others_differ_only_on_queries_that_are_counted(folder):
    answers = read_answers(folder / "rounded.run")
    tied = dict(zip(answers.query_ids.to_pylist(), ties_at(answers, 10).tolist(), strict=True))
    theirs = by_ir_measures(folder, "rounded", [R @ 10])["R@10"]
    differ = {query for query, value in theirs.items() if value != 1.0}
    assert differ
    assert differ <= {query for query, is_tied in tied.items() if is_tied}


def test_scores_that_differ_beyond_float32_tie_for_trec_eval_and_are_counted(folder):
    (folder / "near.run").write_text("q0 Q0 a 1 0.90000002 x\nq0 Q0 b 2 0.90000001 x\n")
    near = read_answers(folder / "near.run")
    assert near.ids.to_pylist() == ["a", "b"]
    assert ties_at(near, 1).tolist() == [True]
    run = ir_measures.read_trec_run(str(folder / "near.run"))
    judged = [ir_measures.Qrel("q0", "a", 1)]
    assert [each.value for each in ir_measures.iter_calc([P @ 1], judged, run)] == [0.0]


def test_answers_in_an_order_of_their_own_have_no_ties_to_speak_of(dataset, folder):
    truth = ground_truth(dataset, depth=10)
    found = assess(
        truth=truth,
        answers=[[NAMES[row] for row in line] for line in truth.rows],
        at=[10],
        corpus=dataset.corpus,
    )
    assert found.score_ties is None
