"""Vector, filter, parameters and ids are found where people's functions and clients have them."""

import json
from collections import namedtuple
from dataclasses import dataclass
from datetime import date
from enum import Enum
from uuid import UUID

import faiss
import hnswlib
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from recallatk import filter_from_json, parse_filter
from recallatk.capture.call_record import as_vector
from recallatk.capture.log_format import filter_texts
from recallatk.capture.plain_values import flat_scalars, plain
from recallatk.capture.returned_ids import ids_per_query

Row = namedtuple("Row", "distance id")


@dataclass
class Hit:
    id: object
    score: float = 0.5


@dataclass
class Page:
    points: list


FIRST, SECOND = UUID(int=1), UUID(int=2)
ONE_QUERY = {
    "a list": ([3, 1], [3, 1]),
    "a tuple of ids": ((3, 1, 2), [3, 1, 2]),
    "text": (["a", "b"], ["a", "b"]),
    "UUIDs": ([FIRST, SECOND], [str(FIRST), str(SECOND)]),
    "an array": (np.array([3, 1], np.uint64), [3, 1]),
    "rows of a database": ([(3, 0.1), (1, 0.2)], [3, 1]),
    "rows with the distance first": ([(0.1, "a"), (0.2, "b")], ["a", "b"]),
    "named rows": ([Row(0.1, 3), Row(0.2, 1)], [3, 1]),
    "hits": ([Hit(3), Hit(1)], [3, 1]),
    "dicts": ([{"id": "a", "score": 1.0}, {"id": "b"}], ["a", "b"]),
    "a page of hits": (Page([Hit("a"), Hit("b")]), ["a", "b"]),
    "a dict of lists": ({"ids": [["a", "b"]], "distances": [[0.1, 0.2]]}, ["a", "b"]),
    "Elasticsearch": ({"took": 3, "hits": {"hits": [{"_id": "a"}, {"_id": "b"}]}}, ["a", "b"]),
    "distances and labels": ((np.array([0.1, 0.2]), np.array([3, 1])), [3, 1]),
    "labels and distances": ((np.array([3, 1], np.uint64), np.array([0.1, 0.2])), [3, 1]),
    "distances of integers": ((np.array([5, 6], np.int32), np.array([3, 1], np.int64)), [3, 1]),
    "two lists": (([0.1, 0.2], ["a", "b"]), ["a", "b"]),
    "a matrix of one row": (np.array([[3, 1]]), [3, 1]),
    "padding": ([3, None, -1], [3, None, -1]),
    "a data frame": (pd.DataFrame({"id": [3, 1], "score": [0.1, 0.2]}), [3, 1]),
    "a number beyond int64": ([1 << 63], [str(1 << 63)]),
    "nothing": ([], []),
}
UNREADABLE = {
    "None": None,
    "text": "abc",
    "an iterator": iter([1]),
    "floats": [0.5, 0.25],
    "two lists of integers": ([1, 2], [3, 4]),
    "two arrays of int64": (np.array([1]), np.array([2])),
    "objects without ids": [object()],
    "truth values": [True, False],
}


@pytest.mark.parametrize("kind", ONE_QUERY)
def test_ids_of_one_query_are_found(kind):
    result, expected = ONE_QUERY[kind]
    assert ids_per_query(result, None) == [expected]


@pytest.mark.parametrize("kind", UNREADABLE)
def test_ids_are_never_guessed(kind):
    assert ids_per_query(UNREADABLE[kind], None) is None


BATCHES = {
    "a matrix": np.array([[3, 1], [2, 0]]),
    "lists": [[3, 1], [2, 0]],
    "distances and a matrix": (np.zeros((2, 2)), np.array([[3, 1], [2, 0]])),
    "pages": [Page([Hit(3), Hit(1)]), Page([Hit(2), Hit(0)])],
    "lists of rows": [[(3, 0.1), (1, 0.2)], [(2, 0.1), (0, 0.2)]],
    "a dict": {"ids": [[3, 1], [2, 0]]},
}


@pytest.mark.parametrize("kind", BATCHES)
def test_ids_of_a_batch_are_found(kind):
    assert ids_per_query(BATCHES[kind], 2) == [[3, 1], [2, 0]]
    assert ids_per_query(BATCHES[kind], 3) is None


def test_real_libraries_are_read():
    vectors = np.eye(4, dtype=np.float32)
    flat = faiss.IndexFlatL2(4)
    flat.add(vectors)
    graph = hnswlib.Index("l2", 4)
    graph.init_index(4)
    graph.add_items(vectors)
    for result in (flat.search(vectors[1:3], 1), graph.knn_query(vectors[1:3], 1)):
        assert ids_per_query(result, 2) == [[1], [2]]
    assert ids_per_query(flat.search(vectors[1:2], 2), 1)[0][0] == 1


class Params(BaseModel):
    hnsw_ef: int = 64
    exact: bool | None = None


class Kind(Enum):
    FAST = "fast"


def test_parameters_are_scalars_also_inside_objects():
    named = {
        "ef": np.int64(3), "kind": Kind.FAST, "on": True, "params": Params(), "options": {"a": {"b": 1.5}},
        "vector": [1.0], "connection": object(), "none": None, "long": "x" * 65, "short": "cosine",
    }  # fmt: skip
    expected = {"ef": 3, "kind": "fast", "on": True, "params.hnsw_ef": 64, "options.a.b": 1.5}
    assert flat_scalars(named) == expected | {"short": "cosine"}


def test_plain_values_are_json_and_name_what_they_cannot_hold():
    value = {"must": [Params(), date(2026, 1, 2)], "nan": float("nan"), "id": FIRST, "odd": object()}
    assert json.loads(json.dumps(plain(value), allow_nan=False)) == {
        "must": [{"hnsw_ef": 64}, "2026-01-02"], "nan": "nan", "id": str(FIRST), "odd": "<object>",
    }  # fmt: skip
    endless = []
    endless.append(endless)
    assert "<list>" in json.dumps(plain(endless))


FILTERS = {
    "text": ("price < 20", ("price < 20", None)),
    "a filter": (parse_filter("price < 20"), (parse_filter("price < 20").key, None)),
    "its JSON": (parse_filter("price < 20").to_json(), (parse_filter("price < 20").key, None)),
    "none": (None, (None, None)),
    "an empty dict": ({}, (None, None)),
    "another system's": ({"price": {"$lt": 20}}, (None, '{"price": {"$lt": 20}}')),
    "another system's text": ("price:[* TO 20}", (None, '"price:[* TO 20}"')),
}


@pytest.mark.parametrize("kind", FILTERS)
def test_filters_are_kept_as_ours_or_apart(kind):
    condition, expected = FILTERS[kind]
    assert filter_texts(condition) == expected
    if expected[0] and expected[0].startswith("{"):
        assert filter_from_json(json.loads(expected[0])) == parse_filter("price < 20")


numbers = st.floats(-1e6, 1e6, width=32)


@given(st.lists(numbers, min_size=1, max_size=8), st.sampled_from(["float16", "float32", "float64", "int8"]))
def test_arrays_keep_their_type_and_lists_become_float32(values, dtype):
    with np.errstate(all="ignore"):
        array = np.array(values).astype(dtype)
    kept = as_vector(array)
    assert kept.dtype == dtype and np.array_equal(kept, array, equal_nan=dtype != "int8")
    assert not np.shares_memory(kept, array)
    assert as_vector(values).dtype == np.float32 and as_vector(values).tolist() == values


@pytest.mark.parametrize(
    "value", [None, "text", b"bytes", 3, [], ["a"], [True, False], [[1, 2], [3]], {"a": 1}]
)
def test_other_values_are_no_vectors(value):
    assert as_vector(value) is None
