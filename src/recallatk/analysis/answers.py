"""Answers made comparable: the user's ids become row numbers, and what cannot count is told apart."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import Corpus, Origin, Truth
from recallatk.errors import BadValueError, MismatchError, UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

# In place of a row number: an answer that says "none", one that names no row, and no answer at all.
PADDING, UNKNOWN, ABSENT = -1, -2, -3


def answer_rows(answers: Any, corpus: Corpus | None) -> NDArray[np.int64]:
    """Answers as a matrix of row numbers: rows already without a corpus, the user's ids with one."""
    if corpus is None and isinstance(answers, np.ndarray):
        return _row_matrix(answers)
    lists = _lists(answers)
    if corpus is None:
        return _ragged([[_row_number(each) for each in row] for row in lists])
    known = corpus.ids.to_pylist()
    _require_one_type([known], lists)
    rows_of = {each: row for row, each in enumerate(known)}
    return _ragged([[_code(each, rows_of, UNKNOWN) for each in row] for row in lists])


def truth_from_lists(lists: Any, answers: Any, k: int) -> tuple[Truth, NDArray[np.int64]]:
    """A truth that is nothing but ids, best first, and the answers in the same numbering.

    A list shorter than `k` leaves open whether there are no more right answers or nobody looked; None
    or -1 at its end says that there are no more.
    """
    given = _lists(lists)
    for number, row in enumerate(given):
        if len(row) < k and not any(map(_is_padding, row)):
            raise UsageError(
                f"the truth of query {number} has {len(row)} ids, and recall@{k} needs {k}. If no other "
                "row may be returned, end the list with None"
            )
    right = [[each for each in row if not _is_padding(each)] for row in given]
    for number, row in enumerate(right):
        if len(set(row)) != len(row):
            raise BadValueError("truth", "an id stands twice", "distinct ids", row=number)
    _require_one_type(right, _lists(answers))
    codes: dict[Any, int] = {}
    for each in (each for row in (*right, *_lists(answers)) for each in row):
        if not _is_padding(each):
            codes.setdefault(each, len(codes))
    # Padding says that there are no more: it belongs to the depth, at the end.
    padding = [[PADDING] * (len(all_of_it) - len(row)) for all_of_it, row in zip(given, right, strict=True)]
    padded = [[codes[each] for each in row] + rest for row, rest in zip(right, padding, strict=True)]
    rows = _ragged(padded, PADDING)
    coded = _ragged([[_code(each, codes, UNKNOWN) for each in row] for row in _lists(answers)])
    return Truth(rows, None, None, None, Origin.IMPORTED), coded


def _require_one_type(right: list[list[Any]], answers: list[list[Any]]) -> None:
    """Refuse texts against numbers: not one of them could ever be a hit."""
    texts, others = (
        {isinstance(each, str) for row in rows for each in row if not _is_padding(each)}
        for rows in (right, answers)
    )
    if len(texts) == len(others) == 1 and texts != others:
        names = {True: "text", False: "numbers"}
        raise MismatchError(f"the right ids are {names[texts.pop()]}, and the answers {names[others.pop()]}")


def check_same_queries(answers: NDArray[np.int64], truth: Truth) -> None:
    """Refuse a truth of nothing, and answers to more or fewer queries than the truth has."""
    if not len(truth):
        raise UsageError("the truth has no queries, and without truth there is no recall")
    if len(answers) != len(truth):
        raise MismatchError(f"answers to {len(answers)} queries, and a truth of {len(truth)}")


def _row_matrix(answers: NDArray[Any]) -> NDArray[np.int64]:
    if answers.ndim != 2 or answers.dtype.kind not in "iu":
        raise UsageError(
            f"answers of shape {answers.shape} and type {answers.dtype}. "
            "Accepted: a matrix of row numbers, one row per query, or a list of lists of ids"
        )
    rows: NDArray[np.int64] = answers.astype(np.int64)
    return np.where(rows < 0, PADDING, rows)


def _lists(answers: Any) -> list[list[Any]]:
    if isinstance(answers, np.ndarray):
        answers = answers.tolist()
    if isinstance(answers, str) or not isinstance(answers, Iterable):
        raise UsageError(f"{answers!r:.60} is no list of lists of ids")
    rows = list(answers)
    if not all(isinstance(row, Sequence | np.ndarray) and not isinstance(row, str) for row in rows):
        raise UsageError("answers are one list of ids per query, best first: [[…], […]]")
    lists = [list(row) for row in rows]
    if not all(isinstance(each, Hashable) for row in lists for each in row):
        raise UsageError("an answer is an id, -1 or None, and no list")
    return lists


def _row_number(each: Any) -> int:
    if each is None:
        return PADDING
    if not isinstance(each, Integral):
        raise UsageError(
            f"the answer {each!r:.60} is no row number. For ids say of which corpus: score(…, corpus=corpus)"
        )
    return PADDING if each < 0 else int(each)


def _is_padding(each: Any) -> bool:
    # -1 is padding as a number; a string id may well be "-1".
    return each is None or (not isinstance(each, str) and each == -1)


def _code(each: Any, codes: dict[Any, int], otherwise: int) -> int:
    return PADDING if _is_padding(each) else codes.get(each, otherwise)


def _ragged(rows: list[list[int]], rest: int = ABSENT) -> NDArray[np.int64]:
    width = max((len(row) for row in rows), default=0)
    matrix = np.full((len(rows), max(width, 1)), rest, np.int64)
    for number, row in enumerate(rows):
        matrix[number, : len(row)] = row
    return matrix
