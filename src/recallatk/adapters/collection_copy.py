"""Temporary copies of collections that their library cannot open without writing to them."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING

from recallatk.errors import EngineError
from recallatk.scratch import ScratchFolder, scratch_writing
from recallatk.units import mebibytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    State = dict[Path, tuple[int, int]]

_ATTEMPTS = 5
# Clocks of file systems tick in milliseconds: a later write could have the same time.
_SETTLED_NS = 50_000_000


def copied(
    paths: Sequence[Path], text: str, leave_out: Callable[[Path], bool] | None = None
) -> ScratchFolder:
    """A temporary folder with copies of files and folders that did not change meanwhile.

    Args:
        paths: what is copied, under its own name; those that do not exist are left out.
        text: the target, for messages.
        leave_out: whether a path inside a folder is left out.
    """
    for _ in range(_ATTEMPTS):
        before = _state(paths, leave_out)
        if any(time.time_ns() - changed < _SETTLED_NS for _, changed in before.values()):
            time.sleep(2 * _SETTLED_NS / 1e9)
            continue
        folder = ScratchFolder()
        try:
            _require_space(folder.path, before, text)
            _copy(before, paths, folder.path)
            if _state(paths, leave_out) == before:
                return folder
        except FileNotFoundError:
            # A writer removed a file; the state tells that too.
            pass
        except BaseException:
            folder.remove()
            raise
        folder.remove()
    raise EngineError(
        f"{text} is written while it is copied, and opening it in place would write to it. Stop its writer, "
        "or make a backup and probe that"
    )


def _copy(files: State, roots: Sequence[Path], folder: Path) -> None:
    for path in files:
        root = next(each for each in roots if each == path or each in path.parents)
        copy = folder / path.relative_to(root.parent)
        with scratch_writing(copy):
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)


def _state(roots: Sequence[Path], leave_out: Callable[[Path], bool] | None) -> State:
    """Size and time of change of every file."""
    found = {}
    for path in _files(roots):
        if leave_out is None or not leave_out(path):
            try:
                held = path.stat()
            except FileNotFoundError:
                continue
            found[path] = (held.st_size, held.st_mtime_ns)
    return found


def _files(roots: Sequence[Path]) -> Iterator[Path]:
    for root in roots:
        if root.is_file():
            yield root
        elif root.is_dir():
            yield from (each for each in sorted(root.rglob("*")) if each.is_file())


def _require_space(folder: Path, files: State, text: str) -> None:
    needed, free = sum(size for size, _ in files.values()), shutil.disk_usage(folder).free
    if needed > free:
        raise EngineError(
            f"{text} is probed on a copy of {mebibytes(needed)}, and {folder.parent} has {mebibytes(free)} "
            "free. Set TMPDIR to a folder with more space"
        )
