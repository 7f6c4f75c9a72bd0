"""The verdict: which setting to run, in one sentence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recallatk.report.charts.kinds import Row
    from recallatk.report.charts.points import Curve
    from recallatk.report.targets import Goal


_ROUNDING = 1e-9


@dataclass(frozen=True)
class Verdict:
    """What a reader should take away."""

    number: int | None
    """The point that it is about; None where nothing was measured."""
    lead: str
    """Why this one, in a few words."""
    sentence: str
    met: bool | None
    """Whether the goals are reached; None where the settings state none."""


def verdict(curve: Curve) -> Verdict:
    """The cheapest setting that reaches the goals, or the knee of the front where there are none."""
    points = [each for each in curve.main if each["recall"] is not None and each["latency"] is not None]
    if not points:
        return Verdict(None, "Nothing to recommend", "No setting was measured with recall and latency.", None)
    if curve.goals:
        return _against_goals(curve, points)
    front = sorted((each for each in points if each["latencyFront"]), key=lambda each: each["recall"])
    best = knee(front)
    return Verdict(best["n"], _lead(points, front, best), _said(curve, best), None)


def _lead(points: list[Row], front: list[Row], best: Row) -> str:
    if len(front) == 1:
        return "The only setting" if len(points) == 1 else "The only setting on the front"
    if best is front[-1]:
        return "The best recall of the Pareto front, which has no knee,"
    return "The knee of the Pareto front"


def _against_goals(curve: Curve, points: list[Row]) -> Verdict:
    goals = " and ".join(map(str, curve.goals))
    sure = [each for each in points if all(_reached(curve, each, goal, sure=True) for goal in curve.goals)]
    if sure:
        best = min(sure, key=lambda each: each["latency"])
        return Verdict(best["n"], f"The cheapest setting that keeps {goals}", _said(curve, best), True)
    near = [each for each in points if all(_reached(curve, each, goal, sure=False) for goal in curve.goals)]
    if near:
        best = min(near, key=lambda each: each["latency"])
        lead = f"Reaches {goals} by its mean, but not with its whole 95 % interval"
        return Verdict(best["n"], lead, _said(curve, best), False)
    best = max(points, key=lambda each: (each["recall"], -each["latency"]))
    return Verdict(best["n"], f"No setting keeps {goals}; the best recall", _said(curve, best), False)


def _reached(curve: Curve, point: Row, goal: Goal, *, sure: bool) -> bool:
    line = curve.lines[point["n"]]
    if goal.at_least:
        mean = line.measurement.score.measures.get(goal.measure)
        end = None if mean is None else mean.low if sure else mean.value
        return end is not None and end >= goal.value
    found = line.latency_ms.get(goal.measure)
    return found is not None and found.value is not None and found.value <= goal.value


def knee(front: list[Row]) -> Row:
    """The point of a front, by rising recall, that lies farthest below the chord of its ends.

    Latency counts by its logarithm and recall by its value, each over its range; where there is no such
    point, the one of best recall.
    """
    if len(front) < 3:
        return front[-1]
    recalls = [each["recall"] for each in front]
    costs = [math.log(each["latency"]) for each in front]
    across, up = recalls[-1] - recalls[0], costs[-1] - costs[0]
    if across <= 0 or up <= 0:
        return front[-1]
    below = [
        (recall - recalls[0]) / across - (cost - costs[0]) / up
        for recall, cost in zip(recalls, costs, strict=True)
    ]
    deepest = max(range(len(front)), key=below.__getitem__)
    # Where no point lies below the chord, more recall never begins to cost more, and there is no knee.
    return front[deepest] if below[deepest] > _ROUNDING else front[-1]


def _said(curve: Curve, point: Row) -> str:
    parts = [f"{curve.measure} {point['recallText']}", f"{curve.tail} {point[f'{curve.tail}Text']}"]
    if not point["memoryText"].startswith("-"):
        parts.append(f"{point['memoryText']} of memory")
    return f"{point['label']}: {', '.join(parts)}."


def load_said(curve: Curve) -> str:
    """Under which load the verdict is, where there are several."""
    if len(curve.loads) < 2:
        return ""
    return f"It is about the load {curve.loads[0]}; other loads are below."
