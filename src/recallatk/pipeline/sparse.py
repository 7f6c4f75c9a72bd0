"""The sparse leg: inner products of sparse vectors, exact unless small query weights are dropped."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from recallatk.core import Corpus, Knob, Metric
from recallatk.datasets.sparse_vectors import column_vectors, is_sparse, read_csr
from recallatk.errors import EngineError, MismatchError, UsageError
from recallatk.files import locate
from recallatk.pipeline.leg import AllowedMasks, TermLeg, array_bytes, leg_column
from recallatk.pipeline.ranking import EPSILON, Scores
from recallatk.units import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.adapters.batch import QueryBatch
    from recallatk.core import Records
    from recallatk.datasets.sparse_vectors import SparseMatrix


class Postings(NamedTuple):
    """An inverted index: for every term, the rows that have it and its weights there."""

    lists: SparseMatrix
    """(terms, rows), a CSR matrix with the terms that occur."""
    numbers: dict[int, int]
    """Line of each term."""
    signed: bool
    """Whether any weight is negative."""


class Sparse(TermLeg):
    """Ranking by sparse inner products over the rows that share a term with the query."""

    name = "sparse"
    family = "sparse"
    distribution = "scipy"
    build_knobs = (
        Knob("column", default="", help="Sparse column of the corpus; the only one by default."),
        Knob("file", default="", help="File of sparse vectors in corpus order (.csr), in place of a column."),
    )
    search_knobs = (
        Knob(
            "drop_ratio",
            default=0.0,
            low=0.0,
            high=0.99,
            scale="linear",
            help="Share of the smallest query weights to drop; 0 is exact.",
        ),
    )

    def build(self, corpus: Corpus, metric: Metric, **parameters: Any) -> None:
        """Read the sparse vectors and list the rows of every term."""
        from scipy.sparse import csr_array

        self.close()
        vectors = sparse_vectors(corpus, parameters.get("column", ""), parameters.get("file", ""))
        terms, lines = np.unique(vectors.indices, return_inverse=True)
        compact = csr_array((vectors.data, lines, vectors.indptr), shape=(corpus.rows, len(terms)))
        lists = compact.T.tocsr()
        numbers = dict(zip(terms.tolist(), range(len(terms)), strict=True))
        self.index = Postings(lists, numbers, bool((lists.data < 0).any()))
        self.rows, self.allowed = corpus.rows, AllowedMasks(corpus)

    def term_scores(
        self, batch: QueryBatch, query: int, mask: NDArray[np.bool_] | None, *, exact: bool
    ) -> Scores:
        """Inner products of the rows that share a term with the query."""
        drop_ratio = 0.0 if exact else self.settings.get("drop_ratio", 0.0)
        lists, numbers, signed = self.index
        ends, rows, values = lists.indptr, [], []
        negative = signed
        for term, weight in kept_weights(self._query(batch, query), drop_ratio):
            line = numbers.get(term)
            if line is not None and weight != 0:
                part = slice(ends[line], ends[line + 1])
                rows.append(lists.indices[part])
                values.append(lists.data[part] * weight)
                negative = negative or weight < 0
        if not rows:
            return Scores(np.empty(0, np.int64), np.empty(0), np.empty(0))
        place, product = np.concatenate(rows), np.concatenate(values)
        totals: NDArray[np.float64] = np.bincount(place, product, self.rows)  # type: ignore[assignment]
        shared = np.zeros(self.rows, bool)
        shared[place] = True
        found = np.flatnonzero(shared if mask is None else shared & mask)
        # Products of either sign may cancel, so that the error of a sum is relative to their absolute sum.
        absolute = np.bincount(place, np.abs(product), self.rows) if negative else totals
        # Each product is rounded once, and so is each sum.
        errors = np.asarray(absolute[found] * ((len(rows) + 1) * EPSILON / 2), np.float64)
        return Scores(found, totals[found], errors)

    def _query(self, batch: QueryBatch, query: int) -> list[tuple[int, float]]:
        """The terms and weights of one query."""
        if batch.sparse is None:
            raise EngineError(
                f"{self.name}: query {query} has no sparse vector. Add a sparse column to the queries, or "
                "remove the stage from the path"
            )
        pairs = list(batch.sparse[query])
        wrong = next((pair for pair in pairs if not math.isfinite(pair[1])), None)
        if wrong is not None:
            raise EngineError(
                f"{self.name}: query {query}: the weight of term {wrong[0]} is {wrong[1]}. Accepted: finite "
                "numbers. Repair the sparse vector of the query"
            )
        return pairs

    def scans(self) -> bool:
        """Every row that shares a term is scored, if no term is dropped."""
        return not self.settings.get("drop_ratio", 0.0)

    def held(self) -> str:
        """Vectors, terms and entries, in words."""
        lists = self.index.lists
        vectors = counted(self.rows, "sparse vector", "sparse vectors")
        terms = counted(lists.shape[0], "term", "terms")
        return f"inverted index of {vectors} with {terms} and {counted(lists.nnz, 'entry', 'entries')}"

    def work(self) -> str:
        """The number of queries, and the share of weights that they dropped."""
        dropped = self.settings.get("drop_ratio", 0.0)
        return f"{super().work()}, {f'{dropped:.0%} of their terms dropped' if dropped else 'exactly'}"

    def size_bytes(self) -> int:
        """Bytes of the inverted index."""
        lists = self.index.lists
        return array_bytes(lists.data, lists.indices, lists.indptr)


def sparse_vectors(records: Records, column: str = "", file: str = "") -> SparseMatrix:
    """The sparse vectors of a corpus or of queries, one per row.

    Args:
        records: the corpus or the queries.
        column: their sparse column; by default the only one.
        file: a `.csr` file in the same order, in place of a column.
    """
    stage = Sparse.name
    if column and file:
        raise UsageError(f"{stage}: column and file are both set. Accepted: one of them")
    if file in records.columns.schema.names:
        # A worker gets the rows of the file as a column, in the order of its corpus.
        column, file = file, ""
    if not file:
        fitting = [each.name for each in records.columns.schema if is_sparse(each.type)]
        name = fitting[0] if not column and len(fitting) == 1 else column
        values = leg_column(records, name, stage, "sparse", is_sparse)
        return column_vectors(values, f"{records.name}, column {name!r}")
    vectors = read_csr(file)
    if vectors.shape[0] != records.rows:
        raise MismatchError(
            f"{stage}: {locate(file).text} has {vectors.shape[0]:,} sparse vectors, but {records.name} has "
            f"{records.rows:,} rows. Write one sparse vector per row, in the same order"
        )
    return vectors


def kept_weights(pairs: list[tuple[int, float]], drop_ratio: float) -> list[tuple[int, float]]:
    """The pairs of a query without the smallest weights, of which a share is dropped, rounded down."""
    dropped = int(drop_ratio * len(pairs))
    if not dropped:
        return pairs
    return sorted(pairs, key=lambda pair: (-abs(pair[1]), pair[0]))[: len(pairs) - dropped]
