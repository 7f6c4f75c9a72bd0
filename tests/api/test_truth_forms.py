"""Ground truth of data in every form, with the store or without."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import recallatk
from recallatk import RecallError, ground_truth, load_truth, open_dataset, save_truth, verify_truth
from recallatk.truths import compute, store

VECTORS = np.random.default_rng(0).normal(size=(60, 5)).astype("float32")
QUERIES = VECTORS[:4] + np.float32(0.1)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "recallatk"


@pytest.mark.parametrize(
    "form",
    [
        np.asarray,
        lambda each: each.tolist(),
        lambda each: pd.DataFrame({"vector": list(each)}),
        lambda each: pl.DataFrame({"vector": each}),
        lambda each: pa.table({"vector": list(each)}),
    ],
    ids=["numpy", "lists", "pandas", "polars", "arrow"],
)
def test_every_form_has_the_same_truth(form, cache):
    expected = compute.ground_truth(open_dataset(VECTORS, QUERIES, metric="cosine"), depth=7)
    truth = ground_truth(form(VECTORS), form(QUERIES), metric="cosine", depth=7)
    assert np.array_equal(truth.rows, expected.rows) and truth.certificate is not None
    assert verify_truth(truth, form(VECTORS), form(QUERIES), metric="cosine").right
    assert verify_truth(truth.rows, form(VECTORS), form(QUERIES), metric="cosine").right


def test_a_truth_is_computed_once(cache, monkeypatch):
    dataset = open_dataset(VECTORS, QUERIES, metric="l2")
    first = ground_truth(dataset, depth=3)
    assert store.default_folder() == cache and len(list(cache.glob("truth/*/truth.parquet"))) == 1
    monkeypatch.setattr(compute, "ExactSearch", None)
    assert np.array_equal(ground_truth(dataset, depth=3).scores, first.scores)


def test_the_store_can_be_another_or_none(cache, tmp_path):
    dataset = open_dataset(VECTORS, QUERIES, metric="l2")
    ground_truth(dataset, depth=3, store=tmp_path / "store")
    assert len(list(tmp_path.glob("store/truth/*/truth.parquet"))) == 1
    earlier = ground_truth(open_dataset(VECTORS[:50], QUERIES, metric="l2"), depth=3, store=False)
    later = ground_truth(dataset, depth=3, since=earlier)
    assert np.array_equal(later.rows, ground_truth(dataset, depth=3, store=False).rows)
    assert not cache.exists()


def test_a_store_that_cannot_be_written_is_refused_with_the_way_out(tmp_path):
    (tmp_path / "store").write_text("no folder")
    with pytest.raises(RecallError, match="store=False to compute without a store"):
        ground_truth(VECTORS, QUERIES, metric="l2", store=tmp_path / "store")


def test_a_dataset_stands_for_corpus_and_queries(cache):
    dataset = open_dataset({"vector": VECTORS, "n": range(60)}, QUERIES, metric="l2")
    truth = ground_truth(dataset, depth=3, where="n < 2")
    assert truth.eligible.tolist() == [2, 2, 2, 2]
    with pytest.raises(RecallError, match="metric mismatch: the dataset uses l2, not cosine"):
        ground_truth(dataset, metric="cosine")
    with pytest.raises(RecallError, match="no metric: corpus does not state one"):
        ground_truth(VECTORS, QUERIES)


def test_a_file_is_verified_against_a_frame(tmp_path, cache):
    frame = pd.DataFrame({"id": [f"d{row}" for row in range(60)], "vector": list(VECTORS)})
    save_truth(ground_truth(frame, QUERIES, metric="ip", depth=3), tmp_path / "truth.parquet")
    assert verify_truth(tmp_path / "truth.parquet", frame, QUERIES, metric="ip").right
    other = verify_truth(tmp_path / "truth.parquet", frame[::-1], QUERIES, metric="ip")
    assert not other.right and other.other_data


def test_our_own_file_is_checked_against_what_is_given(tmp_path, cache):
    save_truth(ground_truth(VECTORS, QUERIES, metric="ip", depth=3), tmp_path / "truth.parquet")
    assert load_truth(tmp_path / "truth.parquet", corpus=VECTORS, metric="ip").depth == 3
    with pytest.raises(RecallError, match="metric mismatch: the truth uses ip, not l2"):
        load_truth(tmp_path / "truth.parquet", metric="l2")
    with pytest.raises(RecallError, match="the corpus has 50"):
        load_truth(tmp_path / "truth.parquet", corpus=VECTORS[:50])


def test_tests_do_not_write_into_the_users_cache():
    from pathlib import Path

    assert not store.default_folder().is_relative_to(Path.home() / ".cache")


def test_the_old_names_still_work(tmp_path):
    dataset = open_dataset(VECTORS, QUERIES, metric="l2")
    with pytest.warns(DeprecationWarning, match=r"use recallatk\.ground_truth"):
        found = recallatk.obtain_truth(dataset, depth=3, store=tmp_path)
    np.save(tmp_path / "truth.npy", found.truth.rows)
    with pytest.warns(DeprecationWarning, match=r"use recallatk\.load_truth"):
        again = recallatk.read_truth(tmp_path / "truth.npy")
    assert np.array_equal(again.rows, found.truth.rows)
