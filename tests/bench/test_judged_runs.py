"""Judged answers of runs: values as ir-measures gives them, stored with the run, never measured twice."""

import json

import ir_measures
import numpy as np
import pytest
from ir_measures import RR, Success, nDCG

from commands import recallatk
from recallatk import load_run, measure, open_dataset, run
from recallatk.analysis.downstream import downstream_of
from recallatk.bench.downstream import RelevanceJudge, judges_of, unused_judgments
from recallatk.core import Dataset, Metric
from recallatk.datasets import make_corpus, make_queries
from recallatk.errors import MismatchError, UsageError
from recallatk.truths import ground_truth

ENGINE = """
    [measure]
    at = [5]
    rounds = 1
    [[engine]]
    name = "faiss-hnsw"
    [engine.search]
    ef = [1, 40]
    """


def judged_data(queries=50, rows=300, qrels=None, seed=0):
    random = np.random.default_rng(seed)
    corpus = make_corpus(random.normal(size=(rows, 4)), ids=[f"d{row}" for row in range(rows)])
    asked = make_queries(random.normal(size=(queries, 4)), ids=[f"q{row}" for row in range(queries)])
    return Dataset(corpus, asked, Metric.L2, qrels)


def random_qrels(random, queries=50, rows=300):
    return {
        f"q{query}": {f"d{row}": int(random.integers(0, 3)) for row in random.choice(rows, 30, replace=False)}
        for query in range(queries)
    }


@pytest.fixture
def qrels_file(tmp_path):
    """Judgments of the first 40 of 60 queries, of a query and a document that the data do not have."""
    random = np.random.default_rng(1)
    lines = ["query-id\tcorpus-id\tscore"]
    for query in range(40):
        lines += [f"q{query}\tc{row}\t1" for row in random.choice(400, 60, replace=False)]
    path = tmp_path / "q.tsv"
    path.write_text("\n".join([*lines, "q7\tgone\t1", "another\tc1\t1"]) + "\n")
    return path


def test_values_are_those_of_ir_measures():
    random = np.random.default_rng(0)
    dataset = judged_data(qrels=random_qrels(random))
    rows = np.array([random.choice(300, 10, replace=False) for _ in range(50)])
    rows[3, 4:] = -1
    judge = RelevanceJudge(dataset, 10)
    found = judge.values(rows)
    listed = {
        f"q{q}": {f"d{r}": 10.0 - p for p, r in enumerate(each) if r >= 0} for q, each in enumerate(rows)
    }
    assert judge.names == tuple(found) == ("nDCG@10", "RR@10", "Success@10")
    for each in ir_measures.iter_calc([nDCG @ 10, RR @ 10, Success @ 10], dataset.qrels, listed):
        assert found[str(each.measure)][int(each.query_id[1:])] == each.value


def test_unjudged_queries_are_nan_and_unknown_ids_are_said():
    qrels = {"q1": {"d1": 1, "gone": 2}, "q2": {}, "elsewhere": {"d1": 1}}
    judge = RelevanceJudge(judged_data(qrels=qrels), 5)
    values = judge.values(np.zeros((50, 5), np.int64))["nDCG@5"]
    assert np.flatnonzero(~np.isnan(values)).tolist() == [1]
    queries, documents = judge.notes
    assert queries == "the qrels judge 1 query that is not measured here; they count nowhere"
    assert documents.startswith(
        "1 of 2 judged documents are not in the corpus (gone): no search can return them"
    )


def test_identity_follows_the_judgments_of_these_queries():
    one, other, more = ({"q1": {"d1": 1}}, {"q1": {"d1": 2}}, {"q1": {"d1": 1}, "elsewhere": {"d1": 1}})
    first, second, third = (
        RelevanceJudge(judged_data(qrels=each), 5).identity for each in (one, other, more)
    )
    assert first != second and first == third
    assert RelevanceJudge(judged_data(qrels=one), 10).identity != first


def test_judgments_of_other_data_are_refused_if_somebody_named_them():
    for qrels, said in (
        ({"7": {"d1": 1}}, r"none of the 50 queries has a judgment.*like '7'.*like 'q0'"),
        ({"q1": {"1": 1}}, r"none of the 1 judged documents is in the corpus.*like '1'.*like 'd0'"),
    ):
        dataset = judged_data(qrels=qrels)
        assert judges_of(dataset, [10]) == ()
        [caution] = unused_judgments(dataset)
        assert caution.message.startswith("the judgments beside the data are not used: none of the ")
        with pytest.raises(MismatchError, match=said):
            judges_of(dataset, [10], required=True)
    assert judges_of(judged_data(), [10]) == () and unused_judgments(judged_data()) == ()
    assert unused_judgments(judged_data(qrels={"q1": {"d1": 1}})) == ()


@pytest.mark.parametrize(
    ("qrels", "said"),
    [
        (3, "qrels of type int. Accepted: a file, or a mapping"),
        ({"q1": [1]}, "qrels of type dict"),
        ({"q1": {"d1": 0.5}}, "query 'q1', 'd1': grade 0.5. Accepted: whole numbers"),
    ],
)
def test_judgments_of_other_types_are_refused(qrels, said):
    with pytest.raises(UsageError, match=said):
        open_dataset(judged_data(), qrels=qrels)


def test_measure_judges_a_function_and_exact_search_loses_nothing():
    dataset = judged_data(qrels=random_qrels(np.random.default_rng(2)))
    vectors, names = dataset.corpus.vectors.read(0, 300), np.array(dataset.corpus.ids.to_pylist())

    def search(queries, k, share):
        distances = ((vectors[: int(share * 300)] - queries[:, None]) ** 2).sum(axis=2)
        return names[np.argsort(distances, axis=1)[:, :k]]

    found = measure(search, dataset, at=10, rounds=1, search={"share": [0.5, 1.0]})
    half, whole = downstream_of(found)[0].points
    assert whole.recall == 1 and whole.loss.value == 0 and half.recall < 0.7 and half.loss.value != 0
    truth = ground_truth(dataset, depth=10)
    exact = RelevanceJudge(dataset, 10).values(truth.rows)["nDCG@10"]
    assert downstream_of(found)[0].exact.value == pytest.approx(exact.mean())
    none = measure(search, judged_data(), at=10, rounds=1, search={"share": 0.5})
    assert downstream_of(none) == [] and "downstream" not in str(none) and "downstream: " in str(found)


def test_a_run_is_judged_and_resumed_with_other_judgments_without_measuring(bench_file, qrels_file, tmp_path):
    path = bench_file(ENGINE)
    folder = tmp_path / "out"
    bare = run(path, out=folder)
    assert all(each.judged is None for each in bare.measurements)
    before = {each.name: each.read_bytes() for each in folder.glob("trial-*.parquet")}
    recallatk("run", str(path), "--qrels", str(qrels_file), "--out", str(folder))
    judged = load_run(folder)
    assert {each.name: each.read_bytes() for each in folder.glob("trial-*.parquet")} == before
    found = {each.measure: each for each in downstream_of(judged)}
    assert list(found) == ["nDCG@5", "RR@5", "Success@5"]
    ndcg = found["nDCG@5"]
    assert (ndcg.judged, ndcg.queries) == (40, 60) and len(ndcg.notes) == 3
    assert ndcg.points[-1].recall == 1 and ndcg.points[-1].loss.value == 0

    shown = recallatk("show", str(folder)).stdout
    assert "downstream: " in shown
    told = json.loads(recallatk("show", str(folder), "--json").stdout)["downstream"]
    assert [each["measure"] for each in told] == list(found)
    assert told[0]["trials"][0]["lost"]["value"] == pytest.approx(ndcg.points[0].loss.value)

    lines = qrels_file.read_text().splitlines()
    qrels_file.write_text("\n".join(lines[: len(lines) // 2]) + "\n")
    recallatk("run", str(path), "--qrels", str(qrels_file), "--out", str(folder))
    again = load_run(folder)
    assert {each.name: each.read_bytes() for each in folder.glob("trial-*.parquet")} == before
    assert downstream_of(again)[0].judged < 40
    assert again.measurements[0].judged.identity != judged.measurements[0].judged.identity


def test_damaged_judged_values_are_judged_again(bench_file, qrels_file, tmp_path):
    path = bench_file(ENGINE)
    folder = tmp_path / "out"
    text = path.read_text().replace('metric = "l2"', f'metric = "l2"\nqrels = "{qrels_file}"')
    path.write_text(text)
    first = downstream_of(run(path, out=folder))
    file = folder / "judged-1.parquet"
    file.write_bytes(file.read_bytes()[:-40])
    again = downstream_of(run(path, out=folder))
    assert [each.points for each in again] == [each.points for each in first]
    assert load_run(folder).measurements[0].judged is not None
    goal = ["show", str(folder), "--json", "--target", "ndcg@5 loss <= 0.9"]
    assert json.loads(recallatk(*goal).stdout)["verdict"]["met"] is True


def test_init_and_tune_take_judgments(data, qrels_file, tmp_path):
    files = [str(data / "corpus.parquet"), str(data / "queries.parquet"), "--metric", "l2"]
    out = tmp_path / "made.toml"
    assert recallatk("init", *files, "--qrels", str(qrels_file), "--out", str(out)).returncode == 0
    assert f'qrels = "{qrels_file.name}"' in out.read_text()
    goal = ["--target", "ndcg@5 loss <= 0.9", "--engine", "faiss-hnsw", "--out", str(tmp_path / "tuned")]
    assert "needs relevance judgments" in recallatk("tune", *files, *goal).stderr
    tuned = recallatk("tune", *files, *goal, "--qrels", str(qrels_file), "--json")
    assert "needs relevance judgments" not in tuned.stderr and "Traceback" not in tuned.stderr


def test_qrels_that_are_not_there_are_named(bench_file, tmp_path):
    path = bench_file(ENGINE)
    found = recallatk("run", str(path), "--qrels", str(tmp_path / "none.tsv"))
    assert found.returncode == 2 and "none.tsv: no such file" in found.stderr
