"""A run folder during measurement: locked, and consistent at every moment."""

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
from recallatk.storage.records import timed_call
from recallatk.storage.resume import WAY_OUT, adopt, adopt_failures, stored_run
from recallatk.storage.run_file import RUN, line, planned_lines, run_head, write_run_file
from recallatk.storage.run_store import local_folder, require_same_data
from recallatk.storage.trial_file import file_summary, write_trial

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from recallatk.core import Caution, Dataset, Failure, Measurement, Run, Trial
    from recallatk.files import PathLike


class RunFolder:
    """A run while it is being measured: every trial is on the disk as soon as it is finished."""

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
        """Where the trials that were found were measured; None where the run begins here."""
        if stored is not None:
            kept = {name: getattr(stored, name) for name in ("environment", "begun", "cautions", "seconds")}
            run = replace(run, **kept)
        # Kept, so that no trial has to be read again, or turned into text again, to write run.json.
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
        """Begin a run in a folder, or go on with the one that is there.

        Args:
            folder: where to write; made if need be.
            run: everything but measurements: what is planned, on which data, with which settings.
            dataset: the data, whose ids stand beside the answers.
            fresh: remove a run that is there, and begin anew.
            retry_failed: measure trials again that have failed.
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
        """What was measured, here or before, each read from its file when it is asked for."""
        return self._finished

    @property
    def failed(self) -> Mapping[Trial, Failure]:
        """What could not be measured, here or before."""
        return self._failed

    def missing(self) -> tuple[Trial, ...]:
        """What is planned and neither finished nor failed, in order."""
        planned = self._run.planned or ()
        return tuple(each for each in planned if each not in self._finished and each not in self._failed)

    def require_version(self, engine: str, version: str | None) -> None:
        """Refuse to mix versions of an engine; one that cannot be told is passed over."""
        for trial in self._ordered():
            summary = self._summaries[trial]
            found = summary["version"]
            if summary["engine"] == engine and None not in (found, version) and found != version:
                raise MismatchError(
                    f"{self.folder / summary['file']} was measured with {found}, and this is {version}: "
                    f"versions of {engine} are not mixed. {WAY_OUT}"
                )

    def add(self, measurement: Measurement) -> None:
        """Write a finished trial, then run.json."""
        trial = measurement.trial
        path = self._path(trial)
        if trial in self._finished:
            raise UsageError(f"{trial}: is finished already, and nothing is measured twice")
        with self._writing(path):
            head = run_head(self._run, describe_calls([measurement.timed_call]))
            write_trial(path, measurement, self._dataset, head)
        self._summaries[trial] = file_summary(path, measurement)
        self._lines[trial] = line(self._summaries[trial])
        # Last: after Ctrl-C at any moment above, run.json is still written, of what is complete here.
        self._finished.add(trial, path)
        self._failed.pop(trial, None)
        self._write_run_file()

    def fail(self, failure: Failure) -> None:
        """Write down that a trial could not be measured."""
        self._path(failure.trial)
        if failure.trial in self._finished:
            raise UsageError(f"{failure.trial}: is finished already, so it did not fail")
        self._failed[failure.trial] = failure
        self._write_run_file()

    def update(
        self,
        *,
        environment: Mapping[str, Any] | None = None,
        cautions: tuple[Caution, ...] | None = None,
        seconds: Mapping[str, float] | None = None,
    ) -> None:
        """Replace what is given, and write run.json."""
        given = {"environment": environment, "cautions": cautions, "seconds": seconds}
        new: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        self._run = replace(self._run, **new)
        self._write_run_file()

    def run(self) -> Run:
        """The run so far, with everything that is finished."""
        measurements = tuple(self._finished[trial] for trial in self._ordered())
        return replace(self.described, measurements=measurements)

    def close(self) -> None:
        """Let others write into the folder; may be called twice."""
        self._lock.release()

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def described(self) -> Run:
        """The run so far without its measurements, for which no file has to be read."""
        places = self._places or {}
        failures = sorted(self._failed.values(), key=lambda each: places.get(each.trial, 0))
        return replace(self._run, failures=tuple(failures))

    def _path(self, trial: Trial) -> Path:
        """Where a trial stands, or is to stand."""
        if not self._lock.held:
            raise UsageError(f"{self.folder}: was closed")
        if trial in self._finished:
            return self._finished.paths[trial]
        if self._places is None:
            return self.folder / trial_name(max(trial_numbers(self.folder), default=0) + 1)
        if trial not in self._places:
            raise UsageError(f"{trial}: is not planned in {self.folder}")
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
            said = f"{kept} finished trial{'s are' if kept != 1 else ' is'} kept: free the way, and the same "
            raise WriteError(path, problem.reason, said + "command goes on" if kept else "") from problem


def _reason(problem: OSError) -> str:
    return os.strerror(problem.errno) if problem.errno else " ".join(str(problem).split())
