"""Embedding models: stated once, recorded in truth and run, compared wherever two things meet."""

import dataclasses
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from recallatk import (
    ground_truth,
    load_truth,
    make_corpus,
    make_queries,
    measure,
    open_dataset,
    sample_corpus,
    save_truth,
    score,
)
from recallatk.bench.settings import settings_from
from recallatk.cli import app
from recallatk.errors import MismatchError, UsageError
from recallatk.reporting import run_to_dict
from recallatk.reporting.comparison import _different
from recallatk.storage import load_run, save_run
from recallatk.storage.resume import differences
from recallatk.storage.run_file import run_head

RANDOM = np.random.default_rng(3)
ROWS, QUERIES = RANDOM.normal(size=(50, 4)).astype("float32"), RANDOM.normal(size=(12, 4)).astype("float32")
MAKERS = ["b", "a"] * 25


def dataset_of(**labels):
    corpus = make_corpus(ROWS, metadata={"maker": MAKERS})
    return open_dataset(corpus, make_queries(QUERIES), metric="l2", **labels)


@pytest.fixture(scope="module")
def truth():
    return ground_truth(dataset_of(model="minilm"), depth=5)


def test_labels_are_for_both_sides_one_side_or_a_column():
    assert dataset_of().models == {}
    assert dataset_of(model="x").models == {"corpus": ("x",), "queries": ("x",)}
    assert dataset_of(model="x", query_model="y").models == {"corpus": ("x",), "queries": ("y",)}
    assert dataset_of(model_column="maker").models == {"corpus": ("a", "b")}
    assert sample_corpus(dataset_of(model_column="maker").corpus, 10).models == ("a", "b")
    with pytest.raises(UsageError, match=r"no model column 'makr'\. Did you mean maker"):
        dataset_of(model_column="makr")
    with pytest.raises(UsageError, match="both a model and the model column"):
        dataset_of(model="x", model_column="maker")
    with pytest.raises(UsageError, match="model column"):
        settings_from(
            {"name": "n", "data": {"corpus": "c.npy", "model": "x", "model_column": "y"}}, engines=False
        )


def test_truth_files_keep_models_and_older_ones_have_none(truth, tmp_path):
    save_truth(truth, tmp_path / "truth.parquet")
    assert load_truth(tmp_path / "truth.parquet").models == {"corpus": ("minilm",), "queries": ("minilm",)}
    save_truth(dataclasses.replace(truth, models={}), tmp_path / "older.parquet")
    header = pq.read_schema(tmp_path / "older.parquet").metadata[b"recallatk.truth"]
    assert "models" not in json.loads(header)
    assert load_truth(tmp_path / "older.parquet").models == {}


def test_a_stored_truth_takes_the_labels_of_the_data(truth):
    relabelled = ground_truth(dataset_of(model="renamed"), depth=5)
    assert relabelled.models == {"corpus": ("renamed",), "queries": ("renamed",)}


def test_vectors_of_another_model_are_refused(truth):
    other = dataset_of(model="e5")
    with pytest.raises(MismatchError, match=r"embedding model mismatch.*minilm there, e5 here"):
        score(truth=truth, answers=truth.rows, dataset=other)
    with pytest.raises(MismatchError, match="embedding model mismatch"):
        measure("exact", other, truth=truth, at=5, rounds=1)
    # What is not known is not compared.
    assert score(truth=truth, answers=truth.rows, dataset=dataset_of(), at=[5])["recall@5"] == 1


def test_runs_record_models_and_runs_of_different_models_are_not_compared(truth, tmp_path):
    dataset = dataset_of(model="minilm")
    run = measure("exact", dataset, truth=truth, at=5, rounds=1)
    save_run(run, dataset, tmp_path / "run")
    again = load_run(tmp_path / "run")
    assert again.models == run.models == {"corpus": ("minilm",), "queries": ("minilm",)}
    assert run_to_dict(again)["models"]["corpus"] == ["minilm"]
    other = dataclasses.replace(run, models={"corpus": ("e5",)})
    assert _different(run, other) == ["the embedding model of the corpus (e5 there, minilm here)"]
    assert not _different(run, dataclasses.replace(run, models={}))
    assert differences(run_head(other, None), run_head(run, None)) == [
        "the embedding model of the corpus (e5 there, minilm here)"
    ]


def test_commands_take_and_compare_models(tmp_path):
    np.save(tmp_path / "corpus.npy", ROWS)
    np.save(tmp_path / "queries.npy", QUERIES)
    data, truth = [tmp_path / "corpus.npy", tmp_path / "queries.npy"], tmp_path / "truth.parquet"
    given = ["truth", *data, "--metric", "l2", "--depth", "5", "--model", "minilm", "--out", truth]
    ran = CliRunner().invoke(app, [*map(str, given), "--store", str(tmp_path / "store")])
    assert ran.exit_code == 0, ran.output
    np.save(tmp_path / "answers.npy", load_truth(truth).rows)
    scored = ["score", str(truth), str(tmp_path / "answers.npy")]
    assert CliRunner().invoke(app, [*scored, "--model", "minilm"]).exit_code == 0
    ran = CliRunner().invoke(app, [*scored, "--model", "e5"])
    assert ran.exit_code == 2
    assert "embedding model mismatch" in ran.stderr
    table = pa.table({"vector": list(ROWS), "maker": MAKERS})
    pq.write_table(table, tmp_path / "corpus.parquet")
    ran = CliRunner().invoke(
        app, [*scored, "--corpus", str(tmp_path / "corpus.parquet"), "--model-column", "maker"]
    )
    assert ran.exit_code == 2
    assert "minilm there, a, b here" in ran.stderr
