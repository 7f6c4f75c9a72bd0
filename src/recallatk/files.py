"""Where bytes come from and go to: local paths, object-store URLs, and writes that are whole or not."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import tempfile
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

from recallatk.errors import FormatError, MissingExtraError, RecallError, UsageError, WriteError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyarrow.fs import FileSystem

PathLike: TypeAlias = str | os.PathLike[str]

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,30}://")
_URL_SIGNS = "%:/?#@!$&'()*+,;=~"
# What only a write can run into; the system does not say at which file.
_NO_SPACE = frozenset([errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
# numpy's words for a write that was cut short; it keeps the system's to itself.
_CUT_SHORT = re.compile(r"\d+ requested and \d+ written")
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
        # The web file systems of fsspec call the whole URL the path.
        return PurePosixPath(self.path.partition("?")[0] if is_url(self.path) else self.path).name

    @property
    def suffix(self) -> str:
        """The ending of the name in lower case, with its dot."""
        return PurePosixPath(self.name).suffix.lower()

    @cached_property
    def _info(self) -> Any:
        try:
            return self.filesystem.get_file_info(self.path)
        except (OSError, UnicodeError) as problem:
            raise self._failure("reached", problem) from problem

    def _failure(self, what: str, problem: Exception) -> UsageError:
        reason = scrubbed(_reason(problem).replace(self.path, self.text))
        return UsageError(f"{self.text}: cannot be {what}: {reason}")

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
        path, text = (f"{folder.rstrip('/')}/{name}" for folder in (self.path, self.text))
        return Location(self.filesystem, path, text, self.local)

    def children(self) -> list[Location]:
        """What the folder holds, by name; hidden files and job markers are passed over."""
        from pyarrow.fs import FileSelector

        try:
            found = self.filesystem.get_file_info(FileSelector(self.path))
        except (OSError, UnicodeError) as problem:
            raise self._failure("listed", problem) from problem
        children = []
        for info in sorted(found, key=lambda info: _by_number(info.path)):
            child = self / PurePosixPath(info.path).name
            if not child.name.startswith((".", "_")):
                # The listing said what the child is: asking again costs a request for each.
                vars(child)["_info"] = info
                children.append(child)
        return children

    def open(self) -> Any:
        """A file that can be read at any offset."""
        try:
            return self.filesystem.open_input_file(self.path)
        except OSError as problem:
            raise self._failure("opened", problem) from problem

    def read_at(self, offset: int, count: int) -> bytes:
        """Some bytes; fewer than asked for only at the end of the file."""
        try:
            with self.open() as file:
                return bytes(file.read_at(count, offset)) if offset < file.size() else b""
        except OSError as problem:
            raise self._failure("read", problem) from problem


def locate(path: PathLike) -> Location:
    """The file or folder behind a path or a URL; it must exist."""
    location = _resolve(os.fspath(path))
    if not location.exists:
        raise UsageError(f"{location.text}: no such file or folder")
    return location


def locate_all(path: PathLike) -> list[Location]:
    """The files behind a path, a URL or a pattern with * ? or [, by name."""
    text = os.fspath(path)
    # What follows ? in a URL says how to reach the store; it belongs to the folder, not to the pattern.
    before, mark, query = text.partition("?") if is_url(text) else (text, "", "")
    parent, slash, pattern = before.replace(os.sep, "/").rpartition("/")
    if not any(sign in pattern for sign in "*?[") or _resolve(text).exists:
        return [locate(text)]
    folder = locate(f"{parent}{mark}{query}" if parent else slash or ".")
    found = [each for each in folder.children() if fnmatch(each.name, pattern) and not each.is_folder]
    if not found:
        raise UsageError(f"{without_secrets(text)}: no file matches the pattern")
    return found


def _by_number(name: str) -> list[tuple[bool, int, str]]:
    """Names in the order that people count in: part-2 before part-10."""
    pieces = re.split(r"([0-9]+)", name)
    return [(piece.isdigit(), int(piece) if piece.isdigit() else 0, piece) for piece in pieces]


def is_url(text: str) -> bool:
    """Whether the text is a URL and not a path."""
    return bool(_SCHEME.match(text))


def without_secrets(text: str) -> str:
    """A path or URL as it may be shown: no user, no password, no query string."""
    if not is_url(text):
        return text
    scheme, _, rest = text.partition("://")
    rest = re.split("[?#]", rest, maxsplit=1)[0]
    host, slash, path = rest.partition("/")
    if "@" in host:
        host = host.rpartition("@")[2]
    elif ":" in host and ("@" in path or not host.rpartition(":")[2].isdecimal()):
        # A password with an unescaped slash in it: whatever may be part of it is left out.
        host, slash, path = rest.rpartition("@")[2] if "@" in path else "…", "", ""
    return f"{scheme}://{host}{slash}{path}"


def scrubbed(message: str) -> str:
    """Somebody else's message with every URL in it as it may be shown."""
    return re.sub(rf"{_SCHEME.pattern}[^\s'\")>]+", lambda found: without_secrets(found[0]), message)


@contextlib.contextmanager
def reading(where: str, kind: str) -> Iterator[None]:
    """Turn whatever a reader library raises on a damaged file into a FormatError.

    Damaged bytes make numpy, Arrow, HDF5, zipfile, zlib and tokenize raise errors with no common
    ancestor, so every Exception is taken; the first one stays visible as the cause.
    """
    try:
        yield
    except RecallError:
        raise
    except Exception as problem:
        said = scrubbed(" ".join(str(problem).split()))[:200] or type(problem).__name__
        raise FormatError(where, f"cannot be read as {kind}: {said}", f"a sound {kind}") from problem


def _resolve(text: str) -> Location:
    from pyarrow import fs

    if not text:
        raise UsageError("an empty path. Accepted: a file, a pattern, a folder or a URL")
    if not is_url(text):
        return Location(fs.LocalFileSystem(), str(Path(text).absolute()), text, local=True)
    shown = without_secrets(text)
    scheme = text.partition("://")[0].lower()
    try:
        if scheme in _ARROW_SCHEMES:
            # People write spaces, brackets and accents into URLs; Arrow wants them escaped.
            filesystem, path = fs.FileSystem.from_uri(quote(text, safe=_URL_SIGNS))
        else:
            filesystem, path = _through_fsspec(text)
    except (ValueError, TypeError, OSError) as problem:
        # The message may quote the URL, and a URL that is not shown whole has something to hide.
        reason = f": {_reason(problem)}" if shown == text else ""
        raise UsageError(f"{shown}: not a URL that can be read{reason}") from None
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
    if isinstance(problem, UnicodeError):
        return "a name is no UTF-8"
    number = getattr(problem, "errno", None)
    return os.strerror(number) if number else str(problem)


@contextlib.contextmanager
def atomic_file(path: PathLike) -> Iterator[Path]:
    """A temporary path beside `path` that becomes it when the block ends well, and vanishes if not."""
    text = os.fspath(path)
    if is_url(text):
        raise UsageError(f"{without_secrets(text)}: files are written to local paths only")
    target = Path(text).resolve()  # what a link leads to is replaced, not the link
    if target.is_dir():
        raise UsageError(f"{text}: is a folder, and a file was to be written there")
    if target.exists() and not target.is_file():
        raise UsageError(f"{text}: is no ordinary file, and would be replaced by one")
    scratch = _beside(target, text)
    try:
        with writing(text, named=(scratch, target, target.parent)):
            yield scratch
            _make_durable(scratch, _usual_mode())
            scratch.replace(target)
            _make_durable(target.parent)
    finally:
        scratch.unlink(missing_ok=True)


def _beside(target: Path, text: str) -> Path:
    """An empty file in the folder of another, which is made if need be."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(target.suffix, f".{target.stem}.", target.parent)
    except OSError as problem:
        raise WriteError(text, _reason(problem)) from problem
    os.close(handle)
    return Path(temporary)


@contextlib.contextmanager
def writing(
    path: PathLike, advice: str = "Free some space, or write to another place", named: Sequence[Path] = ()
) -> Iterator[None]:
    """Turn what the system says while a file is written into a WriteError that names the file.

    Args:
        path: the file, as the user knows it.
        advice: what to do about a lack of space.
        named: what the system may call it.
    """
    try:
        yield
    except OSError as problem:
        full = problem.errno in _NO_SPACE or bool(_CUT_SHORT.search(str(problem)))
        if problem.filename is None and full:
            raise WriteError(path, os.strerror(problem.errno or errno.ENOSPC), advice) from problem
        if problem.filename is not None and Path(os.fsdecode(problem.filename)) in (Path(path), *named):
            raise WriteError(path, _reason(problem), advice if full else "") from problem
        raise


def require_writable(path: PathLike) -> None:
    """Refuse a place where no file can be written, before work is done for it."""
    with contextlib.suppress(_NotMeant), atomic_file(path):
        raise _NotMeant


class _NotMeant(Exception):  # noqa: N818 - ends a trial write; nobody sees it
    pass


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


def require_version(where: str, kind: str, found: int, known: int) -> None:
    """Refuse a file that a newer version of this tool wrote."""
    if found > known:
        raise FormatError(
            where,
            f"{kind} format {found}",
            f"format {known} or older",
            hint="Upgrade: pip install --upgrade recallatk",
        )


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
