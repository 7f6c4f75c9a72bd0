"""Programs behind `command` in `recallatk run`: what a bad one costs, and that none outlives its trial."""

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest

from commands import recallatk

SEARCH = """
import json, sys, time
import numpy as np
corpus = np.load({corpus!r})
for line in sys.stdin:
    asked = json.loads(line)
    found = np.argsort(((corpus - np.array(asked["query"])) ** 2).sum(axis=1))[: asked["k"]].tolist()
    print(json.dumps({{"ids": found}}), flush=True)
    if asked["parameters"].get("debug") and asked["k"] > 1:
        print(json.dumps({{"ids": [0] * asked["k"]}}), flush=True)
"""

# It answers nothing, and so do a child and a daemon in a session of its own; none minds SIGTERM.
HANGING = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
sleep = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", sleep])
daemon = subprocess.Popen([sys.executable, "-c", sleep], start_new_session=True)
with open({pids!r} + ".part", "w") as file:
    file.write(f"{{os.getpid()}} {{child.pid}} {{daemon.pid}}")
os.rename({pids!r} + ".part", {pids!r})
time.sleep(600)
"""


@pytest.fixture
def bench(tmp_path):
    """A function that writes a bench file for a program."""
    random = np.random.default_rng(0)
    for name, rows in (("corpus", 60), ("queries", 30)):
        np.save(tmp_path / f"{name}.npy", random.normal(size=(rows, 4)).astype("float32"))

    def write(code, *tables):
        (tmp_path / "program.py").write_text(
            code.format(corpus=str(tmp_path / "corpus.npy"), pids=str(tmp_path / "pids"))
        )
        lines = [
            'name = "program"',
            f'[data]\ncorpus = "{tmp_path / "corpus.npy"}"\nqueries = "{tmp_path / "queries.npy"}"',
            f'metric = "l2"\n[truth]\nstore = "{tmp_path / "store"}"',
            "[measure]\nk = 10\nrounds = 2",
            *tables,
            '[[engine]]\nname = "command"\n[engine.build]',
            f"command = {json.dumps(shlex.join([sys.executable, str(tmp_path / 'program.py')]))}",
            'timeout = 600.0\n[engine.search]\nparameters = ["{}", \'{"debug": true}\']',
        ]
        path = tmp_path / "bench.toml"
        path.write_text("\n".join(lines))
        return path

    return write


def test_a_program_that_writes_too_many_lines_fails_that_trial_alone(bench, tmp_path):
    ran = recallatk("run", bench(SEARCH), "--json", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    fine, noisy = json.loads(ran.stdout)["trials"]
    assert (fine["status"], noisy["status"]) == ("done", "failed")
    assert fine["measures"]["recall@10"]["value"] == 1.0
    assert fine["changed_answers"] == 0
    assert "it wrote more than one line for a query" in noisy["failure"]["message"]


@pytest.fixture
def begun(bench, tmp_path):
    """A function that starts a run of the hanging program; everything is killed at the end."""
    known = []

    def begin(*tables):
        command = [sys.executable, "-m", "recallatk", "run", str(bench(HANGING, *tables))]
        with (tmp_path / "said").open("wb") as said:
            process = subprocess.Popen(command, cwd=tmp_path, stdout=said, stderr=said)
        until = time.monotonic() + 60
        while not (tmp_path / "pids").exists():
            assert time.monotonic() < until, (tmp_path / "said").read_text()
            time.sleep(0.02)
        family = psutil.Process(process.pid).children(recursive=True)
        programs = [psutil.Process(int(each)) for each in (tmp_path / "pids").read_text().split()]
        known.extend([process, *family, *programs])
        assert all(each.is_running() for each in programs)
        return process, family, programs

    yield begin
    for each in known:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
    known[0].wait()


def require_gone(processes):
    _, alive = psutil.wait_procs(processes, timeout=20)
    assert not alive


def test_programs_end_when_their_trial_reaches_its_time_limit(begun, tmp_path):
    process, family, programs = begun('[limits]\ntrial = "1s"\nbuild = "20s"')
    # Each of both trials starts it once.
    require_gone([*family, *programs])
    assert process.wait(60) == 1
    for each in (tmp_path / "pids").read_text().split():
        assert not psutil.pid_exists(int(each))
    assert "time limit" in (tmp_path / "said").read_text()


def test_programs_end_when_the_worker_is_killed(begun):
    process, family, programs = begun()
    (worker,) = [each for each in family if "recallatk.bench.worker" in each.cmdline()]
    process.send_signal(signal.SIGSTOP)
    os.kill(worker.pid, signal.SIGKILL)
    require_gone(programs)
    process.send_signal(signal.SIGCONT)


def test_programs_end_when_the_whole_run_is_killed(begun):
    process, family, programs = begun()
    process.kill()
    require_gone([*family, *programs])


def test_programs_end_after_control_c(begun):
    process, family, programs = begun()
    process.send_signal(signal.SIGINT)
    require_gone([*family, *programs])
    assert process.wait(30) == 130
