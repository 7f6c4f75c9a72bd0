"""Contents and lock of a run folder: its own files, foreign files, and the process that writes to it."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from recallatk.errors import FormatError, UsageError
from recallatk.locks import try_lock
from recallatk.storage.judged_file import JUDGED
from recallatk.storage.loss_file import LOSSES
from recallatk.storage.run_file import RUN, read_run_header
from recallatk.storage.stage_file import SPANS, STAGES
from recallatk.storage.trial_file import read_header

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from recallatk.storage.records import Record

NAME = ".lock"


class FolderLock:
    """An exclusive lock on a folder, held until it is released or the process ends for any reason."""

    def __init__(self, folder: Path, writes: str = "a run") -> None:
        self._path, self._writes = folder / NAME, writes
        self._descriptor: int | None = self._acquired(folder)
        with contextlib.suppress(OSError):
            os.truncate(self._descriptor, 0)
            os.write(self._descriptor, f"{os.getpid()}\n".encode())

    def _acquired(self, folder: Path) -> int:
        while True:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                # On systems without file locks, an unlocked run is better than none.
                if try_lock(descriptor) is False:
                    raise UsageError(
                        f"{folder}: {_holder(self._path)} is writing {self._writes} there. Wait for it to "
                        "finish, or choose another folder (--out)"
                    )
                if self._is_ours(descriptor):
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def _is_ours(self, descriptor: int) -> bool:
        """Whether the locked file is still the one at the path."""
        try:
            return os.path.samestat(os.fstat(descriptor), self._path.stat())
        except FileNotFoundError:
            return False

    @property
    def held(self) -> bool:
        """Whether the lock is still held."""
        return self._descriptor is not None

    def release(self) -> None:
        """Release the lock; safe to call twice."""
        if self._descriptor is None:
            return
        # Remove it before unlocking: a process that has it open notices that it is gone, and opens a new one.
        with contextlib.suppress(OSError):
            self._path.unlink()
        os.close(self._descriptor)
        self._descriptor = None


def _holder(path: Path) -> str:
    with contextlib.suppress(OSError, ValueError):
        return f"process {int(path.read_text())}"
    return "another process"


LOGS = "logs"
# Files beside a trial file, which come, move and go with it.
SIDECARS = (LOSSES, JUDGED, STAGES, SPANS)
_TRIAL = re.compile(r"trial-([1-9][0-9]*)\.parquet")
_LOG = re.compile(r"build-[0-9]+\.txt")
# Temporary files that a killed process leaves behind.
_SCRATCH = re.compile(r"\.((trial|loss|judged|stages|spans)-[0-9]+\..*\.parquet|run\..*\.json)")


@dataclass(frozen=True)
class FolderScan:
    """The files of a run in a folder, judging by their headers."""

    folder: Path
    header: Record | None
    """The content of run.json; None if it is missing, foreign or damaged."""
    foreign_header: bool
    """Whether there is a run.json that does not seem to belong to a run."""
    trials: dict[int, Record] = field(default_factory=dict)
    """Headers of the run's trial files by number."""
    unreadable: tuple[int, ...] = ()
    foreign: tuple[int, ...] = ()
    """Valid Parquet files with the name of a trial file that no run wrote."""

    @property
    def is_run(self) -> bool:
        """Whether the folder holds files of a run."""
        return self.header is not None or bool(self.trials)

    @property
    def damaged(self) -> tuple[int, ...]:
        """Unreadable files that can only be trials of this run."""
        if self.header is None:
            return self.unreadable if self.trials else ()
        lists = [found for name in ("planned", "trials") if isinstance(found := self.header.get(name), list)]
        # Trials that the plan no longer names are behind it.
        named = (str(each.get("file")) for found in lists for each in found if isinstance(each, dict))
        last = max([0, *map(len, lists), *(number for each in named if (number := trial_number(each)))])
        return tuple(number for number in self.unreadable if number <= last)

    def require_room(self, numbers: Iterable[int]) -> None:
        """Refuse to overwrite foreign files."""
        if self.foreign_header and not self.trials:
            raise self._refusal(RUN)
        strange = {*self.foreign, *self.unreadable}.difference(self.damaged)
        for number in sorted(strange.intersection(numbers)):
            raise self._refusal(trial_name(number))

    def _refusal(self, name: str) -> UsageError:
        return UsageError(
            f"{self.folder / name}: not a file of a run, but the run would overwrite it. Move it away, or "
            "choose another folder (--out)"
        )


def trial_name(number: int) -> str:
    """File name of a trial."""
    return f"trial-{number}.parquet"


def trial_number(name: str) -> int | None:
    """The number in the name of a trial file; None for any other name."""
    found = _TRIAL.fullmatch(name)
    return int(found[1]) if found else None


def is_run_file(name: str) -> bool:
    """Whether a run writes what was measured to files of this name."""
    _, _, number = name.removesuffix(".parquet").partition("-")
    beside = number.isdecimal() and name in [each.name(int(number)) for each in SIDECARS]
    return name == RUN or trial_number(name) is not None or beside


def trial_numbers(folder: Path) -> list[int]:
    """The numbers of all files named like trials."""
    found = (trial_number(each.name) for each in folder.iterdir())
    return sorted(number for number in found if number is not None)


def survey(folder: Path) -> FolderScan:
    """Scan a folder for files of a run."""
    trials: dict[int, Record] = {}
    unreadable, foreign = [], []
    for number in trial_numbers(folder):
        try:
            header = read_header(folder / trial_name(number))
        except FormatError as problem:
            require_reachable(problem)
            unreadable.append(number)
            continue
        if header is None:
            foreign.append(number)
        else:
            trials[number] = header
    try:
        header, strange = read_run_header(folder), False
    except FormatError as problem:
        require_reachable(problem)
        header, strange = None, True
    return FolderScan(folder, header, strange, trials, tuple(unreadable), tuple(foreign))


def require_reachable(problem: FormatError) -> None:
    """Raise a UsageError if the system could not read the file, as opposed to damage."""
    cause = problem.__cause__
    if isinstance(cause, OSError) and cause.errno:
        raise UsageError(f"{problem.where}: {problem.found}") from problem


def forget(contents: FolderScan) -> None:
    """Remove the files of an older run, so that none mixes with the new ones."""
    folder = contents.folder
    if not contents.is_run:
        return
    (folder / RUN).unlink(missing_ok=True)
    for number in (*contents.trials, *contents.damaged):
        remove_trial(folder, number)
    for log in (folder / LOGS).glob("*.txt"):
        if _LOG.fullmatch(log.name):
            log.unlink()
    with contextlib.suppress(OSError):
        (folder / LOGS).rmdir()


def remove_trial(folder: Path, number: int) -> None:
    """Remove the file of a trial and what stands beside it; files that no run wrote stay."""
    (folder / trial_name(number)).unlink(missing_ok=True)
    for each in SIDECARS:
        if not each.is_foreign(folder / each.name(number)):
            (folder / each.name(number)).unlink(missing_ok=True)


def sweep(folder: Path) -> None:
    """Remove files that a killed process left unfinished."""
    for path in folder.iterdir():
        if _SCRATCH.fullmatch(path.name):
            path.unlink(missing_ok=True)
