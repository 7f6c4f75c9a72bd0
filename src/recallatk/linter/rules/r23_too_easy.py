"""R23: full recall at the least effort."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.core.judgments import Severity
from recallatk.linter.rule import Rule
from recallatk.linter.trial_views import called, effort, engine_of, is_exact, recall_of, sweeps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core import Measurement, Trial
    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence

MOST = 0.99


class TooEasy(Rule):
    """Nothing left to tell apart."""

    code, name, severity = "R23", "too-easy", Severity.WARNING
    title = "The benchmark is too easy"
    threshold = "recall of 0.99 or more at the least effort that was measured"
    source = (
        "a rule of thumb: above 0.99 there is less left to tell apart than the step in which recall is "
        "compared."
    )
    why = (
        "If the lowest effort finds everything, all settings have the same recall and there is no curve. "
        "Engines and settings cannot be compared."
    )
    remedy = "Measure lower efforts, more rows, or queries as hard as production's."
    needs = frozenset({"run"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """The least effort of every engine, each engine once."""
        worst: dict[str, tuple[float, Measurement]] = {}
        for found in sweeps(evidence.measurements).values():
            first, trial = found[0], found[0].trial
            mean = recall_of(first, evidence.headline)
            if is_exact(trial.engine) or mean is None or not (_is_sweep(found) or _is_least(trial, first.k)):
                continue
            value = mean.value or 0.0
            if trial.engine not in worst or value < worst[trial.engine][0]:
                worst[trial.engine] = value, first
        for _, (value, measurement) in sorted(worst.items()):
            if value >= MOST:
                yield self.finding(
                    f"{called(measurement.trial)} has a {evidence.headline} of {value:.4f} already",
                    value,
                    MOST,
                )


def _is_sweep(found: list[Measurement]) -> bool:
    return len({effort(each.trial) for each in found}) > 1


def _is_least(trial: Trial, k: int) -> bool:
    """Whether a single effort is about the lowest that the engine has."""
    engine = engine_of(trial.engine)
    lows = [] if engine is None else [knob.low for knob in engine.search_knobs if knob.effort]
    return bool(lows) and effort(trial)[0] <= max(lows[0], k)
