"""The gate of a bench file: settings measured as far as their goals need, and judged."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from recallatk.analysis.measures import Recall
from recallatk.analysis.side_comparison import compare_sides, matched_settings, require_comparable
from recallatk.analysis.sides import where_both, with_queries_of
from recallatk.bench.benchmark import Benchmark
from recallatk.bench.measurement import run
from recallatk.errors import UsageError
from recallatk.goals import require_answerable
from recallatk.goals.gated import Gated
from recallatk.goals.relative import RelativeGoal
from recallatk.goals.target import Target
from recallatk.regression.gating import (
    absolute_goals,
    default_goals,
    judged_sides,
    ordered_goals,
    require_whole,
    settings_without_baseline,
)
from recallatk.regression.run_side import run_side
from recallatk.regression.sequential_run import NeedsTrials, SequentialRun
from recallatk.regression.setting_tests import BaselineSetting, SettingTests
from recallatk.scratch import ScratchFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from recallatk.analysis.compared_results import SideComparison
    from recallatk.analysis.sides import ComparedSide, SideSetting
    from recallatk.bench.progress import Watch
    from recallatk.bench.settings import Settings
    from recallatk.core import Run
    from recallatk.goals.grammar import Goal
    from recallatk.regression.gating import AcceptedBaseline
    from recallatk.regression.sequential_run import AskedSetting

    Progress = Callable[[int, int], None]


def gate_benchmark(
    settings: Settings,
    name: str,
    goals: Sequence[Goal | RelativeGoal],
    references: Sequence[AcceptedBaseline],
    *,
    progress: Progress | None = None,
    watch: Watch | None = None,
) -> Gated:
    """Measure the settings of a bench file until every goal is decided, and judge them.

    Args:
        settings: the bench file.
        name: as the user named it.
        goals: the goals; none for the usual ones, which need a baseline.
        references: the baseline, and the first accepted one where it counts too; none for absolute goals.
        progress: called with the number of queries asked, and of all.
        watch: called with the progress of full trials.
    """
    benchmark = Benchmark(measuring(settings, goals))
    _require_askable(benchmark, goals)
    measured = SequentialRun(benchmark, name, progress)
    described = measured.described()
    for each in references:
        require_comparable(each.side, described)
    pairs = [matched_settings(each.side, described) for each in references]
    for each, matched in zip(references, pairs, strict=True):
        require_whole(each.side, described, matched)
    stated = list(goals) or default_goals(pairs[0], [str(Recall(k)) for k in benchmark.settings.measure.at])
    stated = ordered_goals(stated)
    sides = [with_queries_of(each.side, described) for each in references]
    without, lone = settings_without_baseline(references, described) if references else ((), [])
    tests = _tests(stated, references, pairs, sides, described)
    absolute = absolute_goals(stated)
    tests |= {each.key: [SettingTests(absolute, described, None)] for each in lone if absolute}
    sequential = measured.possible and all(each.stops for its in tests.values() for each in its)
    try:
        asked = measured.asked(tests) if sequential else None
    except NeedsTrials:
        asked = None
    if asked is None:
        found = _measured(benchmark, progress, watch)
        return _of_trials(with_queries_of(run_side(found, name), described), stated, references)
    judged = tuple(
        found for key, its in tests.items() for each in its for found in each.judged(asked[key].setting)
    )
    compared = _compared(sides[0], described, pairs[0], asked) if references else None
    total = sum(each.asked for each in asked.values())
    names = None if not references else references[0].side.name
    candidate = replace(described, settings=tuple(each.setting for each in asked.values()))
    return Gated(names, name, judged, compared, total, len(asked) * measured.queries, without, candidate)


def measure_benchmark(
    settings: Settings, *, progress: Progress | None = None, watch: Watch | None = None
) -> Run:
    """Every trial of a bench file, measured now, whatever an earlier run of it has left."""
    return _measured(Benchmark(settings), progress, watch)


def measuring(settings: Settings, goals: Sequence[Goal | RelativeGoal]) -> Settings:
    """The settings, which also measure what the goals are about."""
    kinds = [each.goal if isinstance(each, RelativeGoal) else each for each in goals]
    wanted = [each.measure for each in kinds if isinstance(each, Target)]
    measure = settings.measure
    at = {*measure.at, *(each.k for each in wanted if each == Recall(each.k))}
    more = [str(each) for each in wanted if each != Recall(each.k)]
    changes = {"at": tuple(sorted(at)), "measures": tuple(dict.fromkeys([*measure.measures, *more]))}
    return settings.model_copy(update={"measure": measure.model_copy(update=changes)})


def _require_askable(benchmark: Benchmark, goals: Sequence[Goal | RelativeGoal]) -> None:
    """Refuse, before anything is measured, goals that these data cannot decide."""
    kinds = [each.goal if isinstance(each, RelativeGoal) else each for each in goals]
    targets = [each for each in kinds if isinstance(each, Target)]
    lost = next((each for each in targets if each.relevance is not None), None)
    if lost is not None:
        raise UsageError(
            f"{lost}: a gate judges what answers have in common with the truth, such as recall@10"
        )
    require_answerable(targets, benchmark.dataset)


def _tests(
    goals: Sequence[Goal | RelativeGoal],
    references: Sequence[AcceptedBaseline],
    pairs: Sequence[Sequence[tuple[SideSetting, SideSetting]]],
    sides: Sequence[ComparedSide],
    described: ComparedSide,
) -> dict[Any, list[SettingTests]]:
    """The tests of each setting that is judged, by its key."""
    if not references:
        return {each.key: [SettingTests(goals, described, None)] for each in described.settings}
    found: dict[Any, list[SettingTests]] = {}
    for reference, matched, side in zip(references, pairs, sides, strict=True):
        for first, second in matched:
            known = BaselineSetting(side, first, reference.label)
            found.setdefault(second.key, []).append(SettingTests(goals, side, known))
    return found


def _compared(
    first: ComparedSide,
    second: ComparedSide,
    pairs: Sequence[tuple[SideSetting, SideSetting]],
    asked: dict[Any, AskedSetting],
) -> SideComparison:
    """The comparison over the queries that were asked of each setting."""
    before = [where_both(one, asked[other.key].setting) for one, other in pairs]
    after = [asked[each.key].setting if each.key in asked else each for each in second.settings]
    sides = [replace(first, settings=tuple(before)), replace(second, settings=tuple(after))]
    return compare_sides(sides).comparisons[0]


def _of_trials(
    second: ComparedSide, goals: Sequence[Goal | RelativeGoal], references: Sequence[AcceptedBaseline]
) -> Gated:
    """The gate of full trials, which costs of calls, several builds and several loads need."""
    known = [replace(each, side=with_queries_of(each.side, second)) for each in references]
    found = judged_sides(known, second, goals)
    total = len(second.settings) * (second.queries or 0)
    return replace(found, asked=total, asked_of=total)


def _measured(benchmark: Benchmark, progress: Progress | None, watch: Watch | None) -> Run:
    """A run in a folder that goes away; a trial that failed is no measurement to judge."""
    with ScratchFolder() as folder:
        found = run(benchmark, out=folder / "run", progress=progress, watch=watch)
    if found.failures:
        failed = found.failures[0]
        raise UsageError(f"{failed.trial}: {failed.message}. What was not measured cannot be judged")
    return found
