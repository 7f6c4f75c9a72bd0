"""Leaderboards at equal recall: the cheapest setting of every engine whose recall surely reaches a level.

Nothing is interpolated. Settings are compared only on the same data, truth, metric, k and load, on one
machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from recallatk.analysis.headline import headline_k, recall_cutoffs
from recallatk.analysis.leaderboard import RankedCost, in_rank_order, shared_ranks, worst_of
from recallatk.core import Mode
from recallatk.core.judgments import Outcome
from recallatk.errors import UsageError
from recallatk.goals.decisions import highest_bounds
from recallatk.goals.evaluation import CONFIDENCE, decided
from recallatk.goals.grammar import parse_goal
from recallatk.reporting.labels import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from recallatk.publishing.published_run import (
        Conditions,
        MeasuredQuestion,
        PublishedRun,
        PublishedSetting,
    )

LEVELS = (0.9, 0.95, 0.99)
_TAILS = ("p95", "p50")


@dataclass(frozen=True, eq=False)
class Contender:
    """One setting of an engine with all builds of one run, the worst of which counts."""

    builds: tuple[PublishedSetting, ...]

    @property
    def first(self) -> PublishedSetting:
        """Its first build, for what all of them share."""
        return self.builds[0]

    @property
    def engine(self) -> tuple[str, str]:
        """The engine and the version of its library."""
        return self.first.trial.engine, self.first.version

    @property
    def parameters(self) -> str:
        """Build and search parameters as text."""
        return listed([*self.first.trial.build, *self.first.trial.search])

    def worst_recall(self, measure: str) -> PublishedSetting:
        """The build with the lowest bound."""
        return min(self.builds, key=lambda each: each.estimates[measure].low or 0.0)

    def bound(self, measure: str) -> float:
        """What its recall is at least."""
        return self.worst_recall(measure).estimates[measure].low or 0.0

    def reaches(self, measure: str, level: float) -> bool:
        """Whether the recall of every build surely reaches a level."""
        goal = parse_goal(f"{measure} >= {level!r}")
        outcomes = {decided(goal, each.estimates[measure]).outcome for each in self.builds}
        return outcomes == {Outcome.MET}

    def cost(self, axis: RankingCost) -> RankedCost | None:
        """Its cost; None if a build has none."""
        found = [axis.of(each) for each in self.builds]
        known = [each for each in found if each is not None]
        return worst_of(known, gain=axis.gain) if len(known) == len(found) else None


@dataclass(frozen=True)
class RankingCost:
    """The cost that settings are ranked by."""

    name: str
    """p50, p95, p99, qps or highest rate."""

    @property
    def gain(self) -> bool:
        """Whether more is better."""
        return self.name in ("qps", "highest rate")

    @property
    def title(self) -> str:
        """The name of its column."""
        return {"qps": "QPS", "highest rate": "highest rate/s"}.get(self.name, f"{self.name} ms")

    def of(self, setting: PublishedSetting) -> RankedCost | None:
        """The cost of one build, with what is known of its uncertainty."""
        if self.name == "highest rate":
            rate = setting.highest_rate
            return None if rate is None else RankedCost(rate, None, None)
        if self.name == "qps":
            spread = setting.qps
            # One round shows nothing of the spread between rounds.
            low, high = (spread.low, spread.high) if setting.rounds > 1 else (None, None)
            return None if spread.median is None else RankedCost(spread.median, low, high)
        found = setting.latency_ms[self.name]
        return None if found.value is None else RankedCost(found.value, found.low, found.high)


@dataclass(frozen=True, eq=False)
class Standing:
    """The row of one engine in a leaderboard."""

    engine: str
    version: str
    contender: Contender
    """The setting that stands for it; without a rank, the one with the highest bound."""
    rank: int | None = None
    """None if no setting reaches the level."""
    cost: RankedCost | None = None


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """Engines by their cost at a level of recall."""

    measure: str
    level: float
    axis: RankingCost
    standings: tuple[Standing, ...]

    @property
    def out_of_reach(self) -> float | None:
        """The bound that a perfect recall would have, if that is below the level; else None."""
        scored = [each.contender.first.means[self.measure].n for each in self.standings]
        best = highest_bounds([max(scored, default=1)], 1 - CONFIDENCE)[0]
        return best if best < self.level else None

    @property
    def ranked(self) -> tuple[Standing, ...]:
        """The engines that reach the level."""
        return tuple(each for each in self.standings if each.rank is not None)


@dataclass(frozen=True, eq=False)
class Contest:
    """Everything that was measured under the same conditions, with its leaderboards."""

    conditions: Conditions
    axis: RankingCost
    contenders: tuple[Contender, ...]
    measures: tuple[str, ...]
    """Every recall@k, the headline first."""
    boards: tuple[Leaderboard, ...]
    """By measure, then by level."""


@dataclass(frozen=True, eq=False)
class ComparedData:
    """The runs on one data set, truth and metric, with their contests."""

    question: MeasuredQuestion
    title: str
    """Which no other has."""
    runs: tuple[PublishedRun, ...]
    contests: tuple[Contest, ...]
    unranked: tuple[str, ...] = field(default=())
    """Why some settings are in no leaderboard, with their number."""


def checked_levels(levels: Iterable[float]) -> tuple[float, ...]:
    """Levels of recall in ascending order."""
    found = tuple(sorted(set(levels)))
    if not found or not all(0 < each < 1 for each in found):
        said = ", ".join(f"{each:g}" for each in found) or "none"
        raise UsageError(f"levels of recall: {said}. Accepted: numbers above 0 and below 1, such as 0.95")
    return found


def compare_at_equal_recall(
    question: MeasuredQuestion, title: str, runs: Sequence[PublishedRun], levels: Sequence[float]
) -> ComparedData:
    """The leaderboards of runs that asked the same question.

    Args:
        question: what all of them asked.
        title: its name on the site.
        runs: the runs.
        levels: levels of recall, ascending.
    """
    settings = [each for run in runs for each in run.settings]
    groups: dict[Conditions, list[PublishedSetting]] = {}
    for each in settings:
        if each.estimates:
            groups.setdefault(each.conditions, []).append(each)
    contests = [_contest(key, _newest(members), levels) for key, members in groups.items()]
    contests.sort(key=lambda each: _reading_order(each.conditions))
    return ComparedData(question, title, tuple(runs), tuple(contests), tuple(_unranked(settings)))


def _reading_order(conditions: Conditions) -> tuple[Any, ...]:
    load = conditions.load
    return list(Mode).index(load.mode), str(load), conditions.k, conditions.search_threads, conditions.machine


def _newest(settings: Iterable[PublishedSetting]) -> list[Contender]:
    """Every setting as the newest run measured it: choosing the best of several runs would flatter it."""
    found: dict[Any, dict[tuple[str, str], list[PublishedSetting]]] = {}
    for each in settings:
        by_run = found.setdefault((each.trial, each.version), {})
        by_run.setdefault((each.begun, each.run), []).append(each)
    return [Contender(tuple(by_run[max(by_run)])) for by_run in found.values()]


def _contest(conditions: Conditions, contenders: Sequence[Contender], levels: Sequence[float]) -> Contest:
    cutoffs = recall_cutoffs({name for each in contenders for name in each.first.estimates})
    headline = headline_k(cutoffs)
    measures = [f"recall@{k}" for k in sorted(cutoffs, key=lambda k: (k != headline, k))]
    axis = _axis(conditions, contenders)
    boards = [
        _board(_with_recall(contenders, measure), measure, level, axis)
        for measure in measures
        for level in levels
    ]
    return Contest(conditions, axis, tuple(contenders), tuple(measures), tuple(boards))


def _with_recall(contenders: Sequence[Contender], measure: str) -> list[Contender]:
    return [each for each in contenders if all(measure in one.estimates for one in each.builds)]


def _axis(conditions: Conditions, contenders: Sequence[Contender]) -> RankingCost:
    """As the Pareto fronts of a run: latency, throughput or rate, by the kind of load."""
    load = conditions.load
    if load.mode is Mode.THROUGHPUT:
        return RankingCost("qps")
    if load.mode is Mode.RATE:
        return RankingCost("p99" if load.p99_ms is None else "highest rate")
    whole = all(RankingCost("p95").of(one) is not None for each in contenders for one in each.builds)
    return RankingCost(_TAILS[0] if whole else _TAILS[1])


def _board(contenders: Sequence[Contender], measure: str, level: float, axis: RankingCost) -> Leaderboard:
    by_engine: dict[tuple[str, str], list[Contender]] = {}
    for each in contenders:
        by_engine.setdefault(each.engine, []).append(each)
    chosen: list[tuple[Contender, RankedCost]] = []
    beaten: list[Contender] = []
    for members in by_engine.values():
        able = [
            (each, cost) for each in members if (cost := each.cost(axis)) and each.reaches(measure, level)
        ]
        if able:
            sign = -1 if axis.gain else 1
            chosen.append(min(able, key=lambda pair: (sign * pair[1].value, pair[0].parameters)))
        else:
            beaten.append(max(members, key=lambda each: (each.bound(measure), each.parameters)))
    costs = [cost for _, cost in chosen]
    ranks = shared_ranks(costs, gain=axis.gain)
    order = in_rank_order(costs, gain=axis.gain)
    standings = [
        Standing(*chosen[place][0].engine, chosen[place][0], ranks[place], costs[place]) for place in order
    ]
    beaten.sort(key=lambda each: (-each.bound(measure), each.engine))
    return Leaderboard(measure, level, axis, (*standings, *(Standing(*each.engine, each) for each in beaten)))


def _unranked(settings: Iterable[PublishedSetting]) -> list[str]:
    counts: dict[str, int] = {}
    for each in settings:
        why = each.unranked or ("" if each.estimates else "no recall was measured")
        if why:
            counts[why] = counts.get(why, 0) + 1
    return [f"{count:,} × {why}" for why, count in sorted(counts.items())]
