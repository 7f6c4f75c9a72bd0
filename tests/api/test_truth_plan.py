"""The plan of a truth: quantities that can be counted, and what follows from them."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from recallatk import open_dataset, plan_truth
from recallatk.analysis.planning import queries_for
from recallatk.api.truth_plan import SIZES
from recallatk.cli.application import application
from recallatk.core import ArrayVectors
from recallatk.errors import UsageError
from recallatk.truths import pilot


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planned data")
    random = np.random.default_rng(0)
    np.save(folder / "c.npy", random.standard_normal((3000, 16), np.float32))
    np.save(folder / "q.npy", random.standard_normal((40, 16), np.float32))
    return str(folder / "c.npy"), str(folder / "q.npy")


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(pilot, "_ROUNDS", 1)


@pytest.fixture(scope="module")
def plan(files):
    return plan_truth(*files, metric="l2", workers=8, price="0.5EUR/h", depth=10, memory="256MiB")


def test_bytes_and_operations_are_counted(plan):
    assert [line.rows for line in plan.lines] == [3000, *SIZES]
    for line in plan.lines:
        assert line.corpus_bytes == line.rows * 16 * 4
        assert line.operations == 2 * line.rows * 40 * 16
        assert line.read_bytes >= line.corpus_bytes
    assert plan.lines[0].read_bytes == plan.lines[0].corpus_bytes


def test_larger_corpora_take_longer_and_no_more_memory_per_worker(plan):
    for smaller, larger in zip(plan.lines[1:], plan.lines[2:], strict=False):
        assert larger.seconds > smaller.seconds
        assert larger.worker_seconds > smaller.worker_seconds
        assert larger.tasks >= smaller.tasks
    assert len({line.worker_memory_bytes for line in plan.lines}) == 1
    assert plan.lines[-1].memory_bytes <= 1 << 30


def test_costs_follow_from_time(plan):
    for line in plan.lines:
        assert line.cost == pytest.approx(line.seconds * 0.5 / 3600)
        assert line.worker_cost == pytest.approx(line.worker_seconds * 8 * 0.5 / 3600)


def test_more_workers_are_faster_on_a_billion_rows(files, monkeypatch):
    # One pilot for both, because two of them differ by the load of the machine.
    measured = pilot.measure(open_dataset(*files, metric="l2"), 10, 2, ("blas", None))
    monkeypatch.setattr(pilot, "measure", lambda *_: measured)
    few, many = (plan_truth(*files, metric="l2", workers=count, depth=10) for count in (8, 800))
    assert many.lines[3].worker_seconds < few.lines[3].worker_seconds
    assert few.lines[0].cost is None


def test_enough_queries_are_those_of_the_planning_formula(plan):
    assert plan.enough.at_most == queries_for(0.01, 0.5) == 9604
    assert plan.enough.usual == queries_for(0.01, 0.2)
    assert 500 < plan.enough.sequential < 20_000


def test_the_command_prints_a_table_or_one_object_and_stores_nothing(files, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    command = ["truth", *files, "--metric", "l2", "--plan", "--workers", "4", "--depth", "5"]
    run = CliRunner().invoke(application(), command)
    assert run.exit_code == 0, run.output
    assert "operations" in run.output and "10B rows" in run.output and "4 Ray workers" in run.output
    run = CliRunner().invoke(application(), [*command, "--price", "2/h", "--json"])
    found = json.loads(run.stdout)
    assert found["workers"] == 4 and len(found["lines"]) == 5 and found["price"]["per_hour"] == 2
    assert not list(tmp_path.rglob("*"))


def test_passes_are_said_and_what_shrinks_with_the_queries(files, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    words = ["truth", *files, "--metric", "l2", "--plan", "--depth", "5", "--memory", "256MiB"]
    said = CliRunner().invoke(application(), words).output
    (passes,) = (line.split() for line in said.splitlines() if line.startswith("passes over the vectors"))
    assert passes[-5:] == ["1", "1", "3", "3", "3"]
    assert "every line" not in said and "bytes of vectors and the memory of workers do not" in " ".join(
        said.split()
    )


def test_out_has_no_meaning_for_a_plan(files, tmp_path):
    words = ["truth", *files, "--metric", "l2", "--plan", "--out", str(tmp_path / "truth.parquet")]
    run = CliRunner().invoke(application(), words)
    assert run.exit_code == 2 and "--out cannot be combined with --plan" in run.output
    assert not list(tmp_path.iterdir())


class SlowToOpen(ArrayVectors):
    """Vectors whose first read opens a file, on a clock of their own: 5 s, and 1 ns for each byte."""

    now, opened = 0.0, False

    def read(self, start, stop):
        found = super().read(start, stop)
        self.now += found.nbytes * 1e-9 + (0 if self.opened else 5)
        self.opened = True
        return found


def test_the_time_to_open_a_file_is_not_multiplied_by_rows(monkeypatch):
    vectors = SlowToOpen(np.ones((500, 8), np.float32))
    monkeypatch.setattr(pilot, "time", SimpleNamespace(perf_counter=lambda: vectors.now))
    data = open_dataset(np.ones((500, 8), np.float32), np.ones((2, 8), np.float32), metric="l2")
    data = replace(data, corpus=replace(data.corpus, vectors=vectors))
    found = pilot.measure(data, 5, 1, ("blas", None))
    assert found.byte_seconds == pytest.approx(1e-9)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"workers": 0}, "0 workers"),
        ({"precision": 0.0}, r"a precision of 0\.0"),
        ({"price": "cheap"}, "no price 'cheap'"),
        ({"depth": 0}, "a depth of 0"),
        ({"backend": "abacus"}, "no backend 'abacus'"),
        ({"memory": "1MiB"}, "a memory budget"),
    ],
)
def test_mistakes_are_refused(files, options, match):
    with pytest.raises(UsageError, match=match):
        plan_truth(*files, metric="l2", **options)


def test_one_row_and_one_query_have_a_plan():
    plan = plan_truth(np.ones((1, 3), np.float32), np.ones((1, 3), np.float32), metric="cosine")
    assert plan.lines[0].rows == 1 and plan.lines[0].seconds >= 0
