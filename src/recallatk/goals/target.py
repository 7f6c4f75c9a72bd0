"""Targets: constraints on quality, such as a recall, a percentile of it, or a loss of judged relevance."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.distribution import mean_of_values
from recallatk.analysis.filtered import CORRELATED, CORRELATIONS, NAMED, filter_facts, named_grouping
from recallatk.analysis.measures import Measure, Recall, Robustness, find_measure
from recallatk.analysis.measures.base import plain
from recallatk.errors import UsageError, choices, unknown
from recallatk.units import parse_share

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.core import Dataset, FilterFacts, Mean

NAME = r"""[^\s"'=`]+|"(?:[^"]|"")*"|'(?:[^']|'')*'"""
# 0.6 has no exact binary form, and 6 of 10 must reach it.
ROUNDING = 1e-9
_NAMED = 8
_LOSS = re.compile(r"(nDCG|mrr)@([0-9]{1,9})\s+loss", re.IGNORECASE)
_JUDGED = {"ndcg": "nDCG", "mrr": "mrr"}
_PERCENTILE = re.compile(r"p([0-9]*\.?[0-9]+(?:e[+-]?[0-9]+)?)\((.+)\)")
_BARE = re.compile(r"[^\s\"'=`]+")


@dataclass(frozen=True)
class Target:
    """One constraint on quality, over all queries or those of a segment."""

    measure: Measure
    """Its `k` is the number of neighbors to request, its `deepest` the required depth of the truth."""
    value: float
    """As written: a recall, a share of queries, or the largest loss."""
    percentile: float | None = None
    """For `p5(recall@10)`: 5. All but 5 % of the queries must reach the value."""
    relevance: str | None = None
    """For a loss: the judged measure, `nDCG@10` or `mrr@10`."""
    segment: tuple[str, str] | None = None
    """The column and value of the queries that count; None for all queries."""

    @property
    def at_least(self) -> bool:
        """Whether more is better."""
        return self.relevance is None and not self.measure.lower_is_better

    @property
    def limit(self) -> float:
        """The value as written, under the attribute name that budgets use too."""
        return self.value

    @property
    def text(self) -> str:
        """The target in the grammar of goals."""
        return self.stated(plain(self.value))

    def __str__(self) -> str:
        return self.text

    def stated(self, value: str) -> str:
        """The target with another text for its value."""
        return f"{self.subject} {'>=' if self.at_least else '<='} {value}{self._where}"

    @property
    def subject(self) -> str:
        """The left side of the comparison, such as `p5(recall@10)`."""
        if self.relevance:
            return f"{self.relevance} loss"
        return str(self.measure) if self.percentile is None else f"p{plain(self.percentile)}({self.measure})"

    @property
    def name(self) -> str:
        """Name of the mean over queries; for a percentile, the share of queries that reach it."""
        if self.percentile is None:
            return f"{self.subject}{self._where}"
        if self.measure == Recall(self.measure.k):
            return f"{Robustness(self.measure.k, self.value)}{self._where}"
        return f"share({self.measure} >= {plain(self.value)}){self._where}"

    @property
    def _where(self) -> str:
        return "" if self.segment is None else " in " + "=".join(map(_quoted, self.segment))

    @property
    def needs_qrels(self) -> bool:
        """Whether the dataset must have relevance judgments."""
        return self.relevance is not None

    @property
    def is_share(self) -> bool:
        """Whether each query counts as yes or no."""
        return self.percentile is not None or (self.relevance is None and self.measure.is_share)

    @property
    def goal(self) -> float:
        """The value that `mean` must reach, or for a loss must not exceed."""
        return self.value if self.percentile is None else (100 - self.percentile) / 100

    @property
    def threshold(self) -> float:
        """The value that the mean of `shaped` values must reach."""
        return (1 - self.value) / 2 if self.relevance else self.goal

    def members(
        self, columns: pa.Table | None, queries: int, facts: FilterFacts | None = None
    ) -> NDArray[np.bool_]:
        """Which queries are in the segment.

        Args:
            columns: columns of the queries, which come before groupings of the same name.
            queries: number of queries.
            facts: what their filters admit, for the groupings `filter`, `selectivity` and `correlation`.
        """
        if self.segment is None:
            return np.ones(queries, bool)
        name, value = self.segment
        known = [] if columns is None else columns.column_names
        labels = _labels(columns, name) if columns is not None and name in known else None
        inside = np.zeros(queries, bool) if labels is None else np.asarray(labels == value, bool)
        grouping = None if inside.any() else named_grouping(name, facts)
        if grouping is not None:
            labels = np.array([_short(each) for each in grouping.labels], object)
            inside = np.asarray(labels == _short(value), bool)
        if labels is None:
            raise UsageError(f"{self.text}: {_unknown(name, known)}")
        if not inside.any():
            others = sorted({each for each in labels if each is not None})
            more = " and others" if len(others) > _NAMED else ""
            raise UsageError(
                f"{self.text}: no query has {name} = {value!r}. Its values: {choices(others[:_NAMED])}{more}"
            )
        return inside

    @property
    def needs_correlation(self) -> bool:
        """Whether it names a correlation, which needs the truth without filters."""
        return self.segment is not None and self.segment[0] == CORRELATED

    def shaped(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scale the measure or loss of each query to the range 0 to 1; NaN stays NaN.

        For a percentile, 1 if the measure reaches the value, else 0. A loss from -1 to 1 is mapped to 1 to 0.
        """
        if self.relevance:
            return np.asarray((1 - values) / 2, np.float64)
        if self.percentile is None:
            return values
        return np.where(np.isnan(values), np.nan, (values >= self.value - ROUNDING).astype(np.float64))

    def mean(self, values: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> Mean:
        """The mean of `shaped` values with its interval; for a loss, in units of loss."""
        mean = mean_of_values(values, is_share=self.is_share, weights=weights)
        if not self.relevance or mean.value is None:
            return mean
        value, low, high, unweighted = (
            None if each is None else 1 - 2 * each
            for each in (mean.value, mean.high, mean.low, mean.unweighted)
        )
        return replace(mean, value=value, low=low, high=high, unweighted=unweighted)

    def reached_by(self, mean: Mean | None) -> bool | None:
        """Whether a mean returned by `mean` meets the target; None if there is no mean."""
        if mean is None or mean.value is None:
            return None
        return mean.value >= self.goal if self.at_least else mean.value <= self.goal


def is_loss(name: str) -> bool:
    """Whether a name returned by `Target.name` is that of a loss, where less is better."""
    return f"{name} ".partition("@")[2].partition(" ")[2].startswith("loss ")


def read_target(
    subject: str, sign: str, amount: str, segment: tuple[str, str] | None = None
) -> Target | None:
    """Parse a target from a measure, `>=` or `<=`, and a number or percentage; None if no measure matches."""
    lost, tail = _LOSS.fullmatch(subject), _PERCENTILE.fullmatch(subject)
    measure = Recall(int(lost[2])) if lost else find_measure(tail[2] if tail else subject)
    if measure is None:
        return None
    value = parse_share(amount)
    if lost:
        target = Target(
            measure, value, relevance=f"{_JUDGED[lost[1].lower()]}@{int(lost[2])}", segment=segment
        )
    else:
        target = Target(measure, value, percentile=float(tail[1]) if tail else None, segment=segment)
    _require_sense(target, sign)
    return target


def _require_sense(target: Target, sign: str) -> None:
    wanted = ">=" if target.at_least else "<="
    if sign != wanted:
        raise UsageError(f"{target.subject} {sign}. Accepted: {target.subject} {wanted}")
    if target.percentile is not None:
        if not 0 < target.percentile < 100:
            raise UsageError(f"a percentile of {plain(target.percentile)}. Accepted: above 0 and below 100")
        if isinstance(target.measure, Robustness) or not target.measure.bounded:
            raise UsageError(f"a percentile of {target.measure}. Accepted: of recall@10 or recall1@50")
    if target.relevance and not 0 <= target.value < 1:
        raise UsageError(f"a loss of {plain(target.value)}. Accepted: from 0 to below 1")
    if not target.relevance and target.measure.bounded and not 0 < target.value <= 1:
        percent = f" Did you mean {plain(target.value)}%?" if 1 < target.value <= 100 else ""
        raise UsageError(f"{plain(target.value)} is not a share.{percent} Accepted: above 0 and up to 1")


def require_answerable(targets: Iterable[Target], dataset: Dataset) -> None:
    """Refuse a target that these data cannot decide: an empty segment, a loss without judgments, a metric."""
    for each in targets:
        each.measure.require_metric(dataset.metric)
        if each.needs_qrels and dataset.qrels is None:
            raise UsageError(f"{each} needs relevance judgments (qrels), but the data have none")
        if each.segment is None:
            continue
        if each.needs_correlation and dataset.queries.filtered and each.segment[1] in CORRELATIONS:
            # Which queries correlate is known once the truth without filters is.
            continue
        facts = filter_facts(dataset) if each.segment[0] in NAMED else None
        each.members(dataset.queries.metadata, dataset.queries.rows, facts)


def _short(label: str | None) -> str | None:
    """The name of a group without what goals may leave out: `1 to 10 %` of the rows."""
    return None if label is None else label.removesuffix(" of the rows").replace(" %", "%")


def _unknown(name: str, known: list[str]) -> str:
    if name in NAMED:
        accepted = f". Accepted: {choices(CORRELATIONS)}" if name == CORRELATED else ""
        return f"there is no query column {name!r}, and the filters of the queries do not tell it{accepted}"
    return unknown("query column", name, known)


def _labels(columns: pa.Table, name: str) -> NDArray[np.object_]:
    import pyarrow as pa

    column = columns[name].combine_chunks()
    if pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
        raise UsageError(f"the column {name!r} has type {column.type}. Accepted: columns of text or numbers")
    return np.array(column.cast(pa.string()).to_pylist(), object)


def _quoted(text: str) -> str:
    return text if _BARE.fullmatch(text) else "'" + text.replace("'", "''") + "'"


def unquoted(text: str) -> str:
    """A name or value of a segment without surrounding quotation marks."""
    for sign in "\"'":
        if text.startswith(sign):
            return text[1:-1].replace(sign * 2, sign)
    return text
