"""HDF5 files that are written completely or raise an error, even on a full disk."""

from __future__ import annotations

import io
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from recallatk.errors import needing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def hdf5_library() -> Any:
    """The module h5py; without it, an error with the command that installs it."""
    with needing("h5py, which reads and writes HDF5 files,", "hdf5"):
        import h5py

    return h5py


@contextmanager
def new_hdf5_file(path: Path) -> Iterator[Any]:
    """A new `h5py.File`; write errors are raised after it is closed."""
    h5py = hdf5_library()
    with path.open("w+b", buffering=0) as raw:
        file = _PatientFile(raw)
        with h5py.File(file, "w") as made:
            yield made
        if file.problem is not None:
            raise file.problem


class _PatientFile(io.RawIOBase):
    """Accepts every write and records the first error, because HDF5 crashes at close if a write fails."""

    def __init__(self, raw: io.FileIO) -> None:
        self._raw = raw
        self.problem: OSError | None = None

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._raw.seek(offset, whence)

    def readinto(self, buffer: Any) -> int | None:
        return self._raw.readinto(buffer)

    def truncate(self, size: int | None = None) -> int:
        return self._raw.truncate(size)

    def write(self, data: Any) -> int:
        left = memoryview(data).cast("B")
        size = len(left)
        try:
            while self.problem is None and len(left):
                left = left[self._raw.write(left) or 0 :]
        except OSError as problem:
            self.problem = problem
        return size
