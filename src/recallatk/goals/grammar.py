"""The grammar of goals: `MEASURE >= VALUE` or `MEASURE <= VALUE`, where wanted with `in COLUMN=VALUE`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

from recallatk.errors import UsageError
from recallatk.goals.budget import COSTS, Budget, read_budget
from recallatk.goals.target import NAME, Target, read_target, unquoted

if TYPE_CHECKING:
    from collections.abc import Iterable

Goal: TypeAlias = Target | Budget

ACCEPTED = (
    "recall@10 >= 0.95, recall1@50 >= 99%, robust(0.8)@10 >= 0.95, p5(recall@10) >= 0.6, mrr@10 >= 0.9, "
    "ndcg@10 >= 0.9, rbo(0.9)@10 >= 0.9, eps(0.01)@10 >= 0.95, rde@10 <= 0.01 or ndcg@10 loss <= 0.005, each "
    "also in a segment such as recall@10 >= 0.9 in category=noun.animal; p50, p90, p95, p99 or p99.9 <= 5ms, "
    "qps >= 1000, memory <= 2GiB, size <= 1GiB or build <= 10min"
)
_SEGMENT = re.compile(rf"(?P<goal>.*?)\s+in\s+(?P<column>{NAME})\s*=\s*(?P<value>{NAME})", re.DOTALL)
_GOAL = re.compile(r"(?P<measure>[^<>=≤≥]*[^<>=≤≥\s])\s*(?P<sign>>=|<=|≥|≤)\s*(?P<value>[^<>=≤≥]+)")
_SIGNS = {"≤": "<=", "≥": ">="}


def parse_goal(text: str) -> Goal:
    """The goal that a text states: a target for quality, a budget for cost."""
    stripped = text.strip()
    placed = _SEGMENT.fullmatch(stripped)
    found = _GOAL.fullmatch(stripped if placed is None else placed["goal"])
    if found is None:
        raise UsageError(f"no goal {text!r}. Accepted: {ACCEPTED}")
    segment = None if placed is None else (unquoted(placed["column"]), unquoted(placed["value"]))
    try:
        return _read(
            found["measure"], _SIGNS.get(found["sign"], found["sign"]), found["value"].strip(), segment
        )
    except UsageError as problem:
        raise UsageError(f"goal {text!r}: {problem}") from None


def _read(measure: str, sign: str, value: str, segment: tuple[str, str] | None) -> Goal:
    if measure not in COSTS:
        target = read_target(measure, sign, value, segment)
        if target is None:
            raise UsageError(f"no measure {measure!r}. Accepted: {ACCEPTED}")
        return target
    if segment is not None:
        raise UsageError(f"{measure} is not measured by segment. Accepted: measures of quality")
    return read_budget(measure, sign, value)


def sort_goals(goals: Iterable[str | Goal]) -> tuple[list[Target], list[Budget]]:
    """Targets and budgets, each once: the measure decides which of the two a goal is."""
    parsed = dict.fromkeys(parse_goal(each) if isinstance(each, str) else each for each in goals)
    targets = [each for each in parsed if isinstance(each, Target)]
    return targets, [each for each in parsed if isinstance(each, Budget)]
