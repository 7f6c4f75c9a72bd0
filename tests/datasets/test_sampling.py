"""Samples and splits that depend on ids and a seed only, and corpus rows as queries."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from writers import numbers

import recallatk
from recallatk.core import Dataset, Metric
from recallatk.datasets import make_corpus, make_queries, queries_from_corpus, sample_queries, split_queries
from recallatk.errors import UsageError
from recallatk.filters import parse_filter


def queries_of(ids, **columns):
    ids = list(ids)
    return make_queries(numbers(len(ids), 3), ids=ids, metadata=columns or None)


def test_a_sample_is_exact_seeded_and_in_order():
    queries = queries_of(range(100))
    chosen = sample_queries(queries, 30, seed=4)
    ids = chosen.ids.to_pylist()
    assert len(ids) == 30
    assert ids == sorted(ids)
    assert ids == sample_queries(queries, 30, seed=4).ids.to_pylist()
    assert ids != sample_queries(queries, 30, seed=5).ids.to_pylist()
    np.testing.assert_array_equal(chosen.vectors.read(0, 30), queries.vectors.read(0, 100)[ids])


def test_a_larger_sample_holds_the_smaller_one():
    queries = queries_of(f"q{i}" for i in range(100))
    small, large = (set(sample_queries(queries, count).ids.to_pylist()) for count in (10, 50))
    assert small < large
    assert sample_queries(queries, 100).ids.equals(queries.ids)


def test_everything_that_belongs_to_a_query_goes_with_it():
    filters = [parse_filter(f"n > {i}") for i in range(20)]
    queries = make_queries(
        numbers(20, 3), metadata={"n": range(20), "text": [f"t{i}" for i in range(20)]}, filters=filters
    )
    chosen = sample_queries(queries, 7)
    rows = chosen.ids.to_pylist()
    assert chosen.metadata["n"].to_pylist() == rows
    assert chosen.filters == tuple(filters[row] for row in rows)
    assert chosen.text_column == "text"
    again = sample_queries(chosen, 3)
    assert [filters.index(each) for each in again.filters] == again.ids.to_pylist()


def test_a_column_that_is_called_as_the_new_ids_stays():
    queries = make_queries(numbers(5, 3), metadata={"row": list("abcde")})
    chosen = sample_queries(queries, 3)
    assert chosen.metadata["row"].to_pylist() == [list("abcde")[i] for i in chosen.ids.to_pylist()]


@pytest.mark.parametrize("count", [0, -1, 6])
def test_an_impossible_count_is_refused(count):
    with pytest.raises(UsageError, match="Accepted: 1 to 5"):
        sample_queries(queries_of(range(5)), count)


@given(st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=60), st.data())
def test_a_stratified_sample_keeps_the_proportions_within_one(labels, data):
    count = data.draw(st.integers(1, len(labels)))
    column = pa.array(labels, pa.string())
    if data.draw(st.booleans()):
        column = column.dictionary_encode()
    chosen = sample_queries(queries_of(range(len(labels)), label=column), count, by="label")
    sizes, taken = Counter(labels), Counter(chosen.metadata["label"].to_pylist())
    assert sum(taken.values()) == count
    exact = {label: Fraction(size * count, len(labels)) for label, size in sizes.items()}
    assert all(abs(taken[label] - share) < 1 for label, share in exact.items())
    # The largest remainders are those that are rounded up.
    up = [share % 1 for label, share in exact.items() if taken[label] > share]
    down = [share % 1 for label, share in exact.items() if taken[label] < share]
    assert min(up, default=1) >= max(down, default=0)


def test_strata_need_a_column_of_single_values():
    queries = queries_of(range(4), label=list("abab"), tags=[["x"], [], ["x"], ["y"]])
    with pytest.raises(UsageError, match=r"no column 'labels'. Did you mean label"):
        sample_queries(queries, 2, by="labels")
    with pytest.raises(UsageError, match="single values"):
        sample_queries(queries, 2, by="tags")


@given(
    st.sampled_from([str, int]),
    st.sets(st.integers(0, 10_000), min_size=12, max_size=60),
    st.integers(0, 5),
    st.randoms(),
)
def test_adding_queries_moves_none_to_the_other_side(kind, numbers_as_ids, seed, chance):
    ids = [kind(each) for each in numbers_as_ids]
    more = ids + [kind(10_001 + i) for i in range(30)]
    chance.shuffle(more)
    try:
        before = split_queries(queries_of(ids), seed=seed)
    except UsageError:
        return
    after = split_queries(queries_of(more), seed=seed)
    for old, new in zip(before, after, strict=True):
        assert set(old.ids.to_pylist()) <= set(new.ids.to_pylist())


def test_a_split_is_whole_disjoint_and_of_about_the_share():
    queries = queries_of(range(4000))
    for share in (0.5, 0.2):
        tune, validate = (set(side.ids.to_pylist()) for side in split_queries(queries, validate=share))
        assert not tune & validate
        assert len(tune | validate) == 4000
        assert abs(len(validate) / 4000 - share) < 0.04
    assert split_queries(queries, seed=1)[0].rows != split_queries(queries, seed=2)[0].rows


def test_a_split_does_not_follow_the_sample():
    sampled = sample_queries(queries_of(range(4000)), 400)
    tune, _ = split_queries(sampled)
    assert 230 < tune.rows < 300


@pytest.mark.parametrize("share", [0.0, 1.0, -1, 2])
def test_a_share_of_nothing_or_all_is_refused(share):
    with pytest.raises(UsageError, match="between 0 and 1"):
        split_queries(queries_of(range(9)), validate=share)


def test_too_few_queries_are_refused():
    with pytest.raises(UsageError, match=r"1 query is too few to split\. Accepted: at least 2"):
        split_queries(queries_of([1]))


@pytest.mark.parametrize("ids", [None, [f"d{i}" for i in range(40)]])
def test_corpus_rows_as_queries_know_their_row_and_never_find_it(ids):
    matrix = np.random.default_rng(0).standard_normal((40, 5)).astype(np.float32)
    matrix[7] = matrix[31]
    corpus = make_corpus(matrix, ids=ids, metadata={"filter": ["not a filter!"] * 40, "text": ["t"] * 40})
    queries = queries_from_corpus(corpus, 40)
    assert queries.corpus_rows.tolist() == list(range(40))
    assert queries.filters is None
    assert queries.text_column == "text"
    assert queries.ids.equals(corpus.ids)
    truth = recallatk.ground_truth(Dataset(corpus, queries, Metric.L2), depth=39)
    assert all(row not in found for row, found in enumerate(truth.rows.tolist()))
    assert (truth.eligible == 39).all()
    assert truth.rows[7, 0] == 31
    assert truth.rows[31, 0] == 7


def test_a_sample_of_corpus_rows_is_seeded_stratified_and_splits_with_its_rows():
    matrix = numbers(50, 3)
    corpus = make_corpus(matrix, metadata={"kind": ["a"] * 40 + ["b"] * 10})
    queries = queries_from_corpus(corpus, 10, seed=3, by="kind")
    assert Counter(queries.metadata["kind"].to_pylist()) == {"a": 8, "b": 2}
    assert queries.ids.to_pylist() == queries.corpus_rows.tolist()
    for side in (*split_queries(queries), sample_queries(queries, 4)):
        np.testing.assert_array_equal(side.vectors.read(0, side.rows), matrix[side.corpus_rows])
        assert side.ids.to_pylist() == side.corpus_rows.tolist()


def test_a_text_that_is_no_text_is_no_text_column():
    corpus = make_corpus(numbers(5, 3), metadata={"text": range(5)})
    assert queries_from_corpus(corpus, 2).text_column is None


def test_bad_ids_are_refused():
    with pytest.raises(recallatk.RecallError, match="row 0 has it too"):
        sample_queries(queries_of([1, 1, 2]), 2)
