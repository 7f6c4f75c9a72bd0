"""`recallatk score --weight` and `weight=` in Python: weighted means, segments, comparison and refusals."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats
from typer.testing import CliRunner

from recallatk import Answers, assess, compare, ground_truth, open_dataset, save_truth, score
from recallatk.analysis.weighting import few_effective
from recallatk.cli import app
from recallatk.core import Weights
from recallatk.reporting import assessment_to_dict

RANDOM = np.random.default_rng(3)
ROWS, COUNT = 120, 60
CORPUS = RANDOM.normal(size=(ROWS, 6)).astype("float32")
QUERIES = RANDOM.normal(size=(COUNT, 6)).astype("float32")
# The first queries are asked most, and found worst.
COUNTS = (1000 / np.arange(1, COUNT + 1)).round().astype(int)
KINDS = ["a", "b"] * (COUNT // 2)


@pytest.fixture(scope="module")
def truth():
    queries = {"vector": list(QUERIES), "count": COUNTS.tolist(), "kind": KINDS}
    data = open_dataset({"vector": list(CORPUS)}, queries, metric="l2")
    return ground_truth(data, depth=10, store=None)


@pytest.fixture(scope="module")
def answers(truth):
    found = truth.rows.copy()
    for query in range(COUNT):
        found[query, 10 - max(0, 6 - query // 4) :] = -1
    return found


@pytest.fixture
def folder(tmp_path, monkeypatch, truth, answers):
    monkeypatch.chdir(tmp_path)
    save_truth(truth, tmp_path / "truth.parquet")
    np.save("answers.npy", answers)
    np.save("right.npy", truth.rows)
    return tmp_path


def run_here(*arguments):
    ran = CliRunner().invoke(app, ["score", *map(str, arguments)])
    assert ran.exception is None or isinstance(ran.exception, SystemExit), ran.exception
    return ran


def test_every_mean_is_weighted_and_has_the_unweighted_beside_it(truth, answers):
    found, plain = score(truth, answers, weight="count"), score(truth, answers)
    for name, mean in found.measures.items():
        values = found.per_query[name]
        assert mean.value == pytest.approx(np.average(values, weights=COUNTS), rel=1e-12)
        assert mean.unweighted == plain.measures[name].value
        assert mean.effective == pytest.approx(COUNTS.sum() ** 2 / (COUNTS**2).sum())
        assert mean.low <= mean.value <= mean.high
        np.testing.assert_array_equal(values, plain.per_query[name])
    assert found["recall@10"] < plain["recall@10"]
    assert plain.weights is None and plain.measures["recall@10"].effective is None
    assert {"unweighted", "effective"} <= set(found.to_arrow().column_names)
    assert "weighted by count" in found._repr_html_()


def test_equal_counts_give_the_unweighted_score(truth, answers):
    same = Answers(
        pa.array(answers.reshape(-1)),
        np.arange(COUNT + 1) * 10,
        columns=pa.table({"ones": [7] * COUNT}),
    )
    weighted, plain = assess(truth, same, weight="ones"), assess(truth, same)
    for name, mean in plain.score.measures.items():
        found = weighted.score.measures[name]
        assert (found.value, found.low, found.high, found.ids) == (mean.value, mean.low, mean.high, mean.ids)
    assert weighted.at_least == plain.at_least
    assert weighted.planning == plain.planning
    assert set(weighted.segments) == set(plain.segments)


def test_segments_are_weighted_and_frequency_is_one(truth, answers):
    found = assess(truth, answers, by=["kind"], weight="count")
    values = found.score.per_query["recall@10"]
    for segment in found.segments["kind"]:
        inside = np.array(KINDS) == segment.name
        mean = segment.measures["recall@10"]
        assert mean.value == pytest.approx(np.average(values[inside], weights=COUNTS[inside]))
        assert mean.unweighted == pytest.approx(values[inside].mean())
    head, tail = found.segments["query frequency"]
    assert (head.name, tail.name) == ("head (half of the weight)", "tail")
    first = int(np.searchsorted(np.cumsum(COUNTS), COUNTS.sum() / 2)) + 1
    assert (head.queries, tail.queries) == (first, COUNT - first)
    assert head.measures["recall@10"].value < tail.measures["recall@10"].value
    assert "query frequency" not in assess(truth, answers).segments


def test_a_comparison_is_weighted(truth, answers):
    found = assess(truth, answers, against={"right": truth.rows}, weight="count")
    (difference,) = found.differences
    values = 1 - found.score.per_query["recall@10"]
    assert difference.difference == pytest.approx(np.average(values, weights=COUNTS))
    assert difference.unweighted == pytest.approx(values.mean())
    assert difference.significant
    pair = {"a": RANDOM.random(40), "b": RANDOM.random(40)}
    assert compare(pair, weights=np.full(40, 5.0))[0][:-1] == compare(pair)[0][:-1]


def test_many_sizes_of_weighted_differences_have_a_normal_rest():
    random = np.random.default_rng(1)
    count = 2_600
    first, weights = random.random(count), random.pareto(2.5, count) + 1
    for shift, least, most in ((0.0, 0.01, 1.0), (0.05, 0.0, 0.01)):
        second = np.clip(first + shift + random.normal(0, 0.3, count), -1, 2)
        (found,) = compare({"a": first, "b": second}, weights=weights)
        products = weights * (second - first)
        # The sum of many signed differences is close to normal.
        normal = 2 * stats.norm.sf(abs(products.sum()) / np.sqrt((products**2).sum()))
        assert least <= found.p_value <= most
        assert found.p_value == pytest.approx(normal, abs=0.03)


def test_the_command_says_what_it_weights_by(folder):
    ran = run_here("truth.parquet", "answers.npy", "--row-numbers", "--weight", "count", "--by", "kind")
    assert ran.exit_code == 0, ran.output
    said = " ".join(ran.stdout.split())
    assert "All means are weighted by count: the queries are worth" in said
    assert "mean, weighted by count" in said and "unweighted" in said
    assert "by query frequency" in said and "head (half of the weight)" in said
    assert "warning: a few queries carry the weighted mean: 60 queries weighted by count are worth" in said


def test_a_heavy_tail_of_weights_is_a_warning_where_the_interval_misses(tmp_path, monkeypatch):
    """Distinct queries drawn regardless of Zipf traffic: most common ones are left out, which are worse."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(2)
    ranks = random.choice(100_000, 1_000, replace=False) + 1
    means = np.clip(0.9 + 0.03 * (np.log(ranks) - 9), 0.02, 0.995)
    every = np.arange(1, 100_001)
    mean = np.average(np.clip(0.9 + 0.03 * (np.log(every) - 9), 0.02, 0.995), weights=1 / every)
    data = open_dataset(
        {"vector": list(CORPUS)},
        {"vector": list(random.normal(size=(1_000, 6)).astype("float32")), "count": (1 / ranks).tolist()},
        metric="l2",
    )
    truth = ground_truth(data, depth=10, store=None)
    found = truth.rows.copy()
    found[np.arange(10) >= random.binomial(10, means)[:, None]] = -1
    save_truth(truth, tmp_path / "truth.parquet")
    np.save("answers.npy", found)
    ran = run_here("truth.parquet", "answers.npy", "--row-numbers", "--weight", "count", "--json", "--at", 10)
    described = json.loads(ran.stdout)
    ends = described["measures"]["recall@10"]
    # More than 30, and yet the interval misses the traffic-weighted mean.
    assert described["weight"]["effective_queries"] > 30
    assert not ends["low"] <= mean <= ends["high"]
    shown = run_here("truth.parquet", "answers.npy", "--row-numbers", "--weight", "count", "--at", 10)
    said = " ".join(shown.stdout.split())
    assert "warning: a few queries carry the weighted mean: 1,000 queries weighted by count" in said
    assert "the interval may be too narrow" in said


@pytest.mark.parametrize(("exponent", "warned"), [(0.5, False), (1.2, True)])
def test_the_caution_follows_the_share_of_effective_queries(exponent, warned):
    weights = Weights("count", np.arange(1, 2_001) ** -exponent)
    found = few_effective(weights)
    assert (found is not None) == warned == (weights.effective < 500)
    assert few_effective(Weights("count", np.ones(40))) is None
    if found is not None:
        assert (found.value, found.limit) == (weights.effective, 500)


def test_json_has_the_weight(folder):
    ran = run_here("truth.parquet", "answers.npy", "--row-numbers", "--weight", "count", "--json")
    found = json.loads(ran.stdout)
    effective = COUNTS.sum() ** 2 / (COUNTS**2).sum()
    assert found["weight"] == {"column": "count", "effective_queries": pytest.approx(effective)}
    for mean in found["measures"].values():
        assert {"value", "unweighted", "low", "high"} <= set(mean)
    plain = json.loads(run_here("truth.parquet", "answers.npy", "--row-numbers", "--json").stdout)
    assert "weight" not in plain and "unweighted" not in plain["measures"]["recall@10"]
    assert plain["measures"]["recall@10"]["value"] == found["measures"]["recall@10"]["unweighted"]


def test_weights_from_the_queries_file_come_before_those_of_the_truth(folder):
    pq.write_table(pa.table({"vector": list(CORPUS)}), "corpus.parquet")
    counts = [1] * (COUNT - 1) + [1_000_000]
    pq.write_table(pa.table({"vector": list(QUERIES), "count": counts}), "queries.parquet")
    data = ["--corpus", "corpus.parquet", "--queries", "queries.parquet", "--metric", "l2"]
    ran = run_here("truth.parquet", "answers.npy", "--row-numbers", "--weight", "count", "--json", *data)
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout)["weight"]["effective_queries"] == pytest.approx(1.0, abs=1e-3)


def test_a_wrong_column_is_refused(folder):
    ran = run_here("truth.parquet", "answers.npy", "--row-numbers", "--weight", "counts")
    assert ran.exit_code == 2 and "did you mean count" in ran.stderr.lower()
    ran = run_here("truth.parquet", "answers.npy", "--row-numbers", "--weight", "kind")
    assert ran.exit_code == 2 and "the column 'kind' has type string" in ran.stderr


def test_queries_without_an_eligible_row_are_neither_missing_nor_in_the_effective_number():
    filters = [None if place % 3 else "n < 0" for place in range(COUNT)]
    kinds = ["few"] * 9 + ["many"] * (COUNT - 9)
    columns = {"id": range(COUNT), "count": COUNTS.tolist(), "kind": kinds, "filter": filters}
    data = open_dataset(
        pa.table({"vector": list(CORPUS), "n": range(ROWS)}),
        pa.table({"vector": list(QUERIES), **columns}),
        metric="l2",
    )
    truth = ground_truth(data, depth=10, store=None)
    answered = [place for place in range(COUNT) if place % 3 and place != 1]
    flat, offsets = pa.array(truth.rows[answered].reshape(-1)), np.arange(len(answered) + 1) * 10
    found = assess(truth, Answers(flat, offsets, pa.array(answered)), by=["kind"], weight="count")
    assert found.score.anomalies["missing"] == 1 and found.score.missing == (1,)
    assert found.score.anomalies["no_eligible"] == 20
    text = str(found)
    assert "1 query without answers, scored 0 (1)" in text
    effective = f"{found.score.measures['recall@10'].effective:.3g}"
    # Unscored queries have no part in it: one effective number, wherever it is said.
    assert " ".join(text.split()).count(f" {effective}") >= 2
    described = assessment_to_dict(found)["weight"]["effective_queries"]
    assert described == pytest.approx(found.score.measures["recall@10"].effective)
    order = [line.split() for line in text.splitlines() if line.startswith(("  few", "  many"))]
    assert [row[:2] for row in order][1] == ["few", "*"] and order[0][0] == "many"
    assert "* fewer than 10 queries, not ranked." in text
