"""Labels of trials, which name what tells them apart, and texts of values in sentences and cells."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from recallatk.core.trials import called

if TYPE_CHECKING:
    from collections.abc import Iterable

    from recallatk.analysis.comparison import Difference
    from recallatk.analysis.distribution import Estimate
    from recallatk.analysis.latency import Percentile, Spread
    from recallatk.core import Mean, Parameters, Run, Trial, Weights

OVER_QUERIES = "±: 95 % interval over queries."
# Said wherever a reader sees both for one number.
LOWER_BOUND = f'{OVER_QUERIES} "At least" is the bound to decide by: it holds for any distribution.'
GOAL_BOUNDS = "Goals are decided by bounds that hold for any distribution, so these differ from ±."
_LONGEST_VALUE = 200
_MOST_DIGITS = 6


class Naming:
    """How the trials of one run are told apart."""

    def __init__(self, trials: Iterable[Trial]) -> None:
        self.trials = list(dict.fromkeys(trials))
        self._of: dict[str, list[Trial]] = {}
        for each in self.trials:
            self._of.setdefault(each.engine, []).append(each)
        self.engines = list(self._of)
        self.several_loads = len({each.load for each in self.trials}) > 1
        self.repeats = any(each.repeat for each in self.trials)
        builds = {name: [each.build for each in found] for name, found in self._of.items()}
        searches = {name: [each.search for each in found] for name, found in self._of.items()}
        self._same_build = {name: _same(found) for name, found in builds.items()}
        # An engine with a single search setting keeps it in its lines: they would be bare without it.
        self._same_search = {
            name: _same(found) if len(set(found)) > 1 else frozenset() for name, found in searches.items()
        }

    def build(self, trial: Trial) -> str:
        """The build parameters that differ among the trials of its engine."""
        return listed(_without(trial.build, self._same_build[trial.engine]))

    def search(self, trial: Trial) -> str:
        """The search parameters that differ, or all where the engine has one setting only."""
        return listed(_without(trial.search, self._same_search[trial.engine]))

    def label(self, trial: Trial, *, load: bool = True) -> str:
        """The trial in as few words as tell it from the others, or from those under the same load."""
        parts = [trial.engine] if len(self.engines) > 1 else []
        parts += [self.build(trial), self.search(trial)]
        parts += [str(trial.load)] if load and self.several_loads else []
        parts += [f"build {trial.repeat + 1}"] if self.repeats else []
        return " ".join(part for part in parts if part) or str(trial)

    def engine(self, name: str) -> str:
        """An engine with the parameters that all of its trials share."""
        first = self._of[name][0]
        build = listed([each for each in first.build if each in self._same_build[name]])
        search = listed([each for each in first.search if each in self._same_search[name]])
        return called(name, build, search)


def naming(run: Run) -> Naming:
    """Of all trials of a run: planned, measured and failed."""
    return Naming(
        [
            *(run.planned or ()),
            *(each.trial for each in run.measurements),
            *(each.trial for each in run.failures),
        ]
    )


def listed(parameters: Iterable[tuple[str, object]]) -> str:
    """Parameters as text: secrets are hidden and long values truncated."""
    from recallatk.redaction import public

    return ", ".join(f"{name}={cut(str(public(value, name)), _LONGEST_VALUE)}" for name, value in parameters)


def cut(text: str, width: int) -> str:
    """The text, or its beginning and end where it is longer than the width."""
    if len(text) <= width:
        return text
    end = width // 3
    return f"{text[: width - end - 1]}…{text[-end:]}"


def fitted(texts: list[str], width: int) -> list[str]:
    """Each text cut to a width; those that would look alike get a number."""
    whole = dict.fromkeys(texts)
    alike = Counter(cut(text, width) for text in whole)
    numbers: Counter[str] = Counter()
    shown = {}
    for text in whole:
        short = cut(text, width)
        numbers[short] += 1
        several = alike[short] > 1 and short != text
        shown[text] = f"{short} ({numbers[short]})" if several else short
    return [shown[text] for text in texts]


def _same(found: list[Parameters]) -> frozenset[tuple[str, object]]:
    """The parameters, with their values, that all of them have."""
    return frozenset.intersection(*(frozenset(each) for each in found))


def _without(parameters: Parameters, same: frozenset[tuple[str, object]]) -> list[tuple[str, object]]:
    return [each for each in parameters if each not in same]


def number(value: float | None, shape: str, unit: str = "") -> str:
    """A number in a shape, with its unit, or a dash for what was not measured."""
    if value is None:
        return "-"
    return f"{format(value, shape)} {unit}" if unit else format(value, shape)


def interval(found: Mean | Percentile | Spread | Estimate | Difference | None, shape: str) -> str:
    """The lower and the upper end, or a dash where there is no interval."""
    if found is None or found.low is None or found.high is None:
        return "-"
    return f"{format(found.low, shape)} to {format(found.high, shape)}"


def weighted_by(weights: Weights | None) -> str:
    """What means are weighted by, such as `weighted by count`; empty if queries count the same."""
    return "" if weights is None else f"weighted by {weights.column}"


def by_grouping(name: str) -> str:
    """The heading of a grouping: `by pos`; `hardness by intrinsic dimension` has a "by" of its own."""
    return name if name.startswith("hardness by ") else f"by {name}"


def with_margin(found: Mean | Estimate | None) -> str:
    """A share with its uncertainty, such as `0.965 ±0.005`; a dash where it was not measured.

    The margin is the longer side of the interval. Digits beyond it are not shown.
    """
    if found is None or found.value is None:
        return "-"
    if found.low is None or found.high is None:
        return f"{found.value:.{_digits(found.value, 1.0)}f}"
    margin = max(found.value - found.low, found.high - found.value)
    digits = _digits(found.value, margin)
    return f"{found.value:.{digits}f} ±{margin:.{digits}f}"


def _digits(value: float, margin: float) -> int:
    """Three, or more where a margin would round to zero or a value below 1 to 1."""
    digits = 3
    while digits < _MOST_DIGITS and (0 < margin < 0.5 * 10**-digits or 1 - 0.5 * 10**-digits <= value < 1):
        digits += 1
    return digits


def signed_interval(found: Estimate | Mean) -> str:
    """A difference with the ends of its interval, which is rarely symmetric: `+0.0040 [+0.0020, +0.0060]`."""
    if found.value is None:
        return "-"
    ends = "" if found.low is None or found.high is None else f" [{found.low:+z.4f}, {found.high:+z.4f}]"
    return f"{found.value:+z.4f}{ends}"


def megabytes(count: int | None) -> str:
    """Bytes in millions."""
    return number(None if count is None else count / 1e6, ".1f")
