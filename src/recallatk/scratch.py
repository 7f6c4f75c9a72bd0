"""Temporary folders that their owner locks, so that a later process can remove what a killed one left."""

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
# Where scratch folders are made, in a process whose libraries are told of another place.
_BASE = "RECALLATK_TMPDIR"
_ADVICE = "Free some space there, or set TMPDIR to a folder that has more"
_LOOK_SECONDS = 0.05


class ScratchFolder:
    """A folder of this process below the system's temporary one, for as long as it is needed.

    Beside the folder stands a lock file, which is there before it and goes after it: whenever a process is
    killed, what it leaves has a lock that nobody holds. The lock outlives this object only in a process that
    was given `descriptor`.
    """

    def __init__(self) -> None:
        self.path, self.descriptor = _made(Path(_base()))
        self._finalizer = weakref.finalize(self, _remove_own, self.path, os.getpid(), self.descriptor)

    def remove(self) -> None:
        """Remove the folder with everything in it; may be called twice."""
        self._finalizer()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()


def _made(temporary: Path) -> tuple[Path, int]:
    """A new folder, and the descriptor of its locked file."""
    while True:
        path = temporary / f"recallatk-{os.getpid()}-{secrets.token_hex(8)}"
        with scratch_writing(_lock_of(path)):
            descriptor = os.open(_lock_of(path), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            # Somebody who is tidying up may have found it before it was locked.
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
    """The environment of a process whose libraries leave their temporary files in this folder.

    Its own scratch folders stay where those of this process are: the name of a socket has to be short, and
    a server may run as another user.
    """
    folder.mkdir(exist_ok=True)
    return {**dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder)), _BASE: _base()}


def _lock_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def scratch_writing(path: PathLike) -> contextlib.AbstractContextManager[None]:
    """Name the path, and TMPDIR as the way out, in what the system says while a scratch file is written."""
    return writing(path, _ADVICE)


def sweep() -> None:
    """Remove the scratch folders of this user whose owners have ended."""
    for path, _ in _found():
        _remove_abandoned(path)


def reclaim(owner: int, seconds: float) -> None:
    """Remove the scratch folders of a process that has ended.

    Args:
        owner: the id that the process had.
        seconds: how long to wait for servers that it started and that still hold a folder.
    """
    until = time.monotonic() + seconds
    for path, whose in _found():
        while whose == owner and not _remove_abandoned(path) and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)


def _found() -> list[tuple[Path, int]]:
    """The scratch folders that have a lock of this user's, with the ids of their owners."""
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
    """Remove a folder unless a living process holds its lock; whether there is nothing left to wait for."""
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
    # A forked child has the object too, and leaves the folder to its parent.
    if os.getpid() == owner:
        _remove(path)
        os.close(descriptor)


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    if not path.exists():
        # The lock goes last: without it, what could not be removed would stay forever.
        _lock_of(path).unlink(missing_ok=True)
