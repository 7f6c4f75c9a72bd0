"""Every registered engine, measured end to end by `recallatk run`, with and without filters."""

import json
import runpy
import shlex
import sys
import threading
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import recallatk
from recallatk import load_run
from recallatk.adapters.registry import get_engine, registered

# Quantizers learn 256 codes, and are not trained from fewer rows.
ROWS, QUERIES, DIMENSION, K = 300, 20, 16, 10
WHERE = '"group" = 1'

# The module that `callable` names, the program that `command` starts, and what the service of `http` asks.
TARGET = """
import json, sys
import numpy as np
import pyarrow.parquet as pq

table = pq.read_table({corpus!r})
ids = table["id"].to_pylist()
vectors = table["vector"].combine_chunks().flatten().to_numpy().reshape(len(ids), -1).astype(float)

def search(queries, k):
    distances = ((vectors[None] - np.asarray(queries, float)[:, None]) ** 2).sum(axis=2)
    return [[ids[row] for row in line] for line in np.argsort(distances, axis=1, kind="stable")[:, :k]]

if __name__ == "__main__":
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps({{"ids": search([asked["query"]], asked["k"])[0]}}), flush=True)
"""

# Parameters at which an index of so few rows finds everything.
BUILD = {
    "faiss-ivf-flat": {"nlist": 4},
    "faiss-ivf-pq": {"nlist": 4},
    "faiss-ivf-sq8": {"nlist": 4},
    "pgvector-ivfflat": {"lists": 4},
    "scann": {"num_leaves": 4},
}
SEARCH = {
    "annoy": {"search_k": 100_000},
    "faiss-ivf-flat": {"nprobe": 4},
    "faiss-ivf-pq": {"nprobe": 4, "k_factor": 30},
    "faiss-ivf-sq8": {"nprobe": 4},
    "faiss-pq-fastscan": {"k_factor": 30},
    "lancedb": {"refine": 100},
    "pgvector-hnsw": {"ef": 1000},
    "pgvector-ivfflat": {"probes": 4},
    "pynndescent": {"epsilon": 0.5},
    "scann": {"leaves_to_search": 4, "reorder": 300},
}
# Engines that keep a byte for each dimension cannot tell near neighbors apart.
LOSSY = {"faiss-ivf-sq8": 0.95, "faiss-sq": 0.95}
# What the engine says of itself once it is built; all others are library calls.
CALLS = {
    "callable": "Python function",
    "command": "line to a subprocess and back",
    "duckdb": "SQL statement in this process",
    "http": "HTTP round trip",
    "milvus": "gRPC round trip within this process",
    "pgvector-hnsw": "SQL statement over a local socket",
    "pgvector-ivfflat": "SQL statement over a local socket",
    "sqlite-vec": "SQL statement in this process",
}
LIBRARY_CALL = "library call"
FILTERING = [name for name in registered() if get_engine(name).abilities.filters]
# Engines per run: the audit, the truth and the report of a run take longer than a small engine.
TOGETHER = 7


def groups(names):
    """All engines, those with the same kind of call together."""
    kinds = {}
    for name in names:
        kinds.setdefault(CALLS.get(name, LIBRARY_CALL), []).append(name)
    parts = [same[at : at + TOGETHER] for same in kinds.values() for at in range(0, len(same), TOGETHER)]
    return [pytest.param(part, id="+".join(part)) for part in parts]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The folder of the files, the vectors of both, and the group of each row."""
    folder = tmp_path_factory.mktemp("measured")
    random = np.random.default_rng(0)
    groups = np.arange(ROWS) % 3
    found = {}
    for name, rows in (("corpus", ROWS), ("queries", QUERIES)):
        vectors = random.normal(size=(rows, DIMENSION)).astype("float32")
        columns = {
            "id": pa.array([f"{name} {row}" for row in range(rows)]),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), DIMENSION),
        }
        if name == "corpus":
            columns["group"] = pa.array(groups)
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
        found[name] = vectors
    (folder / "target.py").write_text(TARGET.format(corpus=str(folder / "corpus.parquet")))
    return folder, found["corpus"], found["queries"], groups


@contextmanager
def target(name, folder):
    """The build parameters of an engine, with what it attaches to running where it attaches."""
    if name == "callable":
        yield {"function": "target:search"}
    elif name == "command":
        yield {"command": shlex.join([sys.executable, str(folder / "target.py")])}
    elif name == "http":
        with service(folder) as url:
            yield {"url": url}
    else:
        yield BUILD.get(name, {})


@contextmanager
def service(folder):
    """A search service on this machine."""
    search = runpy.run_path(str(folder / "target.py"))["search"]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            said = json.dumps({"ids": search([asked["vector"]], asked["k"])[0]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def measured(names, data, tmp_path, where=None):
    """What `recallatk run` says of these engines, each with its trial and its measurement."""
    folder = data[0]
    lines = [
        'name = "measured"',
        "[data]",
        f'corpus = "{folder / "corpus.parquet"}"',
        f'queries = "{folder / "queries.parquet"}"',
        'metric = "l2"',
        *([f"where = '{where}'"] if where else []),
        f'[truth]\nstore = "{folder / "store"}"',
        f"[measure]\nat = {K}\nrounds = 1",
    ]
    with ExitStack() as targets:
        for name in names:
            build = targets.enter_context(target(name, folder))
            lines += [f'[[engine]]\nname = "{name}"', "[engine.build]"]
            lines += [f"{key} = {json.dumps(value)}" for key, value in build.items()]
            lines += ["[engine.search]"]
            lines += [f"{key} = {json.dumps(value)}" for key, value in SEARCH.get(name, {}).items()]
        (tmp_path / "bench.toml").write_text("\n".join(lines))
        environment = {"PYTHONPATH": str(folder)}
        ran = recallatk("run", "bench.toml", "--json", cwd=tmp_path, env=environment)
    assert ran.returncode == 0, ran.stderr + ran.stdout
    found = json.loads(ran.stdout)
    assert [(each["engine"], each["failure"]) for each in found["trials"]] == [(name, None) for name in names]
    assert {each["status"] for each in found["trials"]} == {"done"}
    run = load_run(tmp_path / "runs" / "measured")
    return found, list(zip(names, found["trials"], run.measurements, strict=True))


def nearest(data, eligible):
    """The truth by plain NumPy: the rows of the K smallest distances among the eligible ones."""
    _, corpus, queries, _ = data
    distances = ((queries[:, None].astype(float) - corpus[None]) ** 2).sum(axis=2)
    return np.argsort(np.where(eligible, distances, np.inf), axis=1)[:, :K]


def check_recall(name, trial, measurement, truth):
    assert measurement.trial.engine == name
    pairs = zip(measurement.answers.tolist(), truth.tolist(), strict=True)
    recall = np.mean([len(set(answer) & set(true)) / K for answer, true in pairs])
    assert trial["measures"]["recall@10"]["value"] == pytest.approx(recall), name
    assert recall >= LOSSY.get(name, 0.99), name
    assert trial["evidence"], name


@pytest.mark.timeout(1800)  # numba compiles pynndescent, for minutes where everything is slow
@pytest.mark.parametrize("names", groups(registered()))
def test_every_engine_is_measured_by_the_run_command(names, data, tmp_path):
    found, measurements = measured(names, data, tmp_path)
    for name, trial, measurement in measurements:
        check_recall(name, trial, measurement, nearest(data, np.full(ROWS, True)))
        assert trial["call"] == CALLS.get(name, LIBRARY_CALL), name
    assert found["timed"].startswith(f"one {trial['call']} for the top 10, 1 search thread;")
    shown = recallatk("show", tmp_path / "runs" / "measured", "--verbose").stdout
    assert f"Timed: one {trial['call']} for the top 10" in shown


@pytest.mark.parametrize("names", groups(FILTERING))
def test_every_engine_that_filters_is_measured_with_filters_by_the_run_command(names, data, tmp_path):
    eligible = data[3] == 1
    for name, trial, measurement in measured(names, data, tmp_path, WHERE)[1]:
        check_recall(name, trial, measurement, nearest(data, eligible))
        assert eligible[measurement.answers].all(), name
