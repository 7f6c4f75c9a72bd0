"""Shards scanned apart and merged in any order give the truth of the whole, bit for bit."""

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_updating import METRICS, contents, made, numbers

from examples import examples
from recallatk import make_corpus, make_queries, open_dataset
from recallatk.core import ArrayVectors, Corpus
from recallatk.fingerprint import fingerprint_shards, fingerprint_vectors, fingerprints
from recallatk.truths import ground_truth
from recallatk.truths.candidates import ShardCandidates, certify, known_floors, merged
from recallatk.truths.corpus_reader import Reader
from recallatk.truths.results import Results
from recallatk.truths.shard_scan import ShardWork, SlicedVectors, scan_shard, sliced


def in_shards(dataset, depth, cuts, order, backend="blas", fan_in=2):
    """The truth by way of shards, scanned in some order, each with the thresholds of those before."""
    corpus, k = dataset.corpus, depth + 1
    queries = dataset.queries.vectors.read(0, dataset.queries.rows)
    work = ShardWork(queries, dataset.metric, depth, (backend, None))
    edges = [0, *cuts, corpus.rows]
    floors = np.full(len(queries), -np.inf)
    parts = []
    for number in order:
        start, stop = edges[number], edges[number + 1]
        shard = Corpus(corpus.name, SlicedVectors(corpus.vectors, start, stop), corpus.columns)
        eligible = sliced(dataset.eligibility, start, stop)
        parts.append(scan_shard(work, shard, start, eligible, floors))
        if len(parts) == fan_in:
            parts = [merged(dataset.metric, parts, k)]
        floors = np.maximum(floors, known_floors(dataset.metric, parts[0], k))
    results = Results(len(queries), depth)
    reader = Reader(corpus, dataset.metric, 7, smallest_query=np.inf)
    certify(results, merged(dataset.metric, parts, k), queries, np.arange(len(queries)), reader, threads=2)
    return results.truth(dataset, fingerprints(dataset)), parts


@pytest.mark.parametrize("metric", METRICS)
@examples(30)
@given(data=st.data())
def test_shards_in_any_order_give_the_truth_of_the_whole(metric, data):
    random = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    kind = data.draw(st.sampled_from(["spread", "ties", "near", "far"]))
    dtype = data.draw(st.sampled_from(["float32", "float64", "int8"]))
    rows, depth = data.draw(st.integers(2, 200)), data.draw(st.integers(1, 12))
    corpus, queries = numbers(random, rows, dtype, kind), numbers(random, 7, dtype, kind)
    own = random.integers(0, rows, 7) if data.draw(st.booleans()) else None
    dataset = made(corpus, queries if own is None else corpus[own], metric, own=own)
    cuts = sorted(data.draw(st.sets(st.integers(1, rows - 1), max_size=5)))
    order = data.draw(st.permutations(range(len(cuts) + 1)))
    fan_in = data.draw(st.integers(2, 4))
    found, _ = in_shards(dataset, depth, cuts, order, fan_in=fan_in)
    assert contents(found) == contents(ground_truth(dataset, depth=depth, threads=1))


@pytest.mark.parametrize("backend", ["blas", "faiss"])
def test_filters_hold_in_every_shard(backend):
    random = np.random.default_rng(1)
    corpus = make_corpus(numbers(random, 300, "float32"), metadata={"n": np.arange(300) % 50})
    filters = [None, "n < 3", "n = 7", "n > 60", "n >= 10", "n < 3"]
    queries = make_queries(numbers(random, 6, "float32"), filters=filters)
    dataset = open_dataset(corpus, queries, metric="cosine")
    found, _ = in_shards(dataset, 9, [50, 51, 220], [2, 0, 3, 1], backend)
    assert contents(found) == contents(ground_truth(dataset, depth=9))


def test_endless_ties_over_all_shards_are_counted():
    corpus = np.ones((1500, 3), np.float32)
    corpus[700:720] = 2
    dataset = made(corpus, np.array([[1, 1, 1], [2, 2, 2], [1, 0, 0]], np.float32), "l2")
    found, _ = in_shards(dataset, 5, [400, 800], [0, 1, 2])
    assert contents(found) == contents(ground_truth(dataset, depth=5))


def test_thresholds_of_earlier_shards_leave_fewer_candidates():
    random = np.random.default_rng(2)
    dataset = made(numbers(random, 4000, "float32"), numbers(random, 20, "float32"), "ip")
    queries, k = dataset.queries.vectors.read(0, 20), 11
    work = ShardWork(queries, dataset.metric, 10)
    halves = [(0, 3000), (3000, 4000)]
    corpus = dataset.corpus
    shards = [Corpus("c", SlicedVectors(corpus.vectors, *each), corpus.columns) for each in halves]
    every = [sliced(dataset.eligibility, *each) for each in halves]
    first = scan_shard(work, shards[0], 0, every[0])
    alone = scan_shard(work, shards[1], 3000, every[1])
    later = scan_shard(work, shards[1], 3000, every[1], known_floors(dataset.metric, first, k))
    assert len(later.rows) < 0.6 * len(alone.rows)
    whole, pruned = (merged(dataset.metric, [first, each], k) for each in (alone, later))
    assert whole.offsets.tolist() == pruned.offsets.tolist()
    assert sorted(whole.rows) == sorted(pruned.rows)


def test_a_range_error_names_the_row_of_the_whole_corpus():
    corpus = np.ones((60, 2))
    corpus[41] = 1e200
    dataset = made(corpus, np.ones((1, 2)), "l2")
    with pytest.raises(Exception, match="row 41"):
        in_shards(dataset, 3, [30], [0, 1])


@examples(8)
@given(cuts=st.sets(st.integers(1, 999), max_size=6))
def test_shard_fingerprints_are_those_of_the_slices(cuts):
    vectors = ArrayVectors(np.random.default_rng(0).random((1000, 2000), np.float32))
    edges = [0, *sorted(cuts), 1000]
    shards = list(itertools.pairwise(edges))
    whole, parts = fingerprint_shards(vectors, shards)
    assert whole == fingerprint_vectors(vectors)
    assert parts == [fingerprint_vectors(SlicedVectors(vectors, *each)) for each in shards]


def test_candidates_survive_as_arrays():
    random = np.random.default_rng(3)
    dataset = made(numbers(random, 50, "float32"), numbers(random, 4, "float32"), "l2")
    _, [found] = in_shards(dataset, 3, [], [0])
    again = ShardCandidates.restored(found.arrays())
    for each in dataclasses.fields(found):
        assert np.array_equal(getattr(found, each.name), getattr(again, each.name))
