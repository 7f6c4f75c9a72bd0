"""From a path, or from arrays, to a corpus, a query set, a dataset or a truth."""

from __future__ import annotations

import dataclasses
import json
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from recallatk.core import ArrayVectors, Corpus, Dataset, Metric, QuerySet, Records, Truth
from recallatk.datasets.checks import checked, require_vectors
from recallatk.datasets.layout import FILTER_NAME, ID, TEXT_NAMES
from recallatk.datasets.matrix import TableColumns
from recallatk.datasets.registry import detect, get_format, open_source
from recallatk.datasets.source import CORPUS, QUERIES, ROWS, OpenOptions, Source
from recallatk.errors import FilterError, FormatError, MismatchError, UsageError
from recallatk.files import PathLike, locate, reading
from recallatk.filters import Filter, filter_from_json, parse_filter
from recallatk.ids import RowIds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike


def open_corpus(
    path: PathLike,
    *,
    format: str | None = None,
    id_column: str | None = None,
    vector_column: str | None = None,
) -> Corpus:
    """Open the vectors that can be found; nothing is read but what is needed to know their shape."""
    options = OpenOptions(id_column, vector_column)
    return _corpus(open_source(path, format=format, options=options))


def open_queries(
    path: PathLike,
    *,
    format: str | None = None,
    id_column: str | None = None,
    vector_column: str | None = None,
) -> QuerySet:
    """Open the vectors that are asked; a column `filter` becomes each query's filter."""
    options = OpenOptions(id_column, vector_column)
    return _queries(open_source(path, format=format, options=options))


def open_dataset(
    corpus: PathLike | Corpus,
    queries: PathLike | QuerySet | None = None,
    *,
    metric: Metric | str | None = None,
    where: Filter | str | None = None,
    format: str | None = None,
    id_column: str | None = None,
    vector_column: str | None = None,
) -> Dataset:
    """Open a corpus with its queries; without `queries`, both stand in one file or folder.

    Args:
        corpus: a path, a pattern, a URL or a corpus that is open already.
        queries: likewise.
        metric: cosine, ip or l2. Only a file that states its metric may leave it out.
        where: one filter for all queries.
        format: of the files that are named, when it cannot be told.
        id_column: the column with the ids, in the files that are named.
        vector_column: the column with the vectors, likewise.
    """
    options = OpenOptions(id_column, vector_column)
    source = None if isinstance(corpus, Corpus) else open_source(corpus, format=format, options=options)
    opened = corpus if isinstance(corpus, Corpus) else _corpus(_known(source))
    if queries is None:
        asked = _queries(_with_queries(source))
    elif isinstance(queries, QuerySet):
        asked = queries
    else:
        asked = _queries(open_source(queries, format=format, options=options))
    chosen = _metric(source, metric, opened.name)
    if where is not None:
        asked = asked.where(parse_filter(where) if isinstance(where, str) else where)
    return Dataset(
        corpus=dataclasses.replace(opened, vectors=checked(opened, chosen)),
        queries=dataclasses.replace(asked, vectors=checked(asked, chosen)),
        metric=chosen,
        qrels=source.qrels() if source is not None and source.qrels else None,
        name=PurePath(opened.name).name,
    )


def make_corpus(
    vectors: ArrayLike,
    ids: Sequence[Any] | None = None,
    metadata: pa.Table | Mapping[str, Any] | None = None,
    name: str = "corpus",
) -> Corpus:
    """A corpus from arrays in memory."""
    records = _from_arrays(vectors, ids, metadata, name)
    return Corpus(records.name, checked(records), records.columns, records.id_column)


def make_queries(
    vectors: ArrayLike,
    ids: Sequence[Any] | None = None,
    metadata: pa.Table | Mapping[str, Any] | None = None,
    filters: Sequence[Filter | None] | None = None,
    name: str = "queries",
) -> QuerySet:
    """A query set from arrays in memory."""
    records = _from_arrays(vectors, ids, metadata, name)
    if filters is not None and len(filters) != records.rows:
        raise UsageError(f"{name}: {records.rows} queries and {len(filters)} filters")
    made = query_set(records)
    return made if filters is None else dataclasses.replace(made, filters=tuple(filters))


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
        corpus: what the neighbours are looked up in and checked against; a lone neighbors file needs it.
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
        raise FormatError(location.text, "no ground truth in it", accepted)
    return found if corpus is None else _belonging(found, corpus, location.text)


def _belonging(truth: Truth, corpus: Corpus, where: str) -> Truth:
    """The truth with the ids of the corpus that it is said to belong to."""
    if truth.rows.max(initial=-1) >= corpus.rows:
        row = int(np.argmax(truth.rows.max(axis=1) >= corpus.rows))
        raise MismatchError(f"{where}, row {row}: a neighbour beyond the {corpus.rows} rows of {corpus.name}")
    row_ids = RowIds.some(truth.rows, corpus.ids)
    return dataclasses.replace(truth, row_ids=row_ids, corpus_rows=corpus.rows)


def _with_queries(source: Source | None) -> Source:
    known = _known(source)
    if ROWS in known.parts:
        raise UsageError(
            f"{known.text} holds one matrix and no queries. Give their file too, "
            "or take corpus rows: queries_from_corpus(corpus, count)"
        )
    return known


def _known(source: Source | None) -> Source:
    if source is None:
        raise UsageError("a corpus that is open already needs queries: open_dataset(corpus, queries)")
    return source


def _metric(source: Source | None, metric: Metric | str | None, name: str) -> Metric:
    stated = source.metric if source is not None else None
    chosen = None if metric is None else Metric(metric)
    if chosen is None and stated is None:
        raise UsageError(f"{name} does not say its metric. State it: cosine, ip or l2")
    if chosen is not None and stated is not None and chosen is not stated:
        raise UsageError(f"{name} says its metric is {stated}, not {chosen}")
    return chosen or stated  # type: ignore[return-value]


def _corpus(source: Source) -> Corpus:
    records = source.part(CORPUS)
    require_vectors(records)
    return Corpus(records.name, checked(records), records.columns, records.id_column)


def _queries(source: Source) -> QuerySet:
    return query_set(source.part(QUERIES))


def query_set(records: Records) -> QuerySet:
    """The records as queries: which column is their text, and which their filter."""
    require_vectors(records)
    schema = records.columns.schema
    texts = [n for n in TEXT_NAMES if n in schema.names and _holds_text(schema.field(n).type)]
    has_filter = FILTER_NAME in schema.names and not pa.types.is_null(schema.field(FILTER_NAME).type)
    if has_filter and not _holds_text(schema.field(FILTER_NAME).type):
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
        text_column=texts[0] if texts else None,
        filters=_filters(records) if has_filter else None,
    )


def _holds_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


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
        raise FilterError(f"{text[:80]!r} is no JSON that can be read: {problem}") from problem


def _from_arrays(
    vectors: ArrayLike,
    ids: Sequence[Any] | None,
    metadata: pa.Table | Mapping[str, Any] | None,
    name: str,
) -> Records:
    with reading(name, "matrix of vectors"):
        array = np.asarray(vectors)
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.ndim != 2 or 0 in array.shape:
        raise FormatError(name, f"an array of shape {array.shape}", "a matrix of vectors, one a row")
    with reading(name, "table of columns"):
        table = metadata if isinstance(metadata, pa.Table) else pa.table(dict(metadata or {}))
        columns = dict(zip(table.column_names, table.columns, strict=True))
    if ids is not None:
        if ID in columns:
            raise UsageError(f"{name}: ids are given, and the metadata has a column {ID!r} too")
        columns[ID] = _ids(ids, name)
    for column, values in columns.items():
        if len(values) != len(array):
            raise FormatError(
                name, f"{len(array)} vectors and {len(values)} values of {column!r}", "one each"
            )
    beside = TableColumns(pa.table(columns))
    records = Records(name, ArrayVectors(array), beside, ID if ids is not None else None)
    require_vectors(records)
    return records


def _ids(ids: Sequence[Any], name: str) -> pa.Array:
    with reading(name, "list of ids"):
        array = pa.array(ids)
    if not (pa.types.is_integer(array.type) or _holds_text(array.type)):
        raise FormatError(name, f"ids of type {array.type}", "strings or integers")
    return array
