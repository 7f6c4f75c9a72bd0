"""Temporary folders, locked by their owner so that a later process can clean up after a killed one."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
import weakref
from pathlib import Path

from recallatk.files import PathLike, writing
from recallatk.locks import try_lock

_LOCK = re.compile(r"recallatk-([0-9]+)-[0-9a-f]{16}\.lock")
# Base folder for scratch folders, in a process whose TMPDIR points elsewhere for its libraries.
_BASE = "RECALLATK_TMPDIR"
_ADVICE = "Free some space there, or set TMPDIR to a folder with more space"
_LOOK_SECONDS = 0.05


class ScratchFolder:
    """A temporary folder that belongs to this process.

    A lock file next to the folder is created before it and removed after it, so a folder that a killed
    process left behind has a lock that nobody holds. The lock outlives this object only in a process that
    inherited `descriptor`.
    """

    def __init__(self) -> None:
        self.path, self.descriptor = _made(Path(_base()))
        self._finalizer = weakref.finalize(self, _remove_own, self.path, os.getpid(), self.descriptor)

    def remove(self) -> None:
        """Remove the folder and its content; safe to call twice."""
        self._finalizer()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()


def _made(temporary: Path) -> tuple[Path, int]:
    """A new folder, and the descriptor of its lock file."""
    while True:
        path = temporary / f"recallatk-{os.getpid()}-{secrets.token_hex(8)}"
        with scratch_writing(_lock_of(path)):
            descriptor = os.open(_lock_of(path), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            # A cleanup by another process may have found it before it was locked.
            if try_lock(descriptor) is not False and _still_named(descriptor, _lock_of(path)):
                with scratch_writing(path):
                    path.mkdir(0o700)
                return path, descriptor
        except BaseException:
            _lock_of(path).unlink(missing_ok=True)
            os.close(descriptor)
            raise
        os.close(descriptor)


def _base() -> str:
    return os.environ.get(_BASE) or tempfile.gettempdir()


def temporary_below(folder: Path) -> dict[str, str]:
    """Environment for a process whose libraries put their temporary files into this folder.

    Its own scratch folders stay in the base folder of this process, because socket names must be short and a
    server may run as a different user.
    """
    folder.mkdir(exist_ok=True)
    return {**dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder)), _BASE: _base()}


def _lock_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def scratch_writing(path: PathLike) -> contextlib.AbstractContextManager[None]:
    """Turn system errors while writing a scratch file into a WriteError that names the path and TMPDIR."""
    return writing(path, _ADVICE)


def sweep() -> None:
    """Remove this user's scratch folders whose owners have ended."""
    for path, _ in _found():
        _remove_abandoned(path)


def reclaim(owner: int, seconds: float) -> None:
    """Remove the scratch folders of a process that has ended.

    Args:
        owner: the process id.
        seconds: how long to wait for servers that it started and that still hold a folder.
    """
    until = time.monotonic() + seconds
    for path, whose in _found():
        while whose == owner and not _remove_abandoned(path) and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)


def _found() -> list[tuple[Path, int]]:
    """This user's scratch folders that have a lock file, with the process ids of their owners."""
    found = []
    with contextlib.suppress(OSError), os.scandir(_base()) as entries:
        for entry in entries:
            named = _LOCK.fullmatch(entry.name)
            if named is not None and _is_own(Path(entry.path)):
                found.append((Path(entry.path).with_suffix(""), int(named[1])))
    return found


def _is_own(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return not hasattr(os, "geteuid") or path.lstat().st_uid == os.geteuid()
    return False


def _remove_abandoned(path: Path) -> bool:
    """Remove a folder unless a running process holds its lock; returns False while one does."""
    try:
        descriptor = os.open(_lock_of(path), os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return True
    try:
        locked = try_lock(descriptor)
        # Another process may have removed the folder since the file was opened.
        if locked and _still_named(descriptor, _lock_of(path)) and (_is_own(path) or not path.exists()):
            _remove(path)
        return locked is not False
    finally:
        os.close(descriptor)


def _still_named(descriptor: int, path: Path) -> bool:
    with contextlib.suppress(OSError):
        opened = os.fstat(descriptor)
        return stat.S_ISREG(opened.st_mode) and os.path.samestat(opened, path.lstat())
    return False


def _remove_own(path: Path, owner: int, descriptor: int) -> None:
    # A forked child inherits the object, but the folder belongs to its parent.
    if os.getpid() == owner:
        _remove(path)
        os.close(descriptor)


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    if not path.exists():
        # Remove the lock last: without it, leftovers would never be cleaned up.
        _lock_of(path).unlink(missing_ok=True)
