"""Truth where float32 is not enough, where data is refused, and where everybody agrees."""

import faiss
import numpy as np
import pytest
from oracle import exact_order, exact_score, tie_block

from recallatk import (
    make_corpus,
    make_queries,
    open_dataset,
    parse_filter,
    queries_from_corpus,
)
from recallatk.core.truth import Decision
from recallatk.errors import BadValueError, FilterError, UsageError
from recallatk.fingerprint import fingerprint_truth
from recallatk.testing import tiny_dataset
from recallatk.truths import ground_truth

METRICS = ("cosine", "ip", "l2")


def dataset_of(corpus, queries, metric):
    return open_dataset(make_corpus(corpus), make_queries(queries), metric=metric)


@pytest.fixture(autouse=True)
def expanded_squares():
    """Makes the kernel expand the square of a difference, as it does for many queries only."""
    before = faiss.cvar.distance_compute_blas_threshold
    faiss.cvar.distance_compute_blas_threshold = 1
    yield
    faiss.cvar.distance_compute_blas_threshold = before


def assert_exact(corpus, queries, metric, depth, truth):
    """The oracle's rows; near ties cannot be in it, because the truth found no tie at all."""
    assert not len(truth.overflow[1])
    for number, query in enumerate(queries):
        order = exact_order(metric, query, corpus, range(len(corpus)))
        assert len(set(truth.scores[number])) == depth
        assert list(truth.rows[number]) == [row for _, row in order[:depth]]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("offset", [1000, 30_000])
@pytest.mark.parametrize("metric", METRICS)
def test_data_far_from_the_origin_is_ranked_exactly(metric, offset, dtype):
    random = np.random.default_rng(3)
    corpus, queries = (random.normal(offset, 1, (rows, 16)).astype(dtype) for rows in (400, 4))
    assert_exact(corpus, queries, metric, 15, ground_truth(dataset_of(corpus, queries, metric), depth=15))


def test_many_queries_that_the_kernel_cannot_prove_are_exact_at_every_block_size():
    random = np.random.default_rng(7)
    corpus, queries = (random.normal(1000, 1, (rows, 12)).astype("float32") for rows in (300, 60))
    dataset = dataset_of(corpus, queries, "l2")
    first = ground_truth(dataset, depth=10)
    # Float32 is wrong about most of them, or this test would be about something else.
    _, rows = faiss.knn(queries, corpus, 10, faiss.METRIC_L2)
    assert (rows != first.rows).any(axis=1).sum() > 40
    assert_exact(corpus, queries, "l2", 10, first)
    expected = [
        [exact_score("l2", q, corpus[row]) for row in rows]
        for q, rows in zip(queries, first.rows, strict=True)
    ]
    np.testing.assert_allclose(first.scores, expected, rtol=1e-13)
    for block_bytes in (1, 48 * 7, 48 * 299, 48 * 300):
        again = ground_truth(dataset, depth=10, block_bytes=block_bytes)
        assert again.rows.tobytes() == first.rows.tobytes()
        assert again.scores.tobytes() == first.scores.tobytes()
        assert [part.tobytes() for part in again.overflow] == [part.tobytes() for part in first.overflow]
        assert fingerprint_truth(again) == fingerprint_truth(first)


@pytest.mark.parametrize("metric", METRICS)
def test_ties_beyond_the_candidates_are_all_found_under_filters_at_every_block_size(metric):
    # Every vector stands there some fifty times: more often than there are spare candidates.
    random = np.random.default_rng(8)
    corpus = random.integers(1, 8, (8, 4))[random.integers(0, 8, 400)].astype("float64")
    queries = random.integers(1, 8, (30, 4)).astype("float64")
    filters = [None if number % 2 else parse_filter("n < 250") for number in range(30)]
    dataset = open_dataset(
        make_corpus(corpus, metadata={"n": np.arange(400)}),
        make_queries(queries, filters=filters),
        metric=metric,
    )
    first = ground_truth(dataset, depth=7)
    offsets, beyond = first.overflow
    for number, query in enumerate(queries):
        order = exact_order(metric, query, corpus, range(400 if number % 2 else 250))
        _, block = tie_block(order, 7)
        assert list(first.rows[number]) == [row for _, row in order[:7]]
        tied = list(beyond[offsets[number] : offsets[number + 1]])
        assert tied == sorted(block - set(first.rows[number]))
    for block_bytes in (1, 32 * 33, 32 * 399):
        again = ground_truth(dataset, depth=7, block_bytes=block_bytes)
        assert fingerprint_truth(again) == fingerprint_truth(first)


@pytest.mark.parametrize("step", [1, -1])
def test_a_chain_of_ties_is_the_same_at_every_block_size(step):
    # Neighbours one unit in the last place apart tie in a chain, and a far row must not change how far.
    near = 1 + np.arange(200)[::step] * 2.0**-52
    corpus = np.concatenate([[1e6], near, [3.0]])[:, None]
    dataset = dataset_of(corpus, np.zeros((1, 1)), "l2")
    first = ground_truth(dataset, depth=1)
    for block_bytes in (1, 80, 800):
        again = ground_truth(dataset, depth=1, block_bytes=block_bytes)
        assert (again.rows == first.rows).all()
        assert list(again.overflow[1]) == list(first.overflow[1])


def test_rows_that_the_kernel_drops_for_its_rounding_are_found():
    # All rows are about as far away, and what tells them apart is far below the kernel's rounding.
    random = np.random.default_rng(1)
    directions = random.normal(size=(70, 16))
    corpus = (1000 + 10 * directions / np.linalg.norm(directions, axis=1, keepdims=True)).astype("float32")
    queries = np.full((4, 16), 1000, "float32")
    truth = ground_truth(dataset_of(corpus, queries, "l2"), depth=15)
    assert_exact(corpus, queries, "l2", 15, truth)


def test_the_kernel_alone_would_have_been_wrong_there():
    # Otherwise the test above could not fail for a truth that trusts float32.
    random = np.random.default_rng(3)
    corpus, queries = (random.normal(30_000, 1, (rows, 16)).astype("float32") for rows in (400, 4))
    _, rows = faiss.knn(queries, corpus, 15, faiss.METRIC_L2)
    truth = ground_truth(dataset_of(corpus, queries, "l2"), depth=15)
    assert (rows == truth.rows).mean() < 0.5


@pytest.mark.parametrize("size", [1e15, 1e-15, 1e18, 1e-30, 1e100, 1e-70])
@pytest.mark.parametrize("metric", METRICS)
def test_very_large_and_very_small_vectors_are_ranked_exactly(metric, size):
    random = np.random.default_rng(4)
    corpus, queries = (random.normal(size=(rows, 12)) * size for rows in (300, 3))
    assert_exact(corpus, queries, metric, 10, ground_truth(dataset_of(corpus, queries, metric), depth=10))


def test_rows_whose_squares_leave_float32_though_their_numbers_do_not_are_found():
    # 600 squares of 6e17 fit into float32, those of the near rows do not, and those of the far rows do.
    random = np.random.default_rng(5)
    centre = random.choice([-6e17, 6e17], 600)
    queries = centre * random.normal(1, 0.001, (3, 1))
    near, far = (centre * random.normal(size, 0.01, (20, 1)) for size in (1.3, -0.1))
    corpus, queries = np.concatenate([far, near]).astype("float32"), queries.astype("float32")
    truth = ground_truth(dataset_of(corpus, queries, "l2"), depth=10)
    assert (truth.rows >= 20).all()
    assert_exact(corpus, queries, "l2", 10, truth)


def test_rows_closer_than_float32_can_tell_are_ordered():
    # Distances that differ in the ninth digit, best last; more of them than there are spare candidates.
    steps = np.arange(200, 0, -1)
    corpus = np.column_stack([np.ones(200), 1 + steps * 1e-10])
    queries = np.array([[1.0, 1.0]])
    for metric in ("cosine", "l2"):
        truth = ground_truth(dataset_of(corpus, queries, metric), depth=10)
        # cos = 1 - d²/2 is the same float64 for all of these; the real numbers still differ.
        assert list(truth.rows[0]) == list(range(199, 189, -1))
        assert not truth.tied.any()
        if metric == "cosine":
            assert truth.certificate.decided[0] == Decision.EXACT


@pytest.mark.parametrize("metric", METRICS)
def test_scores_that_differ_in_the_twelfth_digit_are_no_ties(metric):
    steps = np.arange(300) * 1e-12
    if metric == "cosine":
        corpus, queries = np.column_stack([np.cos(1 + steps), np.sin(1 + steps)]), np.array([[1.0, 0.0]])
    else:
        corpus, queries = (
            np.column_stack([1 + steps, np.zeros(300)]),
            np.array([[float(metric == "ip"), 0.0]]),
        )
    truth = ground_truth(dataset_of(corpus, queries, metric), depth=20)
    expected = np.arange(299, 279, -1) if metric == "ip" else np.arange(20)
    assert (truth.rows[0] == expected).all()
    assert len(set(truth.scores[0])) == 20


@pytest.mark.parametrize("metric", METRICS)
def test_faiss_agrees_on_easy_data(metric):
    dataset = tiny_dataset(2000, 50, 32, metric=metric, seed=8)
    corpus, queries = (
        np.array(part.vectors.read(0, part.rows)) for part in (dataset.corpus, dataset.queries)
    )
    if metric == "cosine":
        corpus, queries = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in (corpus, queries))
    kind = faiss.METRIC_L2 if metric == "l2" else faiss.METRIC_INNER_PRODUCT
    scores, rows = faiss.knn(queries, corpus, 10, kind)
    truth = ground_truth(dataset, depth=10)
    assert (truth.rows == rows).mean() > 0.99
    np.testing.assert_allclose(truth.scores, np.sqrt(scores) if metric == "l2" else scores, rtol=1e-4)


def test_scores_one_unit_apart_are_ordered_and_no_ties():
    corpus = np.array([[1 + 2.0**-52], [1.0], [1 + 1e-12]])
    truth = ground_truth(dataset_of(corpus, np.array([[0.0]]), "l2"), depth=3)
    assert list(truth.rows[0]) == [1, 0, 2]
    assert not truth.tied.any()
    assert (np.diff(truth.scores[0]) > 0).all()


def test_multiples_of_one_vector_tie_under_cosine():
    random = np.random.default_rng(0)
    base = random.normal(size=(20, 24))
    corpus = np.concatenate([base * scale for scale in (1, 4, 0.5, 2.0**20, 2.0**-20)])
    truth = ground_truth(dataset_of(corpus, random.normal(size=(5, 24)), "cosine"), depth=10)
    for rows, scores in zip(truth.rows, truth.scores, strict=True):
        assert list(rows % 20) == [rows[0]] * 5 + [rows[5]] * 5
        assert list(rows[:5]) == sorted(rows[:5])
        assert len(set(scores)) == 2
    assert (truth.tied == ([False] + [True] * 4) * 2).all()


def test_a_query_that_is_a_corpus_row_finds_its_copies_but_not_itself():
    corpus = make_corpus(np.array([[1, 0], [0, 1], [1, 0], [1, 1]], "float32"))
    queries = queries_from_corpus(corpus, 4)
    truth = ground_truth(open_dataset(corpus, queries, metric="l2"), depth=4)
    assert list(truth.eligible) == [3, 3, 3, 3]
    assert list(truth.rows[0]) == [2, 3, 1, -1]
    assert list(truth.rows[2]) == [0, 3, 1, -1]


@pytest.mark.parametrize("depth", [0, -1])
def test_a_depth_below_one_is_refused(depth):
    with pytest.raises(UsageError, match=f"depth of {depth}"):
        ground_truth(tiny_dataset(), depth=depth)


@pytest.mark.parametrize("part", ["corpus", "queries"])
@pytest.mark.parametrize(
    ("value", "metric", "reason"),
    [
        (0.0, "cosine", "a zero vector"),
        (np.nan, "l2", "nan at position 0"),
        (np.inf, "ip", "inf at position 0"),
        (1e200, "l2", "the largest value of the vector is 1e\\+200"),
        (1e-200, "cosine", "the largest value of the vector is 1e-200"),
    ],
)
def test_vectors_without_a_score_are_refused_by_name_and_row(part, value, metric, reason):
    vectors = {"corpus": np.ones((300, 4)), "queries": np.ones((10, 4))}
    vectors[part][7] = value
    corpus = make_corpus(vectors["corpus"], name="things.npy")
    queries = make_queries(vectors["queries"], name="asked.npy")
    name = {"corpus": "things.npy", "queries": "asked.npy"}[part]
    with pytest.raises(BadValueError, match=f"{name}, row 7: {reason}"):
        ground_truth(open_dataset(corpus, queries, metric=metric), depth=3, block_bytes=64)


def test_a_zero_vector_has_an_inner_product_and_a_distance():
    corpus, queries = np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([[0.0, 0.0]])
    assert list(ground_truth(dataset_of(corpus, queries, "l2"), depth=2).scores[0]) == [0.0, 1.0]
    assert list(ground_truth(dataset_of(corpus, queries, "ip"), depth=2).rows[0]) == [0, 1]


def test_a_filter_on_a_column_that_is_not_there_is_refused():
    dataset = tiny_dataset()
    with pytest.raises(FilterError, match="no column 'colour'"):
        ground_truth(open_dataset(dataset.corpus, dataset.queries, metric="l2", where="colour = 'red'"))


def test_progress_counts_every_pair():
    seen = []
    ground_truth(tiny_dataset(200), depth=5, block_bytes=1600, progress=lambda *step: seen.append(step))
    assert seen == [(1000, 4000), (2000, 4000), (3000, 4000), (4000, 4000)]
