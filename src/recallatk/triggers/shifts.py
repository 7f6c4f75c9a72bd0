"""All triggers between two snapshots, with one limit on their false alarms together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from recallatk.analysis.comparison import holm
from recallatk.capture.log_format import BATCH, LATENCY, TIME
from recallatk.core import Corpus, Metric, QuerySet
from recallatk.core.drifted import Shifts, Trigger
from recallatk.datasets import open_corpus
from recallatk.datasets.sampling import gathered_columns
from recallatk.datasets.source import CORPUS, QUERIES
from recallatk.digests import vector_digests
from recallatk.errors import MismatchError
from recallatk.filters.eligibility import distinct_filters, eligibility
from recallatk.triggers.corpus_triggers import (
    corpus_triggers,
    model_trigger,
    require_same_collection,
)
from recallatk.triggers.mix_triggers import MixSamples, mix_triggers
from recallatk.triggers.snapshot import FEWEST, open_snapshot, rows_of
from recallatk.triggers.vector_triggers import (
    MOST_REFERENCE,
    MOST_VECTORS,
    VectorSamples,
    copies_trigger,
    vector_triggers,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from recallatk.core import Records
    from recallatk.filters import Filter
    from recallatk.triggers.snapshot import Snapshot

# Columns of a log that change from call to call.
_PASSING = frozenset([TIME, LATENCY, BATCH])


def shifts(
    baseline: Any,
    current: Any,
    *,
    corpus: Any = None,
    metric: Metric | str | None = None,
    corpora: bool = False,
    seed: int = 0,
) -> Shifts:
    """Compare two snapshots: which triggers fire, at most 5 % of the time if nothing drifted.

    Args:
        baseline: a query log, a corpus, a data set or a run; see `open_snapshot`.
        current: the same, later.
        corpus: the corpus that queries search, to judge their hardness and what their filters admit.
        metric: the metric of the search, where the data do not state it.
        corpora: files with one matrix are corpora.
        seed: random seed of samples and tests.
    """
    first, second = (open_snapshot(each, corpora=corpora) for each in (baseline, current))
    searched = second.corpus or first.corpus if corpus is None else open_corpus(corpus)
    stated = _metric(first, second, metric)
    shared = [name for name in (QUERIES, CORPUS) if name in first.parts and name in second.parts]
    if not shared:
        held = [" and ".join(each.parts) for each in (first, second)]
        raise MismatchError(
            f"nothing to compare: {first.name} holds {held[0]}, {second.name} {held[1]}. Compare queries "
            "with queries, or corpora with corpora (--corpora)"
        )
    if first.corpus is not None and second.corpus is not None:
        require_same_collection(first.corpus, second.corpus)
    pairs = [(name, first.parts[name], second.parts[name]) for name in shared]
    if searched is not None and any(name == QUERIES for name, *_ in pairs):
        _require_searched(searched, second)
    found: list[Trigger] = []
    notes: list[str] = []
    for name, one, two in pairs:
        reference = searched if name == QUERIES else None
        found += _part(name, one, two, reference, stated, seed)
        notes += _left_out(name, one, two, reference, stated)
    return Shifts(first.size, second.size, tuple(_adjusted(found)), tuple(notes))


def _metric(first: Snapshot, second: Snapshot, stated: Metric | str | None) -> Metric | None:
    known = {each.metric for each in (first, second) if each.metric is not None}
    if stated is not None:
        known.add(Metric(stated))
    if len(known) > 1:
        raise MismatchError(f"metric mismatch: {' and '.join(sorted(known))}")
    return next(iter(known), None)


def _require_searched(searched: Corpus, current: Snapshot) -> None:
    queries = current.parts[QUERIES]
    if searched.dimension != queries.dimension:
        raise MismatchError(
            f"dimension mismatch: the corpus {searched.name} has {searched.dimension:,}, the queries "
            f"{queries.name} {queries.dimension:,}. Name the corpus that the current queries search"
        )


def _part(
    name: str, one: Records, two: Records, searched: Corpus | None, metric: Metric | None, seed: int
) -> Iterator[Trigger]:
    """The triggers of one part, before their p values are adjusted."""
    model = model_trigger(name, one, two)
    if model is not None:
        yield model
    draw = np.random.default_rng(seed)
    rows = [draw.permutation(each.rows) for each in (one, two)]
    if one.dimension != two.dimension:
        said = f"the vectors have {two.dimension:,} dimensions, {one.dimension:,} in the baseline"
        size = float(one.dimension)
        yield Trigger(name, "dimension", float(two.dimension), size, size, said=said)
    else:
        yield from _vectors(name, one, two, rows, searched, metric, seed)
    if isinstance(one, Corpus) and isinstance(two, Corpus):
        yield from corpus_triggers(one, two)
    yield from mix_triggers(
        _mixes(name, one, two, [np.sort(each[:MOST_VECTORS]) for each in rows], searched, seed)
    )


def _vectors(
    name: str, one: Records, two: Records, rows: Sequence[NDArray[np.int64]],
    searched: Corpus | None, metric: Metric | None, seed: int,
) -> Iterator[Trigger]:  # fmt: skip
    draw = np.random.default_rng(seed + 1)
    if searched is None or searched.dimension != one.dimension:
        # Vectors of the baseline that are not compared serve as the corpus.
        count = min(MOST_REFERENCE, one.rows // 2)
        reference = rows_of(one, rows[0][:count])
        first = rows_of(one, rows[0][count : count + MOST_VECTORS])
        second = rows_of(two, rows[1][: MOST_VECTORS + (count if name == CORPUS else 0)])
        if name == CORPUS:
            known = np.isin(vector_digests(second), vector_digests(reference))
            second = second[~known] if np.count_nonzero(~known) >= FEWEST else second
        second = second[:MOST_VECTORS]
    else:
        count = min(MOST_REFERENCE, searched.rows)
        reference = rows_of(searched, draw.permutation(searched.rows)[:count])
        first, second = rows_of(one, rows[0][:MOST_VECTORS]), rows_of(two, rows[1][:MOST_VECTORS])
    samples = VectorSamples(name, first, second, reference, metric, seed)
    yield from vector_triggers(samples)
    if name == QUERIES:
        yield copies_trigger(samples)


def _mixes(
    name: str, one: Records, two: Records, rows: Sequence[NDArray[np.int64]], searched: Corpus | None,
    seed: int,
) -> MixSamples:  # fmt: skip
    tables = [_columns(part, chosen) for part, chosen in zip((one, two), rows, strict=True)]
    filters = shares = None
    if isinstance(one, QuerySet) and isinstance(two, QuerySet):
        filters = tuple(
            [None if part.filters is None else part.filters[row] for row in chosen.tolist()]
            for part, chosen in zip((one, two), rows, strict=True)
        )
        if searched is not None:
            shares = tuple(_admitted(each, searched) for each in filters)
    return MixSamples(name, tables[0], tables[1], filters, shares, seed)  # type: ignore[arg-type]


def _columns(part: Records, rows: NDArray[np.int64]) -> pa.Table:
    schema = part.columns.schema
    names = [
        name for name in part.metadata_names if name not in _PASSING and _has_kinds(schema.field(name).type)
    ]
    return gathered_columns(part, names, rows) if names else pa.table({"": pa.nulls(len(rows))}).select([])


def _has_kinds(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_boolean(kind)
        or pa.types.is_dictionary(kind) or pa.types.is_integer(kind)
    )  # fmt: skip


def _admitted(filters: Sequence[Filter | None], corpus: Corpus) -> list[float | None]:
    """The share of rows that each filter admits; a filter that admits none counts as half a row."""
    named = sorted(distinct_filters(filters).columns())
    if not any(each is not None for each in filters):
        return [None] * len(filters)
    found = eligibility(filters, corpus.columns.read(named, 0, corpus.rows), None, corpus.rows)
    counts = np.maximum(found.counts, 0.5) / corpus.rows
    return [None if each is None else float(share) for each, share in zip(filters, counts, strict=True)]


def _left_out(
    name: str, one: Records, two: Records, searched: Corpus | None, metric: Metric | None
) -> Iterator[str]:
    if one.dimension != two.dimension:
        yield f"{name}: vectors of different dimensions have nothing else to compare"
    elif metric is None:
        yield f"{name}: the metric is not known, so that vectors are compared as they are (--metric)"
    if name == QUERIES and searched is None:
        yield (
            "queries: nearness and hardness are relative to other queries of the baseline, and what filters "
            "admit is not known (--corpus)"
        )
    if name == CORPUS and (one.id_column is None or two.id_column is None):
        yield "corpus: without ids, deleted and changed rows are not known"
    if model_trigger(name, one, two) is None:
        yield f"{name}: the embedding model is not stated on both sides"


def _adjusted(triggers: Sequence[Trigger]) -> Iterator[Trigger]:
    """Holm's correction over all tests, so that all of them together raise few false alarms."""
    tested = iter(holm([each.p for each in triggers if each.p is not None]))
    for each in triggers:
        yield each if each.p is None else replace(each, p=next(tested))
