"""A run folder during measurement: locked, and consistent at all times."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from recallatk.core import describe_calls
from recallatk.errors import MismatchError, UsageError, WriteError
from recallatk.redaction import public
from recallatk.storage.folder_scan import (
    FolderLock,
    forget,
    survey,
    sweep,
    trial_name,
    trial_number,
    trial_numbers,
)
from recallatk.storage.judged_file import JUDGED, write_judged
from recallatk.storage.loss_file import LOSSES, write_loss
from recallatk.storage.records import timed_call
from recallatk.storage.resume import WAY_OUT, adopt, adopt_failures, stored_run
from recallatk.storage.run_file import RUN, line, planned_lines, run_head, write_run_file
from recallatk.storage.run_store import local_folder, require_same_data
from recallatk.storage.stage_file import write_stages
from recallatk.storage.trial_file import file_summary, write_trial
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from recallatk.core import Caution, Dataset, Failure, Measurement, Run, Trial
    from recallatk.core.judged import Judged
    from recallatk.core.losses import LossEvidence
    from recallatk.files import PathLike


class RunFolder:
    """A run during measurement: every finished trial is written to disk at once."""

    def __init__(
        self, folder: Path, run: Run, dataset: Dataset, lock: FolderLock, *, fresh: bool, retry_failed: bool
    ) -> None:
        self.folder, self._dataset, self._lock = folder, dataset, lock
        planned = None if run.planned is None else tuple(dict.fromkeys(run.planned))
        self._places = None if planned is None else {each: place for place, each in enumerate(planned, 1)}
        sweep(folder)
        found = survey(folder)
        if fresh:
            forget(found)
            found = survey(folder)
        found.require_room(range(1, len(planned or ()) + 1))
        run = replace(run, planned=planned, settings=public(dict(run.settings)), measurements=())
        stored = stored_run(found, run)
        self.earlier_environment: Mapping[str, Any] | None = None if stored is None else stored.environment
        """The environment of the trials found in the folder; None for a new run."""
        if stored is not None:
            kept = {name: getattr(stored, name) for name in ("environment", "begun", "cautions", "seconds")}
            run = replace(run, **kept)
        # Kept so that writing run.json needs neither to read trials again nor to serialize them again.
        self._finished, self._summaries = adopt(found, planned)
        self._lines = {trial: line(summary) for trial, summary in self._summaries.items()}
        self._planned_lines = planned_lines(run)
        failures = () if retry_failed or stored is None else stored.failures
        self._failed = adopt_failures(failures, planned, self._finished)
        self._run = run
        self._write_run_file()

    @classmethod
    def open(
        cls,
        folder: PathLike,
        run: Run,
        dataset: Dataset,
        *,
        fresh: bool = False,
        retry_failed: bool = False,
    ) -> RunFolder:
        """Start a run in a folder, or resume the one that is there.

        Args:
            folder: the folder to write to; created if missing.
            run: everything except measurements: plan, data and settings.
            dataset: the data; its ids are written with the answers.
            fresh: remove an existing run and start over.
            retry_failed: measure failed trials again.
        """
        target = local_folder(folder)
        require_same_data(run, dataset)
        try:
            target.mkdir(parents=True, exist_ok=True)
            lock = FolderLock(target)
        except OSError as problem:
            raise WriteError(target, _reason(problem)) from problem
        try:
            return cls(target, run, dataset, lock, fresh=fresh, retry_failed=retry_failed)
        except BaseException:
            lock.release()
            raise

    @property
    def finished(self) -> Mapping[Trial, Measurement]:
        """Finished trials, now or earlier; each is read from its file on access."""
        return self._finished

    @property
    def failed(self) -> Mapping[Trial, Failure]:
        """Failed trials, now or earlier."""
        return self._failed

    def missing(self) -> tuple[Trial, ...]:
        """Planned trials that are neither finished nor failed, in order."""
        planned = self._run.planned or ()
        return tuple(each for each in planned if each not in self._finished and each not in self._failed)

    def require_version(self, engine: str, version: str | None) -> None:
        """Refuse to mix versions of an engine; unknown versions pass."""
        for trial in self._ordered():
            summary = self._summaries[trial]
            found = summary["version"]
            if summary["engine"] == engine and None not in (found, version) and found != version:
                raise MismatchError(
                    f"version mismatch: {self.folder / summary['file']} was measured with {found}, but "
                    f"{engine} now uses {version}. {WAY_OUT}"
                )

    def add(self, measurement: Measurement) -> None:
        """Write a finished trial, then run.json."""
        trial = measurement.trial
        path = self._path(trial)
        if trial in self._finished:
            raise UsageError(f"{trial}: already finished; trials are not measured twice")
        with self._writing(path):
            head = run_head(self._run, describe_calls([measurement.timed_call]))
            # Stages first: a trial without them would be compared with another truth.
            if measurement.stages is not None:
                write_stages(path, measurement, measurement.stages, head)
            write_trial(path, measurement, self._dataset, head)
        self._summaries[trial] = file_summary(path, measurement)
        self._lines[trial] = line(self._summaries[trial])
        # Last, so that run.json lists only complete trials if Ctrl-C hits at any point above.
        self._finished.add(trial, path)
        if measurement.stages is not None:
            self._finished.staged.add(trial)
        self._failed.pop(trial, None)
        self._write_run_file()

    def unexplained(self) -> tuple[Trial, ...]:
        """Finished trials without evidence on what they missed, in order."""
        return tuple(each for each in self._ordered() if each not in self._finished.explained)

    def explain(self, trial: Trial, evidence: LossEvidence) -> None:
        """Write the evidence on what a finished trial missed."""
        path = LOSSES.beside(self._path(trial))
        if trial not in self._finished:
            raise UsageError(f"{trial}: not finished, so there is nothing to explain")
        with self._writing(path):
            write_loss(path, self._finished[trial], evidence, run_head(self._run, None))
        self._finished.explained.add(trial)

    def unjudged(self, identity: str) -> tuple[Trial, ...]:
        """Finished trials whose answers were not judged by this, in order."""
        judged = self._finished.judged
        return tuple(each for each in self._ordered() if judged.get(each) != identity)

    def judge(self, trial: Trial, judged: Judged) -> None:
        """Write how good the answers of a finished trial are downstream."""
        path = JUDGED.beside(self._path(trial))
        if trial not in self._finished:
            raise UsageError(f"{trial}: not finished, so there are no answers to judge")
        with self._writing(path):
            write_judged(path, self._finished[trial], judged, run_head(self._run, None))
        self._finished.judged[trial] = judged.identity

    def fail(self, failure: Failure) -> None:
        """Record that a trial could not be measured."""
        self._path(failure.trial)
        if failure.trial in self._finished:
            raise UsageError(f"{failure.trial}: already finished, so it cannot fail")
        self._failed[failure.trial] = failure
        self._write_run_file()

    def update(
        self,
        *,
        environment: Mapping[str, Any] | None = None,
        cautions: tuple[Caution, ...] | None = None,
        seconds: Mapping[str, float] | None = None,
    ) -> None:
        """Replace the given fields, and write run.json."""
        given = {"environment": environment, "cautions": cautions, "seconds": seconds}
        new: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        self._run = replace(self._run, **new)
        self._write_run_file()

    def run(self) -> Run:
        """The run so far, with all finished trials."""
        measurements = tuple(self._finished[trial] for trial in self._ordered())
        return replace(self.described, measurements=measurements)

    def close(self) -> None:
        """Release the folder; safe to call twice."""
        self._lock.release()

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def described(self) -> Run:
        """The run so far without measurements, which reads no files."""
        places = self._places or {}
        failures = sorted(self._failed.values(), key=lambda each: places.get(each.trial, 0))
        return replace(self._run, failures=tuple(failures))

    def _path(self, trial: Trial) -> Path:
        """File of a trial, existing or planned."""
        if not self._lock.held:
            raise UsageError(f"{self.folder}: the run folder is closed")
        if trial in self._finished:
            return self._finished.paths[trial]
        if self._places is None:
            return self.folder / trial_name(max(trial_numbers(self.folder), default=0) + 1)
        if trial not in self._places:
            raise UsageError(f"{trial}: not part of the plan of {self.folder}")
        return self.folder / trial_name(self._places[trial])

    def _ordered(self) -> list[Trial]:
        paths = self._finished.paths
        return sorted(paths, key=lambda trial: trial_number(paths[trial].name) or 0)

    def _write_run_file(self) -> None:
        with self._writing(self.folder / RUN):
            lines = [self._lines[trial] for trial in self._ordered()]
            timed = describe_calls(timed_call(each) for each in self._summaries.values())
            write_run_file(self.folder, self.described, timed, self._planned_lines, lines)

    @contextlib.contextmanager
    def _writing(self, path: Path) -> Iterator[None]:
        try:
            yield
        except WriteError as problem:
            kept = len(self._finished)
            saved = f"{counted(kept, 'finished trial is', 'finished trials are')} saved."
            hint = f"{saved} Fix the cause and run the same command to resume" if kept else ""
            raise WriteError(path, problem.reason, hint) from problem


def _reason(problem: OSError) -> str:
    return os.strerror(problem.errno) if problem.errno else " ".join(str(problem).split())
