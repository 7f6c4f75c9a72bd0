"""Ctrl-C while a process is being started: it is ended all the same."""

import signal
import subprocess
import sys

import pytest

from recallatk.bench.child_process import starting
from recallatk.bench.job import Job
from recallatk.bench.supervisor import WorkerProcess

JOB = Job("faiss-flat", "l2", 10)


@pytest.fixture
def started(monkeypatch, interruptible):
    """Processes that sleep, each interrupted before whoever starts it has it in hand."""
    processes, real = [], subprocess.Popen

    def start(_command, **options):
        processes.append(real([sys.executable, "-c", "import time; time.sleep(60)"], **options))
        signal.raise_signal(signal.SIGINT)
        return processes[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    yield processes
    for each in processes:
        each.kill()
        each.wait()


def test_a_worker_that_is_being_started_is_ended(tmp_path, started):
    with pytest.raises(KeyboardInterrupt):
        WorkerProcess(tmp_path, tmp_path / "scratch", JOB)
    assert started[0].returncode == -signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_waits_and_then_comes(number):
    came = []
    before = signal.signal(number, lambda *_: came.append("now"))
    try:
        with starting():
            signal.raise_signal(number)
            signal.raise_signal(number)
            assert came == []
        assert came == ["now"]
        signal.raise_signal(number)
        assert came == ["now", "now"]
    finally:
        signal.signal(number, before)


def test_a_signal_that_is_ignored_stays_ignored_meanwhile():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with starting():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
