"""Copies of collections in local files, for libraries that write to what they open."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from recallatk.errors import EngineError
from recallatk.scratch import ScratchFolder, scratch_writing, sweep
from recallatk.units import mebibytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import BinaryIO

_BLOCK = 8 << 20
_ATTEMPTS = 5
# Clocks of file systems tick in milliseconds: a later write could have the same time.
_SETTLED_NS = 50_000_000


class CollectionCopy:
    """A folder or file copied to a temporary folder, once nothing writes to it.

    Args:
        source: the folder or file, which is only read.
        endings: of files beside a file that belong to it, such as `-wal`; those that exist are copied too.
        left_out: whether a path in the folder is left out.
        name: of the copy.
    """

    def __init__(
        self,
        source: Path,
        *,
        endings: Sequence[str] = (),
        left_out: Callable[[Path], bool] | None = None,
        name: str = "copy",
    ) -> None:
        # A process that was killed may have left a copy as large as this one.
        sweep()
        self._scratch = ScratchFolder()
        self.path = self._scratch.path / name
        self._pairs = {source: self.path} | {
            source.with_name(source.name + each): self.path.with_name(name + each) for each in endings
        }
        self._left_out = left_out
        try:
            if not any(self._taken(source) for _ in range(_ATTEMPTS)):
                raise EngineError(
                    f"{source} was written while it was copied. Probe it while nothing writes to it"
                )
        except BaseException:
            self.remove()
            raise

    def _taken(self, source: Path) -> bool:
        """Copy everything; whether it was the same afterwards."""
        self._empty()
        with _reading(source):
            before = self._state()
        if any(abs(time.time_ns() - changed) < _SETTLED_NS for _, changed in before.values()):
            time.sleep(2 * _SETTLED_NS / 1e9)
            return False
        self._require_space(source, sum(size for size, _ in before.values()))
        try:
            for path, target in self._places():
                _copy(path, target)
            return self._state() == before
        except FileNotFoundError:
            # A file was removed meanwhile.
            return False

    def _empty(self) -> None:
        """Remove what an attempt left: a file that is gone since would belong to another state."""
        for each in self._scratch.path.iterdir():
            if each.is_dir():
                shutil.rmtree(each)
            else:
                each.unlink()

    def _places(self) -> Iterator[tuple[Path, Path]]:
        """Every file and folder, and its place in the copy; folders come before what they hold."""
        for source, target in self._pairs.items():
            if source.exists():
                yield source, target
            for path in _below(source) if source.is_dir() else ():
                if self._left_out is None or not self._left_out(path):
                    yield path, target / path.relative_to(source)

    def _state(self) -> dict[Path, tuple[int, int]]:
        """Size and time of change of every file."""
        held = {path: path.stat() for path, _ in self._places() if path.is_file()}
        return {path: (each.st_size, each.st_mtime_ns) for path, each in held.items()}

    def _require_space(self, source: Path, needed: int) -> None:
        free = shutil.disk_usage(self._scratch.path).free
        if needed > free:
            raise EngineError(
                f"{source} is probed on a copy of {mebibytes(needed)}, and {self._scratch.path.parent} has "
                f"{mebibytes(free)} free. Set TMPDIR to a folder with more space"
            )

    def remove(self) -> None:
        """Remove the copy; safe to call twice."""
        self._scratch.remove()


def _below(source: Path) -> list[Path]:
    """Everything in a folder; links are followed."""

    def stop(problem: OSError) -> None:
        raise problem

    found = []
    for folder, folders, names in os.walk(source, onerror=stop, followlinks=True):
        found += [Path(folder, name) for name in (*folders, *names)]
    return sorted(found)


def _copy(path: Path, target: Path) -> None:
    if path.is_dir():
        with scratch_writing(target):
            target.mkdir(exist_ok=True)
    elif path.is_file():
        with _reading(path):
            file = path.open("rb")
        with file, scratch_writing(target), target.open("wb") as copy:
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
    except FileNotFoundError:
        raise
    except OSError as problem:
        raise EngineError(f"{path} cannot be read: {problem.strerror or problem}") from None
