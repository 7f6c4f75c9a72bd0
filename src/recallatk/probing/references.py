"""Exact neighbors of a probe's queries: from the engine's exact search, its streamed vectors or a file."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from recallatk.adapters.collection import AnswerPair, Neighbors
from recallatk.analysis.listed_recall import listed_recall
from recallatk.api.truth import ground_truth
from recallatk.core import Dataset, Metric, Truth
from recallatk.datasets.checks import checked
from recallatk.datasets.opening import open_corpus
from recallatk.errors import BadValueError, EngineError, MismatchError, UsageError, choices
from recallatk.scratch import ScratchFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from recallatk.adapters.collection import Collection
    from recallatk.adapters.probe_limits import RateLimit
    from recallatk.core import Corpus, QuerySet
    from recallatk.probing.probe_queries import ProbeQueries
    from recallatk.probing.tally import Tally

    Progress = Callable[[int, int], None]

EXACT, STREAM = "exact", "stream"
# Rows beyond rank k, so that ties at the boundary are seen whole.
BEYOND = 32
# Queries that compare the two sources of truth.
_CHECKED = 20
# Ids of answers that show whether they are those of the corpus.
_LOOKED_AT = 20
_NUMBER = re.compile(r"0|-?[1-9][0-9]*")


def plain_id(value: Any) -> Any:
    """An id that compares equal, whichever driver or file it comes from."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return int(value)
    return value if isinstance(value, str) or value is None else str(value)


def alike(ids: Sequence[Any], exact: Sequence[Any]) -> list[Any]:
    """Ids of an answer as the exact neighbors have them: a number and its decimal text are the same id."""
    plain = [plain_id(each) for each in ids]
    if exact and all(isinstance(each, str) for each in exact):
        return [str(each) if isinstance(each, int) else each for each in plain]
    if exact and all(isinstance(each, int) for each in exact):
        return [int(each) if isinstance(each, str) and _NUMBER.fullmatch(each) else each for each in plain]
    return plain


def made_from(collection: Collection, corpus: Any, source: Any = None) -> Any:
    """What a collection was made from, opened once for all who need it; None if nothing names it.

    Args:
        collection: the collection, whose target may name it.
        corpus: the corpus in any form, instead of that of the target; None if there is none.
        source: the source of truth that the user names; None if there is none.
    """
    if corpus is not None and source in (EXACT, STREAM):
        raise UsageError(f"--corpus names one source of truth and --truth {source} another. Give one of them")
    stated = collection.corpus if corpus is None else corpus
    if stated is None:
        return None
    opened = open_corpus(stated)
    collection.bind(opened)
    return opened


class Reference:
    """A source of exact neighbors."""

    description: str
    """Where the neighbors come from, and what that means."""

    def pair(self, collection: Collection, queries: ProbeQueries, place: int, k: int) -> AnswerPair:
        """The answer of the collection and the exact neighbors of one query."""
        raise NotImplementedError


@dataclass(frozen=True)
class EngineReference(Reference):
    """The engine's own exact search, asked right after each query."""

    description: str

    def pair(self, collection: Collection, queries: ProbeQueries, place: int, k: int) -> AnswerPair:
        """Both from the collection, in one snapshot where it has snapshots."""
        return collection.pair(queries.vectors[place], k, k + BEYOND, queries.filters[place])


class KnownIds:
    """The ids of a corpus file: answers without any of them have recall 0, and not because of the index."""

    def __init__(self, corpus: Corpus, target: str) -> None:
        self.corpus, self.target = corpus, target
        self.returned: list[Any] | None = []

    def look(self, ids: Sequence[Any]) -> None:
        """Look at the ids of the first answers; refuse them if the corpus has none of them."""
        if self.returned is None:
            return
        self.returned += [plain_id(each) for each in ids]
        if len(self.returned) < _LOOKED_AT:
            return
        own, returned, self.returned = self.corpus.ids, self.returned, None
        example = own[0].as_py()
        asked = [each for each in alike(returned, [example]) if isinstance(each, type(example))]
        if isinstance(example, int):
            asked = [each for each in asked if -(2**63) <= each < 2**63]
        if not pc.any(pc.is_in(pa.array(asked, own.type), value_set=own)).as_py():
            raise MismatchError(
                f"id mismatch: none of the first {len(returned):,} ids that {self.target} returned is in the "
                f"corpus: it returned {returned[0]!r}, the corpus has ids such as {example!r}. Use the "
                "corpus that the collection was made from, with a column `id` of its ids"
            )


@dataclass(frozen=True, eq=False)
class TruthReference(Reference):
    """Certified ground truth of a corpus that was streamed or read from a file."""

    description: str
    truth: Truth
    ids: KnownIds | None = None
    """None where the ids are those of the collection by construction."""

    def pair(self, collection: Collection, queries: ProbeQueries, place: int, k: int) -> AnswerPair:
        """The answer, and the neighbors of the truth."""
        answer = collection.answer(queries.vectors[place], k, queries.filters[place])
        if self.ids is not None:
            self.ids.look(answer.ids)
        return AnswerPair(answer, self.neighbors(place), None)

    def neighbors(self, place: int) -> Neighbors:
        """The true neighbors of one query."""
        truth = self.truth
        rows, scores = truth.rows[place], truth.scores
        there = rows >= 0
        ids = [plain_id(each) for each in truth.ids_of(rows[there]).to_pylist()]
        if scores is None or truth.metric is None or truth.eligible is None:
            raise MismatchError("the truth has no scores. Compute it with `recallatk truth`")
        distances = scores[place][there] * (-1 if truth.metric.higher_is_better else 1)
        return Neighbors(ids, distances, bool(truth.eligible[place] <= len(ids)))


def reference_for(
    collection: Collection,
    queries: ProbeQueries,
    k: int,
    source: str | Truth | None,
    corpus: Any,
    progress: Progress | None = None,
) -> Reference:
    """The source of exact neighbors: a corpus file if there is one, else the engine, else its vectors.

    Args:
        collection: what is probed.
        queries: the queries.
        k: the cutoff.
        source: `exact`, `stream`, a truth of these queries, or None for the first that works.
        corpus: the corpus in any form; None if there is none.
        progress: called with the pairs of query and row done, and their total.
    """
    found = collection.discovery()
    if isinstance(source, Truth):
        return _given(source, queries, k)
    if source not in (None, EXACT, STREAM):
        raise UsageError(f"--truth {source}. Accepted: {choices([EXACT, STREAM])}, or --corpus FILE")
    if corpus is None:
        corpus = collection.corpus
    if corpus is not None and source is None:
        opened = open_corpus(corpus)
        reference = _of_corpus(collection, queries, k, opened, "the corpus file", progress)
        return replace(reference, ids=KnownIds(opened, found.target))
    if source == EXACT and not collection.exact_mode:
        raise UsageError(f"{found.engine} has no exact search. Use --truth stream, or --corpus FILE")
    if source != STREAM and collection.exact_mode:
        precise = ", which may be less precise than what was inserted" if found.quantized else ""
        return EngineReference(
            f"exact search of {found.engine} over the stored vectors ({found.exact}){precise}"
        )
    with ScratchFolder() as folder:
        streamed = _streamed(collection, queries, Path(folder) / "rows.parquet")
        said = f"certified truth of the vectors that {found.engine} stores"
        try:
            return _of_corpus(collection, queries, k, streamed, said, progress)
        except BadValueError as problem:
            # What is wrong is in the collection, and not in the temporary file.
            accepted = f"{problem.accepted}. Name what it was made from: --corpus FILE"
            raise BadValueError(found.target, problem.found, accepted, row=problem.row) from None


def _given(truth: Truth, queries: ProbeQueries, k: int) -> TruthReference:
    """A truth that the caller has, if it is one of these queries."""
    count = len(queries.queries.ids)
    if len(truth) != count:
        raise MismatchError(f"query count mismatch: the truth has {len(truth):,}, and {count:,} are asked")
    if truth.rows.shape[1] < k:
        raise MismatchError(
            f"the truth has {truth.rows.shape[1]} neighbors, and k is {k}. Compute a deeper one"
        )
    return TruthReference("the truth that was given", truth)


def write_notes(collection: Collection, reference: Reference) -> tuple[str, ...]:
    """What rows that are written meanwhile do to the result, where no snapshot or counter guards it."""
    if isinstance(reference, TruthReference):
        if collection.on_copy:
            return ()
        return ("Rows written since the truth was taken count against the recall",)
    if collection.snapshots or collection.writes() is not None:
        return ()
    return ("The engine does not tell whether rows were written between an answer and its exact neighbors",)


def agreement(
    collection: Collection, queries: ProbeQueries, reference: Reference, tally: Tally, pace: RateLimit
) -> float | None:
    """Recall of the engine's exact search against certified truth, where both exist.

    Args:
        collection: what was probed.
        queries: its queries.
        reference: the source of truth of the probe.
        tally: the scored queries; some of them are asked once more.
        pace: the rate limit.
    """
    if not isinstance(reference, TruthReference) or not collection.exact_mode:
        return None
    values = []
    for place in tally.places[:_CHECKED]:
        pace.wait()
        exact, depth = reference.neighbors(place), tally.k + queries.sampled
        try:
            own = collection.exact(queries.vectors[place], depth, queries.filters[place])
        except EngineError:
            # What the probe found stands without this check.
            break
        found = listed_recall(
            exact.ids, exact.distances, alike(own.ids, exact.ids), depth, complete=exact.complete
        )
        values += [] if found.value is None else [found.value]
    return sum(values) / len(values) if values else None


def _asked(collection: Collection, queries: ProbeQueries) -> QuerySet:
    """The queries without filters that the collection refuses: those are not asked, and need no truth."""
    if queries.queries.filters is None:
        return queries.queries
    kept = (None if each is None or collection.refusal(each) else each for each in queries.filters)
    return replace(queries.queries, filters=tuple(kept))


def _streamed(collection: Collection, queries: ProbeQueries, path: Path) -> Corpus:
    """The whole collection in a temporary file, block by block."""
    filters = _asked(collection, queries).filters or ()
    wanted = sorted({name for each in filters if each is not None for name in each.columns()})
    batches: Iterator[Any] = iter(collection.batches(wanted))
    first = next(batches, None)
    if first is None:
        raise UsageError(f"{collection.discovery().target}: no row has a vector")
    with pq.ParquetWriter(path, first.schema) as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch.cast(first.schema))
    return open_corpus(path, id_column="id", vector_column="vector")


def _of_corpus(
    collection: Collection,
    queries: ProbeQueries,
    k: int,
    corpus: Corpus,
    said: str,
    progress: Progress | None,
) -> TruthReference:
    found = collection.discovery()
    metric = found.metric
    if metric is None:
        raise UsageError(f"{found.target}: the metric is unknown. Add metric=cosine, ip or l2 to the target")
    if found.rows is not None and corpus.rows < found.rows * 0.5:
        raise MismatchError(
            f"row count mismatch: {found.target} has {found.rows:,} rows, the corpus {corpus.rows:,}. Use "
            "the corpus that the collection was made from"
        )
    right = replace(corpus, vectors=checked(corpus, Metric(metric)))
    dataset = Dataset(right, _asked(collection, queries), Metric(metric))
    truth = ground_truth(dataset, depth=min(k + BEYOND, corpus.rows), progress=progress)
    return TruthReference(f"{said}: exact neighbors with proof", truth)
