"""How a filter gets to its query: the column of a file, `where`, and arrays."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recallatk import (
    ground_truth,
    make_corpus,
    make_queries,
    open_corpus,
    open_dataset,
    open_queries,
    parse_filter,
)
from recallatk.errors import FilterError
from recallatk.filters.eligibility import eligibility
from recallatk.testing import tiny_dataset

CORPUS = make_corpus(np.eye(4, dtype="float32"), metadata={"n": [0, 1, 2, None], "s": ["a", "b", "b", None]})


def write(path, filters):
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.ones(4 * len(filters), "float32")), 4)
    pq.write_table(pa.table({"vector": vectors, "filter": pa.array(filters, pa.string())}), path)
    return path


def test_a_column_of_filters_is_read_as_text_and_as_json(tmp_path):
    as_json = json.dumps({"range": {"column": "n", "gte": 1}})
    path = write(tmp_path / "q.parquet", ["s = 'b'", as_json, "", None, "s = 'b' and n is null", "s='b'"])
    queries = open_queries(path)
    assert queries.filters[0] == queries.filters[5] == parse_filter("s = 'b'")
    assert queries.filters[2] is queries.filters[3] is None
    truth = ground_truth(open_dataset(CORPUS, queries, metric="l2"), depth=4)
    assert list(truth.eligible) == [2, 2, 4, 4, 0, 2]
    assert list(truth.rows[0]) == [1, 2, -1, -1]
    assert (truth.rows[4] == -1).all()


def test_a_filter_that_does_not_parse_is_refused_with_its_row(tmp_path):
    path = write(tmp_path / "q.parquet", ["s = 'b'", "s = "])
    with pytest.raises(FilterError, match=r"q\.parquet, row 1: filter 's = ': expected"):
        open_queries(path)


def test_where_takes_the_place_of_every_filter():
    queries = make_queries(np.ones((2, 4), "float32"), filters=[parse_filter("s = 'a'"), None])
    for where in ("n >= 1", parse_filter("n >= 1")):
        dataset = open_dataset(CORPUS, queries, metric="ip", where=where)
        assert list(dataset.eligibility.counts) == [2, 2]
    assert list(open_dataset(CORPUS, queries, metric="ip").eligibility.counts) == [1, 4]


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("id = 'row-1'", [1]),
        ("id = 'row-200'", []),
        ("id in ('row-1', 'row-7', 'row-3')", [1, 3, 7]),
        ("id = 'row-1' and size >= 0", [1]),
        ("size < 0 or id = 'row-2'", [2]),
        ("id = 'row-1' and size < 0", []),
        ("category is not null and id in ('row-4', 'row-5') and size >= 0", [4, 5]),
    ],
)
def test_a_filter_may_name_the_id(where, rows):
    plain = tiny_dataset(200, 3)
    dataset = open_dataset(plain.corpus, plain.queries, metric="l2", where=where)
    assert list(dataset.eligibility.counts) == [len(rows)] * 3
    truth = ground_truth(dataset, depth=4)
    assert list(truth.eligible) == [len(rows)] * 3
    for found in truth.rows:
        assert sorted(row for row in found if row >= 0) == rows


def test_a_filter_may_name_an_id_that_is_a_number_or_has_another_name(tmp_path):
    corpus = make_corpus(np.eye(4, dtype="float32"), [40, 30, 20, 10], {"n": [1, 2, 3, 4]})
    queries = make_queries(np.ones((1, 4), "float32"))
    assert list(open_dataset(corpus, queries, metric="ip", where="id <= 20").eligibility.counts) == [2]
    where = "id <= 30 and n < 4"
    assert list(open_dataset(corpus, queries, metric="ip", where=where).eligibility.counts) == [2]
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.eye(4, dtype="float32").reshape(-1)), 4)
    table = pa.table({"key": ["a", "b", "c", "d"], "vector": vectors, "n": [1, 2, 3, 4]})
    pq.write_table(table, tmp_path / "c.parquet")
    named = open_corpus(tmp_path / "c.parquet", id_column="key")
    for where, count in [("key = 'b'", 1), ("key in ('b', 'c') and n > 2", 1), ("key = 'a' or n = 4", 2)]:
        assert list(open_dataset(named, queries, metric="ip", where=where).eligibility.counts) == [count]


def test_a_filter_on_ids_that_nobody_gave_is_refused():
    queries = make_queries(np.ones((1, 4), "float32"))
    with pytest.raises(FilterError, match="no column 'id'"):
        _ = open_dataset(CORPUS, queries, metric="ip", where="id = 1").eligibility


def test_a_column_that_is_not_there_is_refused_before_anything_is_read(monkeypatch):
    dataset = tiny_dataset(20, 2)
    filters = [parse_filter("size > 5"), parse_filter("id = 'row-1' and colour = 'red'")]
    queries = make_queries(np.ones((2, 8), "float32"), filters=filters)
    asked = open_dataset(dataset.corpus, queries, metric="l2")
    monkeypatch.setattr(type(dataset.corpus.columns), "read", lambda *_: pytest.fail("it was read"))
    with pytest.raises(FilterError, match="no column 'colour'"):
        _ = asked.eligibility


def test_metadata_of_another_length_is_refused():
    condition = parse_filter("n > 0")
    for rows in (3, 5):
        with pytest.raises(FilterError, match=f"the metadata has {rows}, the corpus 4"):
            eligibility([condition, None], pa.table({"n": np.arange(rows)}), None, 4)
    found = eligibility([None], pa.table({"n": np.arange(3)}), None, 4)
    assert list(found.counts) == [4]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("colour = 'red'", r"filter 'colour = 'red'': no column 'colour'. The columns are: n, s"),
        ("n = 'b'", r"filter 'n = 'b'': column 'n' holds int64 and cannot be compared with 'b'"),
        ("s contains 'b'", r"filter 's contains 'b'': column 's' holds string, and 'contains' needs lists"),
    ],
)
def test_a_filter_that_does_not_fit_the_corpus_is_refused_with_its_query(text, said):
    filters = [parse_filter("n > 0"), *[parse_filter(text)] * 3, None]
    queries = make_queries(np.ones((5, 4), "float32"), filters=filters)
    with pytest.raises(FilterError, match=f"query 1 and 2 more: {said}"):
        _ = open_dataset(CORPUS, queries, metric="l2").eligibility
    with pytest.raises(FilterError, match=f"^{said}"):
        _ = open_dataset(
            CORPUS, make_queries(np.ones((2, 4), "float32")), metric="l2", where=text
        ).eligibility


def test_a_long_filter_is_shortened_in_its_error():
    long = parse_filter(f"n in ({', '.join(map(str, range(5_000)))}, 'x')")
    with pytest.raises(FilterError, match="cannot be compared with 'x'") as caught:
        long.mask(CORPUS.metadata)
    assert len(str(caught.value)) < 400


def test_queries_whose_filter_passes_nothing_are_counted():
    """An unknown tag, a column of nulls and a bound beyond all rows, among five thousand distinct filters."""
    rows = 2_000
    metadata = {
        "n": np.arange(rows),
        "tags": [[f"t{row % 50}", f"u{row}"] for row in range(rows)],
        "nothing": pa.nulls(rows, pa.float32()),
    }
    corpus = make_corpus(np.ones((rows, 2), "float32"), metadata=metadata)
    texts = ["nothing > 0", "not (nothing > 0)", "tags contains 'unknown'", f"n >= {rows}"]
    texts += [f"n = {number}" for number in range(2_500)]
    texts += [f"tags contains all ('t{number % 50}', 'u{number}')" for number in range(2_500)]
    queries = make_queries(np.ones((len(texts), 2), "float32"), filters=texts)
    counts = open_dataset(corpus, queries, metric="l2").eligibility.counts
    expected = [0] * 4 + [number < rows for number in range(2_500)] * 2
    assert counts.tolist() == [int(each) for each in expected]
