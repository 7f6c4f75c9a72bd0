"""A disk that is full: every command ends in a sentence that names the file, and leaves no part of it."""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from commands import command

# A file system of its own for one command and what it starts; nobody else sees it.
MOUNTED = """
mount -t tmpfs -o "size=$1" tmpfs "$2" && head -c "$3" /dev/zero > "$2/filler" && shift 3 && exec "$@"
"""
BENCH = """
name = "full"
data = {corpus = "corpus.npy", queries = "queries.npy", metric = "l2"}
truth = {store = "store"}
measure = {k = 10, rounds = 1}
engine = [{name = "faiss-hnsw", search = {ef = [16, 32]}}]
tune = {target = "recall@10 >= 0.5"}
"""
RUN = ("run", "bench.toml")


def mounting(folder, size):
    """What to put before a program so that the folder is a disk of this size, or a full one."""
    room = ["4096", str(folder), "4096"] if size == "none" else [str(size), str(folder), "0"]
    return ["unshare", "-rm", "sh", "-c", MOUNTED, "sh", *room]


def can_mount():
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*mounting("/mnt", "64k"), "true"], capture_output=True).returncode == 0


needs_mounts = pytest.mark.skipif(not can_mount(), reason="no file system can be mounted here")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Data and a run of them."""
    place = tmp_path_factory.mktemp("full")
    random = np.random.default_rng(0)
    for name, rows in (("corpus", 12_000), ("queries", 300)):
        np.save(place / f"{name}.npy", random.normal(size=(rows, 32)).astype("float32"))
    (place / "bench.toml").write_text(BENCH)
    ran = subprocess.run(command(*RUN), cwd=place, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    (place / "small").mkdir()
    return place


def refused(place, *words, size=None, before=(), **environment):
    """What the command says when `small` is a file system of this size."""
    program = [*([] if size is None else mounting(place / "small", size)), *before, *command(*words)]
    ran = subprocess.run(
        program, cwd=place, capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert ran.returncode == 2, (ran.returncode, ran.stderr)
    assert "Traceback" not in ran.stderr
    return ran.stderr


@needs_mounts
@pytest.mark.parametrize(
    "words",
    [(*RUN, "--out", "again"), (*RUN, "--dry-run"), ("tune", "bench.toml", "--out", "again")],
    ids=["run", "dry run", "tune"],
)
def test_a_full_tmpdir_is_named_with_the_way_out(made, words):
    said = refused(made, *words, size="700k", TMPDIR=str(made / "small"))
    assert f"{made / 'small' / 'recallatk-'}" in said
    assert "corpus.npy: cannot be written: No space left on device" in said
    assert "set TMPDIR" in said
    shutil.rmtree(made / "again", ignore_errors=True)


@needs_mounts
def test_a_tmpdir_that_fills_up_while_it_is_measured_costs_no_trial(made):
    """Room for the data and nothing beside it."""
    size = 4096 * (-(-12_000 * 32 * 4 // 4096) + -(-300 * 32 * 4 // 4096) + 6)
    said = refused(made, *RUN, "--out", "again", size=size, TMPDIR=str(made / "small"))
    assert "cannot be written: No space left on device" in said
    assert f"{made / 'small' / 'recallatk-'}" in said
    ran = subprocess.run(command(*RUN, "--out", "again"), cwd=made, capture_output=True, text=True)
    assert ran.returncode == 0
    assert "failed" not in ran.stdout
    shutil.rmtree(made / "again")


# What is written, how large the disk is, and the command; the word that names the file begins with small.
WRITTEN = {
    "the folder of a run": ("16k", "run bench.toml --out small/run"),
    "the journal of a tuning": ("8k", "tune bench.toml --out small/tuned"),
    "a truth": ("64k", "truth corpus.npy queries.npy --metric l2 --out small/truth.parquet"),
    "a store": ("64k", "truth corpus.npy queries.npy --metric l2 --depth 50 --store small/truth"),
    "a report": ("64k", "report runs/full --out small/report.html"),
    "a picture": ("8k", "report runs/full --out fits.html --png small/charts"),
    "Markdown": ("none", "report runs/full --out fits.html --markdown small/report.md"),
    "CSV": ("none", "export runs/full --to csv --out small/out.csv"),
    "JSON": ("none", "export runs/full --to json --out small/out.json"),
    "Parquet": ("8k", "export runs/full --to parquet --out small/out.parquet"),
    "HdrHistogram": ("none", "export runs/full --to hdrhistogram --out small/out.hlog"),
    "ann-benchmarks": ("16k", "export runs/full --to ann-benchmarks-hdf5 --out small/ann"),
    "a converted npy": ("64k", "convert corpus.npy small/out.npy"),
    "a converted fbin": ("64k", "convert corpus.npy small/out.fbin"),
    "a converted Parquet": ("64k", "convert corpus.npy small/out.parquet"),
    "a converted CSV": ("64k", "convert corpus.npy small/out.csv"),
    "a converted HDF5": ("64k", "convert corpus.npy small/out.hdf5 --queries queries.npy --metric l2"),
}


@needs_mounts
@pytest.mark.parametrize("what", WRITTEN)
def test_a_full_disk_is_said_of_the_file_that_did_not_fit(made, what):
    size, words = WRITTEN[what]
    said = refused(made, *words.split(), size=size)
    (named,) = (word for word in words.split() if word.startswith("small/"))
    assert named in said
    assert "No space left on device" in said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device here")
@pytest.mark.parametrize("words", [("--help",), ("--version",), ("engines",), ("show", "runs/full")])
def test_full_standard_output_is_named(made, words):
    for buffered in ("1", ""):
        with Path("/dev/full").open("wb") as full:
            ran = subprocess.run(
                command(*words), cwd=made, stdout=full, stderr=subprocess.PIPE, text=True,
                env={**os.environ, "PYTHONUNBUFFERED": buffered},
            )  # fmt: skip
        assert (ran.returncode, ran.stderr) == (2, "recallatk: standard output: No space left on device\n")


def test_a_limit_on_the_size_of_files_is_said_like_a_full_disk(made):
    """Which works for everybody, and meets every file that is written."""
    limited = ["sh", "-c", 'ulimit -f 100 && exec "$@"', "sh"]
    said = refused(made, *RUN, "--out", "again", before=limited, TMPDIR=str(made / "small"))
    assert f"{made / 'small' / 'recallatk-'}" in said
    assert "corpus.npy: cannot be written: File too large" in said
    said = refused(made, "convert", "corpus.npy", "small/out.npy", before=limited)
    assert "small/out.npy: cannot be written: File too large" in said
    assert list((made / "small").iterdir()) == []
