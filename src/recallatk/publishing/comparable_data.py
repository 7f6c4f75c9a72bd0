"""Which runs asked the same question, and which are of other data under the same name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from recallatk.analysis.sides import part_names
from recallatk.publishing.leaderboards import compare_at_equal_recall

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.publishing.leaderboards import ComparedData
    from recallatk.publishing.published_run import MeasuredQuestion, PublishedRun

_SHORT = 8
_NO_FINGERPRINTS = "does not record the fingerprints of its data and truth"


@dataclass(frozen=True)
class LeftOut:
    """A folder that is in no table, and why."""

    name: str
    why: str
    page: str = ""
    """Address of its report, if there is one."""

    def to_dict(self) -> dict[str, str]:
        """The folder for JSON."""
        return {"name": self.name, "why": self.why}


def comparable_data(
    runs: Sequence[PublishedRun], levels: Sequence[float]
) -> tuple[list[ComparedData], list[LeftOut]]:
    """The leaderboards of every data set, and the runs that are left out of them.

    Of different data under one name, those with the most runs keep it, of two those that were measured first.

    Args:
        runs: every run of the site.
        levels: levels of recall.
    """
    by_name: dict[str, list[PublishedRun]] = {}
    left_out = []
    for each in runs:
        if each.question is None:
            left_out.append(LeftOut(each.name, _NO_FINGERPRINTS, each.page))
        else:
            by_name.setdefault(each.dataset, []).append(each)
    found: list[ComparedData] = []
    for name, named in sorted(by_name.items()):
        kept, others = _majority(named)
        found += _of_same_data(name, kept, levels)
        left_out += others
    return found, left_out


def _majority(runs: Sequence[PublishedRun]) -> tuple[list[PublishedRun], list[LeftOut]]:
    """The runs on the data that most of them are on, and the others with what differs."""
    by_data: dict[tuple[tuple[str, str], ...], list[PublishedRun]] = {}
    for each in runs:
        by_data.setdefault(_question(each).data, []).append(each)
    first, *others = sorted(by_data.items(), key=lambda pair: (-len(pair[1]), _begun(pair[1]), pair[0]))
    left_out = []
    for data, members in others:
        one, other = dict(first[0]), dict(data)
        parts = [part for part in {**one, **other} if one.get(part) != other.get(part)]
        different = " and ".join(part_names(parts))
        why = (
            f"other data under the name {members[0].dataset}: {different} are not those of "
            f"{first[1][0].name}. Set another name in the bench file"
        )
        left_out += [LeftOut(each.name, why, each.page) for each in members]
    return first[1], left_out


def _begun(runs: Sequence[PublishedRun]) -> str:
    return min(each.begun or "9" for each in runs)


def _of_same_data(name: str, runs: Sequence[PublishedRun], levels: Sequence[float]) -> list[ComparedData]:
    """One comparison for every truth, metric and weighting."""
    groups: dict[MeasuredQuestion, list[PublishedRun]] = {}
    for each in runs:
        groups.setdefault(_question(each), []).append(each)
    titles = _titles(name, list(groups))
    return [
        compare_at_equal_recall(question, titles[question], members, levels)
        for question, members in groups.items()
    ]


def _titles(name: str, questions: Sequence[MeasuredQuestion]) -> dict[MeasuredQuestion, str]:
    """The name of the data with whatever tells the questions apart."""
    several = {part: len({getattr(each, part) for each in questions}) > 1 for part in ("truth", "weights")}
    titles = {}
    for each in questions:
        parts = [f"{name}, {each.metric}"]
        if each.weights:
            parts.append(f"weighted by {each.weights.rpartition(' ')[0]}")
        parts += [f"truth {each.truth[:_SHORT]}"] if several["truth"] else []
        parts += [f"weights {each.weights[-_SHORT:]}"] if several["weights"] and each.weights else []
        titles[each] = ", ".join(parts)
    return titles


def _question(run: PublishedRun) -> MeasuredQuestion:
    assert run.question is not None  # noqa: S101 - runs without one are left out before
    return run.question
