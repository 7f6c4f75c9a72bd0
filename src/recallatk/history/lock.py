"""One process measures into a folder at a time, and the system knows when it is gone."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from recallatk.errors import UsageError
from recallatk.locks import try_lock

if TYPE_CHECKING:
    from pathlib import Path

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
