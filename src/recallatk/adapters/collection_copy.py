"""Copies of collections in local files, for libraries that write to what they open."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from recallatk.errors import EngineError
from recallatk.scratch import ScratchFolder, scratch_writing, sweep

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

_BLOCK = 8 << 20


class CollectionCopy:
    """A folder copied to a temporary one.

    Args:
        source: the folder, which is only read.
    """

    def __init__(self, source: Path) -> None:
        # A process that was killed may have left a copy as large as this one.
        sweep()
        self._scratch = ScratchFolder()
        self.path = self._scratch.path / "copy"
        try:
            before = _state(source)
            _copy_folder(source, self.path)
            if _state(source) != before:
                raise EngineError(
                    f"{source} was written while it was copied. Probe it while nothing writes to it"
                )
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """Remove the copy; safe to call twice."""
        self._scratch.remove()


def _state(source: Path) -> list[tuple[str, int, int]]:
    """Name, size and time of change of every file."""
    with _reading(source):
        found = [(path, path.stat()) for path in _paths(source)]
    return [(str(path), each.st_size, each.st_mtime_ns) for path, each in found]


def _paths(source: Path) -> list[Path]:
    """Everything below a folder, folders before what they hold; links are followed."""

    def stop(problem: OSError) -> None:
        raise problem

    found = []
    for folder, folders, names in os.walk(source, onerror=stop, followlinks=True):
        found += [Path(folder, name) for name in (*folders, *names)]
    return sorted(found)


def _copy_folder(source: Path, target: Path) -> None:
    with scratch_writing(target):
        target.mkdir()
    with _reading(source):
        paths = _paths(source)
    for path in paths:
        place = target / path.relative_to(source)
        if path.is_dir():
            with scratch_writing(place):
                place.mkdir()
        elif path.is_file():
            with _reading(path):
                file = path.open("rb")
            with file, scratch_writing(place), place.open("wb") as copy:
                _copy_data(file, copy)


def _copy_data(source: BinaryIO, target: BinaryIO) -> None:
    """Copy without the holes of sparse files, which stores make many times larger than their content."""
    size = os.fstat(source.fileno()).st_size
    if not hasattr(os, "SEEK_DATA"):
        shutil.copyfileobj(source, target, _BLOCK)
        return
    position = 0
    while position < size:
        try:
            start = os.lseek(source.fileno(), position, os.SEEK_DATA)
        except OSError:
            # There is only a hole up to the end.
            break
        position = os.lseek(source.fileno(), start, os.SEEK_HOLE)
        source.seek(start)
        target.seek(start)
        while start < position and (data := source.read(min(_BLOCK, position - start))):
            target.write(data)
            start += len(data)
    target.truncate(size)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise EngineError(f"{path} cannot be read: {problem.strerror or problem}") from None
