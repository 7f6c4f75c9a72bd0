"""Answers and truths given as plain Python lists or NumPy arrays of ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recallatk.core import Answers, Origin, Truth
from recallatk.errors import BadValueError, MismatchError, UsageError
from recallatk.ids import RowIds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Corpus

_Id = int | str | None


def answers_from_lists(lists: Any, name: str = "answers") -> Answers:
    """One list of ids per query, best first; None, -1 and NaN are padding."""
    rows = _lists(lists)
    flat = [each for row in rows for each in row]
    offsets = np.cumsum([0, *(len(row) for row in rows)])
    return Answers(_ids(flat, name), offsets, name=name)


def truth_from_lists(lists: Any, k: int, corpus: Corpus | None = None) -> Truth:
    """A truth that is nothing but ids, best first; rows of the corpus where there is one.

    A list shorter than `k` leaves open whether there are no more right answers or nobody looked; None
    or -1 at its end says that there are no more.
    """
    given = _lists(lists)
    for number, row in enumerate(given):
        if len(row) < k and None not in row:
            raise UsageError(
                f"the truth of query {number} has {len(row)} ids, and recall@{k} needs {k}. If no other "
                "row may be returned, end the list with None"
            )
    right = [[each for each in row if each is not None] for row in given]
    for number, ids in enumerate(right):
        if len(set(ids)) != len(ids):
            raise BadValueError("truth", "an id stands twice", "distinct ids", row=number)
    codes: dict[_Id, int] = {}
    for each in (each for row in right for each in row):
        codes.setdefault(each, len(codes))
    # Padding says that there are no more: it belongs to the depth, at the end.
    width = max((len(row) for row in given), default=0)
    rows = np.full((len(right), width), -1, np.int64)
    for number, ids in enumerate(right):
        rows[number, : len(ids)] = [codes[each] for each in ids]
    ids = _ids(list(codes), "truth")
    if corpus is None:
        return Truth(rows, None, None, None, Origin.IMPORTED, row_ids=RowIds(np.arange(len(codes)), ids))
    rows = np.append(_corpus_rows(ids, corpus), -1)[rows]
    named = None if corpus.id_column is None else RowIds.some(rows, corpus.ids)
    return Truth(rows, None, None, None, Origin.IMPORTED, row_ids=named, corpus_rows=corpus.rows)


def _corpus_rows(ids: pa.Array, corpus: Corpus) -> NDArray[np.int64]:
    """The row of each id; one that the corpus does not have is refused."""
    known = corpus.ids
    if ids.type != known.type:
        ids, known = ids.cast(pa.string()), known.cast(pa.string())
    found = pc.index_in(ids, value_set=known)
    if found.null_count:
        raise MismatchError(f"the truth lists the id {ids.filter(found.is_null())[0]}, not in {corpus.name}")
    rows: NDArray[np.int64] = found.to_numpy(zero_copy_only=False).astype(np.int64)
    return rows


def longest(lists: Any) -> int:
    """How many ids the longest list has."""
    return max((len(row) for row in _lists(lists)), default=0)


def _lists(lists: Any) -> list[list[_Id]]:
    if isinstance(lists, np.ndarray):
        lists = lists.tolist()
    if isinstance(lists, str) or not isinstance(lists, Iterable):
        raise UsageError(f"{lists!r:.60} is no list of lists of ids")
    rows = list(lists)
    if not all(isinstance(row, Sequence | np.ndarray) and not isinstance(row, str | bytes) for row in rows):
        raise UsageError("answers are one list of ids per query, best first: [[…], […]]")
    return [[_id(each) for each in row] for row in rows]


def _id(each: Any) -> _Id:
    """An id as a Python number or text; None for padding."""
    if each is None or isinstance(each, str):
        return each
    if isinstance(each, Integral):
        return None if each == -1 else int(each)
    if isinstance(each, Real):
        # What has gaps in pandas is no longer whole: 3 becomes 3.0, and no answer NaN.
        number = float(each)
        if np.isnan(number):
            return None
        if number.is_integer():
            return _id(int(number))
    raise UsageError(f"{each!r:.60} is no id. Accepted: whole numbers, text, and None or -1 for no answer")


def _ids(flat: list[_Id], name: str) -> pa.Array:
    if any(isinstance(each, str) for each in flat):
        return pa.array([None if each is None else str(each) for each in flat], pa.string())
    try:
        return pa.array(flat, pa.int64())
    except (OverflowError, pa.ArrowInvalid) as problem:
        raise UsageError(f"{name}: an id beyond 64 bits. Accepted: ids that fit int64, or text") from problem
