"""Ground truth that came with the data."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recallatk.core import Metric, Origin, Truth
from recallatk.datasets.answer_ids import CellPlaces, is_text, settled_ids
from recallatk.datasets.batches import BatchSource, is_number_list
from recallatk.datasets.layout import column_of
from recallatk.errors import BadValueError, FormatError, MismatchError, UsageError
from recallatk.files import reading
from recallatk.ids import RowIds, check_ids

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Answers, Corpus, Records, Vectors


def matrix_truth(
    neighbors: Vectors,
    distances: Vectors | None,
    metric: Metric | None,
    where: str,
    *,
    squared: bool = False,
) -> Truth | None:
    """Corpus rows with distances beside them, as other tools store them; None for other matrices.

    Distances become scores only under a stated metric: another system's numbers do not say what
    they are. `squared` says that l2 distances are squared.
    """
    if neighbors.dtype.kind not in "iu" or neighbors.dtype.itemsize < 4:
        return None
    rows = neighbors.read(0, neighbors.shape[0]).astype(np.int64)
    scores = None
    if distances is not None and metric is not None:
        scores = as_scores(distances)
        if metric is Metric.L2 and squared:
            scores = np.sqrt(np.maximum(scores, 0.0))
    return imported(rows, scores, metric, where)


def imported(
    rows: NDArray[np.int64], scores: NDArray[np.float64] | None, metric: Metric | None, where: str
) -> Truth:
    """A truth from somebody else's rows and scores, with its padding checked."""
    if rows.size == 0:
        raise FormatError(where, "no neighbors", "at least one query with one neighbor")
    check_padding(rows, where)
    _check_distinct(rows, where)
    if scores is not None:
        scores = np.where(rows < 0, np.nan, scores)
        _check_scores(rows, scores, metric, where)
    return Truth(rows, scores, None, metric, Origin.IMPORTED)


_ROWS_HINT = ". If the neighbors are row numbers, pass row_numbers=True"


def truth_from_answers(
    answers: Answers, corpus: Corpus | None, metric: Metric | None, *, row_numbers: bool = False
) -> Truth:
    """A truth from neighbors that are ids: one list per query, best first.

    Args:
        answers: the neighbors; null and -1 are padding.
        corpus: resolves the ids. Without it they must be row numbers.
        metric: the metric that they were computed for.
        row_numbers: the ids are row numbers, even if the corpus has ids.
    """
    ids, lengths = answers.ids, np.diff(answers.offsets)
    resolving = None if row_numbers else corpus
    if resolving is None and not pa.types.is_integer(ids.type):
        raise UsageError(
            f"{answers.name}: the neighbors are text, such as {ids.drop_null()[0]}. "
            "Pass the corpus that has these ids: corpus=…"
        )
    if pa.types.is_integer(ids.type):
        ids = pc.if_else(pc.equal(ids, -1), pa.scalar(None, ids.type), ids)
    there = ids.is_valid().to_numpy(zero_copy_only=False)
    flat = np.full(len(ids), -1, np.int64)
    named = ids.drop_null()
    flat[there] = named if resolving is None else _rows_of(named, resolving, answers.name, _ROWS_HINT)
    rows = np.full((len(lengths), int(lengths.max(initial=0))), -1, np.int64)
    rows[np.arange(rows.shape[1]) < lengths[:, None]] = flat
    truth = replace(imported(rows, None, metric, answers.name), query_ids=answers.query_ids)
    _check_lengths(rows, lengths, answers.name)
    return belonging(truth, corpus, answers.name)


def _check_lengths(rows: NDArray[np.int64], lengths: NDArray[np.int64], where: str) -> None:
    """Refuse a list that is shorter than others and does not say why."""
    last = np.where(lengths > 0, rows[np.arange(len(rows)), np.maximum(lengths - 1, 0)], 0)
    short = (lengths < rows.shape[1]) & (last >= 0)
    if short.any():
        row = int(np.argmax(short))
        raise BadValueError(
            where,
            f"{lengths[row]} neighbors, where the longest list has {rows.shape[1]}",
            "lists of one length; None at the end if no other row is eligible",
            row=row,
        )


def belonging(truth: Truth, corpus: Corpus | None, where: str) -> Truth:
    """The truth with the ids of its corpus; a row beyond the corpus is refused."""
    if corpus is None:
        return truth
    if truth.rows.max(initial=-1) >= corpus.rows:
        row = int(np.argmax(truth.rows.max(axis=1) >= corpus.rows))
        raise MismatchError(f"{where}, row {row}: a neighbor beyond the {corpus.rows} rows of {corpus.name}")
    row_ids = RowIds.some(truth.rows, corpus.ids)
    return replace(truth, row_ids=row_ids, corpus_rows=corpus.rows)


def _check_distinct(rows: NDArray[np.int64], where: str) -> None:
    in_order = np.sort(rows, axis=1)
    again = ((in_order[:, 1:] == in_order[:, :-1]) & (in_order[:, 1:] >= 0)).any(axis=1)
    if again.any():
        raise BadValueError(where, "a neighbor is repeated", "distinct neighbors", row=int(np.argmax(again)))


def _check_scores(
    rows: NDArray[np.int64], scores: NDArray[np.float64], metric: Metric | None, where: str
) -> None:
    """Refuse NaN distances, and neighbors that are not ordered by distance."""
    wrong = (rows >= 0) & ~np.isfinite(scores)
    if wrong.any():
        row, place = (int(i) for i in np.argwhere(wrong)[0])
        found = f"the distance of neighbor {place} is {scores[row, place]}"
        raise BadValueError(where, found, "finite distances", row=row)
    steps = np.diff(scores, axis=1)
    unordered = (steps < 0 if metric is Metric.L2 else steps > 0).any(axis=1)
    if unordered.any():
        row = int(np.argmax(unordered))
        raise BadValueError(where, "the neighbors are out of order", "best first", row=row)


def id_truth(source: BatchSource, corpus: Records) -> Truth:
    """A table with a list of neighbor ids for each query; the ids are looked up in the corpus."""
    names = [name for name in ("neighbors_id", "neighbors") if name in source.schema.names]
    if not names or not _is_id_list(source.schema.field(names[0]).type):
        raise FormatError(source.text, "no column 'neighbors_id'", "a list of ids for each query")
    lists = column_of(source, names[0]).combine_chunks()
    lengths = np.asarray(lists.value_lengths().fill_null(0))
    rows = np.full((len(lists), int(lengths.max(initial=0))), -1, np.int64)
    rows[np.arange(rows.shape[1]) < lengths[:, None]] = _rows_of(lists.flatten(), corpus, source.text)
    asked = next((name for name in ("query_id", "id") if name in source.schema.names), None)
    query_ids = None
    if asked is not None:
        query_ids = settled_ids(column_of(source, asked), CellPlaces(source.text, asked))
        check_ids(query_ids, f"{source.text} ({asked})")
    return replace(imported(rows, None, None, source.text), query_ids=query_ids, corpus_rows=corpus.rows)


def _is_id_list(kind: Any) -> bool:
    return is_number_list(kind) or (pa.types.is_list(kind) and is_text(kind.value_type))


def _rows_of(ids: Any, corpus: Records, where: str, hint: str = "") -> Any:
    with reading(where, "list of ids"):
        found = pc.index_in(ids.cast(corpus.ids.type), value_set=corpus.ids)
    if found.null_count:
        unknown = ids.filter(pc.is_null(found))[0]
        raise MismatchError(f"{where}: the neighbor {unknown} is not an id of {corpus.name}{hint}")
    return found.to_numpy(zero_copy_only=False)


def as_scores(distances: Vectors) -> NDArray[np.float64]:
    """All distances of a file as float64."""
    with np.errstate(invalid="ignore"):  # a signalling NaN is refused later, with its row
        return distances.read(0, distances.shape[0]).astype(np.float64)


def check_padding(rows: NDArray[Any], where: str) -> None:
    """Refuse row numbers below -1, and neighbors that come after padding."""
    wrong = (rows < -1).any(axis=1) | (np.diff((rows < 0).astype(np.int8), axis=1) < 0).any(axis=1)
    if wrong.any():
        raise FormatError(
            where,
            "a neighbor is below -1 or follows padding",
            "row numbers, then -1 as padding",
            row=int(np.argmax(wrong)),
        )
