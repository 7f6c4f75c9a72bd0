"""`ground_truth(since=...)`: an earlier truth in memory, brought up to date."""

import dataclasses

import numpy as np
import pytest
from test_updating import contents

from recallatk import make_corpus, make_queries, open_dataset
from recallatk.errors import MismatchError
from recallatk.truths import ground_truth

RANDOM = np.random.default_rng(0)
CORPUS = RANDOM.normal(size=(400, 8)).astype("float32")
QUERIES = RANDOM.normal(size=(12, 8)).astype("float32")


def made(corpus=CORPUS, queries=QUERIES, metric="cosine", **options):
    return open_dataset(make_corpus(corpus), make_queries(queries), metric=metric, **options)


@pytest.mark.parametrize("metric", ["cosine", "ip", "l2"])
@pytest.mark.parametrize("before", [3, 390, 400])
@pytest.mark.parametrize("block_bytes", [None, 1000])
def test_it_equals_a_full_computation_bit_for_bit(metric, before, block_bytes):
    earlier = ground_truth(made(CORPUS[:before], metric=metric), depth=10)
    scanned = []
    found = ground_truth(
        made(metric=metric),
        depth=10,
        since=earlier,
        block_bytes=block_bytes,
        progress=lambda *step: scanned.append(step),
    )
    assert contents(found) == contents(ground_truth(made(metric=metric), depth=10))
    assert found.fingerprints == ground_truth(made(metric=metric), depth=10).fingerprints
    assert not scanned or before == 3


def test_a_query_that_is_one_of_the_new_rows_does_not_find_itself():
    own = np.array([5, 395])
    queries = dataclasses.replace(make_queries(CORPUS[own]), corpus_rows=own)

    def asked(corpus):
        return open_dataset(make_corpus(corpus), queries, metric="l2")

    found = ground_truth(asked(CORPUS), depth=10, since=ground_truth(asked(CORPUS[:390]), depth=10))
    assert not (found.rows == own[:, None]).any()
    assert contents(found) == contents(ground_truth(asked(CORPUS), depth=10))


@pytest.mark.parametrize(
    ("other", "depth", "said"),
    [
        (made(metric="l2"), 10, "Different: metric"),
        (made(), 9, "Different: depth"),
        (made(queries=QUERIES[:5]), 10, "Different: queries"),
        (made(queries=-QUERIES), 10, "Different: queries"),
        (made(CORPUS[:200]), 10, "Different: rows"),
        (made(CORPUS[::-1].copy()), 10, "Different: vectors"),
    ],
)
def test_an_earlier_truth_of_something_else_is_refused(other, depth, said):
    earlier = ground_truth(made(CORPUS[:390]), depth=10)
    with pytest.raises(MismatchError, match=said):
        ground_truth(other, depth=depth, since=earlier)
