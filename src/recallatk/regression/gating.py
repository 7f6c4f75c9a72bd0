"""`gate_results`: a candidate judged against its baseline, goal by goal."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recallatk.analysis.headline import recall_cutoffs
from recallatk.analysis.side_comparison import compare_sides, matched_settings
from recallatk.errors import FormatError, UsageError
from recallatk.goals.against_baseline import Gated, SettingBesideBaseline, judged_settings
from recallatk.goals.budget import Budget
from recallatk.goals.grammar import parse_goal_with_baseline
from recallatk.goals.relative import RelativeGoal
from recallatk.regression.baseline_file import is_baseline_file, read_baseline, write_baseline
from recallatk.regression.sources import described_sides, open_sources, open_truth

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.analysis.sides import ComparedSide
    from recallatk.files import PathLike
    from recallatk.goals.grammar import Goal

MARGIN = 0.01
"""How much lower than the baseline recall may be without stated goals."""
SINCE_FIRST = "since the first baseline"


def gate_results(
    baseline: Any,
    candidate: Any,
    targets: Sequence[str] = (),
    *,
    truth: Any = None,
    at: Sequence[int] | None = None,
    since_first: bool = False,
) -> Gated:
    """Judge whether a candidate is as good as its baseline: PASS, FAIL or UNDECIDED.

    Args:
        baseline: a run or its folder, answers with a truth, or a file that `accept_baseline` wrote.
        candidate: the same, but for the file.
        targets: goals, absolute or relative to the baseline, such as `recall@10 >= baseline - 0.01` and
            `p95 <= 1.2x baseline`. Default: recall at every k at most 0.01 lower than the baseline's.
        truth: what answers are scored against.
        at: values of k of answers.
        since_first: judge against the first baseline in the file too, so that a slow slide cannot hide.

    Raises:
        MismatchError: the two are of different data.
        UsageError: a goal names nothing that both measured.
    """
    goals = list(dict.fromkeys(parse_goal_with_baseline(each) for each in targets))
    opened = open_sources([baseline, candidate], [None, None], open_truth(truth), at)
    first, second = described_sides(opened)
    found = judged_sides(first, second, goals)
    if not since_first:
        return found
    earliest = judged_sides(_first_accepted(baseline), second, goals)
    labelled = (replace(each, setting=f"{SINCE_FIRST}: {each.setting}") for each in earliest.goals)
    return replace(found, goals=(*found.goals, *labelled))


def judged_sides(first: ComparedSide, second: ComparedSide, goals: list[Goal | RelativeGoal]) -> Gated:
    """One side judged against another, without opening anything."""
    [compared] = compare_sides([first, second]).comparisons
    pairs = matched_settings(first, second)
    if not goals:
        shared = recall_cutoffs(set(pairs[0][0].measures) & set(pairs[0][1].measures))
        goals = [parse_goal_with_baseline(f"recall@{k} >= baseline - {MARGIN:g}") for k in shared]
    if not goals:
        raise UsageError("no goal: neither side has a recall in common. State one: --target GOAL")
    if compared.only_first:
        raise UsageError(
            f"not measured by {second.name}: {', '.join(compared.only_first)}. {first.name} has it, and what "
            "nothing measured is no pass. Measure it, or accept a baseline without it"
        )
    settings = [SettingBesideBaseline(first, one, other) for one, other in pairs]
    # Measures that are the same on every machine come first.
    ordered = sorted(goals, key=_certainty)
    return Gated(first.name, second.name, judged_settings(ordered, settings), compared)


def _first_accepted(baseline: Any) -> ComparedSide:
    """The first baseline of a file, which keeps it through every --accept."""
    path = Path(baseline) if isinstance(baseline, str | os.PathLike) else None
    if path is None or not path.is_file() or not is_baseline_file(path):
        raise UsageError(
            "--since-first needs a baseline file, which keeps the first one: recall-baseline.json"
        )
    return read_baseline(path, str(baseline), first=True)


def _certainty(goal: Goal | RelativeGoal) -> int:
    """Quality, then bytes, then what depends on the machine's pace."""
    kind = goal.goal if isinstance(goal, RelativeGoal) else goal
    return 0 if not isinstance(kind, Budget) else 1 if kind.name in ("memory", "size") else 2


def accept_baseline(
    candidate: Any, path: PathLike, *, truth: Any = None, at: Sequence[int] | None = None
) -> ComparedSide:
    """Write a measurement as the baseline of later gates, in place of an earlier one.

    Args:
        candidate: a run or its folder, or answers with a truth.
        path: the file, such as `recall-baseline.json`.
        truth: what answers are scored against.
        at: values of k of answers.
    """
    file = Path(path)
    if file.suffix != ".json":
        raise UsageError(f"{path}: a baseline is a .json file, such as recall-baseline.json")
    if file.exists():
        if not is_baseline_file(file):
            raise FormatError(str(path), "no baseline, which is not replaced", "a baseline, or a new file")
        # What cannot be read may be worth a look before it is replaced.
        read_baseline(file, str(path))
    [source] = open_sources([candidate], [None], open_truth(truth), at)
    write_baseline(source.side, file)
    return source.side
