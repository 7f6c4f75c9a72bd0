"""Whatever engines say: no secret of it and no character of it spoils what a run writes and prints."""

import json
import os
import subprocess
import sys
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from commands import recallatk
from recallatk import load_run
from recallatk.files import write_text
from recallatk.reporting import tuned_to_html
from recallatk.reporting.tuned import tuned_to_markdown
from recallatk.reporting.tuned_file import read_tuned, tuned_text

sys.path.insert(0, str(Path(__file__).parent.parent / "reporting"))
from made_tuned import made_tuned

SECRETS = {
    "SEARCH_TOKEN": "hunter2-of-the-command",
    "SERVICE": "hunter2-of-the-body",
    "LOGIN": "hunter2-of-a-parameter",
    "QDRANT_API_KEY": "hunter2-of-the-environment",
}
# It tells everything that it knows, then fails; a first answer shows that it was told the secret.
PROGRAM = """
import json, os, sys
asked = json.loads(sys.stdin.readline())
told = [sys.argv[2], asked["parameters"]["login"], os.environ["QDRANT_API_KEY"]]
print(f"I was told {told}", file=sys.stderr, flush=True)
print("what " + " ".join(told) + " is not JSON", flush=True)
"""


class Denying(BaseHTTPRequestHandler):
    """A service that repeats what it was sent when it refuses."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.bodies.append(body)
        said = f"denied: {self.headers['Authorization']} {body}".encode()
        self.send_response(401)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_):
        pass


@pytest.fixture
def service():
    with ThreadingHTTPServer(("127.0.0.1", 0), Denying) as server:
        server.bodies = []
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def folder(tmp_path):
    random = np.random.default_rng(0)
    for name, rows in (("corpus", 60), ("queries", 20)):
        np.save(tmp_path / f"{name}.npy", random.normal(size=(rows, 4)).astype("float32"))
    return tmp_path


def bench_file(folder, *engines):
    head = """
        name = "secretive"
        [data]
        corpus = "corpus.npy"
        queries = "queries.npy"
        metric = "l2"
        [measure]
        k = 1
        rounds = 1
        [output]
        folder = "run"
        [[engine]]
        name = "exact"
    """
    text = "\n".join([head, *engines])
    (folder / "bench.toml").write_text("\n".join(line.strip() for line in text.splitlines()))
    return folder / "bench.toml"


def everything(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_no_secret_of_an_engine_is_written_or_printed(folder, service):
    (folder / "program.py").write_text(PROGRAM)
    command = f"""
        [[engine]]
        name = "command"
        [engine.build]
        command = "'{sys.executable}' '{folder / "program.py"}' --user ${{SEARCH_TOKEN}}"
        [engine.search]
        parameters = {{ login = "${{LOGIN}}" }}
    """
    http = f"""
        [[engine]]
        name = "http"
        [engine.build]
        url = "http://127.0.0.1:{service.server_port}/search"
        headers = {{ Authorization = "Bearer ${{SEARCH_TOKEN}}" }}
        body = {{ vector = "$vector", k = "$k", api_key = "${{SERVICE}}" }}
    """
    path = bench_file(folder, command, http)
    said = [
        recallatk("run", path, env=SECRETS),
        recallatk("run", path, "--retry-failed", "--json", env=SECRETS),
        recallatk("show", folder / "run"),
        recallatk("show", folder / "run", "--json"),
        recallatk("report", folder / "run", "--markdown", folder / "run" / "again.md"),
        recallatk("export", folder / "run", "--to", "csv", "--out", folder / "run" / "run.csv"),
    ]
    assert [each.returncode for each in said] == [0] * len(said), said
    # The values reached those that they were for.
    assert SECRETS["SERVICE"] in service.bodies[0]
    failures = {each.trial.engine: each.message for each in load_run(folder / "run").failures}
    assert "${SEARCH_TOKEN}" in failures["command"] and "${LOGIN}" in failures["command"]
    assert "denied" in failures["http"]
    assert [path for path, data in everything(folder / "run").items() if b"hunter2" in data] == []
    assert [each.args for each in said if "hunter2" in each.stdout + each.stderr] == []
    assert "${QDRANT_API_KEY}" in "".join(each.read_text() for each in (folder / "run" / "logs").iterdir())


@pytest.mark.parametrize(
    "engine",
    [
        '[[engine]]\nname = "http"\n[engine.build]\nurl = "http://h/"\nbody = { api_key = "hunter2" }',
        '[[engine]]\nname = "http"\n[engine.build]\nurl = "http://h/"\nbody = { a = [{ jwt = "hunter2" }] }',
        '[[engine]]\nname = "callable"\n[engine.search]\nparameters = { api_key = "hunter2" }',
        '[[engine]]\nname = "command"\n[engine.build]\ncommand = "prog --token hunter2"',
        '[[engine]]\nname = "command"\n[engine.build]\ncommand = "prog --password=hunter2"',
        '[truth]\nfile = "s3://me:hunter2@bucket/truth.parquet"',
    ],
)
def test_a_bench_file_with_a_secret_written_out_is_refused_with_the_way_out(folder, engine):
    ran = recallatk("run", bench_file(folder, engine))
    assert ran.returncode == 2
    assert "may contain a secret" in ran.stderr and "Take it from the environment: ${NAME}" in ran.stderr
    assert "hunter2" not in ran.stderr + ran.stdout
    assert not (folder / "run").exists()


SEARCH = """
def search(queries, k, how):
    if how != "fine":
        raise ValueError("half a pair: \\ud800, bytes: \\udcff")
    return [[0]] * len(queries)
"""
HALVES = """
    [[engine]]
    name = "callable"
    [engine.build]
    function = "halves:search"
    [engine.search]
    parameters = [{ how = "fine" }, { how = "broken" }]
"""


def test_a_lone_surrogate_in_an_error_costs_one_trial_and_no_more(folder):
    (folder / "halves.py").write_text(SEARCH)
    path, env = bench_file(folder, HALVES), {"PYTHONPATH": str(folder)}
    for _ in range(2):
        ran = recallatk("run", path, env=env)
        assert ran.returncode == 0, ran.stderr
        run = load_run(folder / "run")
        assert len(run.measurements) == 2
        (failure,) = run.failures
        said = "callable: halves:search: it raised ValueError: half a pair: \\ud800, bytes: \\udcff ("
        assert failure.message.startswith(said)
        assert failure.message.endswith("halves.py, line 4)")
        for name in ("report.html", "report.md", "run.json", "bench.toml", "logs/build-2.txt"):
            assert (folder / "run" / name).read_text(encoding="utf-8")
    for words in (
        ["report"],
        ["audit"],
        ["show", "--json"],
        ["export", "--to", "json", "--out", folder / "x"],
    ):
        ran = recallatk(words[0], folder / "run", *words[1:])
        assert ran.returncode == 0, ran.stderr


def test_a_tuning_that_ran_into_lone_surrogates_is_written_and_reported(tmp_path):
    tuned = made_tuned()
    broken = replace(tuned, attempts=(replace(tuned.attempts[0], why="half a pair: \ud800"),))
    write_text(tmp_path / "tuned.json", tuned_text(broken))
    write_text(tmp_path / "report.html", tuned_to_html(broken))
    write_text(tmp_path / "report.md", tuned_to_markdown(broken))
    found, _ = read_tuned(tmp_path / "tuned.json")
    assert found.attempts[0].why == "half a pair: \\ud800"


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "utf-8"])
def test_a_terminal_of_any_encoding_is_written_to(folder, encoding):
    path = bench_file(folder)
    path.write_text(path.read_text().replace("secretive", "größe → 文"), encoding="utf-8")
    assert recallatk("run", path).returncode == 0
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    for words, written in ((["show"], "größe → 文"), (["show", "--json"], "größe → 文")):
        command = [sys.executable, "-m", "recallatk", words[0], str(folder / "run"), *words[1:]]
        ran = subprocess.run(command, capture_output=True, env=environment)
        assert ran.returncode == 0, ran.stderr
        text = ran.stdout.decode(encoding)
        if "--json" in words:
            assert json.loads(text)["dataset"] == written
        elif encoding == "utf-8":
            assert written in text
        else:
            assert "-> \\u6587" in text
