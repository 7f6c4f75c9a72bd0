"""What a setting has to keep: a recall, a percentile of it, a segment's, or a loss of relevance."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.measures import Measure, Recall, RecallWithin, Robustness, parse_measure
from recallatk.analysis.measures.base import plain
from recallatk.analysis.summarising import interval_of
from recallatk.core import Mean
from recallatk.errors import UsageError, choices
from recallatk.tune.relevance_loss import relevance_loss

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.analysis.compared import Compared

__all__ = ["ACCEPTED", "Target", "parse_target", "relevance_loss"]

ACCEPTED = (
    "recall@10 >= 0.95, recall1@50 >= 0.99, robust(0.8)@10 >= 0.95, p5(recall@10) >= 0.6 or "
    "ndcg@10 loss <= 0.005, each with other numbers and with a segment where wanted: "
    "recall@10 >= 0.9 in category=noun.animal"
)
# A share such as 0.6 is no binary number, and 6 of 10 must reach it.
_ROUNDING = 1e-9
_NAMED = 8
_NUMBER = r"[0-9]*\.?[0-9]+(?:e[+-]?[0-9]+)?"
_NAME = r"""[^\s"'=`]+|"(?:[^"]|"")*"|'(?:[^']|'')*'"""
_WHERE = re.compile(rf"(?P<asked>.*?)\s+in\s+(?P<column>{_NAME})\s*=\s*(?P<value>{_NAME})", re.DOTALL)
_LOSS = re.compile(rf"(ndcg|mrr)@([0-9]{{1,9}})\s+loss\s*(?:<=|≤)\s*({_NUMBER})")
_PERCENTILE = re.compile(rf"p({_NUMBER})\(([^()\s]+)\)\s*(?:>=|≥)\s*({_NUMBER})")
_LEAST = re.compile(rf"(\S+?)\s*(?:>=|≥)\s*({_NUMBER})")
_BARE = re.compile(r"[^\s\"'=`]+")


@dataclass(frozen=True)
class Target:
    """One promise: the mean of `per_query` over `members` is at least `threshold`."""

    measure: Measure
    """Whose k says how many neighbours are needed, and `deepest` how deep a truth."""
    value: float
    """As it is written: a recall, a share of queries, or the most that may be lost."""
    percentile: float | None = None
    """For `p5(recall@10)`: 5. All but so many per cent of the queries have to reach the value."""
    relevance: str | None = None
    """For a loss: the measure by judgements, `ndcg@10` or `mrr@10`."""
    segment: tuple[str, str] | None = None
    """The column and the value of the queries that it is about; None for all of them."""

    @property
    def text(self) -> str:
        """As it is written."""
        sign = "<=" if self.relevance else ">="
        where = "" if self.segment is None else " in " + "=".join(map(_quoted, self.segment))
        return f"{self._asked} {sign} {plain(self.value)}{where}"

    def __str__(self) -> str:
        return self.text

    @property
    def name(self) -> str:
        """What the mean of its values is, as a report calls it: of a percentile the share that reaches it."""
        where = "" if self.segment is None else " in " + "=".join(map(_quoted, self.segment))
        if self.percentile is not None:
            if self.measure == Recall(self.measure.k):
                return f"{Robustness(self.measure.k, self.value)}{where}"
            return f"share({self.measure} >= {plain(self.value)}){where}"
        return f"{self._asked}{where}"

    @property
    def _asked(self) -> str:
        if self.relevance:
            return f"{self.relevance} loss"
        return str(self.measure) if self.percentile is None else f"p{plain(self.percentile)}({self.measure})"

    @property
    def needs_qrels(self) -> bool:
        """Whether it is about judgements, which the dataset then has to have."""
        return self.relevance is not None

    @property
    def is_share(self) -> bool:
        """Whether each query counts as yes or no."""
        return self.percentile is not None or (self.relevance is None and self.measure.is_share)

    @property
    def goal(self) -> float:
        """What `mean` has to reach, or for a loss must not exceed, in the units of people."""
        return self.value if self.percentile is None else (100 - self.percentile) / 100

    @property
    def threshold(self) -> float:
        """What the mean of the per-query values has to reach."""
        return (1 - self.value) / 2 if self.relevance else self.goal

    def members(self, columns: pa.Table | None, queries: int) -> NDArray[np.bool_]:
        """Which of the queries it is about."""
        if self.segment is None:
            return np.ones(queries, bool)
        name, value = self.segment
        known = [] if columns is None else columns.column_names
        if columns is None or name not in known:
            said = f"Known: {choices(known)}" if known else "They have no columns"
            raise UsageError(f"{self.text}: no column {name!r} beside the queries. {said}")
        labels = _labels(columns, name)
        found = labels == value
        if not found.any():
            others = sorted({each for each in labels if each is not None})
            more = " and others" if len(others) > _NAMED else ""
            raise UsageError(
                f"{self.text}: no query has {name} = {value!r}. It is {choices(others[:_NAMED])}{more}"
            )
        return np.asarray(found, bool)

    def per_query(
        self, compared: Compared, *, relevance: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """A value from 0 to 1 of every query, NaN for one that has none.

        Args:
            compared: the answers beside the truth.
            relevance: for a loss, what `relevance_loss` found of each query.
        """
        if self.relevance:
            if relevance is None:
                raise UsageError(f"{self.text} needs relevance judgements (qrels), and there are none")
            return np.asarray((1 - relevance) / 2, np.float64)
        values = self.measure.per_query(compared)
        if self.percentile is None:
            return values
        return np.where(np.isnan(values), np.nan, (values >= self.value - _ROUNDING).astype(np.float64))

    def mean(self, values: NDArray[np.float64]) -> Mean:
        """The mean of per-query values with its interval, a loss again as a loss."""
        scored = values[~np.isnan(values)]
        if not len(scored):
            return Mean(None, None, 0)
        low, high = interval_of(scored, is_share=self.is_share) or (None, None)
        mean = float(scored.mean())
        if not self.relevance:
            return Mean(mean, None, len(scored), low, high)
        ends = (None if end is None else 1 - 2 * end for end in (high, low))
        return Mean(1 - 2 * mean, None, len(scored), *ends)

    def reached_by(self, mean: Mean | None) -> bool | None:
        """Whether a mean, as `mean` makes it, is good enough; None where there is none."""
        if mean is None or mean.value is None:
            return None
        return mean.value <= self.goal if self.relevance else mean.value >= self.goal


def parse_target(text: str) -> Target:
    """The target that a text says."""
    stripped = text.strip()
    found = _WHERE.fullmatch(stripped)
    segment = None if found is None else (_unquoted(found["column"]), _unquoted(found["value"]))
    asked = stripped if found is None else found["asked"]
    target = _loss(asked, segment) or _percentile(asked, segment) or _least(asked, segment)
    if target is None:
        raise UsageError(f"no target {text!r}. Accepted: {ACCEPTED}")
    return target


def _loss(asked: str, segment: tuple[str, str] | None) -> Target | None:
    found = _LOSS.fullmatch(asked)
    if found is None:
        return None
    most = float(found[3])
    if not 0 <= most < 1:
        raise UsageError(f"target {asked!r}: a loss of {most}. Accepted: from 0 to below 1")
    return Target(Recall(int(found[2])), most, relevance=f"{found[1]}@{int(found[2])}", segment=segment)


def _percentile(asked: str, segment: tuple[str, str] | None) -> Target | None:
    found = _PERCENTILE.fullmatch(asked)
    if found is None:
        return None
    percentile, value = float(found[1]), float(found[3])
    if not 0 < percentile < 100:
        raise UsageError(f"target {asked!r}: a percentile of {percentile}. Accepted: above 0 and below 100")
    measure = _measure(asked, found[2])
    if not isinstance(measure, Recall | RecallWithin):
        raise UsageError(f"target {asked!r}: a percentile of {measure}. Accepted: of recall@10 or recall1@50")
    _require_recall(asked, value)
    return Target(measure, value, percentile=percentile, segment=segment)


def _least(asked: str, segment: tuple[str, str] | None) -> Target | None:
    found = _LEAST.fullmatch(asked)
    if found is None:
        return None
    measure, value = _measure(asked, found[1]), float(found[2])
    if not isinstance(measure, Recall | RecallWithin | Robustness):
        raise UsageError(f"target {asked!r}: {measure} cannot be one. Accepted: {ACCEPTED}")
    _require_recall(asked, value)
    return Target(measure, value, segment=segment)


def _measure(asked: str, text: str) -> Measure:
    try:
        return parse_measure(text)
    except UsageError as problem:
        # More measures can be taken than can be a target.
        said = str(problem).partition(". Accepted")[0]
        raise UsageError(f"target {asked!r}: {said}. Accepted: {ACCEPTED}") from None


def _require_recall(asked: str, value: float) -> None:
    if not 0 < value <= 1:
        raise UsageError(f"target {asked!r}: {plain(value)}. Accepted: above 0 and up to 1")


def _labels(columns: pa.Table, name: str) -> NDArray[np.object_]:
    import pyarrow as pa

    column = columns[name].combine_chunks()
    if pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
        raise UsageError(f"the column {name!r} is of {column.type}. Accepted: columns of text or numbers")
    return np.array(column.cast(pa.string()).to_pylist(), object)


def _quoted(text: str) -> str:
    return text if _BARE.fullmatch(text) else "'" + text.replace("'", "''") + "'"


def _unquoted(text: str) -> str:
    for sign in "\"'":
        if text.startswith(sign):
            return text[1:-1].replace(sign * 2, sign)
    return text
