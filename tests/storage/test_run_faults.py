"""Kills and full disks: nothing that was said to be finished is lost."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from run_making import ROWS, assert_same_measurement, make_measurement, make_plan, make_trial

from recallatk import load_run
from recallatk.errors import UsageError
from recallatk.storage import RunFolder
from recallatk.testing import tiny_dataset

TRIALS, KILLS = 120, 25

PREPARED = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from run_making import ROWS, make_measurement, make_plan
from recallatk.errors import UsageError
from recallatk.storage import RunFolder
from recallatk.testing import tiny_dataset
folder, trials = sys.argv[1], int(sys.argv[2])
"""

# Importing takes longer than measuring: one process that has imported all forks those that are killed.
MEASURING = (
    PREPARED
    + """
import os
dataset = tiny_dataset(ROWS, 3)
plan = make_plan(trials, dataset=dataset)
with RunFolder.open(folder + " to warm up", plan, dataset) as opened:
    opened.add(make_measurement(0))
for _ in sys.stdin:
    child = os.fork()
    if child:
        print(f"process {child}", flush=True)
        os.waitpid(child, 0)
        print("end", flush=True)
        continue
    with RunFolder.open(folder, plan, dataset) as opened:
        for trial in opened.missing():
            number = trial.search[0][1] // 10 - 1
            opened.add(make_measurement(number))
            os.write(1, f"{number}\\n".encode())
    os._exit(0)
"""
)


def killed(process, seconds=None):
    """What a process said that it had finished before it was killed, if it was."""
    process.stdin.write("go\n")
    process.stdin.flush()
    said = []
    for line in iter(process.stdout.readline, "end\n"):
        if not line.startswith("process "):
            said.append(int(line))
        elif seconds is not None:
            time.sleep(seconds)
            with contextlib.suppress(ProcessLookupError):  # it had come to its end
                os.kill(int(line.split()[1]), signal.SIGKILL)
    return said


def test_a_process_that_is_killed_25_times_loses_nothing_and_measures_nothing_twice(tmp_path):
    moments, folder, said = random.Random(6), tmp_path / "run", []
    command = [sys.executable, "-c", MEASURING, str(folder), str(TRIALS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        for _ in range(KILLS):
            said += killed(process, moments.uniform(0.0, 0.4))
            if (folder / "run.json").exists():
                found = [each.trial for each in load_run(folder).measurements]
                assert len(found) == len(set(found))
                assert set(found) >= {make_trial(number) for number in said}
        said += killed(process)
        process.stdin.close()
    # A kill between the file and the word leaves a trial that is finished and was not said to be.
    assert TRIALS - KILLS <= len(said) == len(set(said))
    found = load_run(folder)
    assert found.complete
    assert [each.trial for each in found.measurements] == [make_trial(number) for number in range(TRIALS)]
    for number, each in enumerate(found.measurements):
        assert_same_measurement(each, make_measurement(number))
    header = json.loads((folder / "run.json").read_text())
    files = [each["file"] for each in header["trials"]]
    assert sorted(files) == sorted(each.name for each in folder.glob("trial-*"))
    assert {each.name for each in folder.iterdir()} == {"run.json", *files}


LIMITED = (
    PREPARED
    + """
import os
import resource
with RunFolder.open(folder, make_plan(trials), tiny_dataset(ROWS, 3)) as opened:
    opened.add(make_measurement(0))
    limit = 2000 if sys.argv[3] != "run.json" else os.stat(f"{folder}/run.json").st_size + 100
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        opened.add(make_measurement(1))
    except UsageError as problem:
        print(problem)
"""
)


@pytest.mark.parametrize("file", ["trial-2.parquet", "run.json"])
def test_a_file_that_cannot_grow_costs_that_trial_only(tmp_path, file):
    command = [sys.executable, "-c", LIMITED, str(tmp_path), "60", file]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"{file}: cannot be written: File too large. " in ran.stdout
    assert "saved. Fix the cause and run the same command to resume" in ran.stdout
    assert [each for each in tmp_path.iterdir() if each.name.startswith(".")] == []
    finished = {make_trial(0)} if file != "run.json" else {make_trial(0), make_trial(1)}
    assert {each.trial for each in load_run(tmp_path).measurements} == finished
    with RunFolder.open(tmp_path, make_plan(60), tiny_dataset(ROWS, 3)) as opened:
        assert set(opened.finished) == finished


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 256 KiB, which only some machines let us have."""
    place = tmp_path / "disk"
    place.mkdir()
    options = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    try:
        mounted = subprocess.run(options, capture_output=True).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_is_said_and_what_was_finished_stays(small_disk):
    dataset, plan = tiny_dataset(ROWS, 3), make_plan(200)
    with RunFolder.open(small_disk / "run", plan, dataset) as opened:
        with pytest.raises(
            UsageError, match=r"cannot be written: No space left on device\. \d+ finished trials"
        ):
            for number in range(200):
                opened.add(make_measurement(number))
        finished = len(opened.finished)
        assert finished > 0
        assert len(opened.run().measurements) == finished
    assert len(load_run(small_disk / "run").measurements) == finished
    filler = small_disk / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(256))
    with pytest.raises(UsageError, match=r"cannot be written: No space left on device"):
        RunFolder.open(small_disk / "other", plan, dataset)
    filler.unlink()
    for number in (1, 2, 3):
        (small_disk / "run" / f"trial-{number}.parquet").unlink()
    with RunFolder.open(small_disk / "run", plan, dataset) as opened:
        assert len(opened.finished) == finished - 3
        assert opened.missing()[0] == make_trial(0)
        opened.add(make_measurement(0))


def test_a_read_only_place_is_refused_before_any_work(small_disk):
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for place in (small_disk, small_disk / "run"):
        with pytest.raises(UsageError, match=r"cannot be written: Read-only file system"):
            RunFolder.open(place, make_plan(4), tiny_dataset(ROWS, 3))
