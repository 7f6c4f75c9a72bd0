"""The judge that settings or a caller name: made from every key, and imported only when it is to be used."""

import sys

import numpy as np
import pytest

from recallatk import Quality, open_dataset
from recallatk.bench.quality import given_judge, quality_judge
from recallatk.bench.recorded_benchmark import RecordedBenchmark
from recallatk.bench.settings import read_settings, settings_from
from recallatk.errors import UsageError

MODULE = """
from pathlib import Path

Path(__file__).with_name("imported").touch()


def judge(query, retrieved):
    return len(retrieved)
"""
MEASURE = "[measure]\nat = [1, 5]\n"
ENGINE = '[[engine]]\nname = "exact"\n'


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module of the user, and the file that appears when it is imported."""
    (tmp_path / "settings_judge.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / "imported"
    sys.modules.pop("settings_judge", None)


@pytest.fixture
def dataset(data):
    return open_dataset(data / "corpus.parquet", data / "queries.parquet", metric="l2")


def test_without_a_function_there_is_no_judge(bench_file, dataset):
    assert quality_judge(read_settings(bench_file(MEASURE, ENGINE)), dataset) is None
    assert given_judge(None, dataset, 10) is None


def test_every_key_reaches_the_judge(module, bench_file, dataset, tmp_path):
    path = bench_file(
        MEASURE,
        """
        [quality]
        function = "settings_judge:judge"
        k = 3
        sample = 20
        rate = "30/min"
        clients = 2
        retries = 7
        timeout = "1500ms"
        version = "2"
        cache = "judged"
        """,
        ENGINE,
    )
    judge = quality_judge(read_settings(path), dataset)
    assert (judge.name, judge.k, len(judge.queries)) == ("settings_judge:judge", 3, 20)
    limits = judge.calls._limits
    assert (limits.rate, limits.clients, limits.retries, limits.seconds) == (0.5, 2, 7, 1.5)
    assert judge.cache.folder == tmp_path / "judged"
    other = read_settings(path, changes={"data": {"seed": 1}})
    assert quality_judge(other, dataset).queries.tolist() != judge.queries.tolist()


@pytest.mark.parametrize(("at", "k"), [([1, 5], 5), ([1, 10, 20], 10)])
def test_ten_rows_are_judged_or_as_many_as_a_search_returns(module, dataset, at, k, tmp_path):
    table = {"function": "settings_judge:judge", "cache": str(tmp_path / "judged")}
    given = {"data": {"corpus": "c"}, "measure": {"at": at}, "engine": [{"name": "exact"}], "quality": table}
    rows = np.tile(np.arange(20), (60, 1))
    assert set(quality_judge(settings_from(given), dataset).values(rows)["quality"]) == {k}


def test_settings_are_read_without_importing_the_function(module, bench_file, dataset, tmp_path):
    table = '[quality]\nfunction = "settings_judge:judge"\n'
    path = bench_file(MEASURE, table, ENGINE)
    settings = read_settings(path)
    # A run folder may come from anybody.
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "bench.toml").write_text(settings.to_toml())
    recorded = RecordedBenchmark(None, tmp_path / "run")
    assert recorded.settings.quality.function == "settings_judge:judge"
    assert not module.exists()
    quality_judge(settings, dataset)
    assert module.exists()


def test_a_caller_gives_a_function_its_name_or_a_quality(module, dataset, tmp_path):
    rows = np.tile(np.arange(4), (60, 1))
    cache = tmp_path / "judged"
    named = Quality("settings_judge:judge", k=2, cache=cache)
    for given, value in [(named, 2), (lambda _, retrieved: len(retrieved), 4)]:
        assert set(given_judge(given, dataset, 4).values(rows)["quality"]) == {value}
    with pytest.raises(UsageError, match="float cannot be called"):
        given_judge(0.5, dataset, 4)
