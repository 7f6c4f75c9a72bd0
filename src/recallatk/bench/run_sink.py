"""The destination of a run's trials: the contract, and a sink in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recallatk.core import Caution, Failure, Measurement, Run, Trial
    from recallatk.core.judged import Judged
    from recallatk.core.losses import LossEvidence


class RunSink(Protocol):
    """Destination of finished trials: a `storage.RunFolder` or a `MemorySink`."""

    @property
    def finished(self) -> Mapping[Trial, Measurement]:
        """Measured trials."""

    @property
    def failed(self) -> Mapping[Trial, Failure]:
        """Failed trials."""

    def missing(self) -> tuple[Trial, ...]:
        """Planned trials that are neither measured nor failed."""

    def require_version(self, engine: str, version: str | None) -> None:
        """Refuse an engine whose version differs from the one measured before."""

    def add(self, measurement: Measurement) -> None:
        """Save a measured trial."""

    def fail(self, failure: Failure) -> None:
        """Save a failed trial."""

    def unexplained(self) -> tuple[Trial, ...]:
        """Finished trials without evidence on what they missed."""

    def explain(self, trial: Trial, evidence: LossEvidence) -> None:
        """Save the evidence on what a finished trial missed."""

    def unjudged(self, identity: str) -> tuple[Trial, ...]:
        """Finished trials whose answers were not judged by this."""

    def judge(self, trial: Trial, judged: Judged) -> None:
        """Save how good the answers of a finished trial are downstream."""

    def update(
        self, *, cautions: tuple[Caution, ...] | None = None, seconds: Mapping[str, float] | None = None
    ) -> None:
        """Update facts about the whole run."""

    def run(self) -> Run:
        """The whole run, in the order of the plan."""


class MemorySink:
    """Finished trials in memory."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.finished: dict[Trial, Measurement] = {}
        self.failed: dict[Trial, Failure] = {}

    def missing(self) -> tuple[Trial, ...]:
        """Planned trials that are neither measured nor failed."""
        planned = self._run.planned or ()
        return tuple(each for each in planned if each not in self.finished and each not in self.failed)

    def require_version(self, engine: str, version: str | None) -> None:
        """Accept any version: nothing was measured before."""

    def add(self, measurement: Measurement) -> None:
        """Save a measured trial."""
        self.finished[measurement.trial] = measurement

    def fail(self, failure: Failure) -> None:
        """Save a failed trial."""
        self.failed[failure.trial] = failure

    def unexplained(self) -> tuple[Trial, ...]:
        """Finished trials without evidence on what they missed."""
        return tuple(trial for trial, each in self.finished.items() if each.loss is None)

    def explain(self, trial: Trial, evidence: LossEvidence) -> None:
        """Save the evidence on what a finished trial missed."""
        self.finished[trial] = replace(self.finished[trial], loss=evidence)

    def unjudged(self, identity: str) -> tuple[Trial, ...]:
        """Finished trials whose answers were not judged by this."""
        judged = {trial: each.judged for trial, each in self.finished.items()}
        return tuple(trial for trial, each in judged.items() if each is None or each.identity != identity)

    def judge(self, trial: Trial, judged: Judged) -> None:
        """Save how good the answers of a finished trial are downstream."""
        self.finished[trial] = replace(self.finished[trial], judged=judged)

    def update(
        self, *, cautions: tuple[Caution, ...] | None = None, seconds: Mapping[str, float] | None = None
    ) -> None:
        """Update facts about the whole run."""
        given: dict[str, Any] = {"cautions": cautions, "seconds": seconds}
        self._run = replace(self._run, **{name: each for name, each in given.items() if each is not None})

    def run(self) -> Run:
        """The whole run, in the order of the plan."""
        planned = self._run.planned or ()
        return replace(
            self._run,
            measurements=tuple(self.finished[each] for each in planned if each in self.finished),
            failures=tuple(self.failed[each] for each in planned if each in self.failed),
        )
