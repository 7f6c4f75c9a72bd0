"""The grammar of goals: `MEASURE >= VALUE` or `MEASURE <= VALUE`, optionally with `in COLUMN=VALUE`.

A value is a number with its unit or, where there is a baseline, relative to it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

from recallatk.analysis.measures import find_measure, meant_measure
from recallatk.errors import UsageError, did_you_mean
from recallatk.goals.budget import COSTS, Budget, read_budget, require_sense
from recallatk.goals.relative import RelativeGoal, is_relative, relative_to_baseline
from recallatk.goals.target import NAME, Target, is_loss, read_target, unquoted

if TYPE_CHECKING:
    from collections.abc import Iterable

Goal: TypeAlias = Target | Budget

ACCEPTED = (
    "recall@10 >= 0.95, robust(0.8)@10 >= 0.95, p5(recall@10) >= 0.6, nDCG@10 loss <= 0.005 and other "
    "measures of quality, each also in a segment such as recall@10 >= 0.9 in category=shoes; p50, p90, p95, "
    "p99 or p99.9 <= 5ms, qps >= 1000, memory <= 2GiB, size <= 1GiB or build <= 10min"
)
_SEGMENT = re.compile(rf"(?P<goal>.*?)\s+in\s+(?P<column>{NAME})\s*=\s*(?P<value>{NAME})", re.DOTALL)
_GOAL = re.compile(r"(?P<measure>[^<>=≤≥]*[^<>=≤≥\s])\s*(?P<sign>>=|<=|≥|≤)\s*(?P<value>[^<>=≤≥]+)")
_COSTS_ELSEWHERE = {
    "latency": ("p95",),
    "throughput": ("qps",),
    "ram": ("memory",),
    "rss": ("memory",),
    "disk": ("size",),
    "buildtime": ("build",),
    "rps": ("qps",),
    "price": ("cost",),
}
_SIGNS = {"≤": "<=", "≥": ">="}


def parse_goal(text: str) -> Goal:
    """Parse a goal: a target for quality or a budget for cost."""
    goal = parse_goal_with_baseline(text)
    if isinstance(goal, RelativeGoal):
        raise UsageError(
            f"goal {text!r}: there is no baseline here, as recallatk gate has one. Accepted: a value, "
            "such as recall@10 >= 0.95"
        )
    return goal


def parse_goal_with_baseline(text: str) -> Goal | RelativeGoal:
    """Parse a goal whose value may be relative to a baseline, such as `recall@10 >= baseline - 0.01`."""
    stripped = text.strip()
    placed = _SEGMENT.fullmatch(stripped)
    found = _GOAL.fullmatch(stripped if placed is None else placed["goal"])
    if found is None:
        raise UsageError(f"no goal {text!r}.{_meant_goal(stripped)} Accepted: {ACCEPTED}")
    segment = None if placed is None else (unquoted(placed["column"]), unquoted(placed["value"]))
    try:
        return _read(
            found["measure"], _SIGNS.get(found["sign"], found["sign"]), found["value"].strip(), segment
        )
    except UsageError as problem:
        raise UsageError(f"goal {text!r}: {problem}") from None


def _meant_goal(text: str) -> str:
    """` Did you mean GOAL?` for a bare share or a wrong comparison sign."""
    share = re.fullmatch(r"(?:0?\.[0-9]+|[0-9]{1,2}(?:\.[0-9]+)?\s*%?)", text)
    if share:
        number = text.rstrip("% ")
        value = number if "." in number and float(number) < 1 else f"{number}%"
        return f" Did you mean recall@10 >= {value}?"
    compared = re.fullmatch(r"([^<>=\s]+)\s*(?:>|<|==?|=>|=<|:)\s*([^<>=]+)", text)
    if compared:
        sign = "<=" if compared[1] in COSTS and compared[1] != "qps" else ">="
        return f" Did you mean {compared[1]} {sign} {compared[2]}?"
    measure = find_measure(text)
    return "" if measure is None else f" Did you mean {measure} >= 0.95?"


def _read(measure: str, sign: str, value: str, segment: tuple[str, str] | None) -> Goal | RelativeGoal:
    relative = is_relative(value)
    if measure not in COSTS:
        # Any value that makes sense: the baseline has the real one.
        stated = value if not relative else "0" if is_loss(measure) else "1"
        target = read_target(measure, sign, stated, segment)
        if target is None:
            hint = meant_measure(measure) or did_you_mean(measure, COSTS, _COSTS_ELSEWHERE)
            raise UsageError(f"no measure {measure!r}.{hint} Accepted: {ACCEPTED}")
        return relative_to_baseline(target, value) if relative else target
    if segment is not None:
        raise UsageError(f"{measure} is not measured by segment. Accepted: measures of quality")
    if relative:
        require_sense(measure, sign)
        return relative_to_baseline(Budget(measure, 1.0), value)
    return read_budget(measure, sign, value)


def sort_goals(goals: Iterable[str | Goal]) -> tuple[list[Target], list[Budget]]:
    """Distinct targets and budgets; the measure decides which of the two a goal is."""
    parsed = dict.fromkeys(parse_goal(each) if isinstance(each, str) else each for each in goals)
    targets = [each for each in parsed if isinstance(each, Target)]
    return targets, [each for each in parsed if isinstance(each, Budget)]
