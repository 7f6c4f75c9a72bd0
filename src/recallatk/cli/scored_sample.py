"""A random sample of the queries of a truth, with the answers to them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recallatk.datasets.sampling import take_queries
from recallatk.errors import MismatchError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from recallatk.core import Answers, Dataset, Truth


def sampled_queries(
    truth: Truth, dataset: Dataset | None, answers: Sequence[Answers], count: int, seed: int
) -> tuple[Truth, Dataset | None, list[Answers]]:
    """The truth, the data and every set of answers for the same random queries.

    Args:
        truth: the truth of all queries.
        dataset: the data of all queries, if known.
        answers: answers to all queries, by id or by position.
        count: number of queries to keep.
        seed: random seed.
    """
    if not 1 <= count <= len(truth):
        raise UsageError(f"--sample {count}. Accepted: from 1 to {len(truth)}, the number of queries")
    which = np.sort(np.random.default_rng(seed).permutation(len(truth))[:count]).astype(np.int64)
    part = truth.take(which)
    kept = [_answers_to(each, truth, part, which) for each in answers]
    if dataset is not None:
        if dataset.queries.rows != len(truth):
            raise MismatchError(f"{len(truth):,} queries in the truth, {dataset.queries.rows:,} in --queries")
        dataset = replace(dataset, queries=take_queries(dataset.queries, which))
    return part, dataset, kept


def _answers_to(answers: Answers, truth: Truth, part: Truth, which: NDArray[np.int64]) -> Answers:
    if answers.query_ids is None or part.query_ids is None:
        # Answers of another length are refused with a better message when they are aligned.
        return _taken(answers, which) if len(answers) == len(truth) else answers
    wanted = part.query_ids.cast(pa.string())
    inside = pc.is_in(answers.query_ids.cast(pa.string()), value_set=wanted)
    return _taken(answers, np.flatnonzero(inside.to_numpy(zero_copy_only=False)))


def _taken(answers: Answers, rows: NDArray[np.int64]) -> Answers:
    starts, ends = answers.offsets[:-1][rows], answers.offsets[1:][rows]
    empty = np.empty(0, np.int64)
    places = np.concatenate([empty, *(np.arange(a, b) for a, b in zip(starts, ends, strict=True))])
    return replace(
        answers,
        ids=answers.ids.take(pa.array(places)),
        offsets=np.concatenate([[0], np.cumsum(ends - starts)]).astype(np.int64),
        query_ids=None if answers.query_ids is None else answers.query_ids.take(pa.array(rows)),
        scores=None if answers.scores is None else answers.scores[places],
        columns=None if answers.columns is None else answers.columns.take(pa.array(rows)),
    )
