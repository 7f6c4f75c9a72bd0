"""New rows that may be among the best of queries whose best rows are known: a sweep over these alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.core import Corpus
from recallatk.filters.eligibility import Eligibility
from recallatk.truths.corpus_reader import PickedVectors, Reader
from recallatk.truths.scanner_blas import BlasScanner
from recallatk.truths.space import FLOAT32, Space
from recallatk.truths.sweep import Candidates, OutOfRange, Sweep

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from recallatk.truths.search import ExactSearch


def contenders(
    search: ExactSearch,
    queries: NDArray[Any],
    added: NDArray[np.int64],
    k: int,
    scores: NDArray[np.float64],
    bounds: NDArray[np.float64],
) -> Candidates:
    """The new rows that may be among the best `k` of some queries; those with too many are abandoned.

    Args:
        search: the search over the whole corpus.
        queries: the vectors of the queries.
        added: the new rows, in order.
        k: how many rows of each query are kept.
        scores: of each query, a score that no row needs to be considered below; NaN if there is none.
        bounds: how far each of these can be from the real score.
    """
    none = np.empty(0, np.int64)
    if not len(queries) or not len(added):
        return Candidates(none, none, *np.zeros((2, len(queries)), bool))
    reader = _reader_of(search, added)
    space = Space(search.metric, FLOAT32, queries.shape[1], search.centre)
    try:
        sweep = Sweep(
            space,
            queries,
            Eligibility((None,), np.zeros(len(queries), np.int64), None, len(added)),
            k,
            BlasScanner,
            threads=search.threads,
            most=8 * k + 256,
            floors=space.floors(queries, scores, bounds),
        )
        with search.few_threads(len(sweep.workers)):
            for start, block in reader.blocks():
                sweep.take(start, block)
        found = sweep.candidates()
    except OutOfRange:
        every = np.ones(len(queries), bool)
        return Candidates(none, none, every, ~every)
    return found._replace(rows=added[found.rows])


def _reader_of(search: ExactSearch, added: NDArray[np.int64]) -> Reader:
    whole, corpus = search.reader, search.dataset.corpus
    rows = Corpus(corpus.name, PickedVectors(whole, added), corpus.columns)
    return Reader(rows, search.metric, whole.block_rows, smallest_query=whole.smallest_query)
