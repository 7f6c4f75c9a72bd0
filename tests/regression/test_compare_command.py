"""`recallatk compare`: real runs, tunings, probes and answers; every number against NumPy and SciPy."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from commands import recallatk
from recallatk import compare_results, load_run
from recallatk.analysis.comparison import compare
from recallatk.core import Run
from recallatk.errors import MismatchError, UsageError


def compared(folder, *words, code=0):
    ran = recallatk("compare", *words, cwd=folder)
    assert ran.returncode == code, ran.stderr
    return ran


def as_json(folder, *words):
    return json.loads(compared(folder, *words, "--json", "--quiet").stdout)["comparisons"]


def measurement(folder, run, nprobe):
    return next(
        each for each in load_run(folder / run).measurements if dict(each.trial.search)["nprobe"] == nprobe
    )


def values_of(pair, measure, segment=None):
    return next(each for each in pair["values"] if each["measure"] == measure and each["segment"] == segment)


def test_shared_settings_are_paired_and_the_others_listed(runs):
    [found] = as_json(runs, "before", "after")
    [pair] = found["settings"]
    assert pair["first"] == pair["second"] == "faiss-ivf-flat(nlist=32)[nprobe=4]"
    assert found["only_first"] == [f"faiss-ivf-flat(nlist=32)[nprobe={each}]" for each in (2, 3)]
    assert found["only_second"] == ["faiss-ivf-flat(nlist=32)[nprobe=6]"]
    assert found["paired"] and not found["significant"]
    said = " ".join(compared(runs, "before", "after").stdout.split())
    assert "after: No difference in recall@10: " in said
    assert "in both, equal for each of 300 queries." in said
    assert "Settings of before only" in said


def test_differences_are_those_of_the_stored_values(runs):
    [found] = as_json(runs, "before#1", "after#2")
    [pair] = found["settings"]
    one, other = (measurement(runs, *each) for each in (("before", 2), ("after", 6)))
    for name in ("recall@1", "recall@10"):
        mine, theirs = (each.score.per_query[name] for each in (one, other))
        value = values_of(pair, name)
        assert value["difference"] == pytest.approx((theirs - mine).mean(), abs=1e-12)
        bounds = stats.bootstrap((theirs - mine,), np.mean, method="BCa", rng=np.random.default_rng(0))
        assert [value["low"], value["high"]] == pytest.approx(list(bounds.confidence_interval), abs=0.006)
        assert value["queries"] == 300
    mine, theirs = (each.score.per_query["recall@10"] for each in (one, other))
    robust = values_of(pair, "robust(0.8)@10")
    assert robust["first"] == pytest.approx(np.mean(mine >= 0.8 - 1e-12))
    assert robust["second"] == pytest.approx(np.mean(theirs >= 0.8 - 1e-12))
    tail = values_of(pair, "p5(recall@10)")
    assert tail["first"] == np.quantile(mine, 0.05, method="inverted_cdf")
    assert tail["second"] == np.quantile(theirs, 0.05, method="inverted_cdf")
    french = np.arange(300) % 3 == 1
    assert values_of(pair, "recall@10", "lang=fr")["difference"] == pytest.approx(
        (theirs - mine)[french].mean()
    )
    assert (pair["lost"], pair["gained"]) == ((theirs < mine).sum(), (theirs > mine).sum())
    most = pair["changed"][0]
    place = int(most["query"].removeprefix("q"))
    assert most["text"] == f"text of {place}"
    assert most["second"] - most["first"] == pytest.approx(np.abs(theirs - mine).max())
    assert found["significant"]
    assert "recall@10 is better: " in compared(runs, "before#1", "after#2").stdout


def test_p_values_are_corrected_over_all_values_of_all_results(runs):
    first, second = as_json(runs, "before#3", "before#2", "after#1")
    values = [each for found in (first, second) for pair in found["settings"] for each in pair["values"]]
    mine, theirs = measurement(runs, "before", 4), measurement(runs, "before", 3)
    alone = compare({name: each.score.per_query["recall@1"] for name, each in (("a", mine), ("b", theirs))})
    # 9,999 draws cannot show this; Hoeffding's bound of sums under random signs can.
    assert alone[0].p_value == 0.0002
    d = theirs.score.per_query["recall@1"] - mine.score.per_query["recall@1"]
    bound = 2 * np.exp(-(d.sum() ** 2) / (2 * (d**2).sum()))
    # Holm multiplies the smallest of m p values by m, and none by less than 1.
    assert bound < values_of(first["settings"][0], "recall@1")["p"] <= bound * len(values) * (1 + 1e-9)
    assert {each["verdict"] for each in second["settings"][0]["values"]} == {"no significant difference"}


def test_costs_are_ratios_marked_by_how_they_were_measured(runs):
    [found] = as_json(runs, "before#1", "before#3")
    costs = {each["name"]: each for each in found["settings"][0]["costs"]}
    one, other = measurement(runs, "before", 2), measurement(runs, "before", 4)
    logs = []
    for turn in range(2):
        medians = [
            np.quantile(each.calls.latency_ns[each.calls.round == turn], 0.5, method="inverted_cdf")
            for each in (one, other)
        ]
        logs.append(np.log(medians[1] / medians[0]))
    assert costs["p50"]["interleaved"] and costs["qps"]["interleaved"]
    assert costs["p50"]["ratio"] == pytest.approx(np.exp(np.mean(logs)))
    ends = stats.t.interval(0.95, 1, np.mean(logs), stats.sem(logs))
    assert [costs["p50"]["low"], costs["p50"]["high"]] == pytest.approx(list(np.exp(ends)))
    assert not costs.keys() & {"memory", "size", "build"}
    [found] = as_json(runs, "before#3", "after#1")
    costs = {each["name"]: each for each in found["settings"][0]["costs"]}
    assert {"p50", "qps", "memory", "size", "build"} <= costs.keys()
    assert not any(each["interleaved"] for each in costs.values())
    assert "across runs: measured at another time" in " ".join(
        compared(runs, "before#3", "after#1").stdout.split()
    )


def test_intervals_of_several_builds_include_their_variance(runs):
    [found] = as_json(runs, "built#1", "rebuilt#1")
    value = values_of(found["settings"][0], "recall@10")
    assert value["builds"] == [3, 3]
    sides = []
    for name in ("built", "rebuilt"):
        its = [each for each in load_run(runs / name).measurements if dict(each.trial.search)["ef"] == 10]
        sides.append(np.array([each.score.per_query["recall@10"] for each in its]))
    differences = sides[1].mean(axis=0) - sides[0].mean(axis=0)
    assert value["difference"] == pytest.approx(differences.mean(), abs=1e-12)
    # The pooled t interval of the six builds' means, as SciPy has it.
    means = [each.mean(axis=1) for each in sides]
    ends = stats.ttest_ind(means[1], means[0]).confidence_interval()
    by_builds = (ends.high - ends.low) / 2
    by_queries = stats.sem(differences) * 1.96
    assert (value["high"] - value["low"]) / 2 == pytest.approx(np.hypot(by_builds, by_queries), rel=0.05)
    assert "intervals include the variance between builds" in compared(runs, "built#1", "rebuilt#1").stdout


def test_answers_are_compared_against_a_truth(runs):
    words = ("good.parquet", "bad.parquet", "--truth", "truth.parquet")
    [found] = as_json(runs, *words)
    value = values_of(found["settings"][0], "recall@10")
    assert (value["first"], value["second"]) == (pytest.approx(0.95), pytest.approx(0.8))
    assert found["settings"][0]["lost"] == 150
    assert values_of(found["settings"][0], "recall@10", "lang=de")["verdict"] == "worse"
    # A run and a file of answers to the same queries, scored against the same truth.
    [mixed] = as_json(runs, "after#1", "bad.parquet", "--truth", "truth.parquet")
    assert mixed["paired"]
    assert "answers need a truth: --truth TRUTH" in compared(runs, *words[:2], code=2).stderr


def test_what_cannot_be_compared_is_refused_by_name(runs):
    said = compared(runs, "after#1", "others", code=2).stderr
    assert "Different: the queries, the truth, the number of queries (300 and 200)" in said
    assert "--across" in said
    said = compared(runs, "before", "built", code=2).stderr
    assert "have no setting in common" in said and "#1 faiss-ivf-flat(nlist=32)[nprobe=2]" in said
    assert "no measured trial 9. Measured: 1, 2, 3" in compared(runs, "before#9", "after", code=2).stderr
    assert "1 result. Accepted: two or more" in compared(runs, "before", code=2).stderr
    assert "no such file or folder" in compared(runs, "before", "nowhere", code=2).stderr
    (runs / "empty").mkdir(exist_ok=True)
    assert "holds neither a run nor a tuning" in compared(runs, "before", "empty", code=2).stderr
    (runs / "strange.json").write_text('{"recall": 1}')
    assert "no probe in this file" in compared(runs, "before", "strange.json", code=2).stderr


def test_another_k_is_refused_where_nothing_is_shared(runs):
    from recallatk.analysis.side_comparison import compare_sides
    from recallatk.regression.run_side import run_side

    ten = load_run(runs / "after")
    one = load_run(runs / "only1")
    shared = as_json(runs, "after#1", "only1")[0]["settings"][0]["values"]
    assert {each["measure"] for each in shared} == {"recall@1"}
    each = ten.measurements[0]
    kept = {"recall@10": each.score.per_query["recall@10"]}
    alone = Run(**{**vars(ten), "measurements": (_with_values(each, kept),)})
    with pytest.raises(MismatchError, match="no measure in common, such as recall at the same k"):
        compare_sides([run_side(one, "one"), run_side(alone, "ten")])


def _with_values(measurement, kept):
    from dataclasses import replace

    return replace(measurement, score=replace(measurement.score, per_query=kept))


def test_across_different_data_means_are_compared_and_it_says_so(runs):
    [found] = as_json(runs, "after#1", "others", "--across")
    assert not found["paired"] and "the queries" in found["different"]
    [pair] = found["settings"]
    value = values_of(pair, "recall@10")
    one, other = (measurement(runs, name, 4).score.per_query["recall@10"] for name in ("after", "others"))
    welch = stats.ttest_ind(other, one, equal_var=False)
    ends = welch.confidence_interval()
    assert [value["low"], value["high"]] == pytest.approx([ends.low, ends.high], abs=0.004)
    assert not value["paired"]
    assert "means are not paired by query" in " ".join(
        compared(runs, "after#1", "others", "--across").stdout.split()
    )
    # Equal data are paired whatever the option says.
    assert as_json(runs, "after#1", "before#3", "--across")[0]["paired"]


def test_a_run_of_an_older_format_is_compared_by_its_means(runs):
    old = Path(__file__).parent.parent / "storage" / "format-2"
    assert "has no values per query" in compared(runs, old, old, code=2).stderr
    [found] = as_json(runs, old, old, "--across")
    values = [each for pair in found["settings"] for each in pair["values"]]
    assert values and not any(each["paired"] or each["difference"] for each in values)


def test_a_tuning_and_a_probe_are_compared_by_their_means(runs):
    ran = recallatk(
        *("tune", "corpus.parquet", "queries.parquet", "--metric", "l2", "--engine", "exact"),
        *("--target", "recall@10 >= 0.5", "--out", "tuned", "--quiet"),
        cwd=runs,
    )
    assert ran.returncode == 0, ran.stderr
    assert "tuned has no values per query" in compared(runs, "after#1", "tuned", code=2).stderr
    [found] = as_json(runs, "after#1", "tuned", "--across")
    assert values_of(found["settings"][0], "recall@10")["second"] == 1.0
    (runs / "search.py").write_text(
        "import numpy as np, pyarrow.parquet as pq\n"
        "rows = np.array(pq.read_table('corpus.parquet')['vector'].to_pylist())\n"
        "def near(vectors, k):\n"
        "    apart = ((rows[None] - np.asarray(vectors)[:, None]) ** 2).sum(axis=2)\n"
        "    return [[f'c{row}' for row in each[:k]] for each in np.argsort(apart, axis=1)]\n"
    )
    probed = recallatk(
        *("probe", "search:near?metric=l2", "--queries", "queries.parquet", "--corpus", "corpus.parquet"),
        *("--max-rate", "none", "--json", "--quiet"),
        cwd=runs,
    )
    assert probed.returncode == 0, probed.stderr
    (runs / "probe.json").write_text(probed.stdout)
    [found] = as_json(runs, "after#1", "probe.json", "--across")
    assert values_of(found["settings"][0], "recall@10")["second"] == 1.0


def test_pages_and_python_say_the_same(runs, tmp_path):
    page, text = tmp_path / "page.html", tmp_path / "page.md"
    compared(runs, "before", "after#1", "others", "--html", page, "--markdown", text, code=2)
    assert not page.exists()
    compared(runs, "before#1", "after#1", "--html", page, "--markdown", text)
    assert "recall@10 is better" in page.read_text() and "http-equiv" in page.read_text()
    assert "| recall@10 | all queries |" in text.read_text()
    found = compare_results(runs / "before#1", runs / "after#1", names=["before#1", "after#1"])
    assert (
        found.to_dict()["comparisons"][0]["settings"][0]["values"]
        == (as_json(runs, "before#1", "after#1")[0]["settings"][0]["values"])
    )
    assert "recall@10 is better" in str(found)
    with pytest.raises(UsageError, match="2 names for 3 results"):
        compare_results("a", "b", "c", names=["a", "b"])
