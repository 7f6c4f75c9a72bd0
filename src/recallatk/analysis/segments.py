"""Segments of queries: by column, hardness, filter selectivity and text length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recallatk.analysis.answer_scores import cosine_distances
from recallatk.analysis.distribution import mean_of
from recallatk.core import Metric
from recallatk.errors import UsageError, unknown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from recallatk.core import Mean, Score, Truth, Weights


def intrinsic_dimension(truth: Truth) -> NDArray[np.float64] | None:
    """The local intrinsic dimension around each query, by maximum likelihood over its neighbors.

    -1 / mean(ln(r_i / r_k)) (Levina and Bickel 2004; Amsaleg and others 2015): the more neighbors crowd at
    the same distance, the higher, and the harder to tell them apart. NaN where fewer than two distances
    above 0 are known or all are the same; None where scores are no distances.
    """
    distances = _distances(truth)
    if distances is None:
        return None
    farthest = _last(distances)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(distances / farthest[:, None])
        usable = np.isfinite(logs)
        counts = usable.sum(axis=1)
        means = np.where(usable, logs, 0.0).sum(axis=1) / counts
        return np.where((counts >= 2) & (means < 0), -1.0 / means, np.nan)


def contrast(truth: Truth) -> NDArray[np.float64] | None:
    """The distance of the last true neighbor over that of the nearest: the closer to 1, the harder.

    NaN where the nearest is at distance 0; None where scores are no distances.
    """
    distances = _distances(truth)
    if distances is None or distances.shape[1] < 2:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = _last(distances) / distances[:, 0]
    return np.where(np.isfinite(ratio), ratio, np.nan)


def _distances(truth: Truth) -> NDArray[np.float64] | None:
    if truth.scores is None or truth.metric not in (Metric.L2, Metric.COSINE):
        return None
    if truth.metric is Metric.L2:
        return truth.scores
    # Between unit vectors.
    return np.asarray(np.sqrt(2.0 * cosine_distances(truth.scores)))


def _last(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    counts = (~np.isnan(distances)).sum(axis=1)
    found = distances[np.arange(len(distances)), np.maximum(counts - 1, 0)]
    return np.asarray(np.where(counts > 0, found, np.nan))


# Groupings that need no column.
DIMENSION, CONTRAST = "hardness by intrinsic dimension", "hardness by contrast"
SELECTIVITY, CORRELATION = "filter selectivity", "filter correlation"
TEXT_LENGTH, FREQUENCY = "text length", "query frequency"
AUTOMATIC = (DIMENSION, CONTRAST, SELECTIVITY, CORRELATION, TEXT_LENGTH, FREQUENCY)
HEAD, TAIL = "head (half of the weight)", "tail"

_QUARTERS = ("1 (easiest)", "2", "3", "4 (hardest)")
# Smaller segments are marked and not ranked: their recall is mostly chance.
FEWEST = 10
FEW = "*"
FEW_SAID = f"{FEW} fewer than {FEWEST} queries, not ranked."
# Numeric columns with more values than this are split into quartiles.
_MOST_VALUES = 64
_BINARY = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
    pa.types.is_binary_view,
)
# Dates that span more years are grouped by year, others by quarter.
_MOST_YEARS = 2
_LENGTHS = ((5, "up to 5 words"), (10, "6 to 10 words"), (20, "11 to 20 words"))


@dataclass(frozen=True, eq=False)
class Segment:
    """A group of queries and its score."""

    name: str
    queries: int
    measures: Mapping[str, Mean]


@dataclass(frozen=True, eq=False)
class Grouping:
    """One way to group queries: a name for each query, None for those in no group."""

    name: str
    labels: NDArray[Any]
    order: tuple[str, ...] | None = None
    """Groups in their natural order; without one, the worst come first."""


def segments(score: Score, grouping: Grouping, measures: list[str] | None = None) -> list[Segment]:
    """Score of each group."""
    names = list(score.per_query) if measures is None else measures
    labels = grouping.labels
    weights = None if score.weights is None else score.weights.values
    found = []
    for label in sorted({each for each in labels if each is not None}, key=_rank(grouping)):
        inside = labels == label
        counts = None if weights is None else weights[inside]
        means = {name: mean_of(score.per_query[name][inside], name, weights=counts) for name in names}
        found.append(Segment(label, int(inside.sum()), means))
    if grouping.order is None and names:
        found.sort(key=lambda each: _worst_first(each.measures[names[0]], each.name))
    return found


def _rank(grouping: Grouping) -> Any:
    order = grouping.order or ()
    return lambda label: (order.index(label) if label in order else len(order), label)


def _worst_first(mean: Mean, name: str) -> tuple[bool, float, str]:
    return mean.n < FEWEST, 1.0 if mean.value is None else mean.value, name


def by_column(columns: pa.Table | None, name: str) -> Grouping:
    """Group by the values of a column: numbers with many values by quartile, dates by year or quarter."""
    if columns is None or name not in columns.column_names:
        known = [] if columns is None else columns.column_names
        raise UsageError(
            f"{unknown('query column', name, known)}. Columns come from the truth, from the answers, or from "
            "the queries file: --corpus FILE --queries FILE"
        )
    column = columns[name].combine_chunks()
    if pa.types.is_nested(column.type) or any(each(column.type) for each in _BINARY):
        raise UsageError(f"the column {name!r} has type {column.type}. Accepted: columns of text or numbers")
    numeric = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if numeric and len(pc.unique(column)) > _MOST_VALUES:
        values = column.cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy(zero_copy_only=False)
        return _ranges(name, values)
    if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
        return _periods(name, column)
    return Grouping(name, _texts(column))


def _texts(column: pa.Array) -> NDArray[Any]:
    """The values as text, None for null; equal values share one string, for columns may be long."""
    encoded = column if pa.types.is_dictionary(column.type) else column.cast(pa.string()).dictionary_encode()
    values = np.array([*encoded.dictionary.cast(pa.string()).to_pylist(), None], object)
    return np.asarray(values[encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)])


def _periods(name: str, column: pa.Array) -> Grouping:
    """Calendar years; quarters where the dates span at most two years."""
    years = pc.year(column).cast(pa.string())
    if len(pc.unique(years.drop_null())) > _MOST_YEARS:
        texts = years
    else:
        texts = pc.binary_join_element_wise(years, pc.quarter(column).cast(pa.string()), " Q")
    labels = _texts(texts)
    return Grouping(name, labels, tuple(sorted({each for each in labels if each is not None})))


def _ranges(name: str, values: NDArray[np.float64]) -> Grouping:
    """Quartiles, named by their smallest and largest value."""
    inner = np.quantile(values[np.isfinite(values)], [0.25, 0.5, 0.75])
    place = np.searchsorted(inner, values, side="right")
    labels = np.full(len(values), None, object)
    order = []
    for quarter in range(len(inner) + 1):
        inside = (place == quarter) & ~np.isnan(values)
        if inside.any():
            order.append(f"{values[inside].min():.15g} to {values[inside].max():.15g}")
            labels[inside] = order[-1]
    return Grouping(name, labels, tuple(order))


def automatic(
    truth: Truth,
    columns: pa.Table | None = None,
    text_column: str | None = None,
    weights: Weights | None = None,
) -> list[Grouping]:
    """All groupings that the truth and the queries support."""
    found = [
        by_frequency(weights),
        _quarters(DIMENSION, intrinsic_dimension(truth)),
        _quarters(CONTRAST, _negated(contrast(truth))),
        by_selectivity(truth),
        _text_length(columns, text_column),
    ]
    return [each for each in found if each is not None]


def _negated(values: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
    return None if values is None else -values


def _quarters(name: str, hardness: NDArray[np.float64] | None) -> Grouping | None:
    """Four groups of equal size; equal hardness stays together."""
    if hardness is None:
        return None
    known = ~np.isnan(hardness)
    if known.sum() < len(_QUARTERS) or np.ptp(hardness[known]) == 0:
        return None
    edges = np.quantile(hardness[known], [0.25, 0.5, 0.75])
    labels = np.full(len(hardness), None, object)
    labels[known] = np.array(_QUARTERS, object)[np.searchsorted(edges, hardness[known])]
    return Grouping(name, labels, _QUARTERS)


def by_selectivity(truth: Truth) -> Grouping | None:
    """Queries by the share of rows that their filter admits, in powers of ten; None without filters."""
    if truth.eligible is None or not truth.corpus_rows:
        return None
    if _admits_all(truth.eligible, truth.corpus_rows).all():
        return None
    return selectivity_grouping(truth.eligible, truth.corpus_rows)


def selectivity_grouping(eligible: NDArray[np.int64], corpus_rows: int) -> Grouping:
    """Queries by the share of rows that they may return, in powers of ten."""
    share = np.where(_admits_all(eligible, corpus_rows), 1.0, eligible / corpus_rows)
    with np.errstate(divide="ignore"):
        decade = np.floor(np.log10(np.where(share > 0, share, np.nan)) + 1e-9)
    names = [None if np.isnan(each) else _decade(each) for each in decade]
    order = tuple(_decade(float(each)) for each in range(0, -10, -1))
    return Grouping(SELECTIVITY, np.array(names, object), order)


def _admits_all(eligible: NDArray[np.int64], corpus_rows: int) -> NDArray[np.bool_]:
    """Which queries may return all rows; a query that excludes only its own row has no filter."""
    return np.asarray((eligible >= corpus_rows - 1) & (eligible > 0))


def by_frequency(weights: Weights | None) -> Grouping | None:
    """Common and rare queries: the heaviest that carry half of the weight, and the others.

    Queries of equal weight stay together, and those of weight 0 are in no group. None if that leaves one.
    """
    if weights is None:
        return None
    heaviest_first = np.sort(weights.values)[::-1]
    carried = np.cumsum(heaviest_first)
    least = heaviest_first[int(np.searchsorted(carried, carried[-1] / 2))]
    counts = weights.values > 0
    head = weights.values >= least
    if not (counts & ~head).any():
        return None
    labels = np.where(head, HEAD, TAIL).astype(object)
    labels[~counts] = None
    return Grouping(FREQUENCY, labels, (HEAD, TAIL))


def _decade(power: float) -> str:
    if power >= 0:
        return "all rows"
    return f"{10.0 ** (power + 2):g} to {10.0 ** (power + 3):g} % of the rows"


def _text_length(columns: pa.Table | None, text_column: str | None) -> Grouping | None:
    name = text_column or "text"
    if columns is None or name not in columns.column_names:
        return None
    column = columns[name].combine_chunks()
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return None
    words = pc.list_value_length(pc.utf8_split_whitespace(pc.utf8_trim_whitespace(column)))
    counts = words.fill_null(0).to_numpy(zero_copy_only=False)
    names = [*(text for _, text in _LENGTHS), "21 words and more"]
    labels = np.array(names, object)[np.searchsorted([most for most, _ in _LENGTHS], counts)]
    labels[~column.is_valid().to_numpy(zero_copy_only=False)] = None
    return Grouping(TEXT_LENGTH, labels, tuple(names))
