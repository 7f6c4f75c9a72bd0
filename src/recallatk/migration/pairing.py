"""Two embeddings as datasets of the same rows and queries, refused where their ids differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recallatk.core import Dataset, Metric
from recallatk.datasets import open_dataset, open_queries, queries_from_corpus
from recallatk.datasets.sampling import sample_rows, take_queries
from recallatk.errors import MismatchError, UsageError
from recallatk.triggers import open_snapshot

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Corpus, QuerySet, Records

_SHOWN = 3


@dataclass(frozen=True, eq=False)
class Pairing:
    """Both embeddings, with the queries in one order."""

    old: Dataset
    new: Dataset
    places: NDArray[np.int64]
    """For each row of the new corpus, that of the old one with its id."""
    rows_as_queries: bool


def paired(
    old: Any, new: Any, old_queries: Any, new_queries: Any, metric: Any, new_metric: Any, qrels: Any,
    sample: int, seed: int,
) -> Pairing:  # fmt: skip
    """Open both, and refuse them if their ids differ, before any vector is compared."""
    sides = [open_snapshot(each, corpora=True) for each in (old, new)]
    for side in sides:
        if side.corpus is None:
            raise UsageError(f"{side.name} holds no corpus. Accepted: two corpora, or two data sets")
    one, two = (side.corpus for side in sides)
    assert one is not None and two is not None  # noqa: S101 - checked above
    metrics = [
        _metric(side.metric, given, side.name)
        for side, given in zip(sides, (metric, metric if new_metric is None else new_metric), strict=True)
    ]
    places = _places(one, two, "rows")
    asked = [
        side.queries if named is None else open_queries(named)
        for side, named in zip(sides, (old_queries, new_queries), strict=True)
    ]
    first, second = _queries(one, two, asked[0], asked[1], sample, seed)
    return Pairing(
        open_dataset(one, first, metric=metrics[0], qrels=qrels),
        open_dataset(two, second, metric=metrics[1], qrels=qrels),
        places,
        first.corpus_rows is not None,
    )


def _metric(known: Metric | None, stated: Any, name: str) -> Metric:
    if stated is None and known is None:
        raise UsageError(f"no metric: {name} does not state one. State it: --metric cosine, ip or l2")
    chosen = known if stated is None else Metric(stated)
    assert chosen is not None  # noqa: S101 - one of both is known
    if known is not None and chosen is not known:
        raise UsageError(f"metric mismatch: {name} states {known}, not {chosen}")
    return chosen


def _queries(
    one: Corpus, two: Corpus, first: QuerySet | None, second: QuerySet | None, sample: int, seed: int
) -> tuple[QuerySet, QuerySet]:
    """Queries of the same ids in one order; rows of both corpora if there are none."""
    if first is None and second is None:
        count = min(sample, one.rows)
        first, second = (queries_from_corpus(each, count, seed=seed) for each in (one, two))
    if first is None or second is None:
        which = "new" if second is None else "old"
        raise UsageError(
            f"queries for one embedding only: embed the same queries for the {which} one and name them, "
            f"--{which}-queries FILE"
        )
    places = _places(first, second, "queries")
    order = np.empty(len(places), np.int64)
    order[places] = np.arange(len(places))
    second = take_queries(second, order)
    if first.rows > sample:
        chosen = sample_rows(first, sample, seed=seed)
        first, second = take_queries(first, chosen), take_queries(second, chosen)
    return first, second


def _places(one: Records, two: Records, what: str) -> NDArray[np.int64]:
    """For each record of the second, the place of its id in the first; refused unless all are in both."""
    named = [each.id_column is not None for each in (one, two)]
    if one.rows != two.rows and not all(named):
        raise MismatchError(
            f"{one.name} has {one.rows:,} {what}, {two.name} {two.rows:,}, and without ids nothing tells "
            "which belong together. Add a column of ids to both"
        )
    if named[0] != named[1]:
        lacks, has = (one, two) if named[1] else (two, one)
        raise MismatchError(f"{has.name} has ids and {lacks.name} has none: add the same ids to it")
    first, second = one.ids, two.ids
    if first.type != second.type:
        raise MismatchError(f"ids of {what}: {one.name} has {first.type}, {two.name} {second.type}")
    place = pc.index_in(second, value_set=first)
    if place.null_count or one.rows != two.rows:
        missing = first.filter(pc.invert(pc.is_in(first, value_set=second)))
        added = second.filter(place.is_null())
        raise MismatchError(
            f"other ids: {len(missing):,} of the {one.rows:,} {what} of {one.name} are not in {two.name}"
            f"{_such_as(missing)}, and {len(added):,} of {two.name} are not in {one.name}{_such_as(added)}. "
            "Compare two embeddings of the same ids"
        )
    return np.asarray(place.cast(pa.int64()).to_numpy(zero_copy_only=False))


def _such_as(ids: pa.Array) -> str:
    return f" (such as {', '.join(map(str, ids[:_SHOWN].to_pylist()))})" if len(ids) else ""
