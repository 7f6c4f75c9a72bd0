"""Ctrl-C, SIGTERM, SIGHUP and SIGKILL while a command works: what is finished stays, and nothing else."""

import contextlib
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
import typer

from commands import command
from recallatk.cli.exits import guarded

BENCH = """
name = "signals"
data = {corpus = "corpus.npy", queries = "queries.npy", metric = "l2"}
truth = {store = "store"}
measure = {k = 10, rounds = 3}
[[engine]]
name = "usearch"
[engine.search]
expansion = [8, 16, 32]
[[engine]]
name = "faiss-hnsw"
[engine.search]
ef = [8, 16, 32]
"""
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.fixture
def place(tmp_path):
    """Data, a bench file, and a folder for temporary files that is this test's alone."""
    random = np.random.default_rng(0)
    for name, rows in (("corpus", 4_000), ("queries", 400)):
        np.save(tmp_path / f"{name}.npy", random.normal(size=(rows, 16)).astype("float32"))
    (tmp_path / "bench.toml").write_text(BENCH)
    (tmp_path / "scratch").mkdir()
    return tmp_path


@contextlib.contextmanager
def begun(place, *words, program=None, **options):
    """The command while it works; it is ended in any case."""
    environment = {**os.environ, "TMPDIR": str(place / "scratch")}
    options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True, **options}
    program = [*(program or ()), *command(*words)]
    with subprocess.Popen(program, cwd=place, env=environment, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(process, seen, seconds=120):
    """Until it is there, which has to be before the end."""
    until = time.monotonic() + seconds
    while not seen():
        assert process.poll() is None, "it ended too early"
        assert time.monotonic() < until
        time.sleep(0.01)


def trials(place):
    return {path.name: path.stat().st_mtime_ns for path in (place / "runs").rglob("trial-*.parquet")}


def journal(place):
    return "".join(path.read_text() for path in (place / "tuned").glob("journal-*.jsonl"))


def scratch(place):
    return sorted(path.name for path in (place / "scratch").iterdir())


RUN = ("run", "bench.toml")
TUNE = ("tune", "bench.toml", "--target", "recall@10 >= 0.9", "--engine", "faiss-hnsw", "--out", "tuned")
QUICK = ("run", "corpus.npy", "queries.npy", "--metric", "l2", "--engine", "exact", "--out", "quick")
WORK = {"run": (RUN, trials), "tune": (TUNE, journal)}
# Both commands answer signals in one place, so each pair of command and signal is in one of the two lists.
TO_THE_COMMAND = [*(("run", number) for number in SIGNALS), ("tune", signal.SIGINT)]
TO_ALL = [("run", signal.SIGINT), ("run", signal.SIGTERM), ("tune", signal.SIGTERM), ("tune", signal.SIGHUP)]


@pytest.mark.parametrize(("name", "number"), TO_THE_COMMAND)
def test_finished_work_stays_and_no_process_and_no_temporary_folder(place, name, number):
    words, finished = WORK[name]
    with begun(place, *words) as process:
        wait_for(process, lambda: finished(place))
        family = psutil.Process(process.pid).children(recursive=True)
        assert family and scratch(place)
        process.send_signal(number)
        said = process.communicate(timeout=60)[1]
    assert process.returncode == 128 + number
    assert f"Resume with: recallatk {name} bench.toml" in said
    assert "Traceback" not in said
    assert not psutil.wait_procs(family, timeout=5)[1]
    assert scratch(place) == []
    kept = finished(place)
    assert kept
    if number != signal.SIGINT:
        return  # Going on is the same after each.
    again = subprocess.run(command(*words), cwd=place, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    if name == "run":
        assert kept.items() <= finished(place).items(), "nothing is measured twice"
        assert len(finished(place)) == 6
    else:
        assert finished(place).startswith(kept)


@pytest.mark.parametrize(("name", "number"), TO_ALL)
def test_a_signal_to_all_processes_at_once_fails_no_trial(place, name, number):
    """As a service manager sends it, and to the measuring process first."""
    words, finished = WORK[name]
    with begun(place, *words) as process:
        wait_for(process, lambda: finished(place))
        for each in (*psutil.Process(process.pid).children(recursive=True), process):
            with contextlib.suppress(psutil.NoSuchProcess):
                each.send_signal(number)
                time.sleep(0.1)
        process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert scratch(place) == []
    if name == "run":
        assert json.loads((place / "runs" / "signals" / "run.json").read_text())["failures"] == []
    else:
        assert '"failed"' not in finished(place)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_truth_that_is_stopped_leaves_nothing_half_written(place, number):
    random = np.random.default_rng(0)
    np.save(place / "big.npy", random.normal(size=(200_000, 64)).astype("float32"))
    np.save(place / "many.npy", random.normal(size=(6_000, 64)).astype("float32"))
    words = ("truth", "big.npy", "many.npy", "--metric", "l2", "--store", "store", "--threads", "1")
    with begun(place, *words) as process:
        wait_for(process, lambda: psutil.Process(process.pid).memory_info().rss > 2.5e8)
        process.send_signal(number)
        said = process.communicate(timeout=60)[1]
    assert process.returncode == 128 + number
    assert "Resume with: recallatk truth big.npy many.npy" in said
    assert scratch(place) == []
    assert not list((place / "store").rglob(".*"))


@pytest.mark.parametrize("words", [RUN, TUNE], ids=WORK)
def test_what_a_killed_command_left_is_removed_by_the_next(place, words):
    finished = WORK[words[0]][1]
    with begun(place, *words) as process:
        wait_for(process, lambda: finished(place))
        family = psutil.Process(process.pid).children(recursive=True)
        process.kill()
    assert not psutil.wait_procs(family, timeout=20)[1]
    left = scratch(place)
    assert left
    other = place / "scratch" / "recallatk-of-somebody-else"
    other.mkdir()
    with begun(place, *QUICK) as process:
        assert process.wait(120) == 0
    assert scratch(place) == [other.name]


def test_a_run_leaves_the_folder_of_a_living_process_alone(place):
    script = (
        "from recallatk.scratch import ScratchFolder; folder = ScratchFolder(); print(folder.path); input()"
    )
    environment = {**os.environ, "TMPDIR": str(place / "scratch"), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", script],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        root = Path(owner.stdout.readline().strip())
        with begun(place, *QUICK) as process:
            assert process.wait(120) == 0
        assert scratch(place) == [root.name, f"{root.name}.lock"]
        owner.communicate("\n")
    assert scratch(place) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_that_is_ignored_from_the_start_stays_ignored(place, number):
    """As `nohup recallatk run`, or `recallatk run &` in a script, mean it."""
    script = f"""
import signal, sys
signal.signal({int(number)}, signal.SIG_IGN)
from recallatk.__main__ import main
sys.argv = ["recallatk", "run", "bench.toml"]
main()
"""
    environment = {**os.environ, "TMPDIR": str(place / "scratch")}
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=place, env=environment, stdout=subprocess.DEVNULL
    ) as process:
        wait_for(process, lambda: trials(place))
        for _ in range(20):
            process.send_signal(number)
            time.sleep(0.01)
        assert process.wait(120) == 0
    assert len(trials(place)) == 6
    assert scratch(place) == []


def test_a_terminal_that_is_closed_ends_the_command_and_what_it_started(place):
    leader, follower = pty.openpty()
    # The session that has the terminal is told when it is gone.
    shell = [sys.executable, "-c", "import os, sys, fcntl, termios; os.setsid(); "
             "fcntl.ioctl(2, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"]  # fmt: skip
    terminal = dict.fromkeys(("stdin", "stdout", "stderr"), follower)
    with begun(place, *RUN, program=shell, **terminal) as process:
        os.close(follower)
        wait_for(process, lambda: trials(place))
        family = psutil.Process(process.pid).children(recursive=True)
        os.close(leader)
        assert process.wait(60) == 128 + signal.SIGHUP
    assert family
    assert not psutil.wait_procs(family, timeout=5)[1]
    assert scratch(place) == []


@pytest.mark.skipif(shutil.which("nohup") is None, reason="there is no nohup here")
def test_the_suite_does_not_depend_on_how_it_is_started(tmp_path):
    """With SIGINT ignored, as in the background of a script or under some CI systems."""
    tests = Path(__file__).parents[1]
    files = [tests / "cli" / "test_interrupted.py", tests / "bench" / "test_child_process.py"]
    script = "trap '' INT; exec nohup \"$@\""
    pytest_ = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, files)]
    ran = subprocess.run(["sh", "-c", script, "sh", *pytest_], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("run", "stopped; finished trials are saved. Resume with: recallatk run bench.toml"),
        ("churn", "stopped; finished searches are saved. Resume with: recallatk churn bench.toml"),
        ("truth", "stopped; whatever has a checkpoint is saved. Resume with: recallatk truth bench.toml"),
        ("gate", "stopped"),
        ("convert", "stopped"),
        ("demo", "stopped; the next one starts anew. Repeat with: recallatk demo bench.toml"),
    ],
)
def test_only_what_is_saved_is_called_saved(monkeypatch, capsys, name, said):
    """A gate keeps nothing, and a conversion is written whole or not at all."""

    def interrupted():
        raise KeyboardInterrupt

    interrupted.__name__ = {"truth": "compute"}.get(name, name)
    monkeypatch.setattr(sys, "argv", ["recallatk", name, "bench.toml"])
    with pytest.raises(typer.Exit) as ended:
        guarded(interrupted)()
    assert ended.value.exit_code == 130
    assert capsys.readouterr().err == f"recallatk: {said}\n"
