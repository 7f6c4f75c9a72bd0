"""The nouns: what they refuse and what they count."""

import numpy as np
import pyarrow as pa
import pytest

from recallatk import Metric, Trial, make_corpus, make_queries, open_dataset, parse_filter
from recallatk.core import blocks
from recallatk.errors import BadValueError, MismatchError, UsageError, choices
from recallatk.filters.eligibility import Eligibility
from recallatk.filters.lookup import RowSet


@pytest.mark.parametrize(("text", "higher"), [("cosine", True), ("ip", True), ("l2", False)])
def test_a_metric_knows_which_score_is_better(text, higher):
    assert Metric(text).higher_is_better is higher


@pytest.mark.parametrize("text", ["dot", "L2", "", None])
def test_an_unknown_metric_is_refused_with_the_known_ones(text):
    with pytest.raises(UsageError, match="cosine, ip or l2"):
        Metric(text)


@pytest.mark.parametrize("block_bytes", [1, 16, 40, 10**9])
def test_blocks_cover_every_row_once(block_bytes):
    vectors = make_corpus(np.arange(30, dtype="float32").reshape(10, 3)).vectors
    parts = [(start, np.array(block)) for start, block in blocks(vectors, block_bytes)]
    assert [start for start, _ in parts] == list(np.cumsum([0, *(len(block) for _, block in parts[:-1])]))
    assert (np.concatenate([block for _, block in parts]) == vectors.read(0, 10)).all()
    assert all(len(block) <= max(1, block_bytes // 12) for _, block in parts)


def test_ids_are_row_numbers_where_nobody_gave_any():
    corpus = make_corpus(np.ones((3, 2)))
    assert corpus.ids.to_pylist() == [0, 1, 2]
    assert corpus.read_ids(1, 3).to_pylist() == [1, 2]
    assert len(corpus) == corpus.rows == 3


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        (["a", "b", "a"], "row 2: duplicate id a: row 0 has it too"),
        ([5, 6, 6], "row 2: duplicate id 6: row 1 has it too"),
        (["a", None, "b"], "row 1: the id is null"),
    ],
)
def test_missing_and_repeated_ids_are_refused_by_row(ids, said):
    with pytest.raises(BadValueError, match=said):
        _ = make_corpus(np.ones((3, 2)), ids).ids


def test_ids_beyond_64_bits_with_sign_are_refused():
    corpus = make_corpus(np.ones((1, 2)), pa.array([2**64 - 1], pa.uint64()))
    with pytest.raises(BadValueError, match="fit int64"):
        _ = corpus.ids


def test_a_corpus_and_queries_of_other_dimensions_do_not_belong_together():
    with pytest.raises(MismatchError, match=r"^dimension mismatch: the corpus has 3, the queries have 2$"):
        open_dataset(make_corpus(np.ones((2, 3))), make_queries(np.ones((2, 2))), metric="l2")


def test_where_gives_every_query_one_filter_and_takes_it_away_again():
    queries = make_queries(np.ones((3, 2)))
    condition = parse_filter("a = 1")
    assert queries.where(condition).filters == (condition,) * 3
    assert queries.where(condition).where(None).filters is None
    assert queries.filters is None


def test_equal_filters_share_one_mask():
    corpus = make_corpus(np.ones((4, 2)), metadata={"n": [0, 1, 2, 3]})
    filters = [parse_filter(text) if text else None for text in ("n > 0", None, "n>0", "n > 2")]
    dataset = open_dataset(corpus, make_queries(np.ones((4, 2)), filters=filters), metric="l2")
    found = dataset.eligibility
    assert len(found.sets) == 3
    assert list(found.counts) == [3, 4, 3, 1]
    assert list(found.allowed(np.array([0, 0, 1, 3]), np.array([0, 1, 0, 2]))) == [False, True, True, False]


def test_a_query_may_not_return_its_own_row_and_it_counts_once():
    members = RowSet.of_mask(np.array([True, True, False]))
    found = Eligibility((members,), np.zeros(3, np.int64), np.array([0, 1, 2]), 3)
    # The third query's own row does not pass the filter anyway.
    assert list(found.counts) == [1, 1, 2]
    assert list(found.allowed(np.array([0, 0, 2]), np.array([0, 1, 1]))) == [False, True, True]


def test_a_trial_is_written_in_one_line():
    assert str(Trial("faiss-hnsw", (("M", 16),), (("ef", 40),))) == "faiss-hnsw(M=16)[ef=40]"


@pytest.mark.parametrize(
    ("names", "text"), [([], ""), (["a"], "a"), (["a", "b"], "a or b"), (["a", "b", "c"], "a, b or c")]
)
def test_choices_end_a_sentence(names, text):
    assert choices(names) == text
