"""R24: a target that no effort reaches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.core.judgments import Severity
from recallatk.linter.rule import Rule
from recallatk.linter.trial_views import called, recall_of, sweeps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core import Measurement
    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence

PLATEAU = 0.005


class Ceiling(Rule):
    """The build is the limit, not the search."""

    code, name, severity = "R24", "ceiling", Severity.ERROR
    title = "The target is out of reach"
    threshold = (
        "recall at the highest effort is below the target with its whole interval, of all builds of an "
        "engine; an error where the last step of effort brought less than 0.005, else a warning"
    )
    source = (
        "a step of effort that brings less than half a point has reached what the build can do; half of a "
        "graph may be out of reach (zilliztech/knowhere#1565)."
    )
    why = (
        "If more effort brings no more recall, the graph is broken or the codes are too short. No search "
        "setting of that build reaches the target."
    )
    remedy = "Build with more links or longer codes, or rerank more candidates with full vectors."
    needs = frozenset({"run"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """The best build of every engine."""
        for measure, target in sorted(evidence.asked.items()):
            tops: dict[str, list[list[Measurement]]] = {}
            for found in sweeps(evidence.measurements).values():
                known = [each for each in found if recall_of(each, measure) is not None]
                if known:
                    tops.setdefault(known[0].trial.engine, []).append(known)
            for _, several in sorted(tops.items()):
                highest = max(several, key=lambda found: max(_value(each, measure) for each in found))
                yield from self._of(highest, measure, target)

    def _of(self, found: list[Measurement], measure: str, target: float) -> Iterator[Finding]:
        best = max(found, key=lambda each: _value(each, measure))
        top = recall_of(best, measure)
        if top is None or top.value is None or (top.value if top.high is None else top.high) >= target:
            return
        gained = _value(found[-1], measure) - _value(found[-2], measure) if len(found) > 1 else None
        flat = gained is not None and gained < PLATEAU
        said = f", and the last step of effort brought {gained:+.4f}" if gained is not None else ""
        who = called(best.trial)
        yield self.finding(
            f"{who} has a {measure} of {top.value:.4f}, below the target of {target:g}{said}",
            top.value,
            target,
            None if flat else Severity.WARNING,
            None
            if flat
            else "Measure higher efforts; if these bring nothing, build with more links or longer codes.",
        )


def _value(measurement: Measurement, measure: str) -> float:
    mean = recall_of(measurement, measure)
    return 0.0 if mean is None or mean.value is None else mean.value
