"""`gate_results`: a candidate judged against its baseline, goal by goal."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recallatk.analysis.headline import recall_cutoffs
from recallatk.analysis.side_comparison import compare_sides, matched_settings
from recallatk.analysis.sides import with_queries_of
from recallatk.errors import FormatError, UsageError
from recallatk.goals.against_baseline import SettingBesideBaseline, judged_settings
from recallatk.goals.budget import Budget
from recallatk.goals.gated import Gated
from recallatk.goals.grammar import parse_goal_with_baseline
from recallatk.goals.relative import RelativeGoal
from recallatk.regression.baseline_file import is_baseline_file, read_baseline, write_baseline
from recallatk.regression.sources import described_sides, open_sources, open_truth

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.analysis.sides import ComparedSide, SideSetting
    from recallatk.files import PathLike
    from recallatk.goals.grammar import Goal

MARGIN = 0.01
"""How much lower than the baseline recall may be without stated goals."""
SINCE_FIRST = "since the first baseline: "
"""What is before the names of settings that are judged against the first baseline."""


@dataclass(frozen=True)
class AcceptedBaseline:
    """A baseline that a candidate is judged against."""

    side: ComparedSide
    label: str = ""
    """What to put before the names of settings; empty for the baseline itself."""


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
    goals = parsed_goals(targets)
    opened = open_sources([baseline, candidate], [None, None], open_truth(truth), at)
    first, second = described_sides(opened)
    earlier = [
        replace(each, side=with_queries_of(each.side, first)) for each in since(baseline, first=since_first)
    ]
    return judged_sides([AcceptedBaseline(first), *earlier], second, goals)


def parsed_goals(targets: Sequence[str]) -> list[Goal | RelativeGoal]:
    """Goals as text, each once."""
    return list(dict.fromkeys(parse_goal_with_baseline(each) for each in targets))


def judged_sides(
    references: Sequence[AcceptedBaseline], second: ComparedSide, goals: Sequence[Goal | RelativeGoal]
) -> Gated:
    """What was measured as a whole, judged.

    Args:
        references: the baselines; none where every goal is absolute.
        second: the candidate.
        goals: the goals; none for the usual ones.
    """
    if not references:
        alone = [SettingBesideBaseline(second, each, each) for each in second.settings]
        return Gated(None, second.name, judged_settings(ordered_goals(goals), alone), None, measured=second)
    found = [_judged(each.side, second, goals) for each in references]
    labelled = (
        replace(each, setting=f"{reference.label}{each.setting}")
        for reference, gated in zip(references, found, strict=True)
        for each in gated.goals
    )
    names, lone = settings_without_baseline(references, second)
    described = references[0].side
    alone = [SettingBesideBaseline(described, each, each) for each in lone]
    absolute = judged_settings(absolute_goals(ordered_goals(goals)), alone)
    return replace(found[0], goals=(*labelled, *absolute), without_baseline=names)


def _judged(first: ComparedSide, second: ComparedSide, goals: Sequence[Goal | RelativeGoal]) -> Gated:
    [compared] = compare_sides([first, second]).comparisons
    pairs = matched_settings(first, second)
    stated = list(goals) or default_goals(pairs, pairs[0][1].measures)
    require_whole(first, second, pairs)
    settings = [SettingBesideBaseline(first, one, other) for one, other in pairs]
    judged = judged_settings(ordered_goals(stated), settings)
    return Gated(first.name, second.name, judged, compared, measured=second)


def default_goals(
    pairs: Sequence[tuple[SideSetting, SideSetting]], measured: Sequence[str]
) -> list[Goal | RelativeGoal]:
    """Without stated goals, recall at every k that both sides measure may be lower by the margin."""
    shared = recall_cutoffs(set(pairs[0][0].measures) & set(measured))
    if not shared:
        one, other = (
            ", ".join(f"recall@{k}" for k in recall_cutoffs(set(each))) or "no recall"
            for each in (pairs[0][0].measures, measured)
        )
        raise UsageError(
            f"no goal: the baseline has {one}, and the candidate {other}. Measure both at the same k, or "
            "state a goal: --target GOAL"
        )
    return [parse_goal_with_baseline(f"recall@{k} >= baseline - {MARGIN:g}") for k in shared]


def require_whole(
    first: ComparedSide, second: ComparedSide, pairs: Sequence[tuple[SideSetting, SideSetting]]
) -> None:
    """Refuse a candidate that lacks a setting of its baseline."""
    matched = {id(one) for one, _ in pairs}
    missing = [each.label for each in first.settings if id(each) not in matched]
    if missing:
        raise UsageError(
            f"not measured by {second.name}: {', '.join(missing)}. {first.name} has it, and what "
            "nothing measured is no pass. Measure it, or accept a baseline without it"
        )


def settings_without_baseline(
    references: Sequence[AcceptedBaseline], second: ComparedSide
) -> tuple[tuple[str, ...], list[SideSetting]]:
    """Names of the candidate's settings that a baseline lacks, and the settings that all of them lack."""
    names: list[str] = []
    lone = list(second.settings)
    for reference in references:
        matched = {id(other) for _, other in matched_settings(reference.side, second)}
        missing = [each for each in second.settings if id(each) not in matched]
        names += [f"{reference.label}{each.label}" for each in missing]
        lone = [each for each in lone if id(each) not in matched]
    return tuple(names), lone


def absolute_goals(goals: Sequence[Goal | RelativeGoal]) -> list[Goal | RelativeGoal]:
    """The goals that can be judged without a baseline."""
    return [each for each in goals if not isinstance(each, RelativeGoal)]


def ordered_goals(goals: Sequence[Goal | RelativeGoal]) -> list[Goal | RelativeGoal]:
    """Goals with measures that are the same on every machine first."""
    return sorted(goals, key=_certainty)


def since(baseline: Any, *, first: bool) -> list[AcceptedBaseline]:
    """The first baseline of a file, which keeps it through every --accept; none if it does not count."""
    if not first:
        return []
    path = Path(baseline) if isinstance(baseline, str | os.PathLike) else None
    if path is None or not path.is_file() or not is_baseline_file(path):
        raise UsageError(
            "--since-first needs a baseline file, which keeps the first one: recall-baseline.json"
        )
    return [AcceptedBaseline(read_baseline(path, str(baseline), first=True), SINCE_FIRST)]


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
    require_replaceable(path)
    [source] = open_sources([candidate], [None], open_truth(truth), at)
    write_baseline(source.side, Path(path))
    return source.side


def require_replaceable(path: PathLike) -> None:
    """Refuse a file that is no baseline, or one that cannot be read and may be worth a look."""
    file = Path(path)
    if file.suffix != ".json":
        raise UsageError(f"{path}: a baseline is a .json file, such as recall-baseline.json")
    if file.exists():
        if not is_baseline_file(file):
            raise FormatError(str(path), "no baseline, which is not replaced", "a baseline, or a new file")
        read_baseline(file, str(path))
