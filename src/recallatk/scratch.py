"""Temporary folders that their owner locks, so that a later process can remove what a killed one left."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

from recallatk.files import PathLike, writing
from recallatk.locks import try_lock

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX = "recallatk-"
_MARKER, _FILES = "owner.lock", "files"
_ADVICE = "Free some space there, or set TMPDIR to a folder that has more"
_LOOK_SECONDS = 0.05


class ScratchFolder:
    """A folder of this process below the system's temporary one, for as long as it is needed.

    `path` is where files go. Beside it stands the marker: a file that names the owner and that the owner
    keeps locked. The lock outlives this object only in a process that was given `descriptor`.
    """

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix=PREFIX))
        self.path = self.root / _FILES
        held: list[int] = []
        self._finalizer = weakref.finalize(self, _remove_own, self.root, os.getpid(), held)
        with scratch_writing(self.root):
            self.descriptor = os.open(self.root / f"{_MARKER}.new", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            held.append(self.descriptor)
            os.write(self.descriptor, str(os.getpid()).encode())
            try_lock(self.descriptor)
            # Locked before it has its name, so that nobody ever finds it free.
            (self.root / f"{_MARKER}.new").rename(self.root / _MARKER)
            self.path.mkdir(0o700)

    def remove(self) -> None:
        """Remove the folder with everything in it; may be called twice."""
        self._finalizer()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()


def scratch_writing(path: PathLike) -> contextlib.AbstractContextManager[None]:
    """Name the path, and TMPDIR as the way out, in what the system says while a scratch file is written."""
    return writing(path, _ADVICE)


def sweep() -> None:
    """Remove the scratch folders of this user whose owners have ended."""
    for root in _marked():
        _remove_abandoned(root)


def reclaim(owner: int, seconds: float) -> None:
    """Remove the scratch folders of a process that has ended.

    Args:
        owner: the id that the process had.
        seconds: how long to wait for servers that it started and that still hold a folder.
    """
    until = time.monotonic() + seconds
    for root in _marked():
        with contextlib.suppress(OSError):
            theirs = (root / _MARKER).read_text() == str(owner)
            while theirs and not _remove_abandoned(root) and time.monotonic() < until:
                time.sleep(_LOOK_SECONDS)


def _marked() -> Iterator[Path]:
    """Every folder of this user that looks like a scratch folder."""
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as found:
        for each in found:
            if each.name.startswith(PREFIX) and each.is_dir(follow_symlinks=False):
                marker = Path(each.path, _MARKER)
                if _is_own(each.path) and _is_own(marker):
                    yield marker.parent


def _is_own(path: PathLike) -> bool:
    with contextlib.suppress(OSError):
        return not hasattr(os, "geteuid") or os.lstat(path).st_uid == os.geteuid()
    return False


def _remove_abandoned(root: Path) -> bool:
    """Remove a folder unless a living process holds its marker; whether there is nothing left to wait for."""
    try:
        descriptor = os.open(root / _MARKER, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return True
    try:
        locked = try_lock(descriptor)
        # Another process may have removed the folder since the file was opened.
        if locked and _still_named(descriptor, root / _MARKER):
            _remove(root)
        return locked is not False
    finally:
        os.close(descriptor)


def _still_named(descriptor: int, path: Path) -> bool:
    with contextlib.suppress(OSError):
        opened = os.fstat(descriptor)
        return stat.S_ISREG(opened.st_mode) and os.path.samestat(opened, path.lstat())
    return False


def _remove_own(root: Path, owner: int, descriptors: list[int]) -> None:
    # A forked child has the object too, and leaves the folder to its parent.
    if os.getpid() == owner:
        _remove(root)
        for each in descriptors:
            os.close(each)


def _remove(root: Path) -> None:
    shutil.rmtree(root / _FILES, ignore_errors=True)
    if not (root / _FILES).exists():
        # The marker goes last: without it, what could not be removed would stay forever.
        shutil.rmtree(root, ignore_errors=True)
