"""Existing SQLite tables: vec0 of every type, BLOBs in ordinary tables, and files that nothing changes."""

import shutil

import numpy as np
import pytest
from embedded_collections import (
    CITIES,
    DIMENSION,
    FILTERS,
    IDS,
    PRICES,
    QUERIES,
    ROW_OF,
    ROWS,
    VECTORS,
    K,
    files,
    nearest,
    recall,
    streamed,
)
from sqlite_files import WHOLE, WORDS, connect, made, stored, url

from recallatk.adapters.probe_limits import ProbeLimits
from recallatk.adapters.target_schemes import open_collection
from recallatk.core import Metric
from recallatk.errors import EngineError, FilterError, RecallError, UsageError
from recallatk.filters import parse_filter

SCALARS = {
    "word = 'the word number 1'": [word.endswith("1") for word in WORDS],
    "word starts with 'the word number' and whole < 4.5": [each < 4.5 for each in WHOLE],
    "whole in (1, 2, 3) and word != 'the word number 2'": [
        whole in (1, 2, 3) and not word.endswith("2") for word, whole in zip(WORDS, WHOLE, strict=True)
    ],
    "whole = 1 or word = 'the word number 3'": [
        whole == 1 or word.endswith("3") for word, whole in zip(WORDS, WHOLE, strict=True)
    ],
    "share >= 0.25 and share < 0.75": [0.25 <= row % 4 / 4 < 0.75 for row in range(ROWS)],
    "share in (0.25, 0.5) and sold = true": [row % 4 == 1 and row % 2 == 1 for row in range(ROWS)],
    "part in ('p0', 'p1')": [True] * ROWS,
    "part = 'p1' and whole > 5": [row % 2 == 1 and row % 13 > 5 for row in range(ROWS)],
    "whole is not null and not (sold = true)": [row % 2 == 0 for row in range(ROWS)],
}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return made(tmp_path_factory.mktemp("sqlite") / "it's a 100% file?.db")


@pytest.fixture
def opened(file):
    with open_collection(url(file, "?table=items&vector=embedding")) as collection:
        yield collection


def test_a_table_tells_what_it_is(opened):
    found = opened.discovery()
    assert (found.rows, found.dimension, found.metric) == (ROWS, DIMENSION, Metric.COSINE)
    assert (found.index, found.exact, found.quantized) == (None, "float[32]", False)
    assert found.columns == {
        "word": "text", "whole": "integer", "share": "float", "sold": "boolean", "part": "text",
        "city": "text", "price": "integer",
    }  # fmt: skip
    assert [each.partition(":")[0] for each in found.notes] == ["no index"]
    assert not opened.on_copy
    assert opened.knobs() == ()
    assert "compares all rows in every search" in opened.without_effort()


def test_every_answer_is_exact_and_equals_numpy(opened):
    assert recall(opened, "cosine") == 1
    for query in QUERIES:
        pair = opened.pair(query, K, 2 * K, None)
        assert pair.answer.ids == pair.exact.ids[:K] == nearest(query, "cosine")
        assert (pair.answer.used_index, pair.changed, pair.exact.complete) == (False, False, False)
        assert np.all(np.diff(pair.exact.distances) >= 0)
    assert opened.exact(QUERIES[0], ROWS, None).complete


@pytest.mark.parametrize("text", [*FILTERS, *SCALARS])
def test_filters_let_the_nearest_passing_rows_through(opened, text):
    condition, mask = parse_filter(text), np.array({**FILTERS, **SCALARS}[text])
    assert opened.refusal(condition) is None
    assert opened.passing(condition) == mask.sum()
    for query in QUERIES[:5]:
        expected = nearest(query, "cosine", mask)
        assert opened.answer(query, K, condition).ids == expected
        assert opened.exact(query, K, condition).ids == expected


def test_ordinary_tables_of_blobs_are_searched_by_their_scan(tmp_path):
    file = made(tmp_path / "a.db", None, [f"k{each}" for each in IDS], "id text primary key")
    with connect(file) as connection:
        connection.execute("UPDATE items SET embedding = NULL WHERE id IN ('k5', 'k8')")
    connection.close()
    with pytest.raises(UsageError, match=r"does not state the metric. Add metric=l2 or cosine"):
        open_collection(f"sqlite://{file}")
    with open_collection(f"sqlite://{file}?metric=l2") as collection:
        found = collection.discovery()
        assert (found.metric, found.exact, found.rows) == (Metric.L2, "float[32]", ROWS)
        assert any("2 rows have no vector in 'embedding'" in each for each in found.notes)
        there = np.arange(ROWS) > 1
        for text, mask in {**FILTERS, **SCALARS}.items():
            condition = parse_filter(text)
            expected = [f"k{each}" for each in nearest(QUERIES[0], "l2", np.array(mask) & there)]
            assert collection.answer(QUERIES[0], K, condition).ids == expected
            assert collection.passing(condition) == (np.array(mask) & there).sum()
        assert len(streamed(collection)) == len(collection.sample(ROWS, 0)[0]) == ROWS - 2


@pytest.mark.parametrize(("vector", "metric"), [("int8[32]", "l2"), ("bit[32]", "l2"), ("f32[32]", "l2")])
def test_vectors_of_every_type_are_compared_as_stored(tmp_path, vector, metric):
    rows = stored(vector)
    if vector.startswith("bit"):
        rows = np.unpackbits(rows, axis=1, bitorder="little")
    wide = rows.astype(float)
    with open_collection(f"sqlite://{made(tmp_path / 'a.db', vector)}") as collection:
        found = collection.discovery()
        assert (found.metric, found.dimension) == (Metric(metric), DIMENSION)
        assert found.quantized == (not vector.startswith("f"))
        for query in rows[:5]:
            far = np.linalg.norm(wide - query, axis=1)
            limit = np.sort(far)[K - 1]
            for ids in (collection.answer(query, K, None).ids, collection.exact(query, K, None).ids):
                assert far[[ROW_OF[each] for each in ids]].max() == limit
                assert len(set(ids)) == K
        ids, drawn = collection.sample(ROWS, 0)
        np.testing.assert_array_equal(drawn, wide[[ROW_OF[each] for each in ids]].astype("f4"))
        if not vector.startswith("f"):
            with pytest.raises(UsageError, match="Quantize the queries as production does"):
                collection.answer(QUERIES[0], K, None)


def test_every_row_is_streamed_once_with_its_columns(opened, monkeypatch):
    monkeypatch.setattr(type(opened), "block_rows", 300)
    found = streamed(opened, ("city", "price", "sold", "word"))
    assert max(len(each) for each in opened.batches([])) <= 300
    assert sorted(found["id"].to_pylist()) == IDS
    rows = [ROW_OF[each] for each in found["id"].to_pylist()]
    np.testing.assert_array_equal(np.array(found["vector"].to_pylist(), "float32"), VECTORS[rows])
    for name, kind in (("city", CITIES), ("price", PRICES), ("word", WORDS)):
        assert found[name].to_pylist() == [kind[row] for row in rows]
    assert found["sold"].to_pylist() == [row % 2 == 1 for row in rows]


def test_a_sample_is_the_same_for_the_same_seed(opened):
    ids, vectors = opened.sample(50, 7)
    assert len(set(ids)) == 50
    assert ids == opened.sample(50, 7)[0] != opened.sample(50, 8)[0]
    np.testing.assert_array_equal(vectors, VECTORS[[ROW_OF[each] for each in ids]])


def test_no_file_changes_even_after_an_error(file):
    before = files(file.parent)
    with open_collection(url(file)) as collection:
        collection.pair(QUERIES[0], K, K, parse_filter("city = 'c1'"))
        collection.sample(10, 0)
        streamed(collection)
        with pytest.raises(EngineError, match="sqlite-vec failed: Dimension mismatch"):
            collection.answer(QUERIES[0][:5], K, None)
    with pytest.raises(UsageError):
        open_collection(url(file, "?table=thing"))
    assert files(file.parent) == before


def test_a_log_that_is_in_use_is_copied_and_stays(tmp_path):
    file = made(tmp_path / "live.db", rows=300)
    writer = connect(file)
    writer.execute("PRAGMA journal_mode = wal")
    writer.execute("DELETE FROM items WHERE id = 8")
    assert (tmp_path / "live.db-wal").stat().st_size
    before = files(tmp_path)
    with open_collection(f"sqlite://{file}") as collection:
        folder = collection.copy.path.parent
        assert collection.on_copy
        assert "is in WAL mode" in collection.discovery().notes[0]
        assert collection.discovery().rows == 299
        assert 8 not in collection.exact(VECTORS[1], 299, None).ids
        assert files(tmp_path) == before
        with pytest.raises(EngineError):
            collection.answer(QUERIES[0][:5], K, None)
    writer.close()
    assert not folder.exists()
    # Closed in order, the log is gone, and reading in place would create another.
    closed = files(tmp_path)
    with open_collection(f"sqlite://{file}") as collection:
        assert collection.on_copy and collection.discovery().rows == 299
    assert files(tmp_path) == closed


def test_a_writer_is_neither_stopped_nor_seen_within_a_pair(tmp_path):
    file = made(tmp_path / "a.db", rows=300)
    with open_collection(f"sqlite://{file}") as collection:
        assert collection.pair(VECTORS[0], 1, 2, None).answer.ids == [5]
        writer = connect(file)
        writer.execute("DELETE FROM items WHERE id = 5")
        pair = collection.pair(VECTORS[0], 1, 2, None)
        assert pair.answer.ids == pair.exact.ids[:1] != [5]
        writer.execute("BEGIN EXCLUSIVE")
        with pytest.raises(EngineError, match="a writer locks the file"):
            collection.pair(VECTORS[0], 1, 2, None)
        writer.close()
        assert collection.pair(VECTORS[0], 1, 2, None) is not None


def test_the_log_of_a_linked_file_is_found(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    file = made(tmp_path / "elsewhere" / "a.db", rows=30)
    (tmp_path / "link.db").symlink_to(file)
    writer = connect(file)
    writer.execute("PRAGMA journal_mode = wal")
    writer.execute("DELETE FROM items WHERE id = 8")
    with open_collection(f"sqlite://{tmp_path}/link.db") as collection:
        assert collection.discovery().rows == 29
    writer.close()


def test_a_transaction_that_was_killed_is_undone_on_the_copy(tmp_path):
    (tmp_path / "killed").mkdir()
    file = made(tmp_path / "a.db", rows=300)
    writer = connect(file)
    writer.execute("PRAGMA cache_size = 1; BEGIN; DELETE FROM items WHERE id > 100")
    for name in ("a.db", "a.db-journal"):
        shutil.copy2(tmp_path / name, tmp_path / "killed" / name)
    writer.execute("ROLLBACK")
    writer.close()
    before = files(tmp_path / "killed")
    with open_collection(f"sqlite://{tmp_path}/killed/a.db") as collection:
        assert collection.on_copy
        assert collection.discovery().rows == 300
    assert files(tmp_path / "killed") == before


def test_copies_are_removed_after_errors_and_refused_while_the_file_is_written(tmp_path, monkeypatch):
    from recallatk import scratch
    from recallatk.adapters import collection_copy

    monkeypatch.setenv("RECALLATK_TMPDIR", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    assert scratch._base() == str(tmp_path / "scratch")
    file = made(tmp_path / "a.db", rows=10)
    connection = connect(file)
    connection.execute("PRAGMA journal_mode = wal")
    connection.close()
    with pytest.raises(UsageError, match="no table 'thing'"):
        open_collection(f"sqlite://{file}?table=thing")
    monkeypatch.setattr(collection_copy, "_SETTLED_NS", 10**12)
    monkeypatch.setattr(collection_copy.time, "sleep", lambda _: None)
    with pytest.raises(EngineError, match="was written while it was copied"):
        open_collection(f"sqlite://{file}")
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ("?table=thing", "no table 'thing'. The tables are: items"),
        ("?vector=embeding", "Did you mean embedding"),
        ("?id=name", "no id column 'name'"),
        ("?metric=cosin", "no metric 'cosin'.*cosine"),
        ("?metric=l2", "metric mismatch: the table uses cosine"),
        ("?tabel=x", "no option 'tabel'"),
        (".missing", "does not exist. Type it as sqlite://file.db"),
    ],
)
def test_a_wrong_target_is_told_what_there_is(file, rest, said):
    before = files(file.parent)
    with pytest.raises(RecallError, match=said):
        open_collection(url(file, rest))
    assert files(file.parent) == before


@pytest.mark.parametrize(
    ("statements", "rest", "said"),
    [
        ("CREATE VIRTUAL TABLE a USING vec0(v float[3])", "", "has no rows"),
        ("CREATE VIRTUAL TABLE a USING vec0(v float[3] distance_metric=l1); "
         "INSERT INTO a(v) VALUES ('[1,2,3]')", "", "recall is known for l2, cosine and hamming"),
        ("CREATE TABLE a (id int, v blob); INSERT INTO a VALUES (1, x'00000000'), (1, x'00000000')",
         "?metric=l2", "1 duplicate id in column 'id'"),
        ("CREATE TABLE a (id int, v blob); INSERT INTO a VALUES (1, x'00000000'), (NULL, x'00000000')",
         "?metric=l2", "1 null id in column 'id'"),
        ("CREATE TABLE a (id, v blob); INSERT INTO a VALUES (1, x'00000000'), ('b', x'00000000')",
         "?metric=l2", "'id' holds .*. Ids are whole numbers or text"),
        ("CREATE TABLE a (id int, v blob); INSERT INTO a VALUES (1, x'00000000'), (2, x'0000000000000000')",
         "?metric=l2", "BLOBs of float32 of one length. The column 'v' holds blob of length 4, blob of len"),
        ("CREATE TABLE a (id int, v blob); INSERT INTO a VALUES (1, x'00000000')", "?metric=ip",
         "sqlite-vec has no inner product"),
        ("CREATE TABLE a (id int)", "", "no column of BLOBs"),
        ("CREATE TABLE a (id int); CREATE TABLE b (id int)", "", "name the table with table="),
        ("CREATE VIRTUAL TABLE a USING vec0(v float[3], w float[3])", "", "name the vector column with vec"),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_probed_says_why(tmp_path, statements, rest, said):
    with connect(tmp_path / "a.db") as connection:
        connection.execute(statements)
    connection.close()
    with pytest.raises(RecallError, match=said):
        open_collection(f"sqlite://{tmp_path}/a.db{rest}")


def test_row_numbers_can_be_ids(tmp_path):
    with connect(tmp_path / "a.db") as connection:
        connection.execute("CREATE VIRTUAL TABLE items USING vec0(embedding float[32])")
        rows = ((number, each.tobytes()) for number, each in enumerate(VECTORS[:300]))
        connection.executemany("INSERT INTO items (rowid, embedding) VALUES (?, ?)", rows)
    connection.close()
    with open_collection(f"sqlite://{tmp_path}/a.db") as collection:
        assert collection.discovery().metric is Metric.L2
        assert collection.answer(VECTORS[7], 1, None).ids == collection.exact(VECTORS[7], 1, None).ids == [7]
        assert streamed(collection, ())["id"].to_pylist() == list(range(300))


def test_columns_can_lie_in_a_table_beside_the_vectors(tmp_path):
    with connect(tmp_path / "a.db") as connection:
        connection.execute("CREATE VIRTUAL TABLE vectors USING vec0(id integer primary key, "
                           "embedding float[32] distance_metric=cosine, price integer)")  # fmt: skip
        connection.execute("CREATE TABLE documents (id integer primary key, city text, price text)")
        rows = ((each, VECTORS[row].tobytes(), row % 7) for row, each in enumerate(IDS))
        connection.executemany("INSERT INTO vectors VALUES (?, ?, ?)", rows)
        # Without their document, rows have nulls.
        kept = ((each, CITIES[row], "x") for row, each in enumerate(IDS) if row % 3)
        connection.executemany("INSERT INTO documents VALUES (?, ?, ?)", kept)
    connection.close()
    cities = [city if row % 3 else None for row, city in enumerate(CITIES)]
    rest = "?table=vectors&columns="
    with open_collection(f"sqlite://{tmp_path}/a.db{rest}documents") as collection:
        assert collection.discovery().columns == {"price": "integer", "city": "text"}
        for text, mask in {
            "city = 'c1'": [city == "c1" for city in cities],
            "city is null and price < 3": [city is None and row % 7 < 3 for row, city in enumerate(cities)],
            "not (city = 'c1') or price = 2": [
                (city is not None and city != "c1") or row % 7 == 2 for row, city in enumerate(cities)
            ],
        }.items():
            expected = nearest(QUERIES[0], "cosine", np.array(mask))
            pair = collection.pair(QUERIES[0], K, K, parse_filter(text))
            assert pair.answer.ids == pair.exact.ids == expected
            assert collection.passing(parse_filter(text)) == sum(mask)
        found = streamed(collection)
        assert found["city"].to_pylist() == [cities[ROW_OF[each]] for each in found["id"].to_pylist()]
    with pytest.raises(UsageError, match=r"no table 'papers'. The tables are: vectors or documents"):
        open_collection(f"sqlite://{tmp_path}/a.db{rest}papers")


def test_wrong_parameters_filters_and_files_are_refused(opened, tmp_path):
    with pytest.raises(UsageError, match="no parameter 'ef'"):
        opened.configure({"ef": 5})
    with pytest.raises(FilterError, match=r"no column 'town'. The columns are: "):
        opened.answer(QUERIES[0], K, parse_filter("town = 'x'"))
    with pytest.raises(EngineError, match="too large, provided 5000 and the limit is 4096"):
        opened.answer(QUERIES[0], 5000, None)
    (tmp_path / "other.db").write_text("not a database " * 1000)
    with pytest.raises(EngineError, match="is no SQLite database"):
        open_collection(f"sqlite://{tmp_path}/other.db")


def test_a_statement_that_takes_too_long_is_stopped(opened):
    opened.limits = ProbeLimits(seconds=0.2)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    with pytest.raises(EngineError, match=r"longer than 0.2 s and was stopped"), opened._limited():
        opened._rows(endless)
    assert len(opened.answer(QUERIES[0], K, None).ids) == K
