"""How a filter gets to its query: the column of a file, `where`, and arrays."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recallatk import ground_truth, make_corpus, make_queries, open_dataset, open_queries, parse_filter
from recallatk.errors import FilterError

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
