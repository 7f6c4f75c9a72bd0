"""Query sets from query sets: samples, splits and corpus rows used as queries.

Every choice is a pure function of the query's id and a seed. Adding queries later moves none of the old
ones to another side of a split, and into a sample only those that draw lower numbers.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from blake3 import blake3

from recallatk.core import Corpus, Dataset, QuerySet, Records
from recallatk.datasets.checks import checked
from recallatk.datasets.layout import FILTER_NAME
from recallatk.datasets.matrix import TableColumns, gather
from recallatk.datasets.opening import query_set
from recallatk.errors import UsageError, unknown

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Tuning needs more queries than validation.
HELD_OUT = 1 / 3
_ROWS_AT_ONCE = 65_536


def sample_queries(queries: QuerySet, count: int, *, seed: int = 0, by: str | None = None) -> QuerySet:
    """A sample without replacement, in the order of the file; `by` keeps a column's proportions."""
    chosen = sample_rows(queries, count, seed=seed, by=by)
    return take_queries(queries, chosen)


def sample_corpus(corpus: Corpus, count: int, *, seed: int = 0, by: str | None = None) -> Corpus:
    """A sample of the corpus for controlled experiments; it is marked as one.

    Recall on a sample does not carry over to the whole, which is another problem.
    """
    rows = sample_rows(corpus, count, seed=seed, by=by)
    columns, identifier = _taken_columns(corpus, corpus.columns.schema.names, rows)
    name = f"{count:,} of the {corpus.rows:,} rows of {corpus.name}"
    sample = Corpus(
        name, gather(corpus.vectors, rows), columns, identifier, corpus.sampled_from or corpus.rows
    )
    return dataclasses.replace(
        sample, vectors=checked(sample), model=corpus.model, model_column=corpus.model_column
    )


def sampled(dataset: Dataset, count: int, *, seed: int = 0, by: str | None = None) -> Dataset:
    """The dataset with a sample of its corpus."""
    if dataset.queries.corpus_rows is not None:
        raise UsageError("the queries are corpus rows, and a sample of the corpus may lack them")
    corpus = sample_corpus(dataset.corpus, count, seed=seed, by=by)
    checked_corpus = dataclasses.replace(corpus, vectors=checked(corpus, dataset.metric))
    return dataclasses.replace(dataset, corpus=checked_corpus)


def split_queries(
    queries: QuerySet, *, validate: float = HELD_OUT, seed: int = 0
) -> tuple[QuerySet, QuerySet]:
    """The tune side and the validate side; `validate` is the expected share of the latter."""
    if not 0.0 < validate < 1.0:
        raise UsageError(f"the share to validate on is {validate}. Accepted: between 0 and 1")
    held_out = _draws(queries.ids, seed, "split") < validate
    if held_out.all() or not held_out.any():
        count = "1 query is" if queries.rows == 1 else f"{queries.rows} queries are"
        raise UsageError(f"{queries.name}: {count} too few to split. Accepted: at least 2, better hundreds")
    return take_queries(queries, np.flatnonzero(~held_out)), take_queries(queries, np.flatnonzero(held_out))


def queries_from_corpus(corpus: Corpus, count: int, *, seed: int = 0, by: str | None = None) -> QuerySet:
    """Corpus rows as queries: each knows its own row, which it may not find."""
    rows = sample_rows(corpus, count, seed=seed, by=by)
    # A column called filter is the row's own here, not what the query may return.
    names = [name for name in corpus.columns.schema.names if name != FILTER_NAME]
    columns, identifier = _taken_columns(corpus, names, rows)
    records = Records(f"rows of {corpus.name}", gather(corpus.vectors, rows), columns, identifier)
    return dataclasses.replace(query_set(records), corpus_rows=rows)


def latest_queries(queries: QuerySet, count: int, *, by: str = "time") -> QuerySet:
    """The latest queries by a column of times, as query logs have; without it, the last of the file."""
    if count < 1:
        raise UsageError(f"the latest {count} queries. Accepted: 1 or more")
    if count >= queries.rows:
        return queries
    if by not in queries.metadata_names:
        return take_queries(queries, np.arange(queries.rows - count, queries.rows))
    times = queries.columns.read([by], 0, queries.rows)[by].combine_chunks()
    # Nulls are sorted last, and are taken as the earliest.
    order = np.roll(pc.sort_indices(times).to_numpy(), times.null_count)
    return take_queries(queries, np.sort(order[-count:]).astype(np.int64))


def _draws(ids: pa.Array, seed: int, purpose: str) -> NDArray[np.float64]:
    """A number in [0, 1) for each id, which depends on nothing but id, seed and purpose."""
    prefix = f"{purpose}\0{seed}\0"
    digests = b"".join(blake3(f"{prefix}{each}".encode()).digest(8) for each in ids.to_pylist())
    # 53 bits are as many as a float64 holds exactly.
    result: NDArray[np.float64] = (np.frombuffer(digests, "<u8") >> np.uint64(11)) / 2.0**53
    return result


def sample_rows(records: Records, count: int, *, seed: int = 0, by: str | None = None) -> NDArray[np.int64]:
    """The row numbers of a sample without replacement, in order."""
    if not 1 <= count <= records.rows:
        raise UsageError(f"{records.name}: a sample of {count}. Accepted: 1 to {records.rows}")
    draws = _draws(records.ids, seed, "sample")
    strata = _strata(records, by)
    chosen = [
        rows[np.argsort(draws[rows], kind="stable")[:share]]
        for rows, share in zip(strata, _shares([len(rows) for rows in strata], count), strict=True)
    ]
    return np.sort(np.concatenate(chosen))


def _strata(records: Records, by: str | None) -> list[NDArray[np.int64]]:
    """The rows of every distinct value of the column; nulls are a value of their own."""
    if by is None:
        return [np.arange(records.rows)]
    if by not in records.metadata_names:
        raise UsageError(f"{records.name}: {unknown('column', by, records.metadata_names)}")
    column = records.columns.read([by], 0, records.rows)[by]
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_nested(column.type):
        raise UsageError(f"{records.name}: the column {by!r} holds {column.type}. Accepted: single values")
    codes = column.combine_chunks().dictionary_encode(null_encoding="encode").indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)


def _shares(sizes: list[int], count: int) -> list[int]:
    """How many to take of each stratum: its proportion, the largest remainders rounded up."""
    exact = np.asarray(sizes) * count / sum(sizes)
    shares = np.floor(exact).astype(int)
    short = count - int(shares.sum())
    for stratum in np.argsort(shares - exact, kind="stable")[:short]:
        shares[stratum] += 1
    return [int(share) for share in shares]


def _taken_columns(records: Records, names: list[str], rows: NDArray[np.int64]) -> tuple[TableColumns, str]:
    """Some columns of some rows, with the ids that they had: row numbers become a column."""
    taken = gathered_columns(records, names, rows) if names else pa.table({})
    columns = dict(zip(taken.column_names, taken.columns, strict=True))
    identifier = records.id_column
    if identifier is None:
        identifier = "row"
        while identifier in columns:
            identifier += "_"
        columns[identifier] = pa.array(rows)
    return TableColumns(pa.table(columns)), identifier


def gathered_columns(records: Records, names: list[str], rows: NDArray[np.int64]) -> pa.Table:
    """Some columns of some rows, which are in order, read in one pass that holds few others."""
    parts = []
    for start in range(0, records.rows, _ROWS_AT_ONCE):
        stop = min(start + _ROWS_AT_ONCE, records.rows)
        first, last = np.searchsorted(rows, [start, stop])
        if first < last:
            part = records.columns.read(names, start, stop)
            parts.append(part.take(pa.array(rows[first:last] - start)))
    return pa.concat_tables(parts)


def take_queries(queries: QuerySet, rows: NDArray[np.int64]) -> QuerySet:
    """Some of the queries, with everything that belongs to them and the ids that they had."""
    columns, identifier = _taken_columns(queries, queries.columns.schema.names, rows)
    taken = dataclasses.replace(
        queries,
        vectors=gather(queries.vectors, rows),
        columns=columns,
        id_column=identifier,
        filters=None if queries.filters is None else tuple(queries.filters[row] for row in rows),
        corpus_rows=None if queries.corpus_rows is None else queries.corpus_rows[rows],
    )
    return dataclasses.replace(taken, vectors=checked(taken))
