"""VectorDBBench folders: shards, queries, neighbors by id, and labels found by id."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from writers import numbers

from recallatk.core import Origin
from recallatk.datasets import inspect, open_corpus, open_dataset, open_queries, read_truth
from recallatk.errors import BadValueError, FormatError, MismatchError, UsageError

CORPUS, QUERIES = numbers(20, 4), numbers(5, 4, seed=8)
# The ids are not the row numbers, so that taking one for the other shows.
IDS = np.random.default_rng(3).permutation(20)
NEIGHBORS = np.array([[3, 1], [0, 19], [7, 8], [2, 5], [11, 4]])


def embeddings(path, ids, matrix):
    table = pa.table({"id": pa.array(ids, pa.int64()), "emb": pa.array(list(matrix), pa.list_(pa.float32()))})
    pq.write_table(table, path)


@pytest.fixture
def folder(tmp_path):
    embeddings(tmp_path / "test.parquet", range(5), QUERIES)
    neighbors = pa.table({"id": range(5), "neighbors_id": pa.array(NEIGHBORS.tolist())})
    pq.write_table(neighbors, tmp_path / "neighbors.parquet")
    return tmp_path


def write_train(folder, stem="train", shards=1):
    pieces = np.array_split(np.arange(20), shards)
    for number, rows in enumerate(pieces):
        name = f"{stem}.parquet" if shards == 1 else f"{stem}-{number:02}-of-{shards:02}.parquet"
        embeddings(folder / name, IDS[rows], CORPUS[rows])


@pytest.mark.parametrize("shards", [1, 3, 10])
@pytest.mark.parametrize("stem", ["train", "shuffle_train"])
def test_corpus_queries_and_truth_are_found(folder, same, shards, stem):
    write_train(folder, stem, shards)
    dataset = open_dataset(folder, metric="cosine")
    same(dataset.corpus, CORPUS)
    same(dataset.queries, QUERIES)
    assert dataset.corpus.ids.to_pylist() == IDS.tolist()
    truth = read_truth(folder, metric="cosine")
    assert IDS[truth.rows].tolist() == NEIGHBORS.tolist()
    assert (truth.origin, truth.metric, truth.scores) == (Origin.IMPORTED, "cosine", None)


def test_the_unshuffled_shards_are_taken_where_both_are_there(folder):
    write_train(folder)
    embeddings(folder / "shuffle_train.parquet", range(3), CORPUS[:3])
    assert open_corpus(folder).rows == 20


def test_the_metric_has_to_be_stated(folder):
    write_train(folder)
    with pytest.raises(UsageError, match="does not state one"):
        open_dataset(folder)


@pytest.mark.parametrize("missing", ["train-00-of-03.parquet", "train-02-of-03.parquet"])
def test_a_missing_shard_is_refused(folder, missing):
    write_train(folder, shards=3)
    (folder / missing).unlink()
    with pytest.raises(
        FormatError, match=r"of 3 train shards only these exist: train-01-of-03|train-00-of-03"
    ):
        open_corpus(folder)


@pytest.mark.parametrize("name", ["train.parquet", "train-01-of-04.parquet", "train-03-of-03.parquet"])
def test_shards_of_two_sets_are_refused(folder, name):
    write_train(folder, shards=3)
    embeddings(folder / name, range(20, 23), CORPUS[:3])
    with pytest.raises(FormatError, match="every shard of one set"):
        open_corpus(folder)


def test_labels_are_found_by_id(folder):
    write_train(folder, shards=2)
    labels = [f"label {i}" for i in range(25)]
    pq.write_table(pa.table({"id": range(25), "labels": labels}), folder / "scalar_labels.parquet")
    corpus = open_corpus(folder)
    assert corpus.metadata_names == ["labels"]
    assert corpus.metadata["labels"].to_pylist() == [labels[i] for i in IDS]
    both = corpus.columns.read(["labels", "id"], 3, 15)
    assert both.column_names[0] == "labels"
    assert both["labels"].to_pylist() == [labels[i] for i in IDS[3:15]]
    assert corpus.ids.to_pylist() == IDS.tolist()
    assert inspect(folder)["columns"] == {"labels": "string"}


def test_labels_go_by_their_own_ids_where_they_have_some(folder):
    write_train(folder, shards=2)
    order = np.random.default_rng(1).permutation(20)
    table = pa.table({"id": order, "labels": [f"label {i}" for i in order]})
    pq.write_table(table, folder / "scalar_labels.parquet")
    assert open_corpus(folder).metadata["labels"].to_pylist() == [f"label {i}" for i in IDS]
    pq.write_table(table.slice(1), folder / "scalar_labels.parquet")
    with pytest.raises(FormatError, match=f"no label for id {order[0]}"):
        _ = open_corpus(folder).metadata
    pq.write_table(pa.concat_tables([table, table.slice(19)]), folder / "scalar_labels.parquet")
    with pytest.raises(BadValueError, match=r"scalar_labels\.parquet \(id\), row 20: duplicate id"):
        _ = open_corpus(folder).metadata


def test_neighbors_of_other_queries_are_refused_and_not_taken_by_position(folder):
    write_train(folder)
    neighbors = pa.table({"id": [0, 1, 2, 3, 40], "neighbors_id": pa.array(NEIGHBORS.tolist())})
    pq.write_table(neighbors, folder / "neighbors.parquet")
    with pytest.raises(MismatchError, match="no neighbors of query 4, which"):
        read_truth(folder)


def test_labels_that_do_not_reach_are_refused_with_the_row(folder):
    write_train(folder)
    pq.write_table(pa.table({"labels": ["x"] * 19}), folder / "scalar_labels.parquet")
    corpus = open_corpus(folder)
    with pytest.raises(FormatError, match="no label for id 19") as caught:
        _ = corpus.metadata
    assert caught.value.row == IDS.tolist().index(19)


def test_labels_without_labels_ids_or_place_are_refused(folder):
    write_train(folder)
    pq.write_table(pa.table({"id": [1]}), folder / "scalar_labels.parquet")
    with pytest.raises(FormatError, match="no column 'labels'"):
        open_corpus(folder)
    pq.write_table(pa.table({"labels": ["x"] * 20}), folder / "scalar_labels.parquet")
    vectors = pa.array(list(CORPUS), pa.list_(pa.float32()))
    pq.write_table(pa.table({"id": [f"s{i}" for i in IDS], "emb": vectors}), folder / "train.parquet")
    with pytest.raises(FormatError, match="no integer ids"):
        open_corpus(folder)
    pq.write_table(pa.table({"id": IDS, "emb": vectors, "labels": ["x"] * 20}), folder / "train.parquet")
    with pytest.raises(FormatError, match="too"):
        open_corpus(folder)


def test_a_lone_neighbors_file_needs_a_corpus(folder):
    write_train(folder)
    path = folder / "neighbors.parquet"
    with pytest.raises(UsageError, match="corpus="):
        read_truth(path)
    truth = read_truth(path, corpus=open_corpus(folder / "train.parquet"), metric="l2")
    assert IDS[truth.rows].tolist() == NEIGHBORS.tolist()
    assert truth.metric == "l2"


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.list_(pa.int32(), 2), pa.large_list(pa.uint64())])
def test_neighbors_may_be_lists_of_any_kind(folder, kind):
    write_train(folder)
    table = pa.table({"neighbors": pa.array(NEIGHBORS.tolist(), kind)})
    pq.write_table(table, folder / "neighbors.parquet")
    assert IDS[read_truth(folder).rows].tolist() == NEIGHBORS.tolist()


def test_short_lists_of_neighbors_are_padded(folder):
    write_train(folder)
    lists = [[3, 1], [0], None, [2, 5], []]
    pq.write_table(pa.table({"neighbors_id": lists}), folder / "neighbors.parquet")
    rows = read_truth(folder).rows
    assert (rows < 0).sum(axis=1).tolist() == [0, 1, 2, 0, 2]


def test_neighbors_go_by_the_ids_of_their_queries(folder):
    write_train(folder)
    asked = pq.read_table(folder / "test.parquet")["id"].to_pylist()
    lists = [[3, 1], [0, 1], [1, 2], [2, 0], [4, 0]]
    for names, expected in ((asked[::-1], lists[::-1]), ([900, 901, 902, 903, 904], lists)):
        pq.write_table(pa.table({"id": names, "neighbors_id": lists}), folder / "neighbors.parquet")
        assert IDS[read_truth(folder).rows].tolist() == expected


def test_neighbors_that_do_not_belong_are_refused(folder):
    write_train(folder)
    path = folder / "neighbors.parquet"
    pq.write_table(pa.table({"neighbors_id": [[3, 1], [99, 0], [1, 2], [1, 2], [1, 2]]}), path)
    with pytest.raises(MismatchError, match="the neighbor 99 is not an id of"):
        read_truth(folder)
    pq.write_table(pa.table({"neighbors_id": [[3, 1]]}), path)
    with pytest.raises(MismatchError, match=r"1 queries .* has 5"):
        read_truth(folder)
    pq.write_table(pa.table({"neighbors_id": [[0.5]] * 5}), path)
    with pytest.raises(FormatError):
        read_truth(folder)
    pq.write_table(pa.table({"other": [[1]]}), path)
    with pytest.raises(FormatError, match="neighbors_id"):
        read_truth(folder)


def test_a_folder_without_neighbors_has_no_truth(folder):
    write_train(folder)
    (folder / "neighbors.parquet").unlink()
    assert open_queries(folder).rows == 5
    with pytest.raises(FormatError, match="no ground truth"):
        read_truth(folder)
