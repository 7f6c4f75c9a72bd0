"""A run that is kept in memory alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recallatk.core import Caution, Failure, Measurement, Run, Trial


class Keeper(Protocol):
    """Where finished trials go; `history.RunFolder` is one, and `Kept`."""

    @property
    def finished(self) -> Mapping[Trial, Measurement]:
        """What was measured."""

    @property
    def failed(self) -> Mapping[Trial, Failure]:
        """What could not be."""

    def missing(self) -> tuple[Trial, ...]:
        """What is planned and neither measured nor failed."""

    def require_version(self, engine: str, version: str | None) -> None:
        """Refuse another version of an engine than the one that was measured before."""

    def add(self, measurement: Measurement) -> None:
        """Keep what was measured."""

    def fail(self, failure: Failure) -> None:
        """Keep why something could not be measured."""

    def update(
        self, *, cautions: tuple[Caution, ...] | None = None, seconds: Mapping[str, float] | None = None
    ) -> None:
        """Change what is said of the whole run."""

    def run(self) -> Run:
        """All of it, in the order of the plan."""


class Kept:
    """Finished trials in memory."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.finished: dict[Trial, Measurement] = {}
        self.failed: dict[Trial, Failure] = {}

    def missing(self) -> tuple[Trial, ...]:
        """What is planned and neither measured nor failed."""
        planned = self._run.planned or ()
        return tuple(each for each in planned if each not in self.finished and each not in self.failed)

    def require_version(self, engine: str, version: str | None) -> None:
        """Nothing was measured before."""

    def add(self, measurement: Measurement) -> None:
        """Keep what was measured."""
        self.finished[measurement.trial] = measurement

    def fail(self, failure: Failure) -> None:
        """Keep why something could not be measured."""
        self.failed[failure.trial] = failure

    def update(
        self, *, cautions: tuple[Caution, ...] | None = None, seconds: Mapping[str, float] | None = None
    ) -> None:
        """Change what is said of the whole run."""
        given: dict[str, Any] = {"cautions": cautions, "seconds": seconds}
        self._run = replace(self._run, **{name: each for name, each in given.items() if each is not None})

    def run(self) -> Run:
        """All of it, in the order of the plan."""
        planned = self._run.planned or ()
        return replace(
            self._run,
            measurements=tuple(self.finished[each] for each in planned if each in self.finished),
            failures=tuple(self.failed[each] for each in planned if each in self.failed),
        )
