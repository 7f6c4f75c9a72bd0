"""Killed at any moment, a run goes on with the same command: the same trials, none twice, all readable."""

import json
import os
import random
import shutil
import signal
import subprocess
import time

import psutil
import pyarrow.parquet as pq
import pytest

from commands import command, forked, run_bench_file
from recallatk import load_run, run
from recallatk.errors import MismatchError

TABLES = (
    """
    [measure]
    at = [1, 10]
    rounds = 2
    """,
    """
    [[engine]]
    name = "faulty"
    [engine.search]
    after = [1, 2, 3]
    """,
)
KILLS = 12


def begin(path, **options):
    return forked(run_bench_file, path, os.environ["PYTHONPATH"], **options)


def same_trials(folder, expected):
    """Every planned trial is there once, and every file can be read."""
    found = load_run(folder)
    assert [str(each.trial) for each in found.measurements] == expected
    assert found.complete
    files = sorted(folder.glob("trial-*.parquet"))
    assert len(files) == len(expected)
    for file in files:
        assert pq.read_table(file).num_rows == 60
    assert len(json.loads((folder / "run.json").read_text())["trials"]) == len(expected)
    assert not [each for each in folder.iterdir() if each.name.endswith((".tmp", ".part"))]


@pytest.fixture
def whole(faulty, bench_file, tmp_path):
    """What an undisturbed run measures, how long it takes, and the file and folder of runs to disturb."""
    path = bench_file(*TABLES, name="whole")
    begin(path).join()
    began = time.monotonic()
    process = begin(path, fresh=True)
    process.join()
    assert process.exitcode == 0
    seconds = time.monotonic() - began
    expected = [str(each.trial) for each in load_run(tmp_path / "runs" / "whole").measurements]
    assert len(expected) == 3
    return bench_file(*TABLES, name="killed"), tmp_path / "runs" / "killed", expected, seconds


def finished_times(folder):
    return {file.name: file.stat().st_mtime_ns for file in folder.glob("trial-*.parquet")}


def test_the_parent_killed_at_random_moments(whole):
    path, folder, expected, seconds = whole
    drawn = random.Random(0)
    for _ in range(KILLS):
        kept = finished_times(folder)
        process = begin(path)
        time.sleep(drawn.uniform(0, seconds))
        family = psutil.Process(process.pid).children(recursive=True) if process.is_alive() else []
        process.kill()
        process.join()
        # Nothing that was finished is touched again, and nobody goes on alone.
        assert kept.items() <= finished_times(folder).items()
        _, alive = psutil.wait_procs(family, timeout=20)
        assert not alive
        if process.exitcode == 0:
            same_trials(folder, expected)
            shutil.rmtree(folder)
    run(path)
    same_trials(folder, expected)


def test_workers_killed_at_random_moments(whole):
    path, folder, expected, seconds = whole
    drawn = random.Random(1)
    killed = 0
    while killed < KILLS:
        process = begin(path, retry_failed=True)
        while process.is_alive():
            time.sleep(drawn.uniform(0, seconds / 2))
            for child in workers_of(process):
                os.kill(child.pid, signal.SIGKILL)
                killed += 1
        process.join()
        assert process.exitcode in (0, 1)
        # A worker that dies costs the trial that it was at, or all trials of a build that it was at.
        found = load_run(folder)
        assert found.complete
        assert all(each.kind == "crash" for each in found.failures)
        assert bool(found.failures) == bool(process.exitcode)
        if not found.failures:
            same_trials(folder, expected)
            shutil.rmtree(folder)
    run(path, retry_failed=True)
    same_trials(folder, expected)


def workers_of(process):
    try:
        return [
            each
            for each in psutil.Process(process.pid).children()
            if "bench.worker" in " ".join(each.cmdline())
        ]
    except psutil.Error:
        return []


def test_the_same_command_after_the_end_measures_nothing(whole):
    path, folder, expected, _ = whole
    run(path)
    before = finished_times(folder)
    seconds = load_run(folder).seconds
    run(path)
    assert finished_times(folder) == before
    assert load_run(folder).seconds == seconds
    same_trials(folder, expected)


def test_control_c_says_how_to_go_on(whole):
    path, folder, expected, _ = whole
    process = subprocess.Popen(
        command("run", path),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not finished_times(folder):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "recallatk run" in said
    assert "Traceback" not in said
    run(path)
    same_trials(folder, expected)


def test_other_settings_in_the_same_folder_are_refused(whole, bench_file):
    path, folder, _, _ = whole
    run(path)
    bench_file(TABLES[0].replace("rounds = 2", "rounds = 3"), TABLES[1], name="killed")
    with pytest.raises(MismatchError, match="rounds"):
        run(path)
    assert len(load_run(folder).measurements) == 3
