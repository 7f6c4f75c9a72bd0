"""Judged values on disk: one small file each, found again by the content that was judged."""

from __future__ import annotations

import contextlib
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from recallatk.errors import WriteError
from recallatk.files import atomic_file, require_ordinary, require_writable
from recallatk.fingerprint import Hash
from recallatk.locks import try_lock

if TYPE_CHECKING:
    from recallatk.files import PathLike

# 1: first version.
_FORMAT = 1
# An entry takes about 150 bytes; whatever is larger is not ours.
_MOST_BYTES = 4096


@dataclass(frozen=True)
class QuestionLock:
    """The right to ask one question, which no other process asks meanwhile."""

    path: Path | None = None
    descriptor: int | None = None

    def release(self) -> None:
        """Let others ask, who look for the value first."""
        if self.path is not None and self.descriptor is not None:
            with contextlib.suppress(OSError):
                self.path.unlink()
            os.close(self.descriptor)


class QualityCache:
    """Values by key, in memory and in a folder that processes may share.

    A damaged entry counts as none. An entry holds a number and is never executed.

    Args:
        folder: the folder, created if it is missing; None to keep values in memory only.
    """

    def __init__(self, folder: PathLike | None) -> None:
        self.folder = None if folder is None else Path(folder)
        self._known: dict[str, float] = {}
        self.unsaved: dict[str, str] = {}
        """Keys of values that could not be written, each with the reason."""
        if self.folder is not None:
            require_writable(self.folder / "entry.json")

    def find(self, key: str) -> float | None:
        """The value of a key; None if there is none that can be trusted."""
        if key not in self._known and self.folder is not None:
            found = _read(self._path(self.folder, key), key)
            if found is not None:
                self._known[key] = found
        return self._known.get(key)

    def save(self, key: str, value: float) -> None:
        """Keep a value; if the disk is full, only in memory."""
        self._known[key] = value
        if self.folder is None:
            return
        try:
            # A judge of microseconds would wait for the disk; a damaged entry is recognized by its checksum.
            with atomic_file(self._path(self.folder, key), durable=False) as scratch:
                scratch.write_text(_written(key, value))
        except (WriteError, OSError) as problem:
            # The value is paid for already, so it is used nevertheless.
            self.unsaved[key] = str(problem)

    def lock(self, key: str) -> QuestionLock | None:
        """The right to ask for a value; None while another process is asking for it."""
        if self.folder is None:
            return QuestionLock()
        path = self._path(self.folder, key).with_suffix(".lock")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        except OSError:
            # Without locks, two processes may pay for the same value, and nothing worse.
            return QuestionLock()
        if try_lock(descriptor) is False:
            os.close(descriptor)
            return None
        return QuestionLock(path, descriptor)

    @staticmethod
    def _path(folder: Path, key: str) -> Path:
        return folder / key[:2] / f"{key}.json"


def _written(key: str, value: float) -> str:
    entry = {"format_version": _FORMAT, "key": key, "value": value, "checksum": _checksum(key, value)}
    return json.dumps(entry)


def _read(path: Path, key: str) -> float | None:
    try:
        require_ordinary(path)
        if path.stat().st_size > _MOST_BYTES:
            return None
        entry = json.loads(path.read_bytes())
        value = entry["value"]
        whole = (
            entry["format_version"] == _FORMAT
            and entry["key"] == key
            and isinstance(value, float)
            and math.isfinite(value)
            and entry["checksum"] == _checksum(key, value)
        )
    except Exception:
        # Whatever is wrong with the file, the judge can be asked again.
        return None
    return value if whole else None


def _checksum(key: str, value: float) -> str:
    return Hash("quality value", key, value).text()
