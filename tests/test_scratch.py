"""Temporary folders: gone with their owner, or with the next process that looks."""

import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from recallatk import scratch
from recallatk.scratch import ScratchFolder, reclaim, sweep

SOURCE = Path(scratch.__file__).parent
OWNER = """
import sys, time
from recallatk.scratch import ScratchFolder
folder = ScratchFolder()
(folder.path / "deep").mkdir()
(folder.path / "deep" / "corpus.npy").write_bytes(b"0" * 1000)
print(folder.path, flush=True)
time.sleep(float(sys.argv[1]))
"""
FORKING = """
import os, sys
from recallatk.scratch import ScratchFolder
folder = ScratchFolder()
child = os.fork()
if not child:
    sys.exit()
print(os.waitpid(child, 0)[1], folder.path.is_dir())
"""


def lock_of(folder):
    return folder.with_name(f"{folder.name}.lock")


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """A temporary folder of the system's for this test alone."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


@pytest.fixture
def owner(temporary):
    """A process that has a folder, and the folder."""
    with subprocess.Popen([sys.executable, "-c", OWNER, "60"], stdout=subprocess.PIPE, text=True) as process:
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def test_a_folder_is_for_its_owner_alone_and_goes_with_the_block(temporary):
    with ScratchFolder() as path:
        (path / "file").write_text("text")
        assert path.parent == temporary
        assert path.stat().st_mode & 0o777 == 0o700
    assert list(temporary.iterdir()) == []


def test_a_folder_may_be_removed_twice_and_goes_with_its_object(temporary):
    folder = ScratchFolder()
    folder.remove()
    folder.remove()
    ScratchFolder()
    assert list(temporary.iterdir()) == []


def test_the_end_of_a_process_is_the_end_of_its_folders(temporary):
    subprocess.run([sys.executable, "-c", OWNER, "0"], check=True, stdout=subprocess.DEVNULL)
    assert list(temporary.iterdir()) == []


def test_a_forked_child_leaves_the_folder_to_its_parent(temporary):
    # In a process of its own: the exit functions of a test worker wait for threads that a fork has not.
    ended = subprocess.run([sys.executable, "-c", FORKING], stdout=subprocess.PIPE, text=True, timeout=60)
    assert ended.stdout.split() == ["0", "True"]
    assert list(temporary.iterdir()) == []


def test_what_a_killed_process_left_is_removed_by_the_next(owner, temporary):
    process, root = owner
    sweep()
    assert (root / "deep" / "corpus.npy").exists(), "its owner lives"
    reclaim(process.pid, 0.1)
    assert (root / "deep" / "corpus.npy").exists(), "its owner lives"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert root.exists()
    sweep()
    assert list(temporary.iterdir()) == []


def test_the_folders_of_one_process_are_reclaimed_and_no_others(owner, temporary):
    process, root = owner
    process.kill()
    process.wait()
    reclaim(process.pid + 1, 0.1)
    assert root.exists()
    with ScratchFolder() as own:
        reclaim(process.pid, 0.1)
        assert sorted(temporary.iterdir()) == [own, lock_of(own)]


def test_a_server_that_has_the_lock_keeps_the_folder_until_it_ends(temporary):
    folder = ScratchFolder()
    with subprocess.Popen(["sleep", "60"], pass_fds=[folder.descriptor]) as server:
        # Its owner ends without a word.
        os.close(folder.descriptor)
        folder._finalizer.detach()
        sweep()
        assert folder.path.exists()
        server.kill()
    sweep()
    assert list(temporary.iterdir()) == []


BUSY = """
from recallatk.scratch import ScratchFolder
print("begun", flush=True)
while True:
    with ScratchFolder() as path:
        (path / "file").write_text("text")
"""


def test_a_process_that_is_killed_while_it_makes_or_removes_a_folder_leaves_nothing_for_good(temporary):
    drawn = random.Random(0)
    for _ in range(15):
        with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            time.sleep(drawn.uniform(0, 0.03))
            process.kill()
        reclaim(process.pid, 0.0)
        assert list(temporary.iterdir()) == []


LEFT = "recallatk-1-0123456789abcdef"


@pytest.mark.parametrize("present", ["lock", "folder and lock"])
def test_whenever_a_process_is_killed_what_it_leaves_can_be_removed(temporary, present):
    """The lock is there before the folder, and after it."""
    (temporary / f"{LEFT}.lock").write_text("")
    if present != "lock":
        (temporary / LEFT).mkdir()
    reclaim(2, 0.0)
    assert (temporary / f"{LEFT}.lock").exists()
    reclaim(1, 0.0)
    assert list(temporary.iterdir()) == []


def test_other_files_and_folders_of_such_a_name_stay(temporary):
    (temporary / "recallatk-notes").mkdir()
    (temporary / "recallatk-notes" / "mine.txt").write_text("mine")
    (temporary / LEFT).mkdir()  # without a lock
    (temporary / "recallatk-1-0123456789abcde0.lock").mkdir()
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "lock").write_text("")
    (temporary / "recallatk-1-0123456789abcde1.lock").symlink_to(elsewhere / "lock")
    (temporary / "recallatk-1-0123456789abcde2").symlink_to(elsewhere)
    (temporary / "recallatk-1-0123456789abcde2.lock").write_text("")
    before = sorted(temporary.rglob("*"))
    sweep()
    assert sorted(temporary.rglob("*")) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder of another user's")
@pytest.mark.parametrize("part", [Path, lock_of])
def test_folders_of_other_users_stay(owner, temporary, part):
    process, root = owner
    process.kill()
    process.wait()
    os.chown(part(root), 65534, 65534)
    sweep()
    assert (root / "deep" / "corpus.npy").exists()


def test_nobody_else_makes_temporary_folders():
    """A folder without a lock would stay forever once its owner is killed."""
    made = re.compile(r"TemporaryDirectory|mkdtemp")
    found = [path.relative_to(SOURCE) for path in SOURCE.rglob("*.py") if made.search(path.read_text())]
    assert found == []
