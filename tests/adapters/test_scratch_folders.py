"""Engines with their index in a temporary folder: it goes with their process, and so does their server."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from commands import command
from recallatk.scratch import sweep

SERVER = """
import time
from recallatk.adapters.postgres_server import bundled_server
print(bundled_server(), flush=True)
time.sleep(600)
"""


@pytest.fixture
def temporary(monkeypatch):
    """A temporary folder of the system's, with a name short enough for a socket in it."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    # PostgreSQL does not run as root, and has to get there as somebody else.
    folder.chmod(0o755)
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield folder
    shutil.rmtree(folder)


def owners(temporary):
    return {int(path.name.split("-")[1]) for path in temporary.glob("recallatk-*.lock")}


def wait_until(seen, seconds=120):
    until = time.monotonic() + seconds
    while not seen():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.parametrize("engine", ["pgvector-hnsw", "chroma", "lancedb", "milvus", "annoy"])
def test_control_c_leaves_no_folder_and_no_server_of_an_engine(tmp_path, temporary, engine):
    np.save(tmp_path / "corpus.npy", np.random.default_rng(0).normal(size=(3_000, 32)).astype("float32"))
    np.save(tmp_path / "queries.npy", np.random.default_rng(1).normal(size=(500, 32)).astype("float32"))
    (tmp_path / "bench.toml").write_text(
        'data = {corpus = "corpus.npy", queries = "queries.npy", metric = "l2"}\n'
        f'measure = {{k = 10, rounds = 1000}}\nengine = [{{name = "{engine}"}}]\n'
    )
    with subprocess.Popen(command("run", "bench.toml"), cwd=tmp_path, stderr=subprocess.PIPE) as process:
        # The worker has a folder of its own beside that of the command.
        wait_until(lambda: owners(temporary) - {process.pid} or process.poll() is not None)
        time.sleep(0.5)
        assert process.poll() is None, process.communicate()[1]
        family = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130
    assert not psutil.wait_procs(family, timeout=10)[1]
    assert list(temporary.iterdir()) == []


def test_what_is_left_of_a_killed_owner_of_postgresql_is_removed_by_the_next(temporary):
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as owner:
        folder = Path(owner.stdout.readline().split()[0].removeprefix("host="))
        assert (folder / "data" / "PG_VERSION").exists()
        family = psutil.Process(owner.pid).children(recursive=True)
        sweep()
        assert (folder / "data" / "PG_VERSION").exists(), "its owner lives"
        owner.kill()
    assert not psutil.wait_procs(family, timeout=30)[1]
    sweep()
    assert list(temporary.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="sends signals")
def test_the_end_of_a_process_ends_its_server_before_its_folder(temporary):
    script = SERVER.replace("time.sleep(600)", "")
    ran = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert list(temporary.iterdir()) == []


STARTED = "from recallatk.adapters.postgres_server import bundled_server; bundled_server()"


def started(folder):
    folder.mkdir()
    folder.chmod(0o755)
    environment = {**os.environ, "TMPDIR": str(folder)}
    return subprocess.run([sys.executable, "-c", STARTED], env=environment, capture_output=True, text=True)


def test_postgresql_starts_in_a_folder_whose_name_has_spaces_and_quotes(temporary):
    done = started(temporary / "it's my ü")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_folder_too_deep_for_a_socket_is_refused_at_once_with_the_way_out(temporary):
    done = started(temporary / ("deep" * 25))
    assert "would have more than 103 bytes. Set TMPDIR to a folder with a shorter path" in done.stderr
    assert not list((temporary / ("deep" * 25)).iterdir())
