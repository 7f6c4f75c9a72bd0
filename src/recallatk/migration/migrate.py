"""`migrate`: what changes if rows and queries are embedded anew, and whether to do it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.analysis.comparison import difference_interval
from recallatk.analysis.distribution import mean_of_values
from recallatk.analysis.relevance import relevance_mean, relevance_of_rows
from recallatk.core.migrated import (
    CostChange,
    EmbeddingSide,
    Migrated,
    NeighborOverlap,
    RelevanceChange,
)
from recallatk.datasets.model_labels import stated_models
from recallatk.errors import UsageError
from recallatk.goals import sort_goals
from recallatk.migration.pairing import paired
from recallatk.migration.recommendation import recommendation
from recallatk.migration.space_change import mixed_spaces, rows_of_both, space_change
from recallatk.truths import obtain_truth
from recallatk.tuning import tune
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from recallatk.core import Dataset, Metric
    from recallatk.core.tuned import Tuned
    from recallatk.migration.pairing import Pairing

DEFAULT_AT = (1, 10)
DEFAULT_SAMPLE = 1_000
_JUDGED = ("nDCG@10", "R@10", "RR@10")
_JUDGED_DEPTH = 10
# Unrelated embeddings have k of all rows in common: a deeper k says little of neighbors.
_TELLING = 0.5
_REAL_QUERIES = (
    "a target needs real queries, embedded for both: --old-queries FILE --new-queries FILE. Rows of the "
    "corpus are easier"
)


def migrate(
    old: Any,
    new: Any,
    *,
    old_queries: Any = None, new_queries: Any = None,
    metric: Metric | str | None = None, new_metric: Metric | str | None = None,
    at: Sequence[int] = DEFAULT_AT, qrels: Any = None,
    target: Sequence[str] = (), budgets: Sequence[str] = (),
    engines: Sequence[str] | None = None, new_engines: Sequence[str] | None = None,
    seconds: float | None = None, sample: int = DEFAULT_SAMPLE, seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Migrated:  # fmt: skip
    """Compare two embeddings of the same rows: another model, version, type, dimension or index.

    Args:
        old: the corpus as it is embedded now, or a data set with queries.
        new: the same rows embedded anew; ids are the same, in any order.
        old_queries: queries for the old corpus; without any queries, rows serve as queries.
        new_queries: the same queries, embedded anew.
        metric: cosine, ip or l2, unless the data state it.
        new_metric: that of the new embedding, if it is another one.
        at: values of k for the overlap of exact neighbors.
        qrels: relevance judgments, to tell whether exact search becomes better.
        target: such as `recall@10 >= 0.95`: both embeddings are tuned to it, and the new one is judged.
        budgets: limits on cost for both.
        engines: engines to tune; by default those of `tune`.
        new_engines: engines for the new embedding, if they are others.
        seconds: time limit of each tuning.
        sample: most queries to compare.
        seed: random seed.
        progress: called with what is done next.
    """
    tell = progress or _silent
    _require(at, sample, target, budgets)
    if not target:
        _require_nothing_to_tune({"engine": engines, "new engine": new_engines, "time limit": seconds})
    pairing = paired(old, new, old_queries, new_queries, metric, new_metric, qrels, sample, seed)
    _require_fewer(max(at), pairing.old.corpus.rows)
    if target and pairing.rows_as_queries:
        raise UsageError(_REAL_QUERIES)
    tell("exact neighbors")
    overlaps, relevance = _neighborhoods(pairing, sorted(set(at)))
    tell("vectors")
    rows, before, after = rows_of_both(pairing, seed)
    change, mixed = space_change(before, after), mixed_spaces(pairing, rows, before, after)
    names = (engines, engines if new_engines is None else new_engines)
    goals = {"target": list(target), "budgets": list(budgets), "seconds": seconds, "seed": seed}
    tuned = _tuned(pairing, names, goals, tell) if target else {}
    sides = _side(pairing.old), _side(pairing.new)
    costs = _costs(*sides, tuned)
    telling = tuple(each for each in overlaps if each.k <= pairing.old.corpus.rows * _TELLING)
    advice = recommendation(
        change, telling, mixed, relevance, costs, tuned, queries_kept=_queries_kept(pairing)
    )
    verdict = tuned["new"].verdict if tuned else None
    return Migrated(
        *sides, change, overlaps, pairing.rows_as_queries, mixed, costs, advice, relevance, tuned, verdict,
        _notes(pairing, [each.k for each in overlaps if each not in telling]),
    )  # fmt: skip


def _require(at: Sequence[int], sample: int, target: Sequence[str], budgets: Sequence[str]) -> None:
    """Refuse what cannot be done before any file is opened."""
    sort_goals([*target, *budgets])
    if not at or min(at) < 1:
        raise UsageError(f"k = {', '.join(map(str, at)) or 'nothing'}. Accepted: 1 or more")
    if sample < 1:
        raise UsageError(f"a sample of {sample} queries. Accepted: 1 or more")
    if budgets and not target:
        raise UsageError('a budget needs a target to tune to: --target "recall@10 >= 0.95"')


def _require_nothing_to_tune(given: Mapping[str, Any]) -> None:
    """Refuse what only a tuning would use, rather than ignore it."""
    for name, value in given.items():
        if value is not None:
            article = "an" if name[0] in "aeiou" else "a"
            raise UsageError(f'{article} {name} needs a target to tune to: --target "recall@10 >= 0.95"')


def _require_fewer(k: int, rows: int) -> None:
    """Refuse k at which any two embeddings have the same neighbors: all rows."""
    if k >= rows:
        raise UsageError(
            f"k = {k:,} of {counted(rows, 'row', 'rows')}: all rows are the neighbors in any embedding. "
            "Accepted: fewer than the rows, such as --at 1"
        )


def _neighborhoods(
    pairing: Pairing, cutoffs: Sequence[int]
) -> tuple[tuple[NeighborOverlap, ...], tuple[RelevanceChange, ...]]:
    """What becomes of the exact neighbors of each query."""
    depth = max(cutoffs[-1], _JUDGED_DEPTH) if pairing.old.qrels else cutoffs[-1]
    lists = [_neighbors(each, depth) for each in (pairing.old, pairing.new)]
    translated = np.where(lists[1] >= 0, pairing.places[lists[1]], -1)
    return tuple(_overlap(lists[0], translated, k) for k in cutoffs), _relevance(pairing, lists)


def _tuned(
    pairing: Pairing,
    engines: Sequence[Sequence[str] | None],
    goals: Mapping[str, Any],
    tell: Callable[[str], None],
) -> dict[str, Tuned]:
    """The settings of both embeddings at the same target."""
    found = {}
    for name, data, names in zip(("old", "new"), (pairing.old, pairing.new), engines, strict=True):
        tell(f"tuning the {name} embedding")
        found[name] = tune(data, engines=names, **goals)
    return found


def _silent(_: str) -> None:
    """Tell nobody."""


def _neighbors(dataset: Dataset, depth: int) -> NDArray[np.int64]:
    """Exact neighbors, as rows of the dataset's own corpus."""
    return np.asarray(obtain_truth(dataset, depth=min(depth, dataset.corpus.rows)).truth.rows)


def _overlap(old: NDArray[np.int64], new: NDArray[np.int64], k: int) -> NeighborOverlap:
    shares = np.full(len(old), np.nan)
    for query, (one, two) in enumerate(zip(old[:, :k], new[:, :k], strict=True)):
        known = one[one >= 0]
        if len(known):
            shares[query] = np.isin(known, two).sum() / len(known)
    known = shares[~np.isnan(shares)]
    unlike = float((known == 0).mean()) if len(known) else 0.0
    return NeighborOverlap(k, mean_of_values(shares, is_share=k == 1), unlike)


def _relevance(pairing: Pairing, lists: Sequence[NDArray[np.int64]]) -> tuple[RelevanceChange, ...]:
    if not pairing.old.qrels:
        return ()
    one, two = (
        relevance_of_rows(found, data, _JUDGED, _JUDGED_DEPTH)
        for found, data in zip(lists, (pairing.old, pairing.new), strict=True)
    )
    changes = []
    for name, before in one.items():
        judged = ~np.isnan(before)
        if not judged.any():
            continue
        differences = two[name][judged] - before[judged]
        low, high = difference_interval(differences) or (None, None)
        changes.append(
            RelevanceChange(
                name,
                relevance_mean(before, None),
                relevance_mean(two[name], None),
                float(differences.mean()),
                low,
                high,
            )
        )
    return tuple(changes)


def _queries_kept(pairing: Pairing) -> bool:
    """Whether both embeddings are asked the same query vectors, as if the file were named twice."""
    one, two = (each.queries.vectors.read(0, each.queries.rows) for each in (pairing.old, pairing.new))
    return not pairing.rows_as_queries and np.array_equal(one, two)


def _side(dataset: Dataset) -> EmbeddingSide:
    corpus = dataset.corpus
    dtype = str(corpus.vectors.dtype)
    return EmbeddingSide(
        corpus.name, corpus.rows, corpus.dimension, dtype, dataset.metric, stated_models(corpus)
    )


def _costs(old: EmbeddingSide, new: EmbeddingSide, tuned: Mapping[str, Tuned]) -> tuple[CostChange, ...]:
    found = [CostChange("vectors", "bytes", old.rows * old.bytes_per_row, new.rows * new.bytes_per_row)]
    one, two = (tuned[name].choice if tuned else None for name in ("old", "new"))
    if one is None or two is None:
        return tuple(found)
    found += [
        CostChange("memory", "bytes", one.memory_bytes, two.memory_bytes),
        CostChange("index size", "bytes", one.size_bytes, two.size_bytes),
        CostChange("build", "s", one.build_seconds, two.build_seconds),
        CostChange("p95", "ms", one.latency_ms.get("p95"), two.latency_ms.get("p95")),
        CostChange("queries per second", "/s", one.qps, two.qps),
    ]
    return tuple(each for each in found if each.old is not None or each.new is not None)


def _notes(pairing: Pairing, deep: Sequence[int]) -> tuple[str, ...]:
    notes = []
    if deep:
        tops = " and ".join(f"top {k:,}" for k in deep)
        rows = counted(pairing.old.corpus.rows, "row", "rows")
        notes.append(f"{tops} of {rows} give no advice: any two embeddings share most of that")
    if pairing.rows_as_queries:
        notes.append("rows of the corpus served as queries, and real ones may change more")
    if pairing.old.metric is not pairing.new.metric:
        notes.append(f"the metric changes from {pairing.old.metric} to {pairing.new.metric}")
    return tuple(notes)
