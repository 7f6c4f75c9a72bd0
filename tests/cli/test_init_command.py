"""`recallatk init` end to end, on small real files."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from recallatk.bench.settings import read_settings
from recallatk.cli.exits import guarded
from recallatk.cli.init import init

app = typer.Typer()
app.command()(guarded(init))


def run(*arguments):
    ran = CliRunner().invoke(app, [*map(str, arguments)])
    assert ran.exception is None or isinstance(ran.exception, SystemExit), ran.exception
    return ran


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, rows in (("corpus", 300), ("queries", 10)):
        vectors = np.random.default_rng(rows).normal(size=rows * 4).astype("float32")
        table = {"id": range(rows), "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors), 4)}
        pq.write_table(pa.table(table), tmp_path / f"{name}.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_init_writes_a_file_and_says_what_to_type_next(folder):
    ran = run("corpus.parquet", "queries.parquet", "--metric", "l2")
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert ran.stdout == "wrote bench.toml\nNext: recallatk run bench.toml\n"
    settings = read_settings("bench.toml")
    assert (settings.data.metric, settings.engine[0].name) == ("l2", "faiss-hnsw")


def test_a_path_with_spaces_is_quoted_and_the_file_finds_its_data(folder):
    ran = run("corpus.parquet", "queries.parquet", "--metric", "l2", "--out", "my runs/my bench.toml")
    assert ran.stdout.endswith("Next: recallatk run 'my runs/my bench.toml'\n")
    assert read_settings("my runs/my bench.toml").data.corpus == str(folder / "corpus.parquet")


def test_a_file_that_exists_is_replaced_only_by_force(folder):
    (folder / "bench.toml").write_text("mine")
    ran = run("corpus.parquet", "queries.parquet", "--metric", "l2")
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert "bench.toml: already exists. Choose another with --out, or overwrite it with --force" in ran.stderr
    assert (folder / "bench.toml").read_text() == "mine"
    assert run("corpus.parquet", "queries.parquet", "--metric", "l2", "--force").exit_code == 0
    assert read_settings("bench.toml").data.metric == "l2"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["corpus.parquet", "queries.parquet"], "does not state its metric"),
        (["corpus.parquet", "--metric", "l2"], "holds one matrix and no queries"),
        (["nothing.parquet", "queries.parquet", "--metric", "l2"], "no such file or folder"),
        (
            ["corpus.parquet", "queries.parquet", "--metric", "l2", "--engine", "hnsw"],
            "no engine 'hnsw'. Did you mean faiss-hnsw?",
        ),
        (["corpus.parquet", "queries.parquet", "--metric", "l2", "--out", "corpus.parquet/x"], "corpus"),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_no_file(folder, arguments, said):
    before = sorted(folder.iterdir())
    ran = run(*arguments)
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert said in ran.stderr and "Traceback" not in ran.stderr
    assert sorted(folder.iterdir()) == before
