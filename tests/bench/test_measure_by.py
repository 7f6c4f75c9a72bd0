"""Groups that `measure` and `run` take as arguments, like the keys of `[measure]` in a bench file."""

import numpy as np
import pytest

from recallatk import ground_truth, load_run, measure, run, save_run, to_html, to_text
from recallatk.bench.settings import settings_from
from recallatk.core import Dataset, Metric
from recallatk.datasets import make_corpus, make_queries
from recallatk.errors import RecallError, UsageError

ROWS, QUERIES, K = 200, 60, 5


@pytest.fixture(scope="module")
def dataset():
    random = np.random.default_rng(4)
    vectors = random.normal(size=(ROWS, 4)).astype(np.float32)
    asked = random.normal(size=(QUERIES, 4)).astype(np.float32)
    kinds = {"kind": ["old" if row % 2 else "new" for row in range(ROWS)]}
    columns = {"lang": ["de" if row % 3 else "fr" for row in range(QUERIES)], "count": [1, 2, 3] * 20}
    return Dataset(make_corpus(vectors, metadata=kinds), make_queries(asked, metadata=columns), Metric.L2)


def shown(found, dataset):
    return to_text(found, truth=ground_truth(dataset, depth=K), dataset=dataset, width=100)


def test_measure_groups_by_columns_of_queries_and_rows(dataset):
    found = measure("exact", dataset, at=K, rounds=1, by=["lang", "hardness"], by_row="kind", weight="count")
    assert (found.by, found.by_row) == (("lang", "hardness"), ("kind",))
    assert found.settings["measure"]["weight"] == "count"
    text = shown(found, dataset)
    assert "recall@5 by lang" in text and "by corpus column kind" in text and "weighted by count" in text
    assert "by corpus column kind" in to_html(found, truth=ground_truth(dataset, depth=K), dataset=dataset)


def test_groups_are_kept_with_a_run(dataset, tmp_path):
    found = measure("exact", dataset, at=K, rounds=1, by="lang", by_row=("kind",))
    save_run(found, dataset, tmp_path / "run")
    again = load_run(tmp_path / "run")
    assert (again.by, again.by_row) == (("lang",), ("kind",))


def test_without_truth_a_report_says_what_to_pass(dataset):
    said = " ".join(str(measure("exact", dataset, at=K, rounds=1, by="lang", by_row="kind")).split())
    asked = "does not record its data files. Pass truth=… and dataset=… to to_text, to_markdown or to_html."
    assert said.count(asked) == 2 and "--truth" not in said


def test_measure_without_groups_records_none(dataset):
    assert measure("exact", dataset, at=K, rounds=1).settings == {}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"by": "langs"}, "langs.*lang"),
        ({"by_row": ["kinds"]}, "kinds.*kind"),
        ({"by": 3}, r"by = 3\. Accepted: a name or a list of names"),
        ({"by_row": [None]}, "Accepted: a name or a list of names"),
        ({"by": "query frequency"}, "weight"),
    ],
)
def test_unknown_groups_are_refused_before_anything_is_measured(given, said, dataset):
    def search(queries, k):
        raise AssertionError("searched")

    with pytest.raises(RecallError, match=said):
        measure(search, dataset, at=K, **given)


@pytest.fixture
def settings():
    # The file is never opened: the data are given.
    return settings_from(
        {
            "name": "given",
            "data": {"corpus": "absent.parquet", "queries": "absent.parquet", "metric": "l2"},
            "measure": {"at": [K], "rounds": 1, "by": ["hardness"]},
            "engine": [{"name": "exact"}],
        }
    )


def test_run_takes_the_same_names_in_place_of_those_of_its_file(dataset, settings, tmp_path):
    found = run(settings, dataset=dataset, out=tmp_path / "run", by="lang", by_row=["kind"], weight="count")
    assert (found.by, found.by_row) == (("lang",), ("kind",))
    assert "recall@5 by lang" in shown(found, dataset)
    kept = run(settings, dataset=dataset, out=tmp_path / "kept")
    assert kept.by == ("hardness",)


def test_run_refuses_unknown_groups_of_given_data(dataset, settings, tmp_path):
    with pytest.raises(UsageError, match=r"measure\.by_row\[0\].*kinds"):
        run(settings, dataset=dataset, out=tmp_path / "run", by_row="kinds")
    assert not (tmp_path / "run").exists()
