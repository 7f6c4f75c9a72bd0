"""The sparse leg gives exact inner products, and approximate ones only where terms are dropped."""

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array, random_array

from examples import examples
from recallatk import make_corpus, make_queries, parse_filter
from recallatk.adapters import registered
from recallatk.adapters.base import resolved
from recallatk.adapters.batch import QueryBatch
from recallatk.core import Metric
from recallatk.datasets.sparse_vectors import query_pairs, write_csr
from recallatk.errors import EngineError, MismatchError, UsageError
from recallatk.pipeline.sparse import Sparse, kept_weights, sparse_vectors


def column_of(vectors):
    """Vectors, each a dict from term to weight, as a column of maps."""
    return pa.array(
        [None if each is None else list(each.items()) for each in vectors], pa.map_(pa.int64(), pa.float64())
    )


def corpus_of(vectors, **columns):
    table = pa.table({"terms": column_of(vectors), **columns})
    return make_corpus(np.ones((len(vectors), 2), np.float32), None, table)


def built(corpus, drop_ratio=0.0, **parameters):
    leg = Sparse()
    leg.build(corpus, Metric.IP, **resolved("sparse", Sparse.build_knobs, parameters))
    leg.configure(drop_ratio=drop_ratio)
    return leg


def asked(*queries, filters=None):
    pairs = [list(each.items()) if isinstance(each, dict) else each for each in queries]
    return QueryBatch(np.ones((len(queries), 2), np.float32), filters, sparse=pairs)


def exact_products(vectors, query):
    """Inner product of each row that shares a term, in fractions."""
    found = {}
    for row, vector in enumerate(vectors):
        shared = [term for term in query if term in (vector or {})]
        if shared:
            found[row] = sum(Fraction(query[term]) * Fraction(vector[term]) for term in shared)
    return found


def ordered(products, k):
    return sorted(products, key=lambda row: (-products[row], row))[:k]


weights = st.integers(-6, 6).filter(bool).map(lambda number: number / 8) | st.sampled_from(
    [0.1, 0.2, 0.3, 0.7]
)
term_weights = st.dictionaries(st.integers(0, 7), weights, max_size=5)


@examples(150)
@given(st.lists(term_weights | st.none(), min_size=1, max_size=10), term_weights, st.integers(1, 10))
def test_inner_products_are_those_of_exact_fractions(vectors, query, k):
    rows, scores = built(corpus_of(vectors)).scored(asked(query), k)
    wanted = exact_products(vectors, query)
    listed = [row for row in rows[0].tolist() if row >= 0]
    assert len(listed) == min(k, len(wanted))
    assert np.isnan(scores[0, len(listed) :]).all()
    for place, row in enumerate(listed):
        assert scores[0, place] == pytest.approx(float(wanted[row]), rel=1e-12, abs=1e-14)
    # 0.1 · 0.3 and 0.2 · 0.2 - 0.01 are different fractions of float64, but closer than float64 can tell.
    rounded = {row: round(float(product), 12) for row, product in wanted.items()}
    assert listed == ordered(rounded, k)


def test_a_sum_in_another_order_is_a_tie():
    """0.1 + 0.2 + 0.3 and 0.3 + 0.2 + 0.1 differ in float64."""
    assert 0.1 + 0.2 + 0.3 != 0.3 + 0.2 + 0.1
    vectors = [{1: 0.3, 2: 0.2, 3: 0.1}, {1: 0.1, 2: 0.2, 3: 0.3}, {1: 0.1}]
    for query in ({1: 1.0, 2: 1.0, 3: 1.0}, {3: 1.0, 2: 1.0, 1: 1.0}):
        rows, scores = built(corpus_of(vectors)).scored(asked(query), 3)
        assert rows.tolist() == [[0, 1, 2]]
        assert scores[0, 0] == scores[0, 1]


def test_large_matrices_agree_with_scipy():
    random = np.random.default_rng(5)
    corpus = csr_array(random_array((500, 80), density=0.05, rng=random))
    queries = csr_array(random_array((40, 80), density=0.1, rng=random))
    vectors = [dict(pairs) for pairs in query_pairs(corpus)]
    products = (queries @ corpus.T).toarray()
    leg = built(corpus_of(vectors))
    rows = leg.search(asked(*query_pairs(queries)), 10)
    for query in range(40):
        best = [row for row in np.argsort(-products[query], kind="stable")[:10] if products[query, row] > 0]
        assert rows[query].tolist() == best + [-1] * (10 - len(best))


def test_rows_without_a_common_term_are_never_returned():
    vectors = [{1: 1.0}, {2: -1.0}, {1: 1.0, 2: 1.0}, {}, None, {3: 5.0}]
    leg = built(corpus_of(vectors))
    rows, scores = leg.scored(asked({1: 1.0, 2: 1.0}, {1: 1.0, 2: -1.0}, {}, {99: 1.0}, {1: 0.0}), 6)
    assert rows[0].tolist() == [2, 0, 1, -1, -1, -1]
    # The products of row 2 cancel, and it still shares two terms.
    assert rows[1].tolist() == [0, 1, 2, -1, -1, -1]
    assert scores[1, :3].tolist() == [1.0, 1.0, 0.0]
    assert (rows[2:] == -1).all()


def test_terms_of_any_size_need_no_more_memory_than_their_number():
    leg = built(corpus_of([{4_000_000_000: 1.0}, {7: 2.0}]))
    assert leg.nearest(asked({4_000_000_000: 1.0, 7: 1.0}), 2).tolist() == [[1, 0]]
    assert leg.exercised() == "inverted index of 2 sparse vectors with 2 terms and 2 entries"


@given(term_weights, st.sampled_from([0.0, 0.2, 0.5, 0.9, 0.99]))
def test_the_smallest_weights_are_dropped(query, ratio):
    pairs = list(query.items())
    kept = kept_weights(pairs, ratio)
    assert len(kept) == len(pairs) - math.floor(ratio * len(pairs))
    assert set(kept) <= set(pairs)
    dropped = set(pairs) - set(kept)
    assert all(abs(lost[1]) <= abs(left[1]) for lost in dropped for left in kept)
    assert kept or not pairs


def test_dropping_terms_costs_recall_and_exact_search_does_not():
    vectors = [{1: 1.0}, {2: 1.0, 3: 1.0}, {3: 9.0}]
    leg = built(corpus_of(vectors), drop_ratio=0.5)
    query = asked({1: 2.0, 2: 1.0, 3: 1.5, 4: 1.2})
    assert leg.search(query, 3).tolist() == [[2, 0, 1]]
    assert leg.scored(query, 3).scores[0].tolist() == [13.5, 2.0, 1.5]
    assert leg.exact_search(query, 3).tolist() == [[2, 1, 0]]
    assert leg.scored(query, 3, exact=True).scores[0].tolist() == [13.5, 2.5, 2.0]
    assert leg.exercised().endswith("; 1 query answered, 50% of their terms dropped")
    assert not leg.scans()
    leg.configure(drop_ratio=0.0)
    assert leg.search(query, 3).tolist() == [[2, 1, 0]]
    assert leg.scans()
    assert leg.exercised().endswith("answered, exactly")


def test_a_filter_restricts_the_rows():
    leg = built(corpus_of([{1: 3.0}, {1: 2.0}, {1: 1.0}], size=[1, 2, 3]))
    filters = [parse_filter("size >= 2"), None]
    rows = leg.search(asked({1: 1.0}, {1: 1.0}, filters=filters), 2)
    assert rows.tolist() == [[1, 2], [0, 1]]


def test_vectors_from_a_file(tmp_path):
    matrix = csr_array(np.array([[0, 1.5, 0], [2.0, 0, 0], [0, 0.5, 3.0]]))
    write_csr(matrix, tmp_path / "base.csr")
    corpus = make_corpus(np.ones((3, 2)), None, None)
    leg = built(corpus, file=str(tmp_path / "base.csr"))
    assert leg.nearest(asked({1: 1.0}), 3).tolist() == [[0, 2, -1]]
    assert leg.size_bytes() > 0
    with pytest.raises(MismatchError, match=r"sparse: .*base.csr has 3 sparse vectors, but .* has 2 rows"):
        built(make_corpus(np.ones((2, 2)), None, None), file=str(tmp_path / "base.csr"))


def test_the_column_has_to_be_a_sparse_one():
    corpus = corpus_of([{1: 1.0}], title=["x"])
    assert built(corpus).index.lists.nnz == 1
    assert built(corpus, column="terms").index.lists.nnz == 1
    with pytest.raises(
        UsageError, match=r"sparse: the corpus .* has string in 'title'. Set column .*: terms"
    ):
        built(corpus, column="title")
    with pytest.raises(UsageError, match="column and file are both set"):
        built(corpus, column="terms", file="x.csr")
    two = corpus_of([{1: 1.0}], more=column_of([{1: 1.0}]))
    with pytest.raises(UsageError, match=r"no column ''. Set column to a sparse column .*: terms or more"):
        built(two)
    with pytest.raises(UsageError, match="The corpus has no sparse column"):
        built(make_corpus(np.ones((1, 2)), None, pa.table({"title": ["x"]})))


def test_queries_carry_their_pairs_from_a_column_or_a_file(tmp_path):
    table = pa.table({"terms": column_of([{1: 2.0, 5: 1.0}, None])})
    queries = make_queries(np.ones((2, 2)), None, table)
    pairs = query_pairs(sparse_vectors(queries))
    assert pairs == [[(1, 2.0), (5, 1.0)], []]
    write_csr(sparse_vectors(queries), tmp_path / "queries.csr")
    assert query_pairs(sparse_vectors(queries, file=str(tmp_path / "queries.csr"))) == pairs
    leg = built(corpus_of([{5: 3.0}, {1: 1.0}]))
    assert leg.nearest(asked(*pairs), 2).tolist() == [[0, 1], [-1, -1]]
    with pytest.raises(UsageError, match=r"sparse: the queries .* have no column 'x'\. Set column .*: terms"):
        sparse_vectors(queries, "x")
    with pytest.raises(UsageError, match="The queries have no sparse column"):
        sparse_vectors(make_queries(np.ones((2, 2))))


def test_queries_that_cannot_be_ranked_are_refused():
    leg = built(corpus_of([{1: 1.0}]))
    with pytest.raises(EngineError, match=r"sparse: query 0 has no sparse vector. Add a sparse column"):
        leg.nearest(QueryBatch(np.ones((1, 2))), 1)
    with pytest.raises(EngineError, match="sparse: query 1: the weight of term 4 is nan"):
        leg.nearest(asked({1: 1.0}, {1: 1.0, 4: math.nan}), 1)


def test_it_is_a_leg_and_no_engine_to_compare():
    assert "sparse" not in registered()
