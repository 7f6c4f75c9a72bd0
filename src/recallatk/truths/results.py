"""Decided queries in the arrays of a truth, and the metadata that a truth keeps."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from recallatk.core import Dataset, Truth
from recallatk.core.truth import Certificate
from recallatk.ids import RowIds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from recallatk.core import Corpus, QuerySet
    from recallatk.truths.decision import DecidedRows


class Results:
    """What has been decided so far, in the arrays of a truth."""

    def __init__(self, queries: int, depth: int) -> None:
        shape = (queries, depth)
        self.rows, self.scores = np.full(shape, -1, np.int64), np.full(shape, np.nan)
        self.tied = np.zeros(shape, bool)
        self.tie_counts = np.zeros(queries, np.int64)
        self.decided = np.zeros(queries, np.uint8)
        self.bounds, self.next_scores = np.full(queries, np.nan), np.full(queries, np.nan)
        self.next_rows = np.full(queries, -1, np.int64)
        self.beyond: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        """Queries and rows, one entry per tie beyond the depth."""

    def put(
        self,
        group: NDArray[np.int64],
        proven: NDArray[np.bool_],
        verdict: DecidedRows,
    ) -> None:
        """Take in what was decided for the proven ones among some queries."""
        which = group[proven]
        self.rows[which], self.scores[which] = verdict.rows[proven], verdict.scores[proven]
        self.tied[which], self.tie_counts[which] = verdict.tied[proven], verdict.tie_counts[proven]
        self.bounds[which], self.next_rows[which] = verdict.bounds[proven], verdict.next_rows[proven]
        self.next_scores[which] = verdict.next_scores[proven]
        self.decided[which] = verdict.decided[proven]
        offsets, rows = verdict.overflow
        self.beyond.append((np.repeat(group, np.diff(offsets)), rows))

    def forget_ties(self, which: NDArray[np.int64]) -> None:
        """Drop the ties beyond the depth of queries that are decided again."""
        kept = [~np.isin(queries, which) for queries, _ in self.beyond]
        self.beyond = [(q[keep], r[keep]) for (q, r), keep in zip(self.beyond, kept, strict=True)]

    def overflow(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(offsets, rows) over all queries."""
        queries, rows = (np.concatenate([np.empty(0, np.int64), *part]) for part in _columns(self.beyond))
        order = np.argsort(queries, kind="stable")
        counts = np.bincount(queries, minlength=len(self.rows))
        return np.concatenate([[0], np.cumsum(counts)]), rows[order]

    def state(self) -> dict[str, NDArray[Any]]:
        """All of it as plain arrays."""
        offsets, rows = self.overflow()
        arrays = {name: part for name, part in vars(self).items() if name != "beyond"}
        return {**arrays, "overflow_offsets": offsets, "overflow_rows": rows}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Become what `state` said."""
        offsets, rows = state["overflow_offsets"], state["overflow_rows"]
        for name, part in state.items():
            if not name.startswith("overflow"):
                setattr(self, name, part)
        self.beyond = [(np.repeat(np.arange(len(self.rows)), np.diff(offsets)), rows)]

    def truth(self, dataset: Dataset, fingerprints: Mapping[str, str]) -> Truth:
        """The finished truth."""
        overflow = self.overflow()
        named = np.concatenate([self.rows.reshape(-1), overflow[1]])
        return Truth(
            rows=self.rows,
            scores=self.scores,
            eligible=dataset.eligibility.counts,
            metric=dataset.metric,
            tied=self.tied,
            overflow=overflow,
            tie_counts=self.tie_counts,
            certificate=Certificate(self.decided, self.bounds, self.next_rows, self.next_scores),
            query_ids=dataset.queries.ids,
            corpus_ids=kept_ids(dataset.corpus),
            query_columns=kept_columns(dataset.queries),
            row_ids=None if dataset.corpus.id_column is None else RowIds.some(named, dataset.corpus.ids),
            corpus_rows=dataset.corpus.rows,
            sampled_from=dataset.corpus.sampled_from,
            fingerprints=fingerprints,
            models=dataset.models,
        )


def _columns(
    pairs: list[tuple[NDArray[np.int64], NDArray[np.int64]]],
) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]]:
    return [first for first, _ in pairs], [second for _, second in pairs]


# Up to this many rows a truth keeps all ids; beyond, unknown ids are detected only with the corpus.
MOST_IDS = 1 << 22


def kept_ids(corpus: Corpus) -> pa.Array | None:
    """All ids of a corpus, unless they are its row numbers or too many."""
    return None if corpus.id_column is None or corpus.rows > MOST_IDS else corpus.ids


def with_columns(truth: Truth, dataset: Dataset) -> Truth:
    """A stored truth with the current query columns and models, which are not part of its identity."""
    return replace(truth, query_columns=kept_columns(dataset.queries), models=dataset.models)


def kept_columns(queries: QuerySet) -> pa.Table | None:
    """Query columns with plain values."""
    names = [name for name in queries.metadata_names if _is_plain(queries.columns.schema.field(name).type)]
    if not names:
        return None
    table = queries.columns.read(names, 0, queries.rows)
    decoded = [
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in table.columns
    ]
    return pa.table(decoded, names)


def _is_plain(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_plain(kind.value_type)
    return not (pa.types.is_nested(kind) or pa.types.is_null(kind))
