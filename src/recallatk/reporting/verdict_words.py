"""The verdict on a run in words: the setting that meets its goals, or the knee of the front without goals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from recallatk.analysis.pareto import USEFUL_RECALL, knee
from recallatk.analysis.pareto import front as front_of
from recallatk.errors import RecallError
from recallatk.goals import Budget, Target, parse_goal
from recallatk.goals.runs import run_verdict, trial_numbers
from recallatk.reporting.labels import cut, with_margin
from recallatk.reporting.text import printable

if TYPE_CHECKING:
    from recallatk.core import Dataset, Truth
    from recallatk.goals import Goal, GoalResult, Verdict
    from recallatk.reporting.charts.points import Curve
    from recallatk.reporting.charts.theme import Row

_LONGEST = 300
_NAMED = 2


@dataclass(frozen=True)
class SpokenVerdict:
    """A verdict with the sentences that say it."""

    verdict: Verdict
    number: int | None
    """The point that it is about; None where nothing was measured."""
    lead: str
    """Why this one, in a few words."""
    sentence: str
    goals: tuple[str, ...] = ()
    """Each goal with its outcome."""

    @property
    def met(self) -> bool | None:
        """Whether the goals are met; None where that is undecided, or where there are none."""
        return self.verdict.met

    @property
    def word(self) -> str:
        """The outcome in a word or two; empty without goals."""
        return {"PASS": "Met", "FAIL": "Missed", "UNDECIDED": "Undecided"}.get(self.verdict.outcome or "", "")

    @property
    def bounded(self) -> bool:
        """Whether a target was decided by bounds, which are not the interval that ± shows."""
        return any(each.low is not None and _is_target(each.text) for each in self.verdict.goals)

    @property
    def why(self) -> str:
        """What comes before the sentence: why this setting."""
        return f"{self.lead}{' is ' if self.number is not None else '. '}"


def spoken_verdict(
    curve: Curve,
    truth: Truth | None = None,
    dataset: Dataset | None = None,
    judged: Verdict | None = None,
) -> SpokenVerdict:
    """The verdict on a run.

    Args:
        curve: its settings as points.
        truth: the truth of the run, for goals on measures that it did not keep.
        dataset: its data, likewise, and for goals on segments.
        judged: the verdict, where it is known already.
    """
    found = run_verdict(curve.run, truth, dataset) if judged is None else judged
    points = [each for each in curve.candidates if each["recall"] is not None and each["latency"] is not None]
    goals = tuple(goal_said(each) for each in found.goals)
    if not points:
        return SpokenVerdict(found, None, "No recommendation", _no_points_said(curve), goals)
    if not found.goals:
        return _without_goals(curve, found, points)
    place = _place(curve, found)
    point = points[0] if place is None else curve.points[place]
    return SpokenVerdict(found, point["n"], _lead(found), _said(curve, point), goals)


def _no_points_said(curve: Curve) -> str:
    """Why there is nothing to recommend."""
    known = [line.measurement.filters for line in curve.lines]
    if known and all(facts is not None and not facts.eligible.any() for facts in known):
        return "No filter admits a row, so no query has recall. Check the filters: recallatk inspect."
    which = "setting of the plan" if curve.run.kept else "setting"
    return f"No {which} has both recall and latency."


def _place(curve: Curve, found: Verdict) -> int | None:
    numbers = trial_numbers(curve.run)
    places = (place for place, line in enumerate(curve.lines) if numbers[line.trial] == found.trial)
    return next(places, None)


def _lead(found: Verdict) -> str:
    goals = _listed([each.text for each in found.goals])
    if found.outcome == "PASS":
        return f"The cheapest setting that meets {goals}"
    if found.outcome == "FAIL":
        return f"No setting meets {goals}; the highest recall"
    return f"The cheapest setting that may meet {goals}"


def _listed(goals: list[str]) -> str:
    """One or two goals by name; the list below the sentence has all of them."""
    return " and ".join(goals) if len(goals) <= _NAMED else f"{len(goals)} goals"


def goal_said(result: GoalResult) -> str:
    """A goal with its outcome, and the figure with the bounds that decided it."""
    text = cut(printable(result.text), _LONGEST)
    note = f" ({cut(printable(result.note), _LONGEST)})" if result.note else ""
    if result.value is None:
        return f"{text}: {result.outcome}{note}"
    value, low, high = (_shown(result.text, each) for each in (result.value, result.low, result.high))
    bounds = "" if result.low is None and result.high is None else f" (between {low} and {high})"
    return f"{text}: {result.outcome}, {value}{bounds}{note}"


def _shown(text: str, value: float | None) -> str:
    if value is None:
        return "none"
    goal = _goal(text)
    return goal.shown(value) if isinstance(goal, Budget) else f"{value:.4f}"


def _goal(text: str) -> Goal | None:
    try:
        return parse_goal(text)
    except RecallError:
        return None


def _is_target(text: str) -> bool:
    return isinstance(_goal(text), Target)


def _without_goals(curve: Curve, found: Verdict, points: list[Row]) -> SpokenVerdict:
    """No setting is recommended: the knee is a suggestion, and only among settings of useful recall.

    Settings that refuse queries are suggested only where all do.
    """
    points = [each for each in points if not curve.lines[each["n"]].refused] or points
    places = front_of([each["recall"] for each in points], [each["latency"] for each in points])
    front = [points[place] for place in places]
    best = front[-1]
    if len(points) == 1:
        return SpokenVerdict(found, best["n"], "The only setting", _said(curve, best))
    if best["recall"] < USEFUL_RECALL:
        lead = f"No target given; no setting reaches {curve.measure} {USEFUL_RECALL:g}. The highest recall"
        return SpokenVerdict(found, best["n"], lead, _said(curve, best))
    place = knee(
        [each["recall"] for each in front],
        [each["latency"] for each in front],
        [curve.lines[each["n"]].measurement.score.scored for each in front],
    )
    if place is None:
        lead = "No target given. The highest recall"
        return SpokenVerdict(found, best["n"], lead, _said(curve, best))
    lead = "No target given. The knee of the Pareto front"
    return SpokenVerdict(found, front[place]["n"], lead, _said(curve, front[place]))


def _said(curve: Curve, point: Row) -> str:
    line = curve.lines[point["n"]]
    apart = ", ".join(f"{name} {with_margin(mean)}" for name, mean in line.parts.items())
    recall = f"{curve.measure} {point['recallText']}{f' ({apart})' if apart else ''}"
    parts = [recall, f"{curve.tail} {point[f'{curve.tail}Text']}"]
    if point["qps"] is not None:
        parts.append(f"{point['qpsText']} queries per second")
    if not point["memoryText"].startswith("-"):
        parts.append(f"{point['memoryText']} of memory")
    refused = line.measurement.refused
    if refused is not None:
        parts.append(f"{refused.count_in_words} because of their filters")
    return f"{point['label']}: {', '.join(parts)}."
