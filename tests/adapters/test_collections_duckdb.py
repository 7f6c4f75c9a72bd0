"""Existing DuckDB tables: attached read-only, with and without an HNSW index."""

import shutil

import duckdb
import numpy as np
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

from recallatk.adapters.duckdb import _extension
from recallatk.adapters.probe_limits import ProbeLimits
from recallatk.adapters.target_schemes import open_collection
from recallatk.core import Metric
from recallatk.errors import EngineError, FilterError, MismatchError, RecallError, UsageError
from recallatk.filters import parse_filter


def made(file, rows=None, metric="cosine", *, later=()):
    """Write a file with an index; statements that come later stay in its log if the file is copied."""
    with duckdb.connect(str(file), config={"autoinstall_known_extensions": "false"}) as connection:
        connection.load_extension(str(_extension(duckdb.__version__)))
        connection.execute("SET hnsw_enable_experimental_persistence = true")
        connection.register("given", table() if rows is None else rows)
        connection.execute("CREATE TABLE items AS SELECT * FROM given")
        if metric:
            connection.execute(
                f"CREATE INDEX by_vector ON items USING HNSW (embedding) WITH (metric = '{metric}')"
            )
        for statement in later:
            connection.execute(statement)
    return file


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return made(tmp_path_factory.mktemp("duck") / "it's.db")


@pytest.fixture
def opened(file):
    with open_collection(f"duckdb://{file}?table=items&vector=embedding") as collection:
        yield collection


def test_a_table_tells_what_it_is(opened):
    found = opened.discovery()
    assert (found.rows, found.dimension, found.metric) == (ROWS, DIMENSION, Metric.COSINE)
    assert found.index == "CREATE INDEX by_vector ON items USING HNSW (embedding) WITH (metric = 'cosine')"
    assert found.columns == {"city": "VARCHAR", "price": "BIGINT"}
    assert (found.notes, found.exact) == ((), "FLOAT[32]")
    assert not opened.on_copy


@pytest.mark.parametrize(("kind", "metric"), [("l2sq", "l2"), ("ip", "ip"), ("cosine", "cosine")])
def test_exact_search_agrees_with_numpy_for_every_metric(tmp_path, kind, metric):
    with open_collection(f"duckdb://{made(tmp_path / 'a.db', metric=kind)}") as collection:
        assert collection.discovery().metric == Metric(metric)
        for query in QUERIES:
            found = collection.exact(query, K, None)
            assert found.ids == nearest(query, metric)
            assert np.all(np.diff(found.distances) >= 0)
            assert not found.complete
        assert collection.exact(QUERIES[0], ROWS, None).complete
        collection.configure({"ef": 500})
        assert recall(collection, metric) > 0.9


def test_effort_raises_recall_and_every_call_tells_whether_the_index_answered(opened):
    opened.configure({"ef": 10})
    low = recall(opened, "cosine")
    opened.configure({"ef": 500})
    assert low < 0.9 < recall(opened, "cosine")
    pair = opened.pair(QUERIES[0], K, 2 * K, None)
    assert (pair.answer.used_index, pair.changed, len(pair.exact.ids)) == (True, False, 2 * K)
    opened.configure({})
    assert opened.answer(QUERIES[0], K, None).used_index


@pytest.mark.parametrize("text", FILTERS)
def test_filters_are_exact_in_scans_and_leave_answers_short_with_the_index(opened, text):
    condition, mask = parse_filter(text), np.array(FILTERS[text])
    assert opened.refusal(condition) is None
    for query in QUERIES[:5]:
        assert opened.exact(query, K, condition).ids == nearest(query, "cosine", mask)
        answer = opened.answer(query, K, condition)
        assert all(mask[ROW_OF[each]] for each in answer.ids)
        # vss takes k neighbors, then filters.
        assert not answer.used_index or len(answer.ids) < K


def test_every_row_is_streamed_once_with_its_columns(opened, monkeypatch):
    monkeypatch.setattr(type(opened), "block_rows", 300)
    found = streamed(opened)
    assert max(len(each) for each in opened.batches([])) <= 300
    assert sorted(found["id"].to_pylist()) == IDS
    rows = [ROW_OF[each] for each in found["id"].to_pylist()]
    np.testing.assert_array_equal(np.array(found["vector"].to_pylist(), "float32"), VECTORS[rows])
    assert found["city"].to_pylist() == [CITIES[row] for row in rows]


def test_searches_go_on_while_rows_are_streamed(opened):
    seen = 0
    for batch in opened.batches(["city"]):
        seen += len(batch)
        assert len(opened.exact(QUERIES[0], K, None).ids) == K
    assert seen == ROWS


def test_a_sample_is_the_same_for_the_same_seed(opened):
    ids, vectors = opened.sample(50, 7)
    assert len(set(ids)) == 50
    assert ids == opened.sample(50, 7)[0] != opened.sample(50, 8)[0]
    np.testing.assert_array_equal(vectors, VECTORS[[ROW_OF[each] for each in ids]])
    assert len(opened.sample(5_000, 1)[0]) == ROWS


def test_no_file_changes(file):
    before = files(file.parent)
    with open_collection(f"duckdb://{file}") as collection:
        collection.configure({"ef": 20})
        collection.pair(QUERIES[0], K, K, parse_filter("city = 'c1'"))
        collection.sample(10, 0)
        streamed(collection)
    assert files(file.parent) == before


def test_a_log_that_was_left_behind_is_read_and_stays(tmp_path):
    made(tmp_path / "a.db", table(300), "l2sq")
    with duckdb.connect(str(tmp_path / "a.db")) as connection:
        connection.load_extension(str(_extension(duckdb.__version__)))
        connection.execute("SET hnsw_enable_experimental_persistence = true")
        connection.execute("INSERT INTO items SELECT -1, embedding, city, price FROM items WHERE id = 5")
        (tmp_path / "copy").mkdir()
        for name in ("a.db", "a.db.wal"):
            shutil.copy2(tmp_path / name, tmp_path / "copy" / name)
    before = files(tmp_path / "copy")
    with open_collection(f"duckdb://{tmp_path}/copy/a.db") as collection:
        assert collection.discovery().rows == 301
        assert sorted(collection.exact(VECTORS[0], 2, None).ids) == [-1, 5]
    assert files(tmp_path / "copy") == before


def test_rows_without_vector_and_tables_without_index_are_noted(tmp_path):
    hole = "UPDATE items SET embedding = NULL WHERE id % 4 = 1"
    file = made(tmp_path / "a.db", table(400), None, later=[hole])
    with pytest.raises(UsageError, match=r"no HNSW index on 'embedding' states the metric. Add metric=l2"):
        open_collection(f"duckdb://{file}")
    with open_collection(f"duckdb://{file}?metric=l2") as collection:
        found = collection.discovery()
        assert (found.index, collection.knobs()) == (None, ())
        assert [note.partition(":")[0] for note in found.notes] == [
            "100 rows have no vector in 'embedding'; searches cannot find them",
            "no HNSW index",
        ]
        assert collection.answer(QUERIES[0], K, None).used_index is False
        assert len(streamed(collection)) == len(collection.sample(400, 0)[0]) == 300
        assert collection.exact(QUERIES[0], 300, None).complete
        with pytest.raises(UsageError, match="no parameter 'ef'"):
            collection.configure({"ef": 5})


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ("?table=thing", "no table 'thing'. Name one with table=: items"),
        ("?vector=embeding", "Did you mean embedding"),
        ("?vector=city", r"vectors are in columns such as FLOAT\[384\]. It has city VARCHAR"),
        ("?id=name", "no id column 'name'"),
        ("?metric=cosin", "no metric 'cosin'.*cosine"),
        ("?tabel=x", "no option 'tabel'"),
        (".missing", "does not exist. Type it as duckdb://file.db"),
    ],
)
def test_a_wrong_target_is_told_what_there_is(file, rest, said):
    before = files(file.parent)
    with pytest.raises(RecallError, match=said):
        open_collection(f"duckdb://{file}{rest}")
    assert files(file.parent) == before


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (table(0), "has no rows"),
        (table(4, id=[1, 2, 2, 3]), "1 duplicate id in column 'id'"),
        (table(4, id=[1, None, None, 3]), "2 null ids in column 'id'"),
        (table(4).drop_columns("id"), "name the id column with id=. The columns are: city, price or rowid"),
        (table(4, second=table(4)["embedding"]), "name the vector column with vector="),
    ],
)
def test_a_table_that_cannot_be_probed_says_why(tmp_path, rows, said):
    made(tmp_path / "a.db", rows, None)
    with pytest.raises(RecallError, match=said):
        open_collection(f"duckdb://{tmp_path}/a.db")


def test_row_numbers_can_be_ids(tmp_path):
    file = made(tmp_path / "a.db", table(300).drop_columns("id"), "l2sq")
    with open_collection(f"duckdb://{file}?id=rowid") as collection:
        assert collection.exact(VECTORS[7], 1, None).ids == [7]
        assert sorted(streamed(collection)["id"].to_pylist()) == list(range(300))
        assert len(collection.sample(10, 0)[0]) == 10


def test_wrong_parameters_metrics_filters_and_files_are_refused(file, opened, tmp_path):
    with pytest.raises(MismatchError, match="metric mismatch: the index CREATE INDEX"):
        open_collection(f"duckdb://{file}?metric=l2")
    with pytest.raises(UsageError, match=r"ef = 0. Accepted: whole numbers from 1"):
        opened.configure({"ef": 0})
    with pytest.raises(FilterError, match=r"no column 'town'. The columns are: id, city, price"):
        opened.answer(QUERIES[0], K, parse_filter("town = 'x'"))
    with pytest.raises(EngineError, match="duckdb failed"):
        opened.answer(QUERIES[0][:5], K, None)
    (tmp_path / "other.db").write_text("not a database " * 1000)
    with pytest.raises(EngineError, match="cannot be read"):
        open_collection(f"duckdb://{tmp_path}/other.db")


def test_a_statement_that_takes_too_long_is_stopped(opened):
    opened.limits = ProbeLimits(seconds=0.2)
    with pytest.raises(EngineError, match=r"longer than 0.2 s and was stopped"):
        opened._rows("SELECT sum(sqrt(a.range * b.range)) FROM range(1000000) a, range(1000000) b")
    assert len(opened.answer(QUERIES[0], K, None).ids) == K
