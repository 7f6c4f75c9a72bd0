"""Answers made comparable: ids become row numbers, in the order of the truth's queries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recallatk.core import Answers, Corpus, Origin, Truth
from recallatk.errors import BadValueError, MismatchError, UsageError
from recallatk.ids import RowIds
from recallatk.ids import row_numbers as numbers_as_ids

if TYPE_CHECKING:
    from numpy.typing import NDArray

# In place of a row number: padding, an unknown id, and no answer at all.
PADDING, UNKNOWN, ABSENT = -1, -2, -3
_NAMED = 5
# Number of ids looked up at a time.
_PORTION = 1 << 22


@dataclass(frozen=True, eq=False)
class Aligned:
    """Answers to each query of a truth."""

    rows: NDArray[np.int64]
    """(queries, width) corpus rows; below 0 for padding, unknown ids and no answer."""
    missing: NDArray[np.bool_]
    """Queries that are missing from the answers."""
    tells_unknown: bool
    """Whether all corpus ids were known, so that unknown ids can be counted."""
    columns: pa.Table | None = None
    """Scores and columns of the answers, in the order of the truth."""


def align(answers: Any, truth: Truth, corpus: Corpus | None = None, *, row_numbers: bool = False) -> Aligned:
    """Look up ids and match queries by id or position.

    Args:
        answers: `Answers`, a matrix of integers, or one list of ids per query.
        truth: supplies the queries, and the ids unless there is a corpus.
        corpus: all rows that a system could return.
        row_numbers: the answers are row numbers, whatever the ids are.
    """
    if not len(truth):
        raise UsageError("cannot score: the truth has no queries")
    nameless = truth.row_ids is None and truth.corpus_ids is None
    by_row = row_numbers or (nameless and (corpus is None or corpus.id_column is None))
    if by_row and isinstance(answers, np.ndarray) and answers.ndim == 2 and answers.dtype.kind in "iu":
        return _aligned_matrix(answers, truth, corpus)
    given = answers if isinstance(answers, Answers) else answers_from_lists(answers)
    known = _KnownIds.of(truth, corpus, by_row=by_row)
    places, missing = _queries(given, truth)
    rows = _rows(given, known, places, len(truth))
    columns = None
    if given.columns is not None:
        order = np.full(len(truth), -1)
        order[places] = np.arange(len(places))
        columns = given.columns.take(pa.array(order, mask=order < 0))
    return Aligned(rows, missing, known.complete, columns)


def _rows(answers: Answers, known: _KnownIds, places: NDArray[np.int64], queries: int) -> NDArray[np.int64]:
    """Rows of all answers, in portions because lookups need several times the memory of the ids."""
    lengths = np.diff(answers.offsets)
    rows = np.full((queries, max(1, int(lengths.max(initial=0)))), ABSENT, np.int64)
    step = max(1, _PORTION // rows.shape[1])
    matched = False
    for first in range(0, len(answers), step):
        part = slice(first, first + step)
        start, stop = int(answers.offsets[first]), int(answers.offsets[min(first + step, len(answers))])
        found, hits = known.rows_of(answers.ids.slice(start, stop - start), answers.name)
        matched = matched or hits > 0
        line = np.repeat(places[part], lengths[part])
        begins = np.repeat(answers.offsets[:-1][part], lengths[part])
        rows[line, np.arange(start, stop) - begins] = found
    known.require_matches(answers, matched=matched)
    return rows


def _aligned_matrix(answers: NDArray[Any], truth: Truth, corpus: Corpus | None) -> Aligned:
    _require_no_more(len(answers), truth)
    rows = answers.astype(np.int64, copy=False)
    if answers.dtype == np.uint64:
        # As signed integers they would be negative, which means padding; only the largest one does.
        rows = np.where((rows < 0) & (rows != PADDING), np.iinfo(np.int64).max, rows)
    count = truth.corpus_rows if corpus is None else corpus.rows
    if rows.size and _outermost(rows) >= (np.iinfo(np.int64).max if count is None else count):
        rows = bounded(rows, count)
    missing = np.arange(len(truth)) >= len(rows)
    if missing.any():
        rest = np.full((int(missing.sum()), rows.shape[1]), ABSENT, np.int64)
        rows = np.concatenate([rows, rest])
    if not rows.shape[1]:
        rows = np.full((len(truth), 1), ABSENT, np.int64)
    return Aligned(rows, missing, count is not None)


def _outermost(rows: NDArray[np.int64]) -> int:
    """Largest number with negative ones counted as largest, in one pass instead of two."""
    return int(np.ascontiguousarray(rows).view(np.uint64).max())


def bounded(rows: NDArray[np.int64], count: int | None) -> NDArray[np.int64]:
    """Row numbers with those outside the corpus marked unknown; negative numbers are padding."""
    rows = np.maximum(rows, PADDING)
    return rows if count is None else np.where(rows >= count, UNKNOWN, rows)


@dataclass(frozen=True, eq=False)
class _KnownIds:
    """Ids that answers may contain, and their rows."""

    ids: pa.Array | None
    """None: the id is the row number."""
    rows: NDArray[np.int64] | None
    """Row of each id; None: its position."""
    count: int | None
    """Number of corpus rows, if known."""
    complete: bool

    @classmethod
    def of(cls, truth: Truth, corpus: Corpus | None, *, by_row: bool) -> _KnownIds:
        if by_row:
            count = truth.corpus_rows if corpus is None else corpus.rows
            return cls(None, None, count, count is not None)
        if corpus is not None:
            return cls(corpus.ids, None, corpus.rows, complete=True)
        if truth.corpus_ids is not None:
            return cls(truth.corpus_ids, None, len(truth.corpus_ids), complete=True)
        assert truth.row_ids is not None  # noqa: S101 - else ids are row numbers
        return cls(truth.row_ids.ids, truth.row_ids.rows, None, complete=False)

    def rows_of(self, ids: pa.Array, name: str) -> tuple[NDArray[np.int64], int]:
        """The row of every id, and how many are known."""
        ids = _without_padding(ids)
        there = ids.is_valid().to_numpy(zero_copy_only=False)
        if self.ids is None:
            numbers = _as_numbers(ids, name)
            return bounded(np.where(there, numbers, PADDING), self.count), len(ids)
        wanted, known = _one_kind(ids, self.ids)
        place = pc.index_in(wanted, value_set=known)
        hit = place.is_valid().to_numpy(zero_copy_only=False) & there
        places = place.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        rows = places if self.rows is None or not len(self.rows) else self.rows[places]
        rows = np.where(hit, rows, UNKNOWN if self.complete else self._other(ids, there & ~hit))
        return np.where(there, rows, PADDING), int(hit.sum())

    def require_matches(self, answers: Answers, *, matched: bool) -> None:
        """Refuse answers of a different id type if none of them is known: recall would always be 0."""
        if matched or self.ids is None or answers.ids.type == self.ids.type or not len(self.ids):
            return
        given = _without_padding(answers.ids).drop_null()
        if not len(given):
            return
        kinds = {pa.int64(): "numbers", pa.string(): "text"}
        raise MismatchError(
            f"id mismatch: {answers.name} has {kinds[given.type]} such as {given[0]}, the truth has "
            f"{kinds[self.ids.type]} such as {self.ids[0]}. If the answers are row numbers, pass "
            "row_numbers=True (--row-numbers)"
        )

    def _other(self, ids: pa.Array, which: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Numbers for ids outside the truth: they may be rows, and their repeats must be counted."""
        first = 0 if self.rows is None else int(self.rows.max(initial=-1)) + 1
        codes = np.zeros(len(ids), np.int64)
        encoded = ids.filter(pa.array(which)).dictionary_encode()
        codes[which] = first + encoded.indices.to_numpy(zero_copy_only=False)
        return codes


def _without_padding(ids: pa.Array) -> pa.Array:
    """Integer ids without -1, which is padding; the text "-1" may be an id."""
    if not pa.types.is_integer(ids.type):
        return ids
    return pc.if_else(pc.equal(ids, PADDING), pa.scalar(None, ids.type), ids)


def _as_numbers(ids: pa.Array, name: str) -> NDArray[np.int64]:
    if pa.types.is_string(ids.type):
        try:
            ids = _without_padding(ids.cast(pa.int64()))
        except pa.ArrowInvalid as problem:
            raise MismatchError(
                f"id mismatch: {name} has text, the truth has numbers: {problem}. If the answers are ids, "
                "pass their corpus: score(…, corpus=corpus), --corpus"
            ) from problem
    numbers: NDArray[np.int64] = ids.fill_null(PADDING).to_numpy(zero_copy_only=False)
    return numbers


def _one_kind(first: pa.Array, second: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Both arrays as text, if one is text."""
    if first.type == second.type:
        return first, second
    return first.cast(pa.string()), second.cast(pa.string())


def _queries(answers: Answers, truth: Truth) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Position in the truth of every answered query, and a mask of missing queries."""
    missing = np.ones(len(truth), bool)
    if answers.query_ids is None:
        _require_no_more(len(answers), truth)
        places = np.arange(len(answers))
    else:
        names = numbers_as_ids(0, len(truth)) if truth.query_ids is None else truth.query_ids
        wanted, known = _one_kind(answers.query_ids, names)
        found = pc.index_in(wanted, value_set=known)
        if found.null_count:
            extra = answers.query_ids.filter(found.is_null())
            raise MismatchError(
                f"query mismatch: {answers.name} has {_listed(extra)}, missing from the truth. The truth has "
                f"{_listed(names)}"
            )
        places = found.to_numpy(zero_copy_only=False).astype(np.int64)
        if len(np.unique(places)) < len(places):
            again = np.setdiff1d(np.arange(len(places)), np.unique(places, return_index=True)[1])
            raise MismatchError(f"{answers.name}: query {answers.query_ids[int(again[0])]} is answered twice")
    missing[places] = False
    return places, missing


def _require_no_more(count: int, truth: Truth) -> None:
    if count > len(truth):
        extra = f"query {len(truth)}" if count == len(truth) + 1 else f"queries {len(truth)} to {count - 1}"
        raise MismatchError(
            f"query mismatch: there are answers to {count:,} queries, the truth has {len(truth):,}. "
            f"It lacks {extra} (counted from 0)"
        )


def _listed(ids: pa.Array) -> str:
    some = ", ".join(str(each) for each in ids[:_NAMED].to_pylist())
    more = f" and {len(ids) - _NAMED:,} more" if len(ids) > _NAMED else ""
    return f"{'query' if len(ids) == 1 else 'queries'} {some}{more}"


def query_names(truth: Truth, which: NDArray[np.bool_]) -> tuple[Any, ...]:
    """The ids of some queries."""
    names = numbers_as_ids(0, len(truth)) if truth.query_ids is None else truth.query_ids
    return tuple(names.filter(pa.array(which)).to_pylist())


_Id = int | str | None


def answers_from_lists(lists: Any, name: str = "answers") -> Answers:
    """One list of ids per query, best first; None, -1 and NaN are padding."""
    rows = _lists(lists)
    flat = [each for row in rows for each in row]
    offsets = np.cumsum([0, *(len(row) for row in rows)])
    return Answers(_ids(flat, name), offsets, name=name)


def truth_from_lists(lists: Any, k: int, corpus: Corpus | None = None) -> Truth:
    """A truth from ids alone, best first: lists or `Answers`.

    A list shorter than `k` is ambiguous, unless it ends with None or -1: no other row is eligible.
    """
    given = _lists(lists)
    for number, row in enumerate(given):
        if len(row) < k and None not in row:
            raise UsageError(
                f"the truth of query {number} has {len(row)} ids, recall@{k} needs {k}. If no other "
                "row is eligible, end the list with None"
            )
    right = [[each for each in row if each is not None] for row in given]
    for number, ids in enumerate(right):
        if len(set(ids)) != len(ids):
            raise BadValueError("truth", "an id is repeated", "distinct ids", row=number)
    codes: dict[_Id, int] = {}
    for each in (each for row in right for each in row):
        codes.setdefault(each, len(codes))
    # Padding marks the end of the eligible rows, so it counts toward the depth.
    width = max((len(row) for row in given), default=0)
    queries = lists.query_ids if isinstance(lists, Answers) else None
    rows = np.full((len(right), width), -1, np.int64)
    for number, ids in enumerate(right):
        rows[number, : len(ids)] = [codes[each] for each in ids]
    ids = _ids(list(codes), "truth")
    if corpus is None:
        named = RowIds(np.arange(len(codes)), ids)
        return Truth(rows, None, None, None, Origin.IMPORTED, query_ids=queries, row_ids=named)
    rows = np.append(_corpus_rows(ids, corpus), -1)[rows]
    known = None if corpus.id_column is None else RowIds.some(rows, corpus.ids)
    return Truth(
        rows, None, None, None, Origin.IMPORTED, query_ids=queries, row_ids=known, corpus_rows=corpus.rows
    )


def _corpus_rows(ids: pa.Array, corpus: Corpus) -> NDArray[np.int64]:
    """Corpus row of each id; refuses unknown ids."""
    known = corpus.ids
    if ids.type != known.type:
        ids, known = ids.cast(pa.string()), known.cast(pa.string())
    found = pc.index_in(ids, value_set=known)
    if found.null_count:
        raise MismatchError(
            f"id mismatch: the truth lists {ids.filter(found.is_null())[0]}, missing from {corpus.name}"
        )
    rows: NDArray[np.int64] = found.to_numpy(zero_copy_only=False).astype(np.int64)
    return rows


def last_answer(answers: Any) -> int:
    """The highest rank at which any query has an answer; padding is none."""
    if isinstance(answers, np.ndarray) and answers.ndim == 2 and answers.dtype.kind in "iu":
        return int(np.flatnonzero((answers != -1).any(axis=0)).max(initial=-1)) + 1
    given = answers if isinstance(answers, Answers) else answers_from_lists(answers)
    valid = given.ids.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_integer(given.ids.type):
        valid &= given.ids.fill_null(-1).to_numpy(zero_copy_only=False) != -1
    first, rank = given.offsets[:-1], np.arange(len(valid)) + given.offsets[0]
    rank = rank - np.repeat(first, np.diff(given.offsets))
    return int(rank[valid].max(initial=-1)) + 1


def longest(lists: Any) -> int:
    """How many ids the longest list has."""
    return max((len(row) for row in _lists(lists)), default=0)


def _lists(lists: Any) -> list[list[_Id]]:
    if isinstance(lists, Answers):
        lists = [lists.ids[first:last].to_pylist() for first, last in pairwise(lists.offsets.tolist())]
    if isinstance(lists, np.ndarray):
        lists = lists.tolist()
    if isinstance(lists, str) or not isinstance(lists, Iterable):
        raise UsageError(f"{lists!r:.60} is not a list of lists of ids")
    rows = [np.asarray(row).tolist() if hasattr(row, "__array__") else row for row in lists]
    if not all(isinstance(row, Sequence | np.ndarray) and not isinstance(row, str | bytes) for row in rows):
        raise UsageError("not one list of ids per query. Accepted: [[…], […]], best first")
    return [[_id(each) for each in row] for row in rows]


def _id(each: Any) -> _Id:
    """An id as a Python number or text; None for padding."""
    if each is None or isinstance(each, str):
        return each
    if isinstance(each, Integral):
        return None if each == -1 else int(each)
    if isinstance(each, Real):
        # pandas turns integers with gaps into floats: 3 becomes 3.0, a missing answer NaN.
        number = float(each)
        if np.isnan(number):
            return None
        if number.is_integer():
            return _id(int(number))
    raise UsageError(
        f"{each!r:.60} is not an id. Accepted: whole numbers, text, and None or -1 for no answer"
    )


def _ids(flat: list[_Id], name: str) -> pa.Array:
    if any(isinstance(each, str) for each in flat):
        return pa.array([None if each is None else str(each) for each in flat], pa.string())
    try:
        return pa.array(flat, pa.int64())
    except (OverflowError, pa.ArrowInvalid) as problem:
        raise UsageError(f"{name}: an id exceeds 64 bits. Accepted: ids that fit int64, or text") from problem
