"""Clients that are processes: everything is asked once, and what happens to one is said."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
from load_engines import Answering, Echo, Failing, Gone, Killed, Unreachable, expected, numbered
from test_closed_loops import assert_sound

from recallatk.bench.load import run_block
from recallatk.core import Load, Mode, Via
from recallatk.errors import EngineError

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")


def processes(clients, **settings):
    return Load(Mode.THROUGHPUT, clients, via=Via.PROCESSES, **settings)


def children():
    return psutil.Process().children()


@pytest.mark.parametrize(
    ("queries", "clients", "batch"), [(40, 3, 1), (40, 2, 7), (2, 4, 1), (9000, 2, 1), (5, 1, 1)]
)
def test_every_query_is_asked_once(queries, clients, batch):
    order = np.random.default_rng(0).permutation(queries)
    before = children()
    block = run_block(Echo(), processes(clients, batch=batch), numbered(queries), order)
    assert_sound(block, order, batch)
    assert children() == before
    # The shares are fixed, one call after the other.
    shares = {client: set(order[::batch][client::clients].tolist()) for client in range(clients)}
    for client, share in shares.items():
        assert set(block.calls.query[block.calls.client == client].tolist()) == share


def test_the_clients_are_made_in_other_processes_and_closed_there(tmp_path):
    class Writing(Echo):
        def client(self):
            (tmp_path / f"made-{os.getpid()}").touch()
            return super().client()

        def close(self):
            (tmp_path / f"closed-{os.getpid()}").touch()

    engine = Writing()
    run_block(engine, processes(3), numbered(9), np.arange(9))
    made = {each.name.partition("-")[2] for each in tmp_path.glob("made-*")}
    assert len(made) == 3 and str(os.getpid()) not in made
    assert {each.name.partition("-")[2] for each in tmp_path.glob("closed-*")} == made
    assert engine.clients == []


def test_they_begin_together_and_search_at_the_same_time():
    class Slow(Echo):
        def client(self):
            time.sleep(0.2)
            return super().client()

    block = run_block(Slow(0.01), processes(3), numbered(30), np.arange(30))
    assert block.wall_ns < block.calls.latency_ns.sum()
    # What it takes to make a client is not in the time.
    assert block.calls.sent_ns[:3].max() < 0.2e9


def test_with_a_time_the_share_is_asked_again_and_again():
    block = run_block(Echo(0.002), processes(2, seconds=0.2), numbered(6), np.arange(6))
    assert block.wall_ns >= 0.2e9
    assert np.bincount(block.answered, minlength=6).min() >= 2
    assert np.array_equal(block.rows, expected(block.answered))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Failing, "client 2 of 3: ValueError: query 7 is one too many"),
        (Killed, r"client 2 of 3 was killed by signal 9 \(Killed\)"),
        (Gone, "client 2 of 3 ended with exit code 3"),
    ],
)
def test_what_happens_to_a_child_is_said_and_ends_the_others(kind, message):
    before, began = children(), time.perf_counter()
    with pytest.raises(EngineError, match=message):
        run_block(kind(0.001), processes(3, seconds=60.0), numbered(21), np.arange(21))
    assert time.perf_counter() - began < 30
    assert children() == before


def test_a_child_without_a_client_is_said():
    engine = Unreachable()
    engine.client()
    with pytest.raises(EngineError, match=r"client . of 2: ValueError: no more connections"):
        run_block(engine, processes(2), numbered(4), np.arange(4))


def test_an_error_of_ours_is_said_in_its_own_words():
    with pytest.raises(EngineError, match=r"^client . of 2: the engine returned a list, not an array"):
        run_block(Answering([[1, 2, 3]]), processes(2), numbered(4), np.arange(4))


def test_no_files_and_no_descriptors_stay(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    open_before = psutil.Process().num_fds()
    run_block(Echo(), processes(3), numbered(9), np.arange(9))
    with pytest.raises(EngineError):
        run_block(Failing(), processes(3), numbered(9), np.arange(9))
    assert psutil.Process().num_fds() == open_before
    assert list(tmp_path.iterdir()) == []


def alive(process):
    """Whoever inherits it may take time to take note of its end."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


PARENT = """
import sys
import numpy as np
from load_engines import Echo, numbered
from recallatk.bench.load import run_block
from recallatk.core import Load
print("begun", flush=True)
run_block(Echo(0.05), Load("throughput", 3, via="processes", seconds=600.0), numbered(9), np.arange(9))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")
def test_children_do_not_outlive_a_parent_that_is_killed():
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path}
    )
    with parent:
        parent.stdout.readline()
        family = psutil.Process(parent.pid)
        waited = time.monotonic() + 30
        while len(family.children()) < 3 and time.monotonic() < waited:
            time.sleep(0.01)
        left = family.children()
        assert len(left) == 3
        parent.send_signal(signal.SIGKILL)
    waited = time.monotonic() + 30
    while any(map(alive, left)) and time.monotonic() < waited:
        time.sleep(0.01)
    assert not any(map(alive, left))
