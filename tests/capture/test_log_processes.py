"""Processes that fork, exit, are killed or run out of disk while they write a query log."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pyarrow.parquet as pq
import pytest
from logs import rows

from recallatk import tap
from test_full_disk import mounting, needs_mounts

SERVICE = """
import sys, time
import numpy as np
import recallatk

def search(vector, k=2):
    return list(range(k))

tapped = recallatk.tap(search, sample=1.0, to=sys.argv[1], rotate_rows=20)
"""


def program(folder, body, *before):
    code = SERVICE + textwrap.dedent(body)
    return subprocess.Popen(
        [*before, sys.executable, "-c", code, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_calls_that_wait_at_exit_are_written(tmp_path):
    ran = program(tmp_path, "for n in range(30): tapped(np.full(4, n, np.float32))")
    assert ran.communicate(timeout=60) == ("", "") and ran.returncode == 0
    assert [row["vector"][0] for row in rows(tmp_path)] == list(range(30))


def test_a_process_that_is_killed_leaves_whole_files_only(tmp_path):
    ran = program(
        tmp_path,
        """
        print("ready", flush=True)
        n = 0
        while True:
            tapped(np.full(4, n, np.float32))
            n += 1
        """,
    )
    assert ran.stdout.readline() == "ready\n"
    until = time.monotonic() + 60
    while len(list(tmp_path.glob("calls-*.parquet"))) < 20 and time.monotonic() < until:
        time.sleep(0.005)
    os.kill(ran.pid, signal.SIGKILL)
    ran.communicate(timeout=60)
    assert ran.returncode == -signal.SIGKILL
    files = list(tmp_path.glob("calls-*.parquet"))
    assert len(files) >= 20
    assert {len(pq.read_table(path)) for path in files} == {20}


def test_what_a_killed_process_left_behind_is_removed_later(tmp_path):
    old, new = tmp_path / ".calls-1.abc.parquet", tmp_path / ".calls-2.abc.parquet"
    for path in (old, new):
        path.write_bytes(b"PAR1")
    os.utime(old, (time.time() - 3_600,) * 2)
    tapped = tap(lambda vector: [1], sample=1.0, to=tmp_path)
    tapped(np.ones(2))
    tapped.log.close()
    assert not old.exists() and new.exists()


def test_a_forked_child_writes_its_own_calls_and_not_its_parents(tmp_path):
    tapped = tap(lambda vector: [1], sample=1.0, to=tmp_path)
    tapped(np.full(4, 1, np.float32))  # waits in the parent when the child begins
    child = os.fork()
    if child == 0:
        code = 1
        try:
            tapped(np.full(4, 2, np.float32))
            code = 0 if tapped.log.close() and tapped.log.counts["written"] == 1 else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    tapped(np.full(4, 3, np.float32))
    tapped.log.close()
    by_process = {}
    for path in tmp_path.iterdir():
        process = int(path.name.split("-")[2])
        by_process.setdefault(process, []).extend(pq.read_table(path)["vector"].to_pylist())
    assert by_process == {os.getpid(): [[1.0] * 4, [3.0] * 4], child: [[2.0] * 4]}


def test_forked_children_keep_different_calls(tmp_path):
    tapped = tap(lambda vector: [1], sample=0.3, to=tmp_path)
    children = []
    for _ in range(2):
        child = os.fork()
        if child == 0:
            try:
                for number in range(200):
                    tapped(np.full(4, number, np.float32))
                tapped.log.close()
            finally:
                os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    kept = {}
    for path in tmp_path.iterdir():
        found = [vector[0] for vector in pq.read_table(path)["vector"].to_pylist()]
        kept.setdefault(path.name.split("-")[2], []).extend(found)
    first, second = kept.values()
    assert first != second


@needs_mounts
def test_a_full_disk_costs_one_warning_and_no_call(tmp_path):
    (tmp_path / "small").mkdir()
    ran = program(
        tmp_path / "small",
        """
        for n in range(400):
            assert tapped(np.full(400, n, np.float32)) == [0, 1]
        tapped.log.close()
        counts = tapped.log.counts
        assert counts["unwritable"] > 0 and counts["unwritable"] + counts["written"] == 400, counts
        print(counts["written"])
        """,
        *mounting(tmp_path / "small", "128k"),
    )
    out, err = ran.communicate(timeout=60)
    assert ran.returncode == 0, err
    assert int(out) > 0 and err.count("calls are unwritable") == 1 and "No space left" in err


@pytest.mark.parametrize("signal_number", [signal.SIGINT])
def test_an_interrupt_reaches_the_caller(tmp_path, signal_number):
    ran = program(
        tmp_path,
        """
        import signal
        signal.signal(signal.SIGINT, signal.default_int_handler)
        print("ready", flush=True)
        try:
            while True:
                tapped(np.ones(4, np.float32))
        except KeyboardInterrupt:
            print("interrupted")
        """,
    )
    assert ran.stdout.readline() == "ready\n"
    time.sleep(0.2)
    os.kill(ran.pid, signal_number)
    out, err = ran.communicate(timeout=60)
    assert (out, ran.returncode) == ("interrupted\n", 0), err
