"""R25: one build of an index that comes out differently every time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from recallatk.core.judgments import Severity
from recallatk.linter.rule import Rule
from recallatk.linter.trial_views import by_engine, engine_of, is_exact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence

TUNED = "Measure the choice with several builds: `[measure] builds = 3` in a bench file for `recallatk run`."


class SingleBuild(Rule):
    """One throw of the dice."""

    code, name, severity = "R25", "single-build", Severity.WARNING
    title = "A randomized index was built once"
    threshold = (
        "one build of an engine that does not promise the same index for the same data: warning; of one "
        "that promises it with one thread only and was built with several: note"
    )
    source = "the same parameters have given recalls of 0.98, 0.88 and 0.99 (NVIDIA/cuvs#2452)."
    why = (
        "The interval of recall covers queries, not builds. Two engines, or two versions of one, can "
        "differ by the luck of a build."
    )
    remedy = "Build several times: `[measure] builds = 3`."

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Engine by engine; before a run, those that are to be measured."""
        choice = getattr(evidence.tuned, "choice", None)
        if evidence.run is None and evidence.tuned is not None:
            # What tuning proved is one build of its choice.
            for found in () if choice is None else self._of(choice.engine, None):
                yield replace(found, remedy=TUNED)
            return
        if evidence.run is None:
            if evidence.settings is not None and evidence.settings.measure.builds == 1:
                names = sorted({each.name for each in evidence.settings.engine})
                for name in names:
                    yield from self._of(name, None)
            return
        for name, measured in by_engine(evidence.measurements).items():
            if len({each.trial.repeat for each in measured}) == 1:
                yield from self._of(name, max(each.build.threads for each in measured))

    def _of(self, name: str, threads: int | None) -> Iterator[Finding]:
        engine = engine_of(name)
        if engine is None or engine.abilities.attaches or is_exact(name):
            return
        if not engine.abilities.deterministic:
            yield self.finding(
                f"{name} does not promise the same index for the same data, and is built once", 1, 2
            )
        elif threads is not None and threads > 1 and engine.abilities.threads:
            said = f"{name} promises the same index with one thread only, and was built once with {threads}"
            yield self.finding(said, 1, 2, Severity.NOTE)
