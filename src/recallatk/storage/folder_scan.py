"""Contents and lock of a run folder: files of a run, files of others, and who is writing."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from recallatk.errors import FormatError, UsageError
from recallatk.locks import try_lock
from recallatk.storage.run_file import RUN, read_run_header
from recallatk.storage.trial_file import read_header

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from recallatk.storage.records import Record

NAME = ".lock"


class FolderLock:
    """The right to write into a folder, until it is released or the process ends, however that may be."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._descriptor: int | None = self._acquired(folder)
        with contextlib.suppress(OSError):
            os.truncate(self._descriptor, 0)
            os.write(self._descriptor, f"{os.getpid()}\n".encode())

    def _acquired(self, folder: Path) -> int:
        while True:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                # Where the system has no locks, a run is better than none.
                if try_lock(descriptor) is False:
                    raise UsageError(
                        f"{folder}: {_holder(self._path)} is measuring into it. Wait for it to end, or "
                        "measure into another folder (--out)"
                    )
                if self._is_ours(descriptor):
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def _is_ours(self, descriptor: int) -> bool:
        """Whether the file that was locked is still the one that others would find."""
        try:
            return os.path.samestat(os.fstat(descriptor), self._path.stat())
        except FileNotFoundError:
            return False

    @property
    def held(self) -> bool:
        """Whether it was not released yet."""
        return self._descriptor is not None

    def release(self) -> None:
        """Let others in; may be called twice."""
        if self._descriptor is None:
            return
        # Removed while it is locked: whoever has opened it meanwhile sees that it is gone, and opens anew.
        with contextlib.suppress(OSError):
            self._path.unlink()
        os.close(self._descriptor)
        self._descriptor = None


def _holder(path: Path) -> str:
    with contextlib.suppress(OSError, ValueError):
        return f"process {int(path.read_text())}"
    return "another process"


LOGS = "logs"
_TRIAL = re.compile(r"trial-([1-9][0-9]*)\.parquet")
_LOG = re.compile(r"build-[0-9]+\.txt")
# What a killed process leaves of files that it was about to write.
_SCRATCH = re.compile(r"\.(trial-[0-9]+\..*\.parquet|run\..*\.json)")


@dataclass(frozen=True)
class FolderScan:
    """The files of a run that stand in a folder, as far as their headers tell."""

    folder: Path
    header: Record | None
    """What run.json says; None where there is none, or none that is ours and sound."""
    foreign_header: bool
    """There is a run.json that is not ours, as far as it can be told."""
    trials: dict[int, Record] = field(default_factory=dict)
    """The headers of our trial files by number."""
    unreadable: tuple[int, ...] = ()
    foreign: tuple[int, ...] = ()
    """Sound Parquet files of such names that somebody else wrote."""

    @property
    def is_run(self) -> bool:
        """Whether anything here is known to be ours."""
        return self.header is not None or bool(self.trials)

    @property
    def damaged(self) -> tuple[int, ...]:
        """The unreadable files that can only be trials of the run that is here."""
        if self.header is None:
            return self.unreadable if self.trials else ()
        lists = (self.header.get(name) for name in ("planned", "trials"))
        last = max(len(each) if isinstance(each, list) else 0 for each in lists)
        return tuple(number for number in self.unreadable if number <= last)

    def require_room(self, numbers: Iterable[int]) -> None:
        """Refuse to write over files of other people."""
        if self.foreign_header and not self.trials:
            raise self._refusal(RUN)
        strange = {*self.foreign, *self.unreadable}.difference(self.damaged)
        for number in sorted(strange.intersection(numbers)):
            raise self._refusal(trial_name(number))

    def _refusal(self, name: str) -> UsageError:
        return UsageError(
            f"{self.folder / name}: is no file of a run, and would be written over. Move it away, or measure "
            "into another folder (--out)"
        )


def trial_name(number: int) -> str:
    """What the file of a trial is called."""
    return f"trial-{number}.parquet"


def trial_number(name: str) -> int | None:
    """The number in the name of a trial file; None for all other names."""
    found = _TRIAL.fullmatch(name)
    return int(found[1]) if found else None


def trial_numbers(folder: Path) -> list[int]:
    """The numbers of all files that are called like trials."""
    found = (trial_number(each.name) for each in folder.iterdir())
    return sorted(number for number in found if number is not None)


def survey(folder: Path) -> FolderScan:
    """Look at everything that a run could have written."""
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
    """Tell a file that the system did not let us read from one that is damaged."""
    cause = problem.__cause__
    if isinstance(cause, OSError) and cause.errno:
        raise UsageError(f"{problem.where}: {problem.found}") from problem


def forget(contents: FolderScan) -> None:
    """Remove the files of an older run: none of them may stand beside the new ones."""
    folder = contents.folder
    if not contents.is_run:
        return
    (folder / RUN).unlink(missing_ok=True)
    for number in (*contents.trials, *contents.damaged):
        (folder / trial_name(number)).unlink(missing_ok=True)
    for log in (folder / LOGS).glob("*.txt"):
        if _LOG.fullmatch(log.name):
            log.unlink()
    with contextlib.suppress(OSError):
        (folder / LOGS).rmdir()


def sweep(folder: Path) -> None:
    """Remove what a killed process had not finished writing."""
    for path in folder.iterdir():
        if _SCRATCH.fullmatch(path.name):
            path.unlink(missing_ok=True)
