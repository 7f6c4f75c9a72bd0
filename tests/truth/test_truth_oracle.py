"""Truth against rational arithmetic.

The one thing in which our truth may differ from the oracle is documented: scores that float64 cannot
tell apart count as tied. The vectors here hold small whole numbers or halves, so two different scores
differ by far more than that, and equal means equal.
"""

import dataclasses

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import exact_order, exact_score, tie_block

from recallatk import ground_truth, make_corpus, make_queries, open_dataset
from recallatk.filters import Equals, Range

DTYPES = ("float16", "float32", "float64", "int8", "uint8")


@st.composite
def vectors(draw, rows, dimension, dtype, metric):
    low, scale = (0 if dtype == "uint8" else -3), (0.5 if dtype.startswith("float") else 1)
    numbers = draw(
        st.lists(
            st.lists(st.integers(low, 4), min_size=dimension, max_size=dimension).filter(
                lambda row: metric != "cosine" or any(row)
            ),
            min_size=rows,
            max_size=rows,
        )
    )
    return (np.array(numbers).reshape(rows, dimension) * scale).astype(dtype)


@st.composite
def problems(draw):
    metric = draw(st.sampled_from(["cosine", "ip", "l2"]))
    dtype = draw(st.sampled_from(DTYPES))
    dimension = draw(st.integers(1, 4))
    distinct = draw(vectors(draw(st.integers(1, 12)), dimension, dtype, metric))
    # Blocks of copies, some of them larger than any depth and than the spare candidates.
    copies = draw(st.sampled_from([1, 1, 1, 5, 40]))
    order = (
        draw(st.permutations(range(len(distinct) * copies))) if copies < 40 else range(len(distinct) * copies)
    )
    corpus = np.repeat(distinct, copies, axis=0)[list(order)]
    depth = draw(st.integers(1, 8))
    rows = draw(st.one_of(st.none(), st.lists(st.integers(0, len(corpus) - 1), min_size=1, max_size=3)))
    if rows is None:
        queries = draw(vectors(draw(st.integers(1, 3)), dimension, dtype, metric))
    else:
        queries = corpus[rows]
    colours = [str(row % 3) for row in range(len(corpus))]
    filters = draw(
        st.one_of(
            st.none(),
            st.sampled_from(["0", "1", "none at all"]).map(
                lambda value: [Equals("colour", value)] * len(queries)
            ),
            st.lists(
                st.sampled_from([None, Equals("colour", "0"), Equals("colour", "no"), Range("number", lt=5)]),
                min_size=len(queries),
                max_size=len(queries),
            ),
        )
    )
    return metric, corpus, colours, queries, filters, rows, depth


def passes(condition, row, colours):
    match condition:
        case None:
            return True
        case Equals("colour", value):
            return colours[row] == value
    return row < condition.lt


@settings(deadline=None, max_examples=200)
@given(problems(), st.sampled_from([1, 64, 1 << 20]))
def test_truth_is_what_rational_arithmetic_says(problem, block_bytes):
    metric, corpus, colours, queries, filters, rows, depth = problem
    metadata = {"colour": colours, "number": np.arange(len(corpus))}
    asked = make_queries(queries, filters=filters)
    if rows is not None:
        asked = dataclasses.replace(asked, corpus_rows=np.array(rows, np.int64))
    dataset = open_dataset(make_corpus(corpus, metadata=metadata), asked, metric=metric)
    truth = ground_truth(dataset, depth=depth, block_bytes=block_bytes)

    assert truth.rows.shape == truth.scores.shape == (len(queries), depth)
    offsets, beyond = truth.overflow
    for number, query in enumerate(queries):
        condition = None if filters is None else filters[number]
        eligible = [
            row
            for row in range(len(corpus))
            if passes(condition, row, colours) and (rows is None or row != rows[number])
        ]
        order = exact_order(metric, query, corpus, eligible)
        found = truth.rows[number]
        scores = truth.scores[number]
        kept = min(depth, len(order))

        assert truth.eligible[number] == len(eligible)
        assert list(found) == [row for _, row in order[:depth]] + [-1] * (depth - kept)
        assert np.isnan(scores[kept:]).all()
        expected = [exact_score(metric, query, corpus[row]) for _, row in order[:depth]]
        np.testing.assert_allclose(scores[:kept], expected, rtol=1e-12, atol=1e-300)
        overflow = list(beyond[offsets[number] : offsets[number + 1]])
        for k in range(1, kept + 1):
            better, block = tie_block(order, k)
            places = np.flatnonzero(scores == scores[k - 1])
            ours = {*found[places], *(overflow if depth - 1 in places else [])}
            assert places[0] == better
            assert ours == block
        if kept < depth:
            assert overflow == []


@settings(deadline=None, max_examples=30)
@given(
    st.sampled_from(["cosine", "ip", "l2"]), st.sampled_from(DTYPES), st.integers(0, 1000), st.integers(1, 40)
)
def test_the_block_size_changes_no_bit(metric, dtype, seed, dimension):
    random = np.random.default_rng(seed)
    corpus, queries = (random.normal(size=(rows, dimension)) * 9 + 10 for rows in (150, 4))
    corpus[100:] = corpus[:50]
    corpus, queries = (np.clip(each, 1, 100).astype(dtype) for each in (corpus, queries))
    dataset = open_dataset(make_corpus(corpus), make_queries(queries), metric=metric)
    first = ground_truth(dataset, depth=20)
    for block_bytes in (1, 777, 4096):
        again = ground_truth(dataset, depth=20, block_bytes=block_bytes)
        assert (again.rows == first.rows).all()
        assert again.scores.tobytes() == first.scores.tobytes()
        assert [list(part) for part in again.overflow] == [list(part) for part in first.overflow]
        assert again.fingerprints == first.fingerprints
