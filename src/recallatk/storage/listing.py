"""List of all runs below a folder, from their headers alone."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recallatk.errors import FormatError, UsageError
from recallatk.files import reading
from recallatk.storage.folder_scan import LOGS, trial_name, trial_numbers
from recallatk.storage.run_file import RUN, read_run_header
from recallatk.storage.trial_file import read_header

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from recallatk.files import PathLike


@dataclass(frozen=True)
class ListedRun:
    """Summary of one run on disk."""

    name: str
    """Its folder, relative to the listed one."""
    folder: str
    dataset: str | None
    metric: str | None
    engines: tuple[str, ...]
    done: int
    """Number of finished trials, without those that are kept from earlier settings."""
    planned: int | None
    """Number of planned trials; None if unknown."""
    failed: int
    begun: str | None
    size_bytes: int
    format_version: int | None
    problem: str | None = None
    """Why its headers cannot be read, if so; the numbers are then counts of files."""
    kept: int = 0
    """Number of finished trials that the settings no longer name."""


def list_runs(folder: PathLike) -> list[ListedRun]:
    """All runs in a folder and below it, by name."""
    root = Path(folder)
    if not root.is_dir():
        raise UsageError(f"{root}: no such folder")
    found = (_listed(root, path) for path in _folders(root))
    return sorted((each for each in found if each is not None), key=lambda each: each.name)


def _folders(root: Path) -> Iterator[Path]:
    for place, folders, _ in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield Path(place)


def _listed(root: Path, path: Path) -> ListedRun | None:
    numbers = trial_numbers(path)
    if not numbers and not (path / RUN).exists():
        return None
    try:
        header = _header(path, numbers)
        if header is None:
            return None
        with reading(str(path / RUN), "run"):
            told, problem = _told(header), None
    except FormatError as found:
        told, problem = _UNTOLD, str(found)
    name = root.name or str(root) if path == root else path.relative_to(root).as_posix()
    size = sum(each.stat().st_size for each in _files(path, numbers))
    done = len(numbers) - told.get("kept", 0)
    return ListedRun(name=name, folder=str(path), done=done, size_bytes=size, problem=problem, **told)


def _header(path: Path, numbers: list[int]) -> Mapping[str, Any] | None:
    """run.json, or else the head stored in a trial file; None if no file here belongs to a run."""
    header = read_run_header(path)
    if header is not None:
        return header
    for number in numbers:
        found = read_header(path / trial_name(number))
        if found is not None and "run" in found:
            return {"format_version": found["format_version"], **found["run"], "trials": [found["trial"]]}
    return None


_UNTOLD: dict[str, Any] = {
    "dataset": None,
    "metric": None,
    "engines": (),
    "planned": None,
    "failed": 0,
    "begun": None,
    "format_version": None,
}


def _told(header: Mapping[str, Any]) -> dict[str, Any]:
    planned = header.get("planned")
    return {
        "dataset": str(header["dataset"]),
        "metric": str(header["metric"]),
        "engines": tuple(
            dict.fromkeys(str(each["engine"]) for each in [*(planned or ()), *header["trials"]])
        ),
        "planned": None if planned is None else len(planned),
        "failed": len(header.get("failures", ())),
        "kept": 0 if planned is None else sum(_trial(each) not in planned for each in header["trials"]),
        "begun": header.get("begun"),
        "format_version": int(header["format_version"]),
    }


def _trial(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: record.get(name) for name in ("engine", "build", "search", "load", "repeat")}


def _files(path: Path, numbers: list[int]) -> Iterator[Path]:
    named = [path / RUN, *(path / trial_name(number) for number in numbers)]
    yield from (each for each in named if each.is_file())
    if (path / LOGS).is_dir():
        yield from (each for each in (path / LOGS).iterdir() if each.is_file())
