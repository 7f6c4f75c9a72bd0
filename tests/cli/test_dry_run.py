"""`recallatk run --dry-run` leaves alone what belongs to the user."""

import contextlib
import json
import shlex
import socket
import sys
import threading

import numpy as np
import pytest

from commands import recallatk


@pytest.fixture
def files(tmp_path):
    random = np.random.default_rng(0)
    paths = []
    for name, rows in (("corpus", 300), ("queries", 40)):
        paths.append(tmp_path / f"{name}.npy")
        np.save(paths[-1], random.normal(size=(rows, 8)).astype("float32"))
    return paths


@pytest.fixture
def listening():
    """A port on this machine, and the connections that were made to it."""
    made = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)
        over = threading.Event()

        def accept():
            while not over.is_set():
                with contextlib.suppress(TimeoutError):
                    connection, _ = server.accept()
                    made.append(connection)
                    connection.close()

        thread = threading.Thread(target=accept)
        thread.start()
        yield server.getsockname()[1], made
        over.set()
        thread.join()


def attached_engines(folder, port):
    """Every engine that starts or contacts something of the user's, as tables of a bench file."""
    (folder / "program.py").write_text(f"open({str(folder / 'started')!r}, 'w')")
    (folder / "searching.py").write_text(f"open({str(folder / 'imported')!r}, 'w')\nsearch = print")
    program = shlex.join([sys.executable, str(folder / "program.py")])
    server = f"http://127.0.0.1:{port}"
    dsn = f"host=127.0.0.1 port={port} user=me connect_timeout=5"
    return {
        "command": ("command", program, "the program"),
        "callable": ("function", "searching:search", "the function"),
        "http": ("url", server, "the service"),
        "pgvector-hnsw": ("dsn", dsn, "the PostgreSQL server"),
        "qdrant": ("url", server, "the server at url"),
        "chroma": ("url", server, "the server at url"),
        "milvus": ("uri", server, "the server at uri"),
    }


def test_a_dry_run_starts_and_contacts_nothing_of_the_user(files, tmp_path, listening):
    port, connections = listening
    engines = attached_engines(tmp_path, port)
    tables = [
        f'[[engine]]\nname = "{name}"\n[engine.build]\n{key} = {json.dumps(value)}'
        for name, (key, value, _) in engines.items()
    ]
    data = f'[data]\ncorpus = "{files[0]}"\nqueries = "{files[1]}"\nmetric = "l2"'
    bench = [data, "[measure]\nk = 10", *tables, '[[engine]]\nname = "exact"']
    (tmp_path / "bench.toml").write_text("\n".join(bench))
    environment = {"PYTHONPATH": str(tmp_path)}
    ran = recallatk("run", "bench.toml", "--dry-run", cwd=tmp_path, env=environment)
    assert ran.returncode == 0, ran.stderr
    assert "8 trials on 8 builds, at least 0 s" in ran.stdout
    for name, (_, _, reached) in engines.items():
        said = f"{name}: a dry run does not start or contact {reached}, so its cost is unknown"
        assert ran.stdout.count(said) == 1
    assert not connections
    assert not (tmp_path / "started").exists()
    assert not (tmp_path / "imported").exists()
    ran = recallatk("run", "bench.toml", "--dry-run", "--json", cwd=tmp_path, env=environment)
    plan = json.loads(ran.stdout)
    assert [each["build_seconds"] is None for each in plan["builds"]] == [True] * 7 + [False]
    server = {"RECALLATK_PG_DSN": engines["pgvector-hnsw"][1]}
    plain = ("run", files[0], files[1], "--metric", "l2", "--engine", "pgvector-hnsw")
    ran = recallatk(*plain, "--dry-run", cwd=tmp_path, env=server)
    assert "does not start or contact the PostgreSQL server" in ran.stdout, ran.stderr
    assert not connections
