"""Answer files: tables with a list of ids a row or one answer a row, and padded matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recallatk.core import Answers
from recallatk.datasets.answer_ids import (
    CellPlaces,
    ids_from_text,
    is_text,
    plain,
    settled_ids,
    settled_numbers,
)
from recallatk.datasets.batches import Cursor, is_number_list
from recallatk.datasets.imported import as_scores
from recallatk.datasets.layout import VECTOR_NAMES
from recallatk.errors import BadValueError, FormatError
from recallatk.files import reading
from recallatk.ids import check_ids

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

    from recallatk.core import Vectors
    from recallatk.datasets.batches import BatchSource

QUERY_NAMES = ("query_id", "query-id", "qid")
LIST_NAMES = ("neighbors", "neighbors_id")
_LIST_SCORE_NAMES = ("scores", "distances")
SINGLE_NAMES = ("neighbor", "id", "doc_id", "docid", "corpus_id", "corpus-id")
_SINGLE_SCORE_NAMES = ("score", "distance")
_RANK_NAMES = ("rank",)
_LIST_KINDS = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)
ACCEPTED = (
    "a column 'neighbors' with a list of ids for each query, or the columns 'query_id' and 'neighbor' "
    "with one answer per row"
)


@dataclass(frozen=True)
class Roles:
    """Which column is what."""

    query: str | None
    neighbors: str
    scores: str | None
    rank: str | None = None
    long: bool = False
    """Whether a row is one answer and not all those of a query."""

    @property
    def names(self) -> list[str]:
        """The columns that have a part to play."""
        return [name for name in (self.query, self.neighbors, self.scores, self.rank) if name is not None]


def find_roles(names: Sequence[str], vectors: Sequence[str], where: str) -> Roles:
    """Layout of a table with these columns."""
    repeated = next((name for name in names if list(names).count(name) > 1), None)
    if repeated is not None:
        raise FormatError(where, f"two columns are called {repeated!r}", "distinct column names")
    query = first_of(QUERY_NAMES, names)
    lists, single = first_of(LIST_NAMES, names), first_of(SINGLE_NAMES, names)
    score, rank = first_of(_SINGLE_SCORE_NAMES, names), first_of(_RANK_NAMES, names)
    if lists is not None:
        return Roles(query, lists, first_of(_LIST_SCORE_NAMES, names))
    sure = score or rank or single == SINGLE_NAMES[0]
    if query is not None and single is not None and (sure or not vectors):
        return Roles(query, single, score, rank, long=True)
    if vectors:
        found = f"a table of vectors (in the column {vectors[0]!r}), not of answers"
        raise FormatError(where, found, ACCEPTED)
    listed = ", ".join(names)[:200] or "none"
    raise FormatError(where, f"no column holds neighbors (columns: {listed})", ACCEPTED)


def first_of(wanted: Sequence[str], names: Sequence[str]) -> str | None:
    """The first of the wanted names that is there."""
    return next((name for name in wanted if name in names), None)


def read_table_answers(source: BatchSource) -> Answers:
    """The answers in a Parquet, Arrow or JSON Lines table."""
    schema = source.schema
    lists = [field for field in schema if is_number_list(field.type)]
    vectors = [field.name for field in lists if field.name in VECTOR_NAMES]
    vectors += [field.name for field in lists if pa.types.is_floating(field.type.value_type)]
    roles = find_roles(schema.names, vectors, source.text)
    beside = [f.name for f in schema if f.name not in roles.names and not roles.long and _is_scalar(f.type)]
    table = Cursor(source, [*roles.names, *beside]).read(0, source.rows)
    return table_answers(table, roles, source.text)


def table_answers(table: pa.Table, roles: Roles, where: str, *, untyped: bool = False) -> Answers:
    """The answers in a table; `untyped` ids are texts that may be integers."""
    if table.num_rows == 0:
        raise FormatError(where, "it has no rows", "at least one answer")
    return (_long if roles.long else _plain)(table, roles, where, untyped)


def _plain(table: pa.Table, roles: Roles, where: str, untyped: bool) -> Answers:
    values, offsets = _flattened(table[roles.neighbors], roles.neighbors, where)
    others = [name for name in table.column_names if name not in roles.names]
    query_ids = None
    if roles.query is not None:
        query_ids = _ids(table[roles.query], CellPlaces(where, roles.query), untyped)
        check_ids(query_ids, f"{where} ({roles.query})")
    return Answers(
        ids=_ids(values, CellPlaces(where, roles.neighbors, offsets), untyped),
        offsets=offsets,
        query_ids=query_ids,
        scores=_list_scores(table, roles, offsets, where),
        columns=pa.table({name: plain(table[name]) for name in others}) if others else None,
        name=where,
    )


def _list_scores(
    table: pa.Table, roles: Roles, offsets: NDArray[np.int64], where: str
) -> NDArray[np.float64] | None:
    if roles.scores is None or table[roles.scores].null_count == table.num_rows:
        return None
    values, bounds = _flattened(table[roles.scores], roles.scores, where)
    lengths, expected = np.diff(bounds), np.diff(offsets)
    if not np.array_equal(lengths, expected):
        row = int(np.argmax(lengths != expected))
        found = f"{expected[row]} {roles.neighbors} and {lengths[row]} {roles.scores}"
        raise BadValueError(where, found, "a score for each neighbor", row=row)
    return settled_numbers(values, CellPlaces(where, roles.scores, offsets))


def _flattened(lists: pa.ChunkedArray, column: str, where: str) -> tuple[pa.ChunkedArray, NDArray[np.int64]]:
    """All elements of a column of lists, and where each row's begin; a null list is an empty one."""
    kind = lists.type
    if pa.types.is_null(kind):
        return pa.chunked_array([], pa.null()), np.zeros(len(lists) + 1, np.int64)
    if not any(is_kind(kind) for is_kind in _LIST_KINDS):
        raise FormatError(where, f"the column {column!r} holds {kind}", "a list in every row")
    lengths = [pc.list_value_length(chunk).fill_null(0).to_numpy() for chunk in lists.chunks]
    offsets = np.zeros(len(lists) + 1, np.int64)
    np.cumsum(np.concatenate(lengths), out=offsets[1:])
    return pa.chunked_array([chunk.flatten() for chunk in lists.chunks], kind.value_type), offsets


def _long(table: pa.Table, roles: Roles, where: str, untyped: bool) -> Answers:
    query = str(roles.query)
    queries = _ids(table[query], CellPlaces(where, query), untyped)
    if queries.null_count:
        row = int(np.argmin(queries.is_valid().to_numpy(zero_copy_only=False)))
        raise BadValueError(f"{where} ({query})", "the id is null", "an id in every row", row=row)
    ids = _ids(table[roles.neighbors], CellPlaces(where, roles.neighbors), untyped)
    scores = None
    if roles.scores is not None:
        scores = settled_numbers(table[roles.scores], CellPlaces(where, roles.scores))
    order_by = []
    if roles.rank is not None:
        places = CellPlaces(where, roles.rank)
        ranks = settled_numbers(table[roles.rank], places)
        if np.isnan(ranks).any():
            raise places.bad_value(
                int(np.argmax(np.isnan(ranks))), "no rank", "a rank in every row or no ranks"
            )
        order_by = [ranks]
    return grouped(queries, ids, scores, order_by, where)


def grouped(
    queries: pa.Array,
    ids: pa.Array,
    scores: NDArray[np.float64] | None,
    order_by: Sequence[NDArray[np.float64]],
    where: str,
) -> Answers:
    """One answer a row, brought together by query; ordered by the keys given, then as in the file."""
    distinct = pc.unique(queries)
    codes = pc.index_in(queries, value_set=distinct).to_numpy()
    order = np.lexsort([*reversed(order_by), codes])
    offsets = np.zeros(len(distinct) + 1, np.int64)
    np.cumsum(np.bincount(codes, minlength=len(distinct)), out=offsets[1:])
    return Answers(
        ids=ids.take(pa.array(order)),
        offsets=offsets,
        query_ids=distinct,
        scores=None if scores is None else scores[order],
        name=where,
    )


def _ids(values: pa.ChunkedArray, places: CellPlaces, untyped: bool) -> pa.Array:
    return ids_from_text(values, places.where) if untyped else settled_ids(values, places)


def _is_scalar(kind: pa.DataType) -> bool:
    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    return bool(number or is_text(kind) or types.is_boolean(kind) or types.is_temporal(kind))


_ACCEPTED_MATRICES = "integers of two bytes or more, best first, with -1 as padding"


def matrix_answers(neighbors: Vectors, where: str, distances: Vectors | None = None) -> Answers:
    """A matrix of integers, or of strings, as the answers to each query."""
    rows, width = neighbors.shape
    kind = neighbors.dtype
    if kind.kind == "f" or kind.name in ("int8", "uint8"):
        raise FormatError(
            where, f"a matrix of {kind.name}, which are vectors and not answers", _ACCEPTED_MATRICES
        )
    if kind.kind not in "iuU":
        raise FormatError(where, f"a matrix of {kind}", f"{_ACCEPTED_MATRICES}; or strings")
    if distances is not None and tuple(distances.shape) != (rows, width):
        found = f"{(rows, width)} neighbors and {tuple(distances.shape)} distances"
        raise FormatError(where, found, "one distance for each neighbor")
    block = neighbors.read(0, rows)
    return Answers(
        ids=_texts(block, where) if kind.kind == "U" else pa.array(_integers(block, where)),
        offsets=np.arange(rows + 1, dtype=np.int64) * width,
        scores=None if distances is None else as_scores(distances).reshape(-1),
        name=where,
    )


def _integers(block: NDArray[Any], where: str) -> NDArray[np.int64]:
    if block.dtype.kind == "u" and block.dtype.itemsize == 8:
        beyond = (block > np.iinfo(np.int64).max).any(axis=1)
        if beyond.any():
            raise BadValueError(
                where, "a neighbor beyond int64", "ids that fit int64", row=int(beyond.argmax())
            )
    return block.reshape(-1).astype(np.int64)


def _texts(block: NDArray[Any], where: str) -> pa.Array:
    """Strings as ids; NumPy has no missing string, so that an empty one is padding."""
    with reading(where, "matrix of strings"):
        texts = pa.array(np.ascontiguousarray(block).reshape(-1), pa.string())
        return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
