"""A worker process: it builds, answers, and fails without taking its parent along."""

import numpy as np
import pytest

from recallatk.bench.job import Job, TrialSettings, write_data
from recallatk.bench.process_usage import Limits
from recallatk.bench.supervisor import TrialFailed, WorkerProcess
from recallatk.truths import ground_truth


@pytest.fixture
def start(curved, data, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    write_data(folder, data)
    opened = []

    def started(engine, **settings):
        name = tmp_path / f"process-{len(opened)}"
        opened.append(WorkerProcess(folder, name, Job(engine, "l2", 10, TrialSettings(**settings))))
        return opened[-1]

    yield started
    for each in opened:
        each.close()


def test_one_process_builds_the_whole_and_parts_and_answers_in_the_order_asked(start, data):
    worker, truth = start("steady"), ground_truth(data, depth=10)
    built = worker.build({})
    assert built.seconds > 0
    assert built.version == "1"
    asked = np.array([5, 3, 500])
    answered = worker.ask({"effort": 4_000}, asked, warm=True)
    assert (answered.rows == truth.rows[asked]).all()
    assert len(answered.latencies_ns) == 3
    assert answered.evidence == "600 rows"
    worker.build({}, 50)
    assert worker.ask({"effort": 4_000}, asked).rows.max() < 50
    worker.build({}, np.array([7, 9, 11]))
    few = worker.ask({"effort": 4_000}, asked)
    assert set(few.rows.ravel().tolist()) <= {-1, 0, 1, 2}
    assert few.evidence == "3 rows"


def test_two_workers_are_open_at_once(start):
    first, second = start("steady"), start("capped")
    first.build({})
    second.build({})
    asked = np.arange(100)
    assert (first.ask({"effort": 4_000}, asked).rows >= 0).all()
    assert (second.ask({"effort": 4_000}, asked).rows < 0).any()


def test_a_build_that_raises_leaves_the_process_ready_for_another(start):
    worker = start("breaking")
    with pytest.raises(TrialFailed, match="out of luck") as caught:
        worker.build({"how": "raise"})
    assert (caught.value.kind, caught.value.phase) == ("exception", "build")
    assert "RuntimeError" in caught.value.log
    worker.build({"how": "fine"})
    assert worker.alive


def test_a_build_that_ends_the_process_is_a_crash(start):
    worker = start("breaking")
    with pytest.raises(TrialFailed, match="SIGSEGV") as caught:
        worker.build({"how": "segfault"})
    assert caught.value.kind == "crash"
    assert not worker.alive
    with pytest.raises(TrialFailed):
        worker.ask({"effort": 1}, np.arange(2))


def test_a_build_beyond_its_time_is_ended(start):
    worker = start("slow", limits=Limits(build_seconds=0.1))
    with pytest.raises(TrialFailed) as caught:
        worker.build({})
    assert caught.value.kind == "time limit"


def test_a_search_that_cannot_be_is_said_and_nothing_else_breaks(start):
    worker = start("steady")
    with pytest.raises(TrialFailed, match="no index is built"):
        worker.ask({"effort": 1}, np.arange(2))
    worker.build({})
    with pytest.raises(TrialFailed, match="IndexError"):
        worker.ask({"effort": 1}, np.array([100_000]))
    assert len(worker.ask({"effort": 1}, np.arange(2)).rows) == 2
