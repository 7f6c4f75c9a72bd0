"""The command line end to end, in processes of their own."""

import json
import os
import resource
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import command, recallatk


def refused(*arguments):
    """Run a command that must end with exit code 2, one line on standard error and nothing else."""
    ran = recallatk(*arguments)
    assert ran.returncode == 2, ran.stdout + ran.stderr
    assert ran.stdout == ""
    assert "Traceback" not in ran.stderr
    return ran.stderr


@pytest.fixture
def vectors():
    return np.random.default_rng(0).normal(size=(50, 4)).astype("float32")


@pytest.fixture
def corpus(tmp_path, vectors):
    folder = tmp_path / "a folder with spaces"
    folder.mkdir()
    path = folder / "corpus ü.parquet"
    table = pa.table({"id": [f"row {i}" for i in range(50)], "vector": list(vectors), "size": range(50)})
    pq.write_table(table, path)
    return path


@pytest.mark.parametrize(
    "arguments", [["--help"], ["-h"], ["demo", "--help"], ["inspect", "-h"], ["convert", "-h"]]
)
def test_help_is_plain_text_and_exits_0(arguments):
    ran = recallatk(*arguments)
    assert ran.returncode == 0
    assert ran.stdout.startswith("Usage: ")
    assert "\x1b" not in ran.stdout


@pytest.mark.parametrize("word", ["--help", "--version"])
def test_help_and_version_import_no_library(word):
    program = """
import sys
from recallatk.__main__ import main
main()
loaded = {"typer", "rich", "numpy", "pydantic"} & set(sys.modules)
assert not loaded, loaded
"""
    ran = subprocess.run([sys.executable, "-c", program, word], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_the_group_shows_the_same_help(capsys):
    from recallatk.cli import app, overview

    with pytest.raises(SystemExit):
        app(["--help"])
    assert capsys.readouterr().out.strip() == overview().strip()


def test_a_console_without_unicode_gets_readable_signs(tmp_path):
    """The signs of charts and tables have ASCII forms; data in JSON are escaped, so that they read back."""
    program = """
import sys
from recallatk.cli.streams import accept_any_text
accept_any_text()
sys.stdout.write("0.965 ±0.005 ≥ 0.9 \u2502 ● ü\\n")
"""
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    plain = subprocess.run([sys.executable, "-c", program], capture_output=True, env=environment, check=True)
    assert plain.stdout == b"0.965 +-0.005 >= 0.9 | * \\u00fc\n"
    escaped = subprocess.run(
        [sys.executable, "-c", program, "--json"], capture_output=True, env=environment, check=True
    )
    assert json.loads(b'"' + escaped.stdout.strip() + b'"') == "0.965 ±0.005 ≥ 0.9 │ ● ü"


def test_no_arguments_shows_help_and_is_a_usage_error():
    ran = recallatk()
    assert "Usage: " in ran.stdout + ran.stderr
    assert ran.returncode == 2


def test_an_unknown_command_and_an_unknown_option_are_usage_errors():
    assert "No such command" in refused("measur")
    assert "No such option" in refused("inspect", "--colour", "x.npy")


def test_inspect_describes_a_file(corpus):
    ran = recallatk("inspect", corpus)
    assert ran.returncode == 0, ran.stderr
    assert "50 x 4 float32" in ran.stdout
    assert "string (column id)" in ran.stdout
    assert "size: int64" in ran.stdout


def test_inspect_as_json_prints_one_object_per_file(corpus, tmp_path, vectors):
    np.save(tmp_path / "plain.npy", vectors)
    ran = recallatk("inspect", "--json", corpus, tmp_path / "plain.npy")
    first, second = map(json.loads, ran.stdout.splitlines())
    for found in (first, second):
        assert (found["rows"], found["dimension"], found["dtype"]) == (50, 4, "float32")
        assert set(found["fingerprint"]) == {"vectors", "ids", "metadata"}
    assert first["fingerprint"]["vectors"] == second["fingerprint"]["vectors"]
    assert first["fingerprint"]["ids"] != second["fingerprint"]["ids"]


def test_inspect_counts_what_would_be_refused(tmp_path):
    np.save(tmp_path / "bad.npy", np.asarray([[np.nan, 1], [0, 0], [np.inf, 2], [3, 4]], "float32"))
    ran = recallatk("inspect", tmp_path / "bad.npy")
    assert "2 rows with NaN (1) or Inf (1)" in ran.stdout
    assert "1 vectors of zeros" in ran.stdout
    found = json.loads(recallatk("inspect", "--json", tmp_path / "bad.npy").stdout)
    assert (found["nan"], found["infinite"], found["zero_vectors"]) == (1, 1, 1)


def test_inspect_obeys_no_control_characters_from_the_data(tmp_path, vectors):
    names = ["id", "vector", "evil\x1b[31m\u202eevil"]
    pq.write_table(
        pa.table([list(range(50)), list(vectors), list(range(50))], names), tmp_path / "evil.parquet"
    )
    ran = recallatk("inspect", tmp_path / "evil.parquet")
    assert ran.returncode == 0, ran.stderr
    assert "\x1b" not in ran.stdout and "\u202e" not in ran.stdout
    assert "evil\\x1b[31m\\u202eevil" in ran.stdout


def test_a_missing_file_is_named(tmp_path):
    message = refused("inspect", tmp_path / "nowhere.parquet")
    assert "nowhere.parquet: no such file or folder" in message


def test_a_damaged_file_is_named_with_what_is_accepted(tmp_path):
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 and then nothing")
    message = refused("inspect", tmp_path / "torn.parquet")
    assert "torn.parquet" in message
    assert "Accepted:" in message


def test_convert_keeps_numbers_and_ids(corpus, tmp_path, vectors):
    target = tmp_path / "deep" / "er" / "out.arrow"
    ran = recallatk("convert", corpus, target)
    assert ran.returncode == 0, ran.stderr
    assert f"wrote {target} (arrow, 50 x 4 float32)" in ran.stdout
    table = pa.ipc.open_file(target.read_bytes()).read_all()
    assert table["id"].to_pylist() == [f"row {i}" for i in range(50)]
    assert np.array_equal(np.stack(table["vector"].to_pylist()).astype("float32"), vectors)


def test_convert_says_what_the_format_has_no_place_for(corpus, tmp_path):
    ran = recallatk("convert", corpus, tmp_path / "out.fvecs", "--json")
    assert json.loads(ran.stdout)["left_out"] == ["id", "size"]
    assert "not written, because fvecs cannot hold it: id, size" in ran.stderr


def test_convert_rounds_only_when_told(tmp_path):
    np.save(tmp_path / "wide.npy", np.asarray([[0.1, 0.2]]))
    message = refused("convert", tmp_path / "wide.npy", tmp_path / "narrow.fbin")
    assert "--dtype float32" in message
    assert not (tmp_path / "narrow.fbin").exists()
    ran = recallatk("convert", tmp_path / "wide.npy", tmp_path / "narrow.fbin", "--dtype", "float32")
    assert ran.returncode == 0, ran.stderr
    assert np.fromfile(tmp_path / "narrow.fbin", "<f4", offset=8).tolist() == [
        np.float32(0.1),
        np.float32(0.2),
    ]


def test_convert_to_hdf5_computes_the_truth(corpus, tmp_path, vectors):
    np.save(tmp_path / "queries.npy", vectors[:7] + 0.01)
    target = tmp_path / "out.hdf5"
    ran = recallatk("convert", corpus, target, "--queries", tmp_path / "queries.npy", "--metric", "l2")
    assert ran.returncode == 0, ran.stderr
    with h5py.File(target) as file:
        assert file.attrs["distance"] == "euclidean"
        assert file["neighbors"].shape == (7, 100)
        assert file["neighbors"][:, 0].tolist() == list(range(7))
        assert np.array_equal(file["train"][:], vectors)
    found = json.loads(recallatk("inspect", "--json", target).stdout)
    assert (found["metric"], found["has_truth"], found["queries"]["rows"]) == ("l2", True, 7)


def test_convert_to_hdf5_needs_queries_and_a_metric(corpus, tmp_path, vectors):
    np.save(tmp_path / "queries.npy", vectors[:7])
    message = refused("convert", corpus, tmp_path / "out.hdf5", "--queries", tmp_path / "queries.npy")
    assert "metric" in message
    message = refused("convert", corpus, tmp_path / "out.hdf5", "--metric", "l2")
    assert "queries" in message
    assert not (tmp_path / "out.hdf5").exists()


def test_convert_refuses_an_ending_that_names_no_format(corpus, tmp_path):
    assert ".parquet" in refused("convert", corpus, tmp_path / "out.xyz")


def test_a_disk_that_is_full_leaves_the_old_file_and_no_other(tmp_path):
    np.save(tmp_path / "source.npy", np.ones((5000, 64), "float32"))
    target = tmp_path / "target.fbin"
    target.write_bytes(b"what was there before")

    def small_files_only():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    command = [sys.executable, "-m", "recallatk", "convert", tmp_path / "source.npy", target]
    ran = subprocess.run(command, capture_output=True, text=True, preexec_fn=small_files_only)
    assert ran.returncode == 2
    assert "File too large" in ran.stderr
    assert target.read_bytes() == b"what was there before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source.npy", "target.fbin"]


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    np.save(tmp_path / "source.npy", np.ones((5, 4), "float32"))
    (tmp_path / "file").write_text("")
    assert "file" in refused("convert", tmp_path / "source.npy", tmp_path / "file" / "out.npy")


def test_output_into_a_closed_pipe_is_no_error(corpus):
    command = f"{sys.executable} -m recallatk inspect --json {' '.join([repr(str(corpus))] * 5)} | head -c 1"
    ran = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert "Traceback" not in ran.stderr


def start_demo(out):
    return subprocess.Popen(
        command("demo", "--out", out),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for(path, seconds=60):
    deadline = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.05)


def children(process):
    listing = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(word) for word in listing.read_text().split()] if listing.exists() else []


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc").exists(), reason="finds the worker process through /proc")
def test_control_c_stops_cleanly_and_leaves_no_process(tmp_path):
    demo = start_demo(tmp_path / "run")
    wait_for(tmp_path / "run" / "truth.parquet")
    deadline = time.monotonic() + 30
    while not (workers := children(demo)):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(demo.pid, signal.SIGINT)
    _, errors = demo.communicate(timeout=30)
    assert demo.returncode == 130
    assert "stopped" in errors
    assert f"recallatk demo --out {tmp_path / 'run'}" in errors
    assert "Traceback" not in errors
    assert not any(is_alive(pid) for pid in workers)
    assert not list((tmp_path / "run").glob("trial-*.parquet"))


def test_a_folder_that_cannot_hold_the_demo_is_refused_before_the_work(tmp_path):
    (tmp_path / "taken").write_text("a file")
    assert "--out" in refused("demo", "--out", tmp_path / "taken")


def test_inspect_goes_on_after_a_bad_file_and_still_fails(corpus, tmp_path):
    ran = recallatk("inspect", tmp_path / "nowhere.npy", corpus)
    assert ran.returncode == 2
    assert "nowhere.npy" in ran.stderr
    assert "50 x 4 float32" in ran.stdout


def test_inspect_counts_missing_and_repeated_ids(tmp_path):
    table = pa.table({"id": ["a", "a", None], "vector": [[1.0], [2.0], [3.0]]})
    pq.write_table(table, tmp_path / "ids.parquet")
    assert "1 ids missing, 1 repeated" in recallatk("inspect", tmp_path / "ids.parquet").stdout
    assert "row 2" in refused("convert", tmp_path / "ids.parquet", tmp_path / "out.parquet")


def test_a_name_that_is_no_utf8_is_refused_in_words(tmp_path):
    name = os.fsencode(tmp_path) + b"/bad\xff.npy"
    with Path(os.fsdecode(name)).open("wb") as file:
        np.save(file, np.ones((2, 2), "float32"))
    ran = subprocess.run([sys.executable, "-m", "recallatk", "inspect", name], capture_output=True)
    assert ran.returncode == 2
    assert b"not valid UTF-8" in ran.stderr and b"Traceback" not in ran.stderr


def test_options_that_mean_nothing_for_the_target_are_refused(corpus, tmp_path):
    assert "--metric" in refused("convert", corpus, tmp_path / "out.npy", "--metric", "l2")
    assert "--part" in refused("convert", corpus, tmp_path / "out.hdf5", "--part", "corpus")


def test_an_hdf5_target_is_rounded_when_told(tmp_path):
    np.save(tmp_path / "wide.npy", np.random.default_rng(0).normal(size=(9, 3)))
    arguments = ["--queries", tmp_path / "wide.npy", "--metric", "l2", "--dtype", "float16"]
    ran = recallatk("convert", tmp_path / "wide.npy", tmp_path / "out.hdf5", *arguments)
    assert ran.returncode == 0, ran.stderr
    with h5py.File(tmp_path / "out.hdf5") as file:
        assert file["train"].dtype == np.float16


def test_an_hdf5_target_refuses_queries_with_filters(corpus, tmp_path, vectors):
    table = pa.table({"vector": list(vectors[:2]), "filter": ["size > 3", None]})
    pq.write_table(table, tmp_path / "queries.parquet")
    arguments = ["--queries", tmp_path / "queries.parquet", "--metric", "l2"]
    assert "filters" in refused("convert", corpus, tmp_path / "out.hdf5", *arguments)


def test_convert_names_the_truth_that_it_leaves_out(tmp_path):
    (tmp_path / "truth.ibin").write_bytes(struct.pack("<2I2i2f", 1, 2, 0, 1, 0.5, 0.7))
    ran = recallatk("convert", tmp_path / "truth.ibin", tmp_path / "out.ibin", "--json")
    assert json.loads(ran.stdout)["left_out"] == ["distances"]


def test_being_asked_to_end_leaves_no_scratch_file(tmp_path):
    np.save(tmp_path / "in.npy", np.random.default_rng(0).normal(size=(400_000, 32)).astype("float32"))
    process = subprocess.Popen(
        command("convert", tmp_path / "in.npy", tmp_path / "out.csv"), stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while len(list(tmp_path.iterdir())) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.terminate()
    assert process.wait(30) == 128 + signal.SIGTERM
    assert [path.name for path in tmp_path.iterdir()] == ["in.npy"]
