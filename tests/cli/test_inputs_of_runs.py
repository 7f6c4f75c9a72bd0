"""What commands open for a run: any truth that was used, and nothing that a stranger's folder asks for."""

import dataclasses
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import h5py
import numpy as np
import pytest

from commands import recallatk
from recallatk import ground_truth, load_run, open_dataset
from recallatk.storage import save_run

sys.path.insert(0, str(Path(__file__).parent.parent / "reporting"))
from made_runs import scored_run


def write_data(folder):
    random = np.random.default_rng(3)
    corpus, queries = (random.normal(size=(rows, 6)).astype("float32") for rows in (150, 40))
    np.save(folder / "corpus.npy", corpus)
    np.save(folder / "queries.npy", queries)
    return corpus, queries


def write_truth(folder, kind, corpus, queries):
    """A truth that others wrote, in one of the formats that they use."""
    truth = ground_truth(open_dataset(folder / "corpus.npy", folder / "queries.npy", metric="l2"), depth=10)
    path = folder / f"truth.{kind}"
    if kind == "hdf5":
        with h5py.File(path, "w") as file:
            file.attrs["distance"] = "euclidean"
            named = {"train": corpus, "test": queries, "neighbors": truth.rows.astype("int32")}
            for name, values in {**named, "distances": truth.scores.astype("float32")}.items():
                file.create_dataset(name, data=values)
    elif kind == "ivecs":
        depth = np.full((len(queries), 1), 10, "int32")
        np.concatenate([depth, truth.rows.astype("int32")], axis=1).tofile(path)
    else:
        np.save(path, truth.rows)
    return path


@pytest.mark.parametrize("kind", ["hdf5", "ivecs", "npy"])
def test_every_command_takes_the_truth_that_a_run_took(tmp_path, kind):
    path = write_truth(tmp_path, kind, *write_data(tmp_path))
    (tmp_path / "bench.toml").write_text(f"""
        [data]
        corpus = "corpus.npy"
        queries = "queries.npy"
        metric = "l2"
        [truth]
        file = "{path.name}"
        [measure]
        at = [1, 10]
        rounds = 1
        [output]
        folder = "run"
        [[engine]]
        name = "faiss-hnsw"
        [engine.search]
        ef = [10, 20]
    """)
    run = tmp_path / "run"
    assert recallatk("run", tmp_path / "bench.toml").returncode == 0
    reported = recallatk("report", run, run, "--out", tmp_path / "report.html")
    assert (reported.returncode, reported.stderr) == (0, "")
    page = (tmp_path / "report.html").read_text()
    assert "The worst queries" in page and "no query differs" in page
    assert json.loads(recallatk("audit", run, "--json").stdout)["findings"]
    assert recallatk("audit", run).stderr == ""
    assert (
        recallatk("score", path, run / "trial-1.parquet", "--corpus", tmp_path / "corpus.npy").returncode == 0
    )
    # It has moved: the run says where it was, and the option where it is.
    moved = path.rename(tmp_path / f"moved.{kind}")
    missing = recallatk("report", run, "--out", tmp_path / "less.html")
    assert "the report has no per-query details" in missing.stderr and "--truth TRUTH" in missing.stderr
    # What the store may have of the same data is not what the run was scored against.
    stored = ["truth", tmp_path / "corpus.npy", tmp_path / "queries.npy", "--metric", "l2", "--depth", "100"]
    assert recallatk(*stored).returncode == 0
    codes = [each["rule"] for each in json.loads(recallatk("audit", run, "--json").stdout)["findings"]]
    assert "R16" not in codes
    for words in (["report", run, "--out", tmp_path / "report.html"], ["audit", run]):
        found = recallatk(*words, "--truth", moved)
        assert (found.returncode, found.stderr) == (0, ""), words
    assert "The worst queries" in (tmp_path / "report.html").read_text()


def test_data_that_are_named_are_split_and_sampled_as_the_run_says(tmp_path):
    write_data(tmp_path)
    (tmp_path / "bench.toml").write_text("""
        [data]
        corpus = "corpus.npy"
        queries = "queries.npy"
        metric = "l2"
        split = "validate"
        sample_queries = 8
        [measure]
        k = 1
        rounds = 1
        [output]
        folder = "run"
        [[engine]]
        name = "exact"
    """)
    assert recallatk("run", tmp_path / "bench.toml").returncode == 0
    for name in ("corpus", "queries"):
        (tmp_path / f"{name}.npy").rename(tmp_path / f"moved-{name}.npy")
    named = ("--corpus", tmp_path / "moved-corpus.npy", "--queries", tmp_path / "moved-queries.npy")
    assert "R16" not in recallatk("audit", tmp_path / "run", *named).stdout
    ran = recallatk("report", tmp_path / "run", *named)
    assert (ran.returncode, ran.stderr) == (0, "")


class Recording(BaseHTTPRequestHandler):
    """Has nothing, and notes what it was asked for."""

    def do_GET(self):
        self.server.paths.append(self.path)
        self.send_error(404)

    def do_HEAD(self):
        self.do_GET()

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Recording) as found:
        found.paths = []
        thread = threading.Thread(target=found.serve_forever, args=(0.02,))
        thread.start()
        yield found
        found.shutdown()
        thread.join()


SECRET = {"MYSECRET": "hunter2-swordfish"}
COMMANDS = (
    ["audit", "RUN"],
    ["report", "RUN", "--out", "OUT.html"],
    ["show", "RUN"],
    ["export", "RUN", "--to", "ann-benchmarks-hdf5", "--out", "OUT"],
)


def foreign_folder(folder, data, truth=None, *, in_run, in_bench):
    """A run folder whose author chose what it names."""
    settings = {"data": {"metric": "cosine", **data}, "truth": {"file": truth}}
    run, dataset, _ = scored_run(settings=settings if in_run else {})
    save_run(run, dataset, folder)
    if in_bench:
        tables = {"data": settings["data"], "truth": {"file": truth} if truth else {}}
        lines = [
            *(
                f"[{name}]\n" + "\n".join(f"{k} = {json.dumps(v)}" for k, v in table.items())
                for name, table in tables.items()
            ),
            '[[engine]]\nname = "exact"',
        ]
        (folder / "bench.toml").write_text("\n".join(lines))
    return folder


@pytest.mark.parametrize("command", COMMANDS, ids=lambda each: each[0])
@pytest.mark.parametrize(("in_run", "in_bench"), [(True, False), (False, True)])
def test_no_folder_makes_a_command_ask_a_server_or_read_the_environment(
    tmp_path, server, command, in_run, in_bench
):
    url = f"http://127.0.0.1:{server.server_port}/${{MYSECRET}}/"
    folder = foreign_folder(
        tmp_path / "run",
        {"corpus": f"{url}c.parquet", "queries": f"{url}q.parquet"},
        f"{url}t.parquet",
        in_run=in_run,
        in_bench=in_bench,
    )
    words = [each.replace("RUN", str(folder)).replace("OUT", str(tmp_path / "out")) for each in command]
    ran = recallatk(*words, env=SECRET)
    assert ran.returncode == 0, ran.stderr
    assert server.paths == []
    assert "hunter2" not in ran.stdout + ran.stderr
    if command[0] != "show":
        assert f"{url}c.parquet. Name it: --corpus URL" in ran.stderr
    if command[0] in ("audit", "report"):
        assert "--truth URL" in ran.stderr
        # What the user names is opened.
        named = recallatk(*words, "--corpus", f"{url}mine.npy", "--queries", f"{url}q.npy", env=SECRET)
        assert named.returncode == 2
        assert any(path.startswith("/hunter2-swordfish/mine.npy") for path in server.paths)
        assert "hunter2" not in named.stdout + named.stderr


def test_a_url_of_a_bench_file_shows_its_variables_and_not_their_values(tmp_path, server):
    write_data(tmp_path)
    (tmp_path / "bench.toml").write_text(f"""
        [data]
        corpus = "http://127.0.0.1:{server.server_port}/${{MYSECRET}}/corpus.parquet"
        queries = "queries.npy"
        metric = "l2"
        [[engine]]
        name = "exact"
    """)
    ran = recallatk("run", tmp_path / "bench.toml", env=SECRET)
    assert ran.returncode == 2
    assert any("hunter2-swordfish" in path for path in server.paths)
    assert "hunter2" not in ran.stderr
    assert "/${MYSECRET}/corpus.parquet" in ran.stderr


@pytest.mark.parametrize("what", ["corpus", "queries", "truth"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_pipe_or_a_device_that_a_folder_names_is_refused_at_once(tmp_path, what, kind):
    _, dataset, _ = scored_run()
    for name, records in (("corpus", dataset.corpus), ("queries", dataset.queries)):
        np.save(tmp_path / f"{name}.npy", records.vectors.read(0, records.rows))
    special = Path("/dev/zero")
    if kind == "pipe":
        special = tmp_path / "pipe.npy"
        os.mkfifo(special)
    names = {name: str(tmp_path / f"{name}.npy") for name in ("corpus", "queries")} | {what: str(special)}
    truth = names.pop("truth", None)
    folder = foreign_folder(tmp_path / "run", names, truth, in_run=True, in_bench=True)
    for words in (["audit", folder], ["report", folder, "--out", tmp_path / "out.html"]):
        ran = recallatk(*words)
        assert ran.returncode == 0
        assert f"{special}: is a pipe, a socket or a device" in ran.stderr


@pytest.mark.parametrize("name", ["run.json", "trial-1.parquet", "bench.toml", "truth.parquet"])
def test_a_pipe_in_a_run_folder_does_not_hang_a_command(tmp_path, name):
    run, dataset, _ = scored_run()
    save_run(run, dataset, tmp_path / "run")
    (tmp_path / "run" / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / "run" / name)
    damaged = name in ("run.json", "trial-1.parquet")
    for command in ("show", "audit", "report"):
        ran = recallatk(command, tmp_path / "run")
        assert ran.returncode == (2 if damaged else 0)
        assert not damaged or f"{name}: is a pipe, a socket or a device" in ran.stderr
    assert recallatk("runs", tmp_path).returncode == 0


def test_a_run_that_says_nonsense_of_its_data_is_no_traceback(tmp_path):
    run, dataset, _ = scored_run()
    for settings in ({"data": "x"}, {"data": {"corpus": 3}}, {"data": {"corpus": "x", "nonsense": 1}}):
        save_run(dataclasses.replace(run, settings=settings), dataset, tmp_path / "run")
        assert load_run(tmp_path / "run").settings == settings
        ran = recallatk("report", tmp_path / "run")
        assert ran.returncode == 0
        assert "--corpus CORPUS --queries QUERIES" in ran.stderr


def test_runs_are_compared_query_by_query_without_their_truth(tmp_path):
    run, dataset, _ = scored_run()
    for name in ("one", "other"):
        save_run(run, dataset, tmp_path / name)
    ran = recallatk("report", tmp_path / "one", tmp_path / "other")
    assert "the report has no per-query details" in ran.stderr
    page = (tmp_path / "one" / "report.html").read_text()
    assert "Distribution of recall" in page and "no query differs" in page
    assert "No segments or worst queries" in page
