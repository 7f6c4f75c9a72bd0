"""What the tests of attached engines ask: exact search by the user's ids, and three rows."""

import numpy as np

from recallatk import make_corpus, make_queries, open_dataset
from recallatk.adapters import QueryBatch
from recallatk.adapters.base import resolved, resolved_search
from recallatk.adapters.exact import Exact

QUERIES = np.eye(3, dtype="float32")


def searcher(corpus, metric):
    """Exact search that returns the user's ids."""
    engine = Exact()
    engine.build(corpus, metric)
    ids = corpus.ids.to_pylist()

    def search(queries, k):
        found = engine.search(QueryBatch(np.asarray(queries, np.float32)), k)
        return [[ids[row] for row in line if row >= 0] for line in found.tolist()]

    return search


def three_rows(ids):
    corpus = make_corpus(np.eye(3, dtype="float32"), ids)
    return open_dataset(corpus, make_queries(np.eye(3, dtype="float32")[:2]), metric="l2")


def attached(kind, dataset, build=None, search=None):
    engine = kind()
    stated = [each for each in kind.stated_build_knobs if each.name in (build or {})]
    knobs = (*kind.build_knobs, *stated)
    try:
        engine.build(dataset.corpus, dataset.metric, **resolved(kind.name, knobs, build or {}))
        engine.configure(**resolved_search(kind, search or {}))
    except BaseException:
        engine.close()
        raise
    return engine
