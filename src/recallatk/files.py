"""Where bytes come from and go to: local paths, object-store URLs, and writes that are whole or not."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from recallatk.errors import FormatError, MissingExtraError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyarrow.fs import FileSystem

PathLike: TypeAlias = str | os.PathLike[str]

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_ARROW_SCHEMES = frozenset(["s3", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs", "file"])


@dataclass(frozen=True, eq=False)
class Location:
    """One file or folder, local or in an object store."""

    filesystem: FileSystem
    path: str
    text: str
    """What messages call it: as the user wrote it, without secrets."""
    local: bool

    @property
    def name(self) -> str:
        """The last part of the path."""
        return PurePosixPath(self.path).name

    @property
    def suffix(self) -> str:
        """The ending of the name in lower case, with its dot."""
        return PurePosixPath(self.path).suffix.lower()

    @cached_property
    def _info(self) -> Any:
        try:
            return self.filesystem.get_file_info(self.path)
        except OSError as problem:
            raise UsageError(f"{self.text}: cannot be reached: {problem}") from problem

    @property
    def exists(self) -> bool:
        """Whether there is such a file or folder."""
        return bool(self._info.type.name != "NotFound")

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return bool(self._info.type.name == "Directory")

    @property
    def size(self) -> int:
        """The length of the file in bytes."""
        return int(self._info.size or 0)

    def __truediv__(self, name: str) -> Location:
        return Location(self.filesystem, f"{self.path.rstrip('/')}/{name}", f"{self.text}/{name}", self.local)

    def children(self) -> list[Location]:
        """What the folder holds, by name; hidden files and job markers are passed over."""
        from pyarrow.fs import FileSelector

        names = [info.base_name for info in self.filesystem.get_file_info(FileSelector(self.path))]
        return [self / name for name in sorted(names) if not name.startswith((".", "_"))]

    def open(self) -> Any:
        """A file that can be read at any offset."""
        try:
            return self.filesystem.open_input_file(self.path)
        except OSError as problem:
            raise UsageError(f"{self.text}: cannot be opened: {_reason(problem)}") from problem

    def read_at(self, offset: int, count: int) -> bytes:
        """Some bytes; fewer than asked for only at the end of the file."""
        with self.open() as file:
            return bytes(file.read_at(count, offset))


def locate(path: PathLike) -> Location:
    """The file or folder behind a path or a URL; it must exist."""
    location = _resolve(os.fspath(path))
    if not location.exists:
        raise UsageError(f"{location.text}: no such file or folder")
    return location


def locate_all(path: PathLike) -> list[Location]:
    """The files behind a path, a URL or a pattern with * ? or [, by name."""
    text = os.fspath(path)
    parent, _, pattern = text.replace(os.sep, "/").rpartition("/")
    special = "*[" if is_url(text) else "*?["
    if not any(sign in pattern for sign in special) or _resolve(text).exists:
        return [locate(text)]
    found = [each for each in locate(parent or ".").children() if fnmatch(each.name, pattern)]
    if not found:
        raise UsageError(f"{without_secrets(text)}: no file matches the pattern")
    return found


def is_url(text: str) -> bool:
    """Whether the text is a URL and not a path."""
    return bool(_SCHEME.match(text))


def without_secrets(text: str) -> str:
    """A path or URL as it may be shown: no user, no password, no query string."""
    if not is_url(text):
        return text
    parts = urlsplit(text)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _resolve(text: str) -> Location:
    from pyarrow import fs

    if not is_url(text):
        return Location(fs.LocalFileSystem(), str(Path(text).absolute()), text, local=True)
    shown = without_secrets(text)
    scheme = urlsplit(text).scheme
    try:
        if scheme in _ARROW_SCHEMES:
            filesystem, path = fs.FileSystem.from_uri(text)
        else:
            filesystem, path = _through_fsspec(text)
    except (ValueError, OSError) as problem:
        raise UsageError(f"{shown}: not a URL that can be read: {_reason(problem)}") from problem
    return Location(filesystem, path, shown, local=isinstance(filesystem, fs.LocalFileSystem))


def _through_fsspec(text: str) -> tuple[Any, str]:
    from pyarrow import fs

    try:
        from fsspec.core import url_to_fs
    except ImportError as problem:
        raise MissingExtraError(f"fsspec, which reads {without_secrets(text)},", "fsspec") from problem
    try:
        inner, path = url_to_fs(text)
    except ImportError as problem:
        raise UsageError(f"{without_secrets(text)}: {problem}") from problem
    return fs.PyFileSystem(fs.FSSpecHandler(inner)), path


def _reason(problem: Exception) -> str:
    number = getattr(problem, "errno", None)
    return os.strerror(number) if number else str(problem)


@contextlib.contextmanager
def atomic_file(path: PathLike) -> Iterator[Path]:
    """A temporary path beside `path` that becomes it when the block ends well, and vanishes if not."""
    text = os.fspath(path)
    if is_url(text):
        raise UsageError(f"{without_secrets(text)}: files are written to local paths only")
    target = Path(text)
    if target.is_dir():
        raise UsageError(f"{text}: is a folder, and a file was to be written there")
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(target.suffix, f".{target.stem}.", target.parent)
    os.close(handle)
    scratch = Path(temporary)
    try:
        yield scratch
        _make_durable(scratch, _usual_mode())
        scratch.replace(target)
        _make_durable(target.parent)
    finally:
        scratch.unlink(missing_ok=True)


def write_text(path: PathLike, text: str) -> None:
    """Write a small text file, whole or not at all."""
    with atomic_file(path) as scratch:
        scratch.write_text(text, encoding="utf-8")


def _usual_mode() -> int:
    # mkstemp makes files that only their owner can read; what we publish has the usual rights.
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _make_durable(path: Path, mode: int | None = None) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if mode is not None:
            os.fchmod(descriptor, mode)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_exactly(location: Location, offset: int, count: int) -> bytes:
    """Exactly so many bytes, or an error that names the offset."""
    found = location.read_at(offset, count)
    if len(found) != count:
        raise FormatError(
            location.text,
            f"the file ends at byte {offset + len(found)} and {count} bytes were expected at {offset}",
            "a whole file",
        )
    return found
