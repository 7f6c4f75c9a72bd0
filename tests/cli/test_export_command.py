"""`recallatk export`: a saved run in the forms of other tools."""

import csv
import json
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from recallatk.cli.exits import guarded
from recallatk.cli.export import export
from recallatk.storage import save_run

sys.path.insert(0, str(Path(__file__).parent.parent / "reporting"))
from made_runs import scored_run

app = typer.Typer(rich_markup_mode=None)
app.command()(guarded(export))


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """A run in a folder, with its data beside it."""
    monkeypatch.chdir(tmp_path)
    settings = {"data": {"corpus": "corpus.npy", "queries": "queries.npy", "metric": "cosine", "where": None}}
    run, dataset, _ = scored_run(settings=settings)
    for name, records in (("corpus", dataset.corpus), ("queries", dataset.queries)):
        np.save(f"{name}.npy", records.vectors.read(0, records.rows))
    save_run(run, dataset, tmp_path / "run")
    return tmp_path


def exported(*arguments):
    ran = CliRunner().invoke(app, ["run", *arguments])
    assert ran.exit_code == 0, ran.output
    return ran


def distances():
    (path,) = Path("results").rglob("*.hdf5")
    with h5py.File(path) as file:
        return file["distances"][:]


@pytest.mark.parametrize("to", ["csv", "json", "parquet", "hdrhistogram"])
def test_every_format_is_written_where_it_is_asked_for(to, saved):
    ran = exported("--to", to, "--out", "out.file")
    assert ran.stdout == "out.file: 1 trials\n"
    assert Path("out.file").stat().st_size > 100


def test_csv_and_json_have_the_trials(saved):
    exported("--to", "csv", "--out", "run.csv")
    with Path("run.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    exported("--to", "json", "--out", "out.json")
    (trial,) = json.loads(Path("out.json").read_text())["trials"]
    assert float(row["recall@10"]) == trial["measures"]["recall@10"]["value"]


def test_distances_come_from_the_data_that_the_run_names(saved):
    ran = exported("--to", "ann-benchmarks-hdf5", "--out", "results")
    assert "NaN" not in ran.stderr
    assert not np.isnan(distances()).any()


def test_data_may_be_named(saved):
    for name in ("corpus", "queries"):
        Path(f"{name}.npy").rename(f"moved-{name}.npy")
    data = ("--corpus", "moved-corpus.npy", "--queries", "moved-queries.npy")
    exported("--to", "ann-benchmarks-hdf5", "--out", "results", *data)
    assert not np.isnan(distances()).any()


def test_data_that_is_gone_or_changed_is_said_and_distances_are_not_known(saved):
    np.save("corpus.npy", np.ones((80, 4), np.float32))
    ran = exported("--to", "ann-benchmarks-hdf5", "--out", "results")
    assert "cannot use the data of the run" in ran.stderr
    assert "NaN" in ran.stderr
    assert np.isnan(distances()[1:]).all()
    Path("corpus.npy").unlink()
    ran = exported("--to", "ann-benchmarks-hdf5", "--out", "other")
    assert "corpus.npy" in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--to", "xlsx", "--out", "x"], "parquet"),
        (["--to", "csv", "--out", "s3://bucket/x"], "only to local paths"),
        (["--to", "ann-benchmarks-hdf5", "--out", "run"], "new folder"),
        (["--to", "ann-benchmarks-hdf5", "--out", "x", "--queries", "queries.npy"], "--corpus"),
        (
            [
                "--to",
                "ann-benchmarks-hdf5",
                "--out",
                "x",
                "--corpus",
                "queries.npy",
                "--queries",
                "corpus.npy",
            ],
            "differ",
        ),
    ],
)
def test_what_cannot_be_exported_is_said_with_code_2(arguments, said, saved):
    ran = CliRunner().invoke(app, ["run", *arguments])
    assert ran.exit_code == 2
    assert said in ran.stderr
    assert not Path("x").exists()
