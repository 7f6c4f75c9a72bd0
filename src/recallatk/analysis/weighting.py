"""Weights of queries from a column of theirs, such as how often each is asked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from recallatk.analysis.distribution import FEWEST_RESAMPLED, mean_of
from recallatk.analysis.headline import headline_of
from recallatk.core import Caution, Weights
from recallatk.core.measured import FEW_EFFECTIVE
from recallatk.core.weights import effective_number
from recallatk.errors import UsageError, unknown
from recallatk.units import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Dataset, Measurement, Run, Score, Truth

# Of the queries. In simulated query logs with Zipf exponents of up to 0.8 the effective number is larger; in
# samples of distinct queries, whose intervals miss the mean more often than 5 %, it is mostly smaller.
_FEW_SHARE = 0.25
_ACCEPTED = "Accepted: a finite number of 0 or more for every query, above 0 for at least one"


def query_columns(
    truth: Truth | None = None, dataset: Dataset | None = None, answers: pa.Table | None = None
) -> pa.Table | None:
    """Columns of the queries; the data take precedence over copies in the truth and in the answers."""
    tables = [
        answers,
        None if truth is None else truth.query_columns,
        None if dataset is None else dataset.queries.metadata,
    ]
    found: dict[str, Any] = {}
    for table in tables:
        if table is not None:
            found |= {name: table[name] for name in table.column_names}
    return pa.table(found) if found else None


def weights_from(columns: pa.Table | None, name: str) -> Weights:
    """The weights that a query column holds; each violation names the row, counted from 0."""
    known = [] if columns is None else columns.column_names
    if columns is None or name not in known:
        raise UsageError(
            f"weight: {unknown('query column', name, known)}. Columns come from the truth, from the answers, "
            "or from the queries file"
        )
    column = columns[name].combine_chunks()
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise UsageError(f"weight: the column {name!r} has type {kind}. Accepted: columns of numbers")
    if column.null_count:
        row = int(np.flatnonzero(~column.is_valid().to_numpy(zero_copy_only=False))[0])
        raise UsageError(f"weight: {name!r} of row {row} is null. {_ACCEPTED}")
    return checked_weights(name, column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))


def checked_weights(name: str, values: NDArray[np.float64]) -> Weights:
    """Weights that are finite, 0 or more and not all 0."""
    wrong = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if len(wrong):
        row = int(wrong[0])
        others = f", and {counted(len(wrong) - 1, 'other row', 'other rows')}" if len(wrong) > 1 else ""
        raise UsageError(f"weight: {name!r} of row {row} is {values[row]:g}{others}. {_ACCEPTED}")
    if not values.any():
        count = counted(len(values), "query", "queries")
        raise UsageError(f"weight: {name!r} is 0 for all {count}, from row 0 on. {_ACCEPTED}")
    return Weights(name, np.ascontiguousarray(values, np.float64))


def weights_by_query(columns: pa.Table | None, name: str | None, queries: int) -> Weights | None:
    """The weights of this many queries; None without a column to weight by."""
    if name is None:
        return None
    found = weights_from(columns, name)
    if len(found) != queries:
        raise UsageError(
            f"weight: {len(found):,} values of {name!r} for {queries:,} queries. Accepted: one per query"
        )
    return found


def weights_of(measurement: Measurement) -> Weights | None:
    """The weight of every query of a measurement, 0 for those that were not sent; None without weights."""
    known, values = measurement.score.weights, measurement.weights
    return None if known is None or values is None else Weights(known.column, values)


def scored_weights(score: Score) -> Weights | None:
    """The weights of the queries that have a score, 0 for the others; None without weights."""
    weights, name = score.weights, headline_of(score.per_query)
    if weights is None or name is None:
        return weights
    return Weights(weights.column, np.where(np.isnan(score.per_query[name]), 0.0, weights.values))


def weights_of_run(run: Run) -> Weights | None:
    """The weight of every query of a weighted run, 0 for those that no trial scored; None without weights."""
    found: Weights | None = None
    for each in run.measurements:
        weights = scored_weights(each.score)
        if weights is None or (found is not None and len(found) != len(each.answers)):
            continue
        values = np.zeros(len(each.answers)) if found is None else found.values.copy()
        values[each.asked] = np.maximum(values[each.asked], weights.values)
        found = Weights(weights.column, values)
    return found


def reweighted(run: Run, weights: Weights) -> Run:
    """The run with every mean weighted anew; trials without per-query values are refused."""
    changed = []
    for each in run.measurements:
        score = each.score
        if not score.per_query or len(weights) != len(each.answers):
            raise UsageError(
                f"cannot weight {each.trial} by {weights.column}: the run has no values per query, or other "
                "queries than those with weights. Measure it again with --weight"
            )
        its = weights.take(each.asked)
        means = {
            name: replace(mean_of(values, name, weights=its.values), ids=None)
            for name, values in score.per_query.items()
        }
        changed.append(replace(each, score=replace(score, measures={**score.measures, **means}, weights=its)))
    measure = {**(run.settings.get("measure") or {}), "weight": weights.column}
    few = [each for each in (few_effective(scored_weights(each.score)) for each in changed[:1]) if each]
    cautions = (*(each for each in run.cautions if each.kind != FEW_EFFECTIVE), *few)
    settings = {**run.settings, "measure": measure}
    return replace(run, measurements=tuple(changed), settings=settings, cautions=cautions)


def few_effective(weights: Weights | None) -> Caution | None:
    """The caution that a few queries carry the mean; None otherwise.

    Args:
        weights: those of the scored queries; the others have 0 (`scored_weights`).
    """
    counts = np.empty(0) if weights is None else weights.values[weights.values > 0]
    if weights is None or len(counts) < FEWEST_RESAMPLED:
        return None
    effective, heaviest = effective_number(counts), float(counts.max() / counts.sum())
    limit = max(FEWEST_RESAMPLED, _FEW_SHARE * len(counts))
    if effective >= limit:
        return None
    said = (
        f"a few queries carry the weighted mean: {counted(len(counts), 'query', 'queries')} weighted by "
        f"{weights.column} are worth {effective:.3g} of equal weight, and one has {heaviest:.1%} of the "
        "weight. Recall of heavier queries that are not in the file is unknown: if the file is a sample of "
        "distinct queries and not of the log, the interval may be too narrow. Decide by the bound"
    )
    return Caution(FEW_EFFECTIVE, said, effective, limit)
