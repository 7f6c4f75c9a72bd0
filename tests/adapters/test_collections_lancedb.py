"""Existing LanceDB tables: discovered, searched and streamed without a change to their files."""

import lancedb
import lancedb.index
import numpy as np
import pyarrow as pa
import pytest
from embedded_collections import (
    CITIES,
    DIMENSION,
    FILTERS,
    IDS,
    QUERIES,
    ROW_OF,
    ROWS,
    VECTORS,
    K,
    files,
    nearest,
    recall,
    streamed,
    table,
)

from recallatk.adapters.target_schemes import open_collection
from recallatk.core import Metric
from recallatk.errors import EngineError, FilterError, MismatchError, RecallError, UsageError
from recallatk.filters import parse_filter


def made(folder, rows=None, index="HnswSq", metric="cosine", name="items"):
    database = lancedb.connect(folder)
    held = database.create_table(name, table() if rows is None else rows, on_bad_vectors="null")
    if index:
        kind = getattr(lancedb.index, index)
        held.create_index("embedding", config=kind(distance_type=metric, num_partitions=4))
    return held


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("lance")
    made(place)
    return place


@pytest.fixture
def opened(folder):
    with open_collection(f"lancedb://{folder}/items") as collection:
        yield collection


def test_a_table_tells_what_it_is(opened):
    found = opened.discovery()
    assert (found.rows, found.dimension, found.metric) == (ROWS, DIMENSION, Metric.COSINE)
    assert found.index == "IVF_HNSW_SQ embedding_idx on embedding (cosine) over 2,000 rows"
    assert found.columns == {"city": "string", "price": "int64"}
    assert (found.notes, found.quantized, found.exact) == ((), False, "float[32]")
    assert [each.name for each in opened.knobs()] == ["nprobes", "ef", "refine_factor"]


def test_exact_search_agrees_with_numpy(opened):
    for query in QUERIES:
        found = opened.exact(query, K, None)
        assert found.ids == nearest(query, "cosine")
        assert np.all(np.diff(found.distances) >= 0)
        assert not found.complete
    assert opened.exact(QUERIES[0], ROWS, None).complete


def test_effort_raises_recall_and_every_call_tells_whether_the_index_answered(opened):
    opened.configure({"nprobes": 1, "ef": 10})
    low = recall(opened, "cosine")
    opened.configure({"nprobes": 4, "ef": 300, "refine_factor": 5})
    assert low < 0.9 < recall(opened, "cosine")
    pair = opened.pair(QUERIES[0], K, 2 * K, None)
    assert (pair.answer.used_index, pair.changed, len(pair.exact.ids)) == (True, False, 2 * K)
    assert pair.answer.seconds > 0


@pytest.mark.parametrize("text", FILTERS)
def test_filters_run_on_the_tables_own_columns(opened, text):
    condition, mask = parse_filter(text), np.array(FILTERS[text])
    assert opened.refusal(condition) is None
    opened.configure({"nprobes": 4, "ef": 500, "refine_factor": 10})
    for query in QUERIES[:5]:
        assert opened.exact(query, K, condition).ids == nearest(query, "cosine", mask)
        answer = opened.answer(query, K, condition)
        assert all(mask[ROW_OF[each]] for each in answer.ids)
        assert len(set(answer.ids) & set(nearest(query, "cosine", mask))) >= 8


def test_every_row_is_streamed_once_with_its_columns(opened, monkeypatch):
    monkeypatch.setattr(type(opened), "block_rows", 300)
    found = streamed(opened)
    assert max(len(each) for each in opened.batches([])) <= 300
    assert sorted(found["id"].to_pylist()) == IDS
    rows = [ROW_OF[each] for each in found["id"].to_pylist()]
    np.testing.assert_array_equal(np.array(found["vector"].to_pylist(), "float32"), VECTORS[rows])
    assert found["city"].to_pylist() == [CITIES[row] for row in rows]


def test_a_sample_is_the_same_for_the_same_seed(opened):
    ids, vectors = opened.sample(50, 7)
    again, _ = opened.sample(50, 7)
    other, _ = opened.sample(50, 8)
    assert len(set(ids)) == 50
    assert ids == again != other
    np.testing.assert_array_equal(vectors, VECTORS[[ROW_OF[each] for each in ids]])
    assert len(opened.sample(5_000, 1)[0]) == ROWS


def test_no_file_changes(folder):
    before = files(folder)
    with open_collection(f"lancedb://{folder}/items") as collection:
        collection.configure({"nprobes": 2})
        collection.pair(QUERIES[0], K, K, parse_filter("city = 'c1'"))
        collection.sample(10, 0)
        streamed(collection)
    assert files(folder) == before


def test_later_writes_do_not_reach_the_opened_version(tmp_path):
    made(tmp_path, table(300), index=None)
    with open_collection(f"lancedb://{tmp_path}/items") as collection:
        lancedb.connect(tmp_path).open_table("items").delete("id > 100")
        assert len(collection.exact(QUERIES[0], 300, None).ids) == 300


def test_rows_without_vector_outside_the_index_and_without_index_are_noted(tmp_path):
    holes = pa.array(
        [None if row % 4 == 0 else VECTORS[row] for row in range(400)], pa.list_(pa.float32(), 32)
    )
    rows = table(400).set_column(1, "embedding", holes)
    held = made(tmp_path, rows, index=None)
    with open_collection(f"lancedb://{tmp_path}/items") as collection:
        found = collection.discovery()
        assert found.index is None
        assert found.metric is Metric.L2
        assert collection.knobs() == ()
        assert [note.partition(":")[0] for note in found.notes] == [
            "100 rows have no vector in 'embedding'; searches cannot find them",
            "no vector index",
            "metric",
        ]
        assert not collection.answer(QUERIES[0], K, None).used_index
        assert len(streamed(collection)) == 300
        assert len(collection.sample(400, 0)[0]) == 300
        assert collection.exact(QUERIES[0], 400, None).complete
    held.create_index("embedding", config=lancedb.index.IvfFlat(distance_type="dot", num_partitions=2))
    held.add(table(10, id=list(range(-10, 0))))
    with open_collection(f"lancedb://{tmp_path}/items") as collection:
        assert collection.discovery().metric is Metric.IP
        assert any("10 rows are not in the index" in note for note in collection.discovery().notes)


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ("nothing/items", "the folder .* does not exist"),
        ("things", "no table 'things'. The tables are: items"),
        ("items?vector=embeding", "Did you mean embedding"),
        ("items?id=name", "no id column 'name'"),
        ("items?metric=cosin", "no metric 'cosin'.*cosine"),
        ("items?tabel=x", "no option 'tabel'"),
    ],
)
def test_a_wrong_target_is_told_what_there_is(folder, rest, said):
    before = files(folder)
    with pytest.raises(UsageError, match=said):
        open_collection(f"lancedb://{folder}/{rest}")
    assert files(folder) == before
    assert not (folder / "nothing").exists()


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (table(0), "has no rows"),
        (table(4, id=[1, 2, 2, 3]), "1 duplicate id in column 'id'"),
        (table(4, id=[1, None, None, 3]), "2 null ids in column 'id'"),
        (table(4, id=[0.5, 1.5, 2.5, 3.5]), "'id' holds double. Ids are whole numbers or text"),
        (table(4).drop_columns("id"), "name the id column with id=. The columns are: city or price"),
        (table(4).drop_columns("embedding"), "no column of float vectors"),
        (table(4, second=table(4)["embedding"]), "name the vector column with vector="),
    ],
)
def test_a_table_that_cannot_be_probed_says_why(tmp_path, rows, said):
    made(tmp_path, rows, index=None)
    with pytest.raises(RecallError, match=said):
        open_collection(f"lancedb://{tmp_path}/items")


def test_wrong_parameters_metrics_and_filters_are_refused(folder, opened):
    with pytest.raises(MismatchError, match=r"metric mismatch: the index .* uses cosine"):
        open_collection(f"lancedb://{folder}/items?metric=l2")
    with pytest.raises(UsageError, match=r"nprobes = 0. Accepted: whole numbers from 1"):
        opened.configure({"nprobes": 0})
    with pytest.raises(UsageError, match="takes no --set"):
        opened.configure({}, {"a": "b"})
    with pytest.raises(FilterError, match=r"no column 'town'. The columns are: id, city, price"):
        opened.answer(QUERIES[0], K, parse_filter("town = 'x'"))
    with pytest.raises(EngineError, match="lancedb failed"):
        opened.answer(QUERIES[0][:5], K, None)


def test_columns_of_dates_cannot_be_filtered_natively(tmp_path):
    made(tmp_path, table(10, day=pa.array(range(10), pa.date32())), index=None)
    with open_collection(f"lancedb://{tmp_path}/items") as collection:
        refused = collection.refusal(parse_filter("day > '1970-01-03'"))
        assert refused == "lancedb cannot filter by 'day', which holds date32[day]"
