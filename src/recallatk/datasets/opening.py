"""Corpus, queries, dataset and imported truth, opened from paths and from data in memory."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from recallatk.core import Corpus, Dataset, Metric, QuerySet, Records, Truth
from recallatk.datasets.assembly import assembled
from recallatk.datasets.checks import checked, require_vectors
from recallatk.datasets.imported import belonging
from recallatk.datasets.in_memory import is_path
from recallatk.datasets.layout import FILTER_NAME, holds_text, text_column
from recallatk.datasets.model_labels import ModelLabels
from recallatk.datasets.qrels import judgments
from recallatk.datasets.registry import detect, get_format, open_source
from recallatk.datasets.source import CORPUS, QUERIES, ROWS, OpenOptions, Source
from recallatk.errors import FilterError, FormatError, MismatchError, UsageError
from recallatk.files import PathLike, locate
from recallatk.filters import Filter, filter_from_json, parse_filter
from recallatk.redaction import is_url

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.datasets.source import Qrels


def open_corpus(
    path: Any,
    *,
    format: str | None = None,
    id_column: str | None = None,
    vector_column: str | None = None,
) -> Corpus:
    """Open a corpus: the vectors that a search can return.

    Of a file only the header is read.

    Args:
        path: a file, a pattern of shards, a folder or a URL; or data in memory: a data frame (pandas, polars,
            Arrow), a matrix, a tensor or a list of vectors.
        format: the file's format, if its ending and first bytes do not tell.
        id_column: the column of ids.
        vector_column: the column of vectors.
    """
    if isinstance(path, Corpus):
        return path
    options = OpenOptions(id_column, vector_column)
    source = open_source(path, format=format, options=options, name=CORPUS)
    return _corpus(source, Reopening.of(path, format, options))


def open_queries(
    path: Any,
    *,
    format: str | None = None,
    id_column: str | None = None,
    vector_column: str | None = None,
) -> QuerySet:
    """Open queries; a column `filter` holds each query's filter, a column `text` its words.

    Args:
        path: a file, a pattern of shards, a folder, a URL, or data in memory, as in `open_corpus`.
        format: the file's format, if its ending and first bytes do not tell.
        id_column: the column of ids.
        vector_column: the column of vectors.
    """
    if isinstance(path, QuerySet):
        return path
    options = OpenOptions(id_column, vector_column)
    return _queries(open_source(path, format=format, options=options, name=QUERIES))


def open_dataset(
    corpus: Any,
    queries: Any = None,
    *,
    metric: Metric | str | None = None,
    where: Filter | str | None = None,
    format: str | None = None,
    id_column: str | None = None,
    vector_column: str | None = None,
    model: str | None = None,
    query_model: str | None = None,
    model_column: str | None = None,
    qrels: Any = None,
) -> Dataset:
    """Open a corpus with its queries; without `queries`, one file or folder holds both.

    Args:
        corpus: a path, a pattern, a URL, data in memory (as in `open_corpus`) or an open corpus.
        queries: likewise.
        metric: cosine, ip or l2. Required unless the file states its metric.
        where: one filter for all queries.
        format: the files' format, if it cannot be told.
        id_column: the column of ids, in files and data frames.
        vector_column: the column of vectors, likewise.
        model: the embedding model of all vectors, recorded in truth and runs and compared.
        query_model: that of the queries, if it is another one.
        model_column: the column with the model of each vector, in the corpus, the queries or both.
        qrels: relevance judgments: a file, or grades by query id and corpus id. By default those that the
            folder of the data holds.
    """
    labels = ModelLabels(model, query_model, model_column)
    if isinstance(corpus, Dataset) and queries is None:
        return labels.on(_restated(corpus, metric, where, judgments(qrels)))
    options = OpenOptions(id_column, vector_column)
    source = None if isinstance(corpus, Corpus) else _open(corpus, CORPUS, format, options)
    again = Reopening.of(corpus, format, options)
    opened = corpus if isinstance(corpus, Corpus) else _corpus(_known(source), again)
    if queries is None:
        asked = _queries(_with_queries(source))
    elif isinstance(queries, QuerySet):
        asked = queries
    else:
        asked = _queries(_open(queries, QUERIES, format, options))
    chosen = _metric(source, metric, opened.name)
    dataset = Dataset(
        corpus=dataclasses.replace(opened, vectors=checked(opened, chosen)),
        queries=dataclasses.replace(_filtered(asked, where), vectors=checked(asked, chosen)),
        metric=chosen,
        qrels=_judged(source) if qrels is None else judgments(qrels),
        name=PurePath(opened.name).name,
    )
    return labels.on(dataset)


def _judged(source: Source | None) -> Qrels | None:
    """The judgments that came with the data."""
    return source.qrels() if source is not None and source.qrels else None


def _open(data: Any, role: str, format: str | None, options: OpenOptions) -> Source:
    """Open corpus or queries; a format is only for the one that is a file."""
    return open_source(data, format=format if is_path(data) else None, options=options, name=role)


def _restated(
    dataset: Dataset, metric: Metric | str | None, where: Filter | str | None, qrels: Qrels | None
) -> Dataset:
    """An open dataset with its metric confirmed, and its filter and judgments replaced if some are given."""
    if metric is not None and Metric(metric) is not dataset.metric:
        raise MismatchError(f"metric mismatch: the dataset uses {dataset.metric}, not {Metric(metric)}")
    queries = _filtered(dataset.queries, where)
    return dataclasses.replace(dataset, queries=queries, qrels=dataset.qrels if qrels is None else qrels)


def _filtered(queries: QuerySet, where: Filter | str | None) -> QuerySet:
    if where is None:
        return queries
    if not isinstance(where, str | Filter):
        raise UsageError(
            f"where is an object of type {type(where).__name__}. Accepted: a filter as text over the corpus "
            "columns, such as \"price < 20 and color = 'red'\""
        )
    return queries.where(parse_filter(where) if isinstance(where, str) else where)


def make_corpus(
    vectors: Any,
    ids: Any = None,
    metadata: Any = None,
    name: str = CORPUS,
) -> Corpus:
    """A corpus from parts in memory, which go together by position.

    Args:
        vectors: a matrix, a tensor, a list or series of vectors, or a data frame as in `open_corpus`.
        ids: one id per vector: a list, an array or a series of strings or integers. Row numbers by default.
        metadata: a data frame, or a mapping from names to columns.
        name: what messages call it.
    """
    records = assembled(vectors, ids, metadata, name)
    return Corpus(records.name, checked(records), records.columns, records.id_column)


def make_queries(
    vectors: Any,
    ids: Any = None,
    metadata: Any = None,
    filters: Sequence[Filter | str | None] | None = None,
    name: str = QUERIES,
) -> QuerySet:
    """Queries from parts in memory, which go together by position.

    Args:
        vectors: a matrix, a tensor, a list or series of vectors, or a data frame as in `open_queries`.
        ids: one id per query: a list, an array or a series of strings or integers. Row numbers by default.
        metadata: a data frame, or a mapping from names to columns.
        filters: one filter per query; None for a query without.
        name: what messages call it.
    """
    records = assembled(vectors, ids, metadata, name)
    made = query_set(records)
    if filters is None:
        return made
    parsed = tuple(parse_filter(each) if isinstance(each, str) else each for each in filters)
    if len(parsed) != records.rows:
        raise UsageError(f"{name}: {records.rows} queries but {len(parsed)} filters. Accepted: one per query")
    return dataclasses.replace(made, filters=parsed)


def read_truth(
    path: PathLike,
    *,
    corpus: Corpus | None = None,
    metric: Metric | str | None = None,
    format: str | None = None,
) -> Truth:
    """Read the ground truth that somebody else's file holds; it is marked as not certified.

    Args:
        path: ann-benchmarks HDF5, ivecs, ibin (also with distances), npy, a VectorDBBench folder or
            one of its neighbors files.
        corpus: what the neighbors are looked up in and checked against; a lone neighbors file needs it.
        metric: what the distances mean, for files that do not say.
        format: the format's name, when its ending and first bytes do not tell; big-ann truth is ibin.
    """
    location = locate(path)
    stated = None if metric is None else Metric(metric)
    if location.is_folder:
        source = open_source(path)
        found = source.truth() if source.truth else None
        found = found and dataclasses.replace(found, metric=stated)
    else:
        chosen = get_format(format) if format else detect(location)
        found = chosen.read_truth(location, stated, corpus)
    if found is None:
        accepted = "HDF5 with neighbors, ivecs, ibin, integer npy, a neighbors file or a folder"
        raise FormatError(location.text, "no ground truth found", accepted)
    return belonging(found, corpus, location.text)


def _with_queries(source: Source | None) -> Source:
    known = _known(source)
    if ROWS in known.parts:
        raise UsageError(
            f"{known.text} has vectors but no queries. Pass the queries too: open_dataset(corpus, queries). "
            "Or use corpus rows as queries: queries_from_corpus(corpus, count)"
        )
    return known


def _known(source: Source | None) -> Source:
    if source is None:
        raise UsageError("an open corpus needs queries: open_dataset(corpus, queries)")
    return source


def _metric(source: Source | None, metric: Metric | str | None, name: str) -> Metric:
    stated = source.metric if source is not None else None
    chosen = None if metric is None else Metric(metric)
    if chosen is None and stated is None:
        raise UsageError(
            f"no metric: {name} does not state one. "
            'Pass metric="cosine", metric="ip" or metric="l2" (--metric)'
        )
    if chosen is not None and stated is not None and chosen is not stated:
        raise UsageError(f"metric mismatch: {name} states {stated}, not {chosen}")
    return chosen or stated  # type: ignore[return-value]


def _corpus(source: Source, again: Reopening | None = None) -> Corpus:
    records = source.part(CORPUS)
    require_vectors(records)
    vectors = dataclasses.replace(checked(records), reopen=again)
    return Corpus(records.name, vectors, records.columns, records.id_column)


@dataclasses.dataclass(frozen=True)
class Reopening:
    """How another process opens a corpus."""

    path: str = dataclasses.field(repr=False)  # a URL may hold a secret
    format: str | None
    options: OpenOptions

    @classmethod
    def of(cls, path: Any, format: str | None, options: OpenOptions) -> Reopening | None:
        """The reopening of a file; None for data in memory."""
        if not is_path(path):
            return None
        text = os.fspath(path)
        return cls(text if is_url(text) else str(Path(text).absolute()), format, options)

    def __call__(self) -> Corpus:
        """The corpus."""
        return _corpus(open_source(self.path, format=self.format, options=self.options, name=CORPUS))


def _queries(source: Source) -> QuerySet:
    return query_set(source.part(QUERIES))


def query_set(records: Records) -> QuerySet:
    """The records as queries: which column is their text, and which their filter."""
    require_vectors(records)
    schema = records.columns.schema
    has_filter = FILTER_NAME in schema.names and not pa.types.is_null(schema.field(FILTER_NAME).type)
    if has_filter and not holds_text(schema.field(FILTER_NAME).type):
        raise FormatError(
            f"{records.name} ({FILTER_NAME})",
            f"filters of type {schema.field(FILTER_NAME).type}",
            "text, such as category = 'noun.animal', or JSON as text",
            hint="Rename the column if it holds something else.",
        )
    return QuerySet(
        name=records.name,
        vectors=checked(records),
        columns=records.columns,
        id_column=records.id_column,
        text_column=text_column(schema),
        filters=_filters(records) if has_filter else None,
    )


def _filters(records: Records) -> tuple[Filter | None, ...]:
    """The filter of every query, parsed once for each distinct text."""
    texts = records.columns.read([FILTER_NAME], 0, records.rows)[FILTER_NAME].to_pylist()
    parsed: dict[str | None, Filter | None] = {None: None, "": None}
    for row, text in enumerate(texts):
        if text not in parsed:
            try:
                parsed[text] = _parse_any(text)
            except FilterError as problem:
                raise FilterError(f"{records.name}, row {row}: {problem}") from problem
    return tuple(parsed[text] for text in texts)


def _parse_any(text: str) -> Filter:
    if not text.lstrip().startswith("{"):
        return parse_filter(text)
    try:
        return filter_from_json(json.loads(text))
    except (ValueError, RecursionError) as problem:
        raise FilterError(f"{text[:80]!r} is not valid JSON: {problem}") from problem
