"""The run folders and tunings that a user names: found, named apart, and opened without trust."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from recallatk.errors import FormatError, UsageError
from recallatk.files import reading
from recallatk.redaction import is_url, without_secrets
from recallatk.reporting.tuned_file import TUNED, read_tuned
from recallatk.storage import list_runs, load_run
from recallatk.storage.folder_scan import SIDECARS, trial_name, trial_numbers
from recallatk.storage.run_file import RUN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from recallatk.core import Run
    from recallatk.core.judgments import Finding
    from recallatk.core.tuned import Tuned
    from recallatk.files import PathLike


@dataclass(frozen=True)
class FoundFolder:
    """A folder with a run or a tuning."""

    name: str
    """Its name on the site, which no other one has."""
    folder: Path
    tuning: bool = False


def find_folders(paths: Sequence[PathLike]) -> list[FoundFolder]:
    """Every run and tuning in the folders and below them, by name.

    Args:
        paths: run folders, their run.json, folders of tunings, or folders that hold such folders.
    """
    found: dict[Path, FoundFolder] = {}
    for path in paths:
        there = list(_below(path))
        if not there:
            raise UsageError(f"{path}: no run in this folder or its subfolders. Measure one: recallatk run")
        for each in there:
            found.setdefault(each.folder.resolve(), each)
    return _named_apart(sorted(found.values(), key=lambda each: (each.name, str(each.folder))))


def _below(path: PathLike) -> Iterator[FoundFolder]:
    text = os.fspath(path)
    if is_url(text):
        raise UsageError(f"{without_secrets(text)}: runs are published from local folders")
    root = Path(text)
    if root.name in (RUN, TUNED) and not root.is_dir():
        root = root.parent
    if not root.is_dir():
        raise UsageError(f"{path}: no such run folder. List the runs in a folder: recallatk runs FOLDER")
    runs = {Path(each.folder): each.name for each in list_runs(root)}
    for folder, name in runs.items():
        yield FoundFolder(_usual_name(name, folder), folder)
    for place, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        here = Path(place)
        if TUNED in files and here not in runs:
            name = root.name if here == root else here.relative_to(root).as_posix()
            yield FoundFolder(_usual_name(name, here), here, tuning=True)


def _usual_name(name: str, folder: Path) -> str:
    return name if name not in ("", ".", "..") else folder.resolve().name


def _named_apart(found: Sequence[FoundFolder]) -> list[FoundFolder]:
    """The folders; those that would have the same name get a number."""
    taken: dict[str, int] = {}
    named = []
    for each in found:
        taken[each.name] = taken.get(each.name, 0) + 1
        count = taken[each.name]
        named.append(each if count == 1 else replace(each, name=f"{each.name} ({count})"))
    return named


def open_found_run(found: FoundFolder) -> Run:
    """The run in a folder; every reason why it cannot be shown is a FormatError or a UsageError."""
    with reading(str(found.folder), "run"):
        _require_own_files(found.folder)
        return load_run(found.folder)


def open_found_tuning(found: FoundFolder) -> tuple[Tuned, list[Finding] | None]:
    """The tuning in a folder with the findings of the linter; likewise."""
    with reading(str(found.folder), "tuning"):
        _require_own_files(found.folder)
        return read_tuned(found.folder / TUNED)


def _require_own_files(folder: Path) -> None:
    """Refuse links that lead out of a run folder: whoever made it would choose what is published."""
    inside = folder.resolve()
    numbers = trial_numbers(folder)
    of_trials = [trial_name, *(each.name for each in SIDECARS)]
    for name in [RUN, TUNED, *(name(number) for name in of_trials for number in numbers)]:
        path = folder / name
        if path.is_symlink() and inside not in path.resolve().parents:
            raise FormatError(str(path), "a link to a file outside the run folder", "the file itself")
