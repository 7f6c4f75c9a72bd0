"""Outputs that would replace what a command reads are refused, and the input stays as it was."""

import faiss
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import recallatk
from recallatk import run
from recallatk.errors import UsageError
from recallatk.files import require_not_among

BENCH = """
data = {corpus = "c.parquet", queries = "q.parquet", metric = "l2"}
truth = {store = "store"}
measure = {at = [2], rounds = 1}
output = {folder = "run"}
[[engine]]
name = "exact"
"""
TARGET = "faiss://i.faiss?corpus=c.parquet&metric=l2"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    vectors = np.random.default_rng(0).normal(size=(60, 4)).astype("float32")
    (folder / "data").mkdir()
    for name, rows in (
        ("c", vectors),
        ("q", vectors[:9]),
        ("data/corpus", vectors),
        ("data/queries", vectors),
    ):
        pq.write_table(pa.table({"id": range(len(rows)), "vector": list(rows)}), folder / f"{name}.parquet")
    index = faiss.IndexFlatL2(4)
    index.add(vectors)
    faiss.write_index(index, str(folder / "i.faiss"))
    (folder / "bench.toml").write_text(BENCH)
    run(folder / "bench.toml")
    return folder


TRUTH = ("truth", "c.parquet", "q.parquet", "--metric", "l2", "--depth", "2")
WATCH = ("watch", TARGET, "--once", "--max-rate", "none")
WORKLOAD = ("workload", "c.parquet", "q.parquet", "--metric", "l2", "--force")
DRIFT = ("drift", "q.parquet", "data/queries.parquet")
MIGRATE = ("migrate", "c.parquet", "data/corpus.parquet")
COMMANDS = [
    (*TRUTH, "--out", "c.parquet"),
    (*TRUTH, "--out", "./q.parquet"),
    ("truth", "[cd].parquet", "q.parquet", "--metric", "l2", "--out", "c.parquet"),
    ("truth", "data", "--metric", "l2", "--out", "data/queries.parquet"),
    (*WATCH, "--textfile", "c.parquet"),
    (*WATCH, "--textfile", "i.faiss"),
    (*WATCH, "--queries", "q.parquet", "--textfile", "q.parquet"),
    (*WATCH, "--baseline", "q.parquet", "--textfile", "q.parquet"),
    ("convert", "--dtype", "float16", "c.parquet", "c.parquet"),
    (*WORKLOAD, "--out", "q.parquet"),
    (*WORKLOAD, "--out", "new.parquet", "--corpus-out", "c.parquet"),
    ("workload", "data", "--metric", "l2", "--force", "--out", "data/queries.parquet"),
    ("init", "c.parquet", "q.parquet", "--metric", "l2", "--force", "--out", "c.parquet"),
    (*DRIFT, "--html", "q.parquet"),
    (*DRIFT, "--probe", TARGET, "--markdown", "c.parquet"),
    (*MIGRATE, "--metric", "l2", "--markdown", "c.parquet"),
    ("report", "run", "--out", "run/run.json"),
    ("report", "run", "--markdown", "run/trial-1.parquet"),
    ("report", "run", "--corpus", "c.parquet", "--out", "c.parquet"),
    ("compare", "run", "run", "--html", "run/run.json"),
    ("export", "run", "--to", "json", "--out", "run/run.json"),
    ("export", "run", "--to", "csv", "--out", "run/trial-1.parquet"),
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_output_replaces_an_input(place, words):
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    ended = recallatk(*words, cwd=place)
    assert ended.returncode == 2, ended.stdout + ended.stderr
    assert f"{words[-1].removeprefix('./')}: is a part of the input" in ended.stderr
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize(
    "words",
    [
        (
            "truth",
            "data",
            "--metric",
            "l2",
            "--depth",
            "2",
            "--store",
            "store",
            "--out",
            "data/truth.parquet",
        ),
        ("workload", "data", "--metric", "l2", "--force", "--selectivity", "50%", "--out", "data/f.parquet"),
        ("init", "data", "--metric", "l2", "--force", "--out", "data/bench.toml"),
        ("export", "run", "--to", "parquet", "--out", "run/all.parquet"),
        ("report", "run"),
    ],
    ids=" ".join,
)
def test_an_older_output_beside_the_inputs_is_replaced(place, words):
    for _ in range(2):
        ended = recallatk(*words, cwd=place)
        assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize(
    ("source", "refused"),
    [
        ("lancedb://a/table?corpus=file.parquet", True),
        ("file:{folder}/file.parquet", False),
        ("file://{folder}/file.parquet", True),
        ("sqlite://file%2Eparquet?table=items", True),
        ("sqlite://~nobody-of-this-name/file.parquet", False),
        ("s3://bucket/other?corpus=file.parquet", False),
        ("https://host/?corpus=file.parquet", False),
        ("http://[::1", False),
        ("fi*.parquet", True),
        ("file.parquet#2", True),
        ("other.parquet", False),
    ],
)
def test_files_that_a_text_names(tmp_path, monkeypatch, source, refused):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file.parquet").write_text("rows")
    if refused:
        with pytest.raises(UsageError, match="is a part of the input"):
            require_not_among("file.parquet", [source.format(folder=tmp_path), None])
    else:
        require_not_among("file.parquet", [source.format(folder=tmp_path), None])
