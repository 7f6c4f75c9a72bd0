"""Recall of a setting query by query: its spread, its segments, and the worst queries."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from recallatk.analysis.answers import ABSENT, PADDING, bounded
from recallatk.analysis.compared import Compared
from recallatk.analysis.diagnosis import deeper_measure
from recallatk.analysis.distribution import distribution, mean_of
from recallatk.analysis.measures import Recall
from recallatk.analysis.query_groupings import KnownQueries, usual_groupings
from recallatk.analysis.segments import FEWEST, Grouping, segments
from recallatk.analysis.weighting import weights_of_run
from recallatk.core import Score
from recallatk.reporting.charts.points import thinned
from recallatk.reporting.labels import cut, with_margin
from recallatk.reporting.text import printable

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.analysis.distribution import Distribution
    from recallatk.analysis.segments import Segment
    from recallatk.core import Dataset, FilterFacts, Mean, Measurement, Truth, Weights
    from recallatk.reporting.charts.points import Curve
    from recallatk.reporting.charts.theme import Row

# More settings keep only their means, or the file would be too large to send.
MOST_DETAILED = 60
WORST = 8
_MOST_SEGMENTS = 12
_MOST_COLUMNS, _MOST_LINES = 12, 12


@dataclass(frozen=True)
class MissedNeighbor:
    """A true neighbor that was not returned among the first k."""

    rank: int
    row: int
    score: float | None
    margin: float | None
    """Margin to the k-th neighbor; None without scores."""
    returned_at: int | None
    """Its rank among the answers where that is beyond k; None if it was not returned."""


@dataclass(frozen=True)
class WorstQuery:
    """A query of low recall, and what it missed."""

    query: int
    recall: float
    missed: tuple[MissedNeighbor, ...]


@dataclass(frozen=True, eq=False)
class Facts:
    """One setting, query by query."""

    values: NDArray[np.float64]
    """Of all queries; NaN for those that were not asked or have no recall."""
    spread: Distribution | None
    segments: dict[str, list[Segment]] = field(default_factory=dict)
    """By grouping: all in their own order, or the worst, the larger ones before the small."""
    better: dict[str, int] = field(default_factory=dict)
    """Number of segments left out per grouping."""
    worst: tuple[WorstQuery, ...] = ()
    mean: float | None = None
    """Mean over queries, weighted as the run is; None if they cannot be compared with the truth."""
    within: tuple[int, Mean] | None = None
    """Depth, and the recall of the true top k within that many answers."""


def detailed(curve: Curve) -> list[int]:
    """The points with details: the front, then others, the first load before the rest."""
    order = sorted(curve.points, key=lambda each: (each["load"] != 0, not each["latencyFront"], each["n"]))
    return sorted(each["n"] for each in order[:MOST_DETAILED])


def facts_of(curve: Curve, truth: Truth | None, dataset: Dataset | None) -> dict[int, Facts]:
    """Per-query facts by point; empty without a truth or stored per-query values."""
    k = curve.k
    if k is None:
        return {}
    if truth is None or truth.depth < k:
        return _spreads_alone(curve, detailed(curve))
    told = [
        number
        for number in detailed(curve)
        if len(curve.lines[number].measurement.answers) == len(truth)
        and not curve.lines[number].measurement.truth_lost
    ]
    # An index mostly returns the same answers under every load.
    same: dict[tuple[bytes, bytes], list[int]] = {}
    for number in told:
        measurement = curve.lines[number].measurement
        same.setdefault((measurement.answers.tobytes(), measurement.asked.tobytes()), []).append(number)
    asked = {numbers[0]: _asked(curve.lines[numbers[0]].measurement, truth, k) for numbers in same.values()}
    groupings = groupings_of(curve, truth, dataset)
    cut = [worst_groups(each, _means([every.values for every in asked.values()])) for each in groupings]
    facts = {
        number: _facts(each, k, cut, curve.lines[number].measurement.score.weights)
        for number, each in asked.items()
    }
    lost = [number for number in detailed(curve) if curve.lines[number].measurement.truth_lost]
    alone = _spreads_alone(curve, lost)
    return alone | {number: facts[numbers[0]] for numbers in same.values() for number in numbers}


def _spreads_alone(curve: Curve, numbers: list[int]) -> dict[int, Facts]:
    """The spread alone, from stored per-query values."""
    found = {}
    for number in numbers:
        values = curve.lines[number].measurement.values(curve.measure or "")
        if values is not None and len(values):
            found[number] = Facts(values, distribution(values))
    return found


class _Asked(NamedTuple):
    """The queries that a setting was asked, compared with their truth."""

    places: NDArray[np.int64]
    compared: Compared
    values: NDArray[np.float64]
    """Of all queries; NaN for those that were not asked."""


def recall_per_query(measurement: Measurement, truth: Truth, k: int) -> NDArray[np.float64]:
    """Recall@k of every query; NaN for those that were not asked, or if nobody knows their truth."""
    if measurement.truth_lost:
        stored = measurement.values(str(Recall(k)))
        return np.full(len(measurement.answers), np.nan) if stored is None else stored
    return _asked(measurement, truth, k).values


def compared_queries(measurement: Measurement, truth: Truth) -> Compared:
    """The queries that a setting was asked, compared with their truth: of the run, or of a path's fusion."""
    places, truth = np.flatnonzero(measurement.asked), path_truth(measurement, truth)
    some = truth if len(places) == len(truth) else truth.take(places)
    return Compared(some, bounded(measurement.answers[places], truth.corpus_rows))


def path_truth(measurement: Measurement, truth: Truth) -> Truth:
    """The truth that the answers of a setting are compared with: of the run, or of a path's fusion."""
    own = None if measurement.stages is None else measurement.stages.truth
    if own is None:
        return truth
    return replace(truth, rows=own.rows, scores=own.scores, tied=None, overflow=None, tie_counts=None)


def _asked(measurement: Measurement, truth: Truth, k: int) -> _Asked:
    places, compared = np.flatnonzero(measurement.asked), compared_queries(measurement, truth)
    everywhere = np.full(len(truth), np.nan)
    everywhere[places] = Recall(k).per_query(compared)
    return _Asked(places, compared, everywhere)


def _means(values: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Mean per query over all settings, so that all settings show the same segments."""
    if not values:
        return np.empty(0)
    known = np.sum([~np.isnan(each) for each in values], axis=0)
    total = np.sum([np.nan_to_num(each) for each in values], axis=0)
    return np.where(known > 0, total / np.maximum(known, 1), np.nan)


def _facts(asked: _Asked, k: int, groupings: list[tuple[Grouping, int]], weights: Weights | None) -> Facts:
    measure, compared = Recall(k), asked.compared
    values = asked.values[asked.places]
    score = Score(len(values), len(values), {}, {}, per_query={str(measure): values}, weights=weights)
    counts = None if weights is None else weights.values
    groups = [Grouping(each.name, each.labels[asked.places], each.order) for each, _ in groupings]
    answered = (compared.answers != PADDING) & (compared.answers != ABSENT)
    deeper = deeper_measure(k, answered.sum(axis=1))
    return Facts(
        values=asked.values,
        spread=distribution(values),
        segments={each.name: segments(score, each) for each in groups},
        better={each.name: left_out for each, left_out in groupings},
        worst=_worst(compared, values, asked.places, k),
        mean=mean_of(values, measure, None, counts).value,
        within=None
        if deeper is None
        else (deeper.k, mean_of(deeper.per_query(compared), deeper, None, counts)),
    )


def _worst(
    compared: Compared, values: NDArray[np.float64], asked: NDArray[np.int64], k: int
) -> tuple[WorstQuery, ...]:
    order = np.argsort(np.where(np.isnan(values), 2.0, values), kind="stable")[:WORST]
    return tuple(
        WorstQuery(int(asked[place]), float(values[place]), _missed(compared, int(place), k))
        for place in order
        if values[place] < 1.0
    )


def _missed(compared: Compared, place: int, k: int) -> tuple[MissedNeighbor, ...]:
    truth, places = compared.truth, compared.places
    cut = min(k, int(compared.available[place]))
    found = []
    for rank in range(cut):
        at = int(places.of_rows[place, rank])
        if at < min(k, places.never):
            continue
        score = None if truth.scores is None else float(truth.scores[place, rank])
        last = None if truth.scores is None else float(truth.scores[place, cut - 1])
        margin = None if score is None or last is None else abs(score - last)
        row, later = int(truth.rows[place, rank]), None if at >= places.never else at + 1
        found.append(MissedNeighbor(rank + 1, row, score, margin, later))
    return tuple(found)


def groupings_of(curve: Curve, truth: Truth, dataset: Dataset | None) -> list[Grouping]:
    """Groupings by the columns that the settings name, or by categorical ones; then the automatic ones."""
    known = known_queries(curve, truth, dataset)
    return usual_groupings(curve.run.by, known)


def known_queries(curve: Curve, truth: Truth, dataset: Dataset | None) -> KnownQueries:
    """What groupings can use of the queries."""
    weights = weights_of_run(curve.run)
    weights = None if weights is None or len(weights) != len(truth) else weights
    queries = None if dataset is None else dataset.queries
    return KnownQueries(truth, query_columns(truth, dataset), queries, weights, _filter_facts(curve, truth))


def _filter_facts(curve: Curve, truth: Truth) -> FilterFacts | None:
    """What the filters of the queries admit, which all trials of a run share."""
    recorded = (line.measurement.filters for line in curve.lines)
    return next((each for each in recorded if each is not None and len(each.filtered) == len(truth)), None)


def query_columns(truth: Truth, dataset: Dataset | None) -> pa.Table | None:
    """The columns of the queries."""
    return truth.query_columns if dataset is None else dataset.queries.metadata


def worst_groups(grouping: Grouping, values: NDArray[np.float64]) -> tuple[Grouping, int]:
    """The grouping reduced to its worst segments, large ones first, and how many are left out."""
    names = [each for each in dict.fromkeys(grouping.labels) if each is not None]
    if grouping.order is not None or len(names) <= _MOST_SEGMENTS:
        return grouping, 0

    def place(name: Any) -> tuple[bool, float, str]:
        inside = values[grouping.labels == name]
        some = inside[~np.isnan(inside)]
        return len(some) < FEWEST, float(some.mean()) if len(some) else 2.0, str(name)

    names.sort(key=place)
    kept = set(names[:_MOST_SEGMENTS])
    labels = np.array([each if each in kept else None for each in grouping.labels], object)
    return Grouping(grouping.name, labels), len(names) - _MOST_SEGMENTS


def heat_map(curve: Curve, facts: dict[int, Facts]) -> tuple[list[Row], list[str], list[str]]:
    """Recall by segment and setting of the first load's front, by rising recall.

    Returns:
        A row for each segment and setting, the settings, and the segments.
    """
    measure = curve.measure or ""
    front = [each for each in curve.main if each["latencyFront"] and each["n"] in facts]
    front = thinned(sorted(front, key=lambda each: each["recall"]), _MOST_COLUMNS)
    rows: list[Row] = []
    lines: dict[str, None] = {}
    for name in facts[front[-1]["n"]].segments if front else ():
        kept = _drawn_segments(facts[front[-1]["n"]].segments[name])
        for point in front:
            for each in facts[point["n"]].segments.get(name, ()):
                mean = each.measures[measure]
                if each.name not in kept or mean.value is None:
                    continue
                segment = f"{cut(printable(name), 36)}: {cut(printable(each.name), 40)}"
                lines.setdefault(segment)
                rows.append(
                    {
                        "segment": segment,
                        "setting": point["label"],
                        "recall": mean.value,
                        "queries": each.queries,
                        "text": with_margin(mean),
                    }
                )
    return rows, [each["label"] for each in front], list(lines)


def _drawn_segments(found: list[Segment]) -> set[str]:
    """Names of the segments to draw, large ones if there are any."""
    many = [each for each in found if each.queries >= FEWEST]
    return {each.name for each in (many or found)[:_MOST_LINES]}
