"""The chart of a contest: recall against cost of every setting, with the front of every engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from recallatk.reporting.charts.curve import SAID, CostAxis, draw
from recallatk.reporting.charts.points import (
    LONGEST_NAME,
    MOST_SHOWN,
    mark_front,
    parameters_text,
    short_labels,
    thinned,
    with_ends,
)
from recallatk.reporting.labels import megabytes, number, with_margin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from recallatk.publishing.leaderboards import Contender, Contest
    from recallatk.reporting.charts.theme import Chart, Row

_SAID = {**SAID, "runText": "Run"}
_TITLES = {"qps": "Queries per second", "highest rate": "Highest rate (queries per second)"}


@dataclass(frozen=True)
class ContestCurve:
    """The settings of a contest as points."""

    points: list[Row]
    measure: str | None
    engines: Mapping[str, str]
    wanted: Sequence[float]


def contest_chart(contest: Contest, levels: Sequence[float]) -> tuple[ContestCurve, Chart | None]:
    """The points of a contest by its headline measure, and the chart; None where nothing can be drawn.

    Args:
        contest: the settings.
        levels: levels of recall, as lines.
    """
    measure = contest.measures[0]
    engines = engine_labels(contest)
    points = [
        row for each in contest.contenders if (row := _point(each, contest, measure, engines)) is not None
    ]
    field = "cost"
    mark_front(points, field, f"{field}Front", gain=contest.axis.gain)
    for name in engines.values():
        own = [each for each in points if each["engine"] == name]
        mark_front(own, field, f"{field}EngineFront", gain=contest.axis.gain)
    curve = ContestCurve(_fitting(points), measure, engines, levels)
    title = _TITLES.get(contest.axis.name, f"{contest.axis.name} latency (ms)")
    said = f"{measure} of every setting against its {title.lower()}, with intervals and levels of recall."
    return curve, draw(curve, CostAxis(field, title, None), said, None, said=_SAID, follows=False)


def engine_labels(contest: Contest) -> dict[str, str]:
    """What every engine is called: with its library where several versions of one were measured."""
    engines = list(dict.fromkeys(each.engine for each in contest.contenders))
    names = [name for name, _ in engines]
    whole = [f"{name} {version}" if names.count(name) > 1 else name for name, version in engines]
    labels = short_labels(whole, LONGEST_NAME)
    return {"\0".join(engine): label for engine, label in zip(engines, labels, strict=True)}


def _fitting(points: list[Row]) -> list[Row]:
    """The fronts of all engines, and as many others as a chart has room for."""
    best = [each for each in points if each["costEngineFront"] or each["costFront"]]
    others = [each for each in points if not (each["costEngineFront"] or each["costFront"])]
    room = max(2, MOST_SHOWN - len(best))
    return [*best[:MOST_SHOWN], *thinned(others, room)]


def _point(each: Contender, contest: Contest, measure: str, engines: Mapping[str, str]) -> Row | None:
    cost = each.cost(contest.axis)
    if cost is None or measure not in each.first.means:
        return None
    worst = each.worst_recall(measure)
    mean, latency = worst.means[measure], worst.latency_ms
    return {
        "n": worst.number,
        "engine": engines["\0".join(each.engine)],
        "load": 0,
        "loadText": str(contest.conditions.load),
        "build": parameters_text(each.first.trial.build),
        "search": parameters_text(each.first.trial.search),
        "runText": worst.run,
        **with_ends("recall", mean),
        "cost": cost.value,
        "costLow": cost.value if cost.low is None else cost.low,
        "costHigh": cost.value if cost.high is None else cost.high,
        "recallText": with_margin(mean),
        **{f"{name}Text": number(latency[name].value, ".3f", "ms") for name in ("p50", "p95", "p99")},
        "qpsText": number(worst.qps.median, ",.0f"),
        "memoryText": f"{megabytes(worst.memory_bytes)} MB",
        "buildText": f"{number(worst.build_seconds, '.2f')} s",
    }
