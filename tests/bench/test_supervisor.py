"""A worker that ends while nobody waits for it, and one that is let go."""

import os
import sys
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

import recallatk
from recallatk.bench.job import Job, Task, TrialSettings, write_data
from recallatk.bench.messages import Failed
from recallatk.bench.runner import _until_lost
from recallatk.bench.supervisor import TrialFailed, WorkerProcess
from recallatk.bench.trial_result import TrialResult
from recallatk.core import Load, Mode

TASKS = (Task(0, {}, Load()), Task(1, {}, Load(Mode.THROUGHPUT, clients=2)))


@pytest.fixture
def worker(data, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    dataset = recallatk.open_dataset(data / "corpus.parquet", data / "queries.parquet", metric="l2")
    write_data(folder, dataset)
    job = Job("exact", "l2", 3, TrialSettings(rounds=1), TASKS)
    with WorkerProcess(folder, tmp_path / "process", job) as started:
        started.build({})
        yield started


def kill_worker():
    (process,) = [each for each in psutil.Process().children() if "recallatk.bench.worker" in each.cmdline()]
    process.kill()


def test_a_worker_that_ends_before_it_measured_anything_is_a_crash(worker):
    kill_worker()
    (failed,) = worker.measuring([0])
    assert isinstance(failed, Failed)
    assert (failed.number, failed.kind) == (None, "crash")
    assert "SIGKILL" in failed.message
    assert not worker.alive


def test_a_worker_that_ends_between_two_loads_costs_no_trial(worker):
    *_, result = worker.measuring([0])
    assert isinstance(result, TrialResult) and result.number == 0
    assert len(result.calls) == 60
    kill_worker()
    assert list(worker.measuring([1])) == []
    assert not worker.alive


def test_a_worker_that_is_let_go_closes_its_engine_and_ends_by_itself(worker):
    worker.finish()
    assert worker._process.returncode == 0
    assert not worker.alive
    worker.close()


@pytest.mark.parametrize(
    "request_of", [lambda worker: worker.ask({}, np.arange(2)), lambda worker: worker.build({})]
)
def test_a_request_to_a_worker_that_was_killed_since_says_how_it_ended(worker, request_of):
    worker.ask({}, np.arange(2))
    kill_worker()
    with pytest.raises(TrialFailed, match="SIGKILL") as found:
        request_of(worker)
    assert found.value.kind == "crash" and found.value.phase in ("build", "search")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux pins processes to cores")
def test_a_pinned_worker_has_as_many_threads_as_its_job_says(data, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    dataset = recallatk.open_dataset(data / "corpus.parquet", data / "queries.parquet", metric="l2")
    write_data(folder, dataset)
    settings = TrialSettings(rounds=1, affinity=(min(os.sched_getaffinity(0)),))
    with WorkerProcess(folder, tmp_path / "process", Job("exact", "l2", 3, settings, TASKS)) as pinned:
        pinned.build({})
        (process,) = psutil.Process(pinned._process.pid).as_dict(["environ"]).values()
        assert process["OMP_NUM_THREADS"] == str(settings.threads_to_build)
        assert settings.threads_to_build == len(os.sched_getaffinity(0))


@pytest.mark.parametrize(("number", "measured"), [(None, [[0]]), (0, [[0], [1]])])
def test_once_a_failure_costs_all_trials_no_other_load_is_measured(number, measured):
    asked = []

    def measure(numbers):
        asked.append(numbers)
        yield Failed(number, "exception", "search", "MemoryError")

    events = list(_until_lost(SimpleNamespace(by_load=lambda: [[0], [1]]), measure))
    assert asked == measured and len(events) == len(measured)
