"""BEIR folders: texts and judgments with vectors beside them."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from writers import numbers

from recallatk.datasets import convert, inspect, open_corpus, open_dataset, open_queries
from recallatk.errors import FormatError, MismatchError

CORPUS, QUERIES = numbers(6, 4), numbers(3, 4, seed=8)


def lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def folder(tmp_path):
    """A folder as BEIR unpacks it."""
    lines(
        tmp_path / "corpus.jsonl",
        [{"_id": f"d{i}", "title": "", "text": f"document {i}", "metadata": {}} for i in range(6)],
    )
    lines(
        tmp_path / "queries.jsonl",
        [{"_id": f"q{i}", "text": f"question {i}", "metadata": {}} for i in range(3)],
    )
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text(
        "query-id\tcorpus-id\tscore\nq0\td1\t1\nq0\td3\t2\nq2\td0\t0\n"
    )
    (tmp_path / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\n")
    return tmp_path


@pytest.fixture
def with_vectors(folder):
    np.save(folder / "corpus.npy", CORPUS)
    np.save(folder / "queries.npy", QUERIES)
    return folder


def test_texts_vectors_and_judgments_come_together(with_vectors, same):
    dataset = open_dataset(with_vectors, metric="cosine")
    same(dataset.corpus, CORPUS)
    same(dataset.queries, QUERIES)
    assert dataset.corpus.ids.to_pylist() == [f"d{i}" for i in range(6)]
    assert dataset.corpus.metadata_names == ["title", "text"]
    assert dataset.queries.text_column == "text"
    assert dataset.queries.metadata["text"].to_pylist()[1] == "question 1"
    assert dataset.qrels == {"q0": {"d1": 1, "d3": 2}, "q2": {"d0": 0}}
    found = inspect(with_vectors)
    assert (found["format"], found["has_qrels"], found["queries"]["rows"]) == ("beir", True, 3)


def test_vectors_may_stand_in_the_lines_themselves(folder, same):
    lines(folder / "corpus.jsonl", [{"_id": f"d{i}", "vector": row.tolist()} for i, row in enumerate(CORPUS)])
    np.save(folder / "queries.npy", QUERIES)
    same(open_corpus(folder), CORPUS)
    same(open_queries(folder), QUERIES)


def test_vectors_with_ids_must_have_the_same_ids_in_the_same_order(with_vectors, same):
    (with_vectors / "corpus.npy").unlink()

    def write(ids):
        vectors = pa.array(list(CORPUS), pa.list_(pa.float32()))
        pq.write_table(pa.table({"id": ids, "vector": vectors}), with_vectors / "corpus.parquet")
        return open_corpus(with_vectors)

    corpus = write([f"d{i}" for i in range(6)])
    same(corpus, CORPUS)
    assert corpus.ids.to_pylist()[5] == "d5"
    with pytest.raises(MismatchError, match="different ids"):
        _ = write([f"d{i}" for i in (1, 0, 2, 3, 4, 5)]).ids
    with pytest.raises(MismatchError, match="different ids"):
        _ = write(list(range(6))).ids


def test_another_number_of_lines_than_vectors_is_refused(with_vectors):
    np.save(with_vectors / "corpus.npy", CORPUS[:5])
    with pytest.raises(MismatchError, match=r"6 lines and .*corpus.npy has 5 vectors"):
        _ = open_corpus(with_vectors).ids
    np.save(with_vectors / "queries.npy", np.vstack([QUERIES, QUERIES]))
    with pytest.raises(MismatchError, match=r"3 lines and .*queries.npy has 6 vectors"):
        open_queries(with_vectors)


def test_no_vectors_and_too_many_of_them_are_refused(folder):
    with pytest.raises(FormatError, match="vectors of the corpus: none"):
        open_corpus(folder)
    np.save(folder / "corpus.npy", CORPUS)
    np.savez(folder / "corpus.npz", CORPUS)
    with pytest.raises(FormatError, match=r"corpus.npy, corpus.npz"):
        open_corpus(folder)


def test_a_part_can_be_converted_with_its_texts(with_vectors, tmp_path):
    convert(with_vectors, tmp_path / "q.parquet", part="queries")
    table = pq.read_table(tmp_path / "q.parquet")
    assert table["id"].to_pylist() == ["q0", "q1", "q2"]
    assert table["text"].to_pylist()[0] == "question 0"


def test_a_folder_without_judgments_has_none(with_vectors):
    for path in (with_vectors / "qrels").iterdir():
        path.unlink()
    assert open_dataset(with_vectors, metric="ip").qrels is None
