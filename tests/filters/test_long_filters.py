"""Filters of thousands of terms: one look at each column, and the same rows as term by term."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recallatk import make_corpus, make_queries, open_dataset, parse_filter
from recallatk.core import Dataset
from recallatk.filters import And, Equals, In, Not, Or, Range
from recallatk.filters import mask as mask_module
from recallatk.filters.eligibility import distinct_filters
from recallatk.fingerprint import Hash, fingerprint_ids, fingerprint_queries, fingerprint_vectors

ROWS, TERMS = 3_000, 5_000


def dataset(where, queries=500) -> Dataset:
    random = np.random.default_rng(0)
    metadata = {
        "name": [f"n{row % 700}" if row % 7 else None for row in range(ROWS)],
        "size": np.arange(ROWS),
    }
    corpus = make_corpus(random.normal(size=(ROWS, 4)).astype("float32"), metadata=metadata)
    return open_dataset(
        corpus, make_queries(random.normal(size=(queries, 4)).astype("float32")), metric="l2", where=where
    )


LONG = {
    "or": " or ".join(f"name = 'n{each}'" for each in range(TERMS)),
    "and": " and ".join(f"name != 'n{each}'" for each in range(TERMS)),
    "in": " or ".join(f"name in ('n{each}', 'm{each}')" for each in range(TERMS)),
}


@pytest.mark.parametrize("kind", LONG)
def test_terms_on_one_column_are_one_look_at_it(kind, monkeypatch):
    calls = []
    among = mask_module._among

    def counted(column, name, values):
        calls.append((name, len(values)))
        return among(column, name, values)

    monkeypatch.setattr(mask_module, "_among", counted)
    counts = dataset(LONG[kind]).eligibility.counts
    assert [name for name, _ in calls] == ["name"]
    named = ROWS - len(range(0, ROWS, 7))
    assert set(counts.tolist()) == {0 if kind == "and" else named}


def test_a_column_is_converted_once_for_all_terms(monkeypatch):
    converted = []
    plain = mask_module.plain
    monkeypatch.setattr(mask_module, "plain", lambda column: converted.append(1) or plain(column))
    counts = dataset(
        " or ".join(f"size between {2 * i} and {2 * i}" for i in range(1_000))
    ).eligibility.counts
    assert counts[0] == 1_000
    assert len(converted) == 1


def test_a_filter_that_all_queries_share_is_written_out_once(monkeypatch):
    written = []
    usual = Or.to_json
    monkeypatch.setattr(Or, "to_json", lambda self: written.append(1) or usual(self))
    data = dataset(LONG["or"])
    _ = data.eligibility.counts
    fingerprint_queries(data.queries)
    distinct = distinct_filters(data.queries.filters)
    assert len(written) == 1
    assert len(distinct.filters) == 1
    assert distinct.columns() == {"name"}


def test_the_fingerprint_of_queries_with_filters_is_that_of_the_list_of_their_keys():
    filters = [parse_filter("size > 3"), None, parse_filter("name = 'é'"), parse_filter("size > 3")]
    queries = make_queries(np.eye(4, dtype="float32"), filters=filters)
    state = Hash("queries", fingerprint_vectors(queries.vectors), fingerprint_ids(queries))
    state.update_text(json.dumps([None if each is None else each.key for each in filters]))
    assert fingerprint_queries(queries) == state.text()


VALUES = st.sampled_from(["a", "b", "c"])
LEAVES = st.one_of(
    st.builds(Equals, st.sampled_from(["s", "t"]), VALUES),
    st.builds(
        lambda name, values: In(name, tuple(values)),
        st.sampled_from(["s", "t"]),
        st.lists(VALUES, min_size=1),
    ),
    st.builds(lambda low: Range("n", gte=low), st.integers(0, 3)),
)
OPERANDS = st.lists(st.one_of(LEAVES, LEAVES.map(Not)), min_size=1, max_size=6)
TABLE = pa.table(
    {
        "s": ["a", "b", None, "c", "a", None, "b", "c"],
        "t": ["a", None, None, "b", "c", "a", "b", None],
        "n": [0, 1, 2, None, 3, 1, None, 2],
    }
)


@given(OPERANDS, st.sampled_from([And, Or]), st.booleans())
def test_joined_terms_let_the_same_rows_pass_as_terms_one_by_one(operands, junction, negated):
    parts = [mask_module._Evaluation(TABLE).truth(each) for each in operands]
    combine = pc.and_kleene if junction is And else pc.or_kleene
    whole = parts[0]
    for part in parts[1:]:
        whole = combine(whole, part)
    condition = junction(tuple(operands))
    found = (Not(condition) if negated else condition).mask(TABLE)
    expected = pc.fill_null(pc.invert(whole) if negated else whole, False)
    assert found.tolist() == expected.to_pylist()
