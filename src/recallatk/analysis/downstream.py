"""Whether lost neighbors matter downstream: paired losses against exact search, by recall."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.comparison import difference_interval
from recallatk.analysis.distribution import Estimate, weighted_mean
from recallatk.analysis.headline import headline_measure
from recallatk.analysis.joint_losses import CONFIDENCE, joint_test, slope
from recallatk.analysis.planning import STEP, queries_to_tell, spread_of
from recallatk.analysis.relevance import relevance_mean, without_judgment
from recallatk.core.weights import unequal
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from recallatk.core import Mean, Measurement, Run, Trial

    Floats = NDArray[np.float64]

_COMPANIONS = ("RR@", "Success@")


@dataclass(frozen=True)
class Point:
    """One trial: its recall, its quality, and what it loses against exact search."""

    trial: Trial
    recall: float
    """Mean recall over the judged queries."""
    mean: Mean
    """Mean quality over the judged queries that were sent."""
    loss: Estimate
    """Exact search minus the trial over the same queries, with its own 95 % interval."""
    low: float | None
    """Ends of an interval that holds for all trials together with 95 % confidence."""
    high: float | None
    p_value: float
    """Of no difference, adjusted for all trials."""
    fused: bool = False
    """Whether its recall is against the fusion of a path, so that exact search is not its recall of 1."""

    @property
    def _differs(self) -> bool:
        return self.p_value < 1 - CONFIDENCE

    @property
    def loses(self) -> bool:
        """Whether it is measurably worse than exact search: both the test and the interval say so."""
        return self._differs and self.low is not None and self.low > 0

    @property
    def gains(self) -> bool:
        """Whether it is measurably better than exact search."""
        return self._differs and self.high is not None and self.high < 0


@dataclass(frozen=True)
class Downstream:
    """One measure of quality over the trials of a run."""

    measure: str
    recall: str
    """Name of the recall that the trials are ordered by."""
    exact: Mean
    """Quality of exact search."""
    points: tuple[Point, ...]
    """By rising recall."""
    queries: int
    judged: int
    """Judged queries that every trial answered, which the curve is about."""
    slope: Estimate | None
    """Quality that 0.01 of recall costs below the plateau; None where too few trials lose any."""
    needed: int | None
    """About how many judged queries show a loss of `step`; None if the losses do not tell."""
    step: float = STEP
    """The smallest loss worth seeing: 0.01, or a hundredth of the range of exact search beyond [0, 1]."""
    notes: tuple[str, ...] = ()

    @property
    def curve(self) -> tuple[Point, ...]:
        """The trials whose recall is against exact search, which the verdict is about."""
        return tuple(each for each in self.points if not each.fused)

    @property
    def plateau(self) -> tuple[Point, ...]:
        """The trials above the highest recall at which one measurably loses."""
        worst = max((each.recall for each in self.curve if each.loses), default=-1.0)
        return tuple(each for each in self.curve if each.recall > worst)

    @property
    def bound(self) -> float | None:
        """The loss that no trial of the plateau exceeds, with 95 % confidence; None if unknown."""
        highs = [each.high for each in self.plateau if each.high is not None]
        return max(0.0, *highs) if highs and len(highs) == len(self.plateau) else None

    @property
    def in_words(self) -> str:
        """The verdict in one sentence without a period."""
        losing = [each for each in self.curve if each.loses]
        if not self.curve:
            return f"{self._of_paths()}{self._gained()}"
        if not losing:
            return f"{self._nothing_lost()}{self._gained()}"
        if not self.plateau:
            top = losing[-1]
            return (
                f"even at {self.recall} {top.recall:.3f}, {self._amount(top.loss)} is lost"
                f"{self._cost(losing[:-1])}{self._gained()}"
            )
        least = self.plateau[0].recall
        above = f"from {self.recall} {least:.3f} up, no loss of {self.measure} is measurable{self._below()}"
        return f"{above}{self._cost(losing)}{self._gained()}{self._unsure()}"

    def _of_paths(self) -> str:
        """The quality of paths that fuse lists, whose recall has nothing to do with exact search."""
        values = [each.mean.value for each in self.points if each.mean.value is not None]
        exact = "unknown" if self.exact.value is None else f"{self.exact.value:.3f}"
        if not values:
            return f"{self.measure} of exact search by vectors is {exact}"
        low, high = f"{min(values):.3f}", f"{max(values):.3f}"
        reached = low if low == high else f"{low} to {high}"
        return f"paths with a fusion reach {self.measure} {reached}, exact search by vectors {exact}"

    def _nothing_lost(self) -> str:
        least, bound = self.curve[0].recall, self.bound
        if bound is not None and bound <= self.step:
            lowest = f"down to {self.recall} {least:.3f}"
            return f"no setting loses {self.measure} measurably: every loss is {_less(bound)}, {lowest}"
        most = "" if bound is None else f", and a loss of {bound:.2g} is possible"
        few = f"too few judged queries ({self.judged:,})"
        return f"{few}: no loss of {self.measure} is measurable{most}{self._unsure()}"

    def _below(self) -> str:
        return "" if self.bound is None else f" ({_less(self.bound)})"

    def _cost(self, losing: Sequence[Point]) -> str:
        """What recall below the plateau costs."""
        if self.slope is not None and self.slope.low is not None and self.slope.low > 0:
            return f"; below, each 0.01 of recall costs {self._amount(self.slope)}"
        if not losing:
            return ""
        worst = max(losing, key=lambda each: each.loss.value)
        lost = f"{self._amount(worst.loss)} is lost at {self.recall} {worst.recall:.3f}"
        return f"; below, {'up to ' if len(losing) > 1 else ''}{lost}"

    def _amount(self, found: Estimate) -> str:
        """A loss with its interval, such as `0.0040 nDCG@10 [0.0020, 0.0060]`."""
        ends = "" if found.low is None or found.high is None else f" [{found.low:.2g}, {found.high:.2g}]"
        return f"{found.value:.2g} {self.measure}{ends}"

    def _gained(self) -> str:
        better = [each for each in self.points if each.gains]
        if not better:
            return ""
        most = max(-each.loss.value for each in better)
        said = counted(len(better), "setting scores", "settings score")
        return f"; {said} higher than exact search, by up to {most:.2g}"

    def _unsure(self) -> str:
        """How many queries would show a loss of one step, where these do not."""
        if self.needed is None or (self.bound is not None and self.bound <= self.step):
            return ""
        # Losses are never known better than by the queries at hand.
        needed = max(self.needed, self.judged + 1)
        return f"; about {_rounded(needed):,} judged queries are needed to see a loss of {self.step:.2g}"


def _less(bound: float) -> str:
    return f"less than {max(bound, 0.0001):.2g}"


def _rounded(count: int) -> int:
    """Two digits: no more are meant."""
    return int(float(f"{count:.1e}"))


def headlines(names: Sequence[str]) -> list[str]:
    """The measures that stand for others: nDCG@k says what RR@k and Success@k say, with fewer queries."""
    return [each for each in names if not each.startswith(_COMPANIONS)] or list(names[:1])


def downstream_of(run: Run, *, brief: bool = False, seed: int = 0) -> list[Downstream]:
    """Every measure that the answers of a run were judged by; empty where nothing judged them.

    Args:
        run: the run.
        brief: only the measures that stand for others.
        seed: random seed of the bootstrap.
    """
    recall = headline_measure(run)
    judged = [each for each in run.measurements if each.judged is not None]
    if recall is None or not judged:
        return []
    identities = Counter(each.judged.identity for each in judged if each.judged is not None)
    usual, _ = identities.most_common(1)[0]
    same = [each for each in judged if each.judged is not None and each.judged.identity == usual]
    left = len(run.measurements) - len(same)
    notes = [f"{counted(left, 'trial was', 'trials were')} not judged by the same judgments"] if left else []
    first = same[0].judged
    assert first is not None  # noqa: S101 - filtered above
    names = headlines(first.names) if brief else first.names
    found = [_downstream(name, recall, same, (*first.notes, *notes), seed) for name in names]
    return [each for each in found if each is not None]


def _downstream(
    name: str, recall: str, measured: Sequence[Measurement], notes: Sequence[str], seed: int
) -> Downstream | None:
    exact = _exact(measured[0], name)
    recalls = np.array([_values(each, recall) for each in measured])
    losses = np.array([exact - _quality(each, name) for each in measured])
    weights = measured[0].weights
    shared = ~np.isnan(recalls).any(axis=0) & ~np.isnan(losses).any(axis=0)
    if weights is not None:
        shared &= weights > 0
    if not shared.any():
        return None
    counts = None if weights is None else unequal(weights[shared])
    over, lost = recalls[:, shared], _without_rounding(losses[:, shared])
    test = joint_test(lost, counts, seed)
    points = [
        _point(each, name, weighted_mean(mine, counts), gone, counts, test.confidence, p_value)
        for each, mine, gone, p_value in zip(measured, over, lost, test.p_values.tolist(), strict=True)
    ]
    order = sorted(range(len(points)), key=lambda place: points[place].recall)
    curve = [place for place in order if not points[place].fused]
    top = max((points[place].recall for place in curve if points[place].loses), default=-1.0)
    below = [place for place in curve if points[place].recall <= top]
    step = _step(exact)
    unjudged = int(np.isnan(exact).sum())
    said = [without_judgment(unjudged)] if unjudged else []
    return Downstream(
        measure=name,
        recall=recall,
        exact=relevance_mean(exact, weights),
        points=tuple(points[place] for place in order),
        queries=len(exact),
        judged=int(shared.sum()),
        slope=slope(over[below], lost[below], counts, seed=seed),
        needed=_needed(lost, counts, step),
        step=step,
        notes=(*said, *notes),
    )


def _exact(measurement: Measurement, name: str) -> Floats:
    assert measurement.judged is not None  # noqa: S101 - chosen for it
    return measurement.judged.exact[name]


def _quality(measurement: Measurement, name: str) -> Floats:
    assert measurement.judged is not None  # noqa: S101 - chosen for it
    return measurement.judged.values[name]


def _values(measurement: Measurement, recall: str) -> Floats:
    found = measurement.values(recall)
    return np.full(len(measurement.answers), np.nan) if found is None else found


def _point(
    measurement: Measurement,
    name: str,
    recall: float,
    lost: Floats,
    weights: Floats | None,
    level: float,
    p_value: float,
) -> Point:
    alone = difference_interval(lost, CONFIDENCE, weights) or (None, None)
    low, high = difference_interval(lost, level, weights) or (None, None)
    mean = relevance_mean(_quality(measurement, name), measurement.weights)
    loss = Estimate(weighted_mean(lost, weights), *alone)
    stages = measurement.stages
    fused = measurement.own_truth or (stages is not None and stages.truth is not None)
    return Point(measurement.trial, recall, mean, loss, low, high, p_value, fused)


def _without_rounding(lost: Floats) -> Floats:
    """Losses without those that are rounding errors of equal values."""
    return np.where(np.abs(lost) <= 1e-12, 0.0, lost)


def _step(exact: Floats) -> float:
    known = exact[~np.isnan(exact)]
    inside = bool((known >= 0).all() and (known <= 1).all())
    return STEP if inside else STEP * float(np.ptp(known))


def _needed(losses: Floats, weights: Floats | None, step: float) -> int | None:
    """About how many queries show a loss of one step, by how losses of that size vary."""
    if losses.shape[1] < 2 or step <= 0:
        return None
    found = sorted((weighted_mean(each, weights), spread_of(each, weights) ** 2) for each in losses)
    means, variances = zip(*found, strict=True)
    # Losses vary more the larger they are, and settings on both sides of the step tell how much.
    variance = float(np.interp(step, means, variances))
    return queries_to_tell(0.0, step, variance**0.5) if variance > 0 else None
