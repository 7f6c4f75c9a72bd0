"""Files: local paths, object-store URLs and atomic writes."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from recallatk.errors import (
    FormatError,
    MissingExtraError,
    MissingFileError,
    RecallError,
    UsageError,
    WriteError,
)
from recallatk.redaction import hide_known, is_url, redact_text, without_secrets, writable
from recallatk.web_files import ADVICE, is_web, web_failure

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyarrow.fs import FileSystem

PathLike: TypeAlias = str | os.PathLike[str]

_URL_SIGNS = "%:/?#@!$&'()*+,;=~"
_LONGEST_PREFIX = 40
_SPECIAL = "is a pipe, a socket or a device"
# Errors of writes only; the system does not name the file.
_NO_SPACE = frozenset([errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
# NumPy's message for an incomplete write; it drops the system's own.
_CUT_SHORT = re.compile(r"\d+ requested and \d+ written")
_ARROW_SCHEMES = frozenset(["s3", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs", "file"])


@dataclass(frozen=True, eq=False)
class Location:
    """One file or folder, local or in an object store."""

    filesystem: FileSystem
    path: str
    text: str
    """Name for messages: as the user wrote it, redacted."""
    local: bool

    @property
    def name(self) -> str:
        """The last part of the path."""
        # fsspec's web file systems use the full URL as the path.
        return PurePosixPath(self.path.partition("?")[0] if is_url(self.path) else self.path).name

    @property
    def suffix(self) -> str:
        """The lowercase file extension, with its dot."""
        return PurePosixPath(self.name).suffix.lower()

    @cached_property
    def _info(self) -> Any:
        with self._asking("reached"):
            return self.filesystem.get_file_info(self.path)

    @contextlib.contextmanager
    def _asking(self, what: str) -> Iterator[None]:
        """Turn any exception of a file system into one error; those of web ones share no base class."""
        try:
            yield
        except RecallError:
            raise
        except Exception as problem:
            raise self._failure(what, problem) from problem

    def _failure(self, what: str, problem: Exception) -> UsageError:
        reason = _reason(problem)
        if "/" in self.path:
            # Leave the path alone inside a longer name, such as the URL itself.
            reason = re.sub(rf"(?<![\w:/.-]){re.escape(self.path)}(?!\w)", lambda _: self.text, reason)
        advice = f". {ADVICE}" if is_web(self.path) else ""
        return UsageError(f"{self.text}: cannot be {what}: {redact_text(reason).rstrip('.')}{advice}")

    @property
    def exists(self) -> bool:
        """Whether the file or folder exists."""
        return bool(self._info.type.name != "NotFound")

    def require_found(self) -> None:
        """Refuse a missing file; say so if a web server could not be reached."""
        if self.exists:
            return
        problem = web_failure(self.filesystem, self.path)
        if problem is None:
            raise MissingFileError(f"{self.text}: no such file or folder")
        raise self._failure("reached", problem) from problem

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return bool(self._info.type.name == "Directory")

    @property
    def size(self) -> int:
        """File size in bytes."""
        return int(self._info.size or 0)

    def require_ordinary(self) -> None:
        """Refuse pipes, sockets and devices, from which reading may never end."""
        if self.local and self._info.type.name == "Unknown":
            raise UsageError(f"{self.text}: {_SPECIAL}")

    def __truediv__(self, name: str) -> Location:
        path, text = (f"{folder.rstrip('/')}/{name}" for folder in (self.path, self.text))
        return Location(self.filesystem, path, text, self.local)

    def children(self) -> list[Location]:
        """Content of the folder by name, without hidden files and job markers."""
        from pyarrow.fs import FileSelector

        with self._asking("listed"):
            found = self.filesystem.get_file_info(FileSelector(self.path))
        children = []
        for info in sorted(found, key=lambda info: _by_number(info.path)):
            child = self / PurePosixPath(info.path).name
            if not child.name.startswith((".", "_")):
                # The listing has the file info; asking again would cost a request per child.
                vars(child)["_info"] = info
                children.append(child)
        return children

    def open(self) -> Any:
        """The file, opened for random access."""
        self.require_ordinary()
        with self._asking("opened"):
            return self.filesystem.open_input_file(self.path)

    def read_at(self, offset: int, count: int) -> bytes:
        """Some bytes; fewer than requested only at the end of the file."""
        with self._asking("read"), self.open() as file:
            return bytes(file.read_at(count, offset)) if offset < file.size() else b""

    def write(self, data: bytes) -> None:
        """Write a file whole or not at all; its folders are made."""
        if self.local:
            with atomic_file(self.path) as scratch:
                scratch.write_bytes(data)
            return
        with self._asking("written"), self.filesystem.open_output_stream(self.path) as file:
            # A store shows an object only once it is complete.
            file.write(data)

    def remove(self) -> None:
        """Remove a folder with all that is in it, if it is there."""
        with self._asking("removed"):
            self.filesystem.delete_dir_contents(self.path, missing_dir_ok=True)
            if self.local:
                self.filesystem.delete_dir(self.path)


def place(path: PathLike) -> Location:
    """The file or folder at a path or URL, which need not exist."""
    return _resolve(os.fspath(path))


def locate(path: PathLike) -> Location:
    """The file or folder at a path or URL, which must exist."""
    location = _resolve(os.fspath(path))
    location.require_found()
    location.require_ordinary()
    return location


def locate_all(path: PathLike) -> list[Location]:
    """The files at a path, a URL or a pattern with * ? or [, by name."""
    text = os.fspath(path)
    # In a URL, the query after ? configures the store, so it belongs to the folder, not to the pattern.
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
    """Sort key for natural order: part-2 before part-10."""
    pieces = re.split(r"([0-9]+)", name)
    return [(piece.isdigit(), int(piece) if piece.isdigit() else 0, piece) for piece in pieces]


@contextlib.contextmanager
def reading(where: str, kind: str, hint: str = "") -> Iterator[None]:
    """Turn any exception of a reader library on a damaged file into a FormatError.

    NumPy, Arrow, HDF5, zipfile, zlib and tokenize raise unrelated exceptions on damaged bytes, so every
    Exception is caught; the original stays visible as the cause.
    """
    try:
        yield
    except RecallError:
        raise
    except Exception as problem:
        said = redact_text(" ".join(str(problem).split()))[:200] or type(problem).__name__
        found = f"cannot be read as {kind}: {said}"
        raise FormatError(where, found, f"a valid {kind}", hint=hint) from problem


def _resolve(text: str) -> Location:
    from pyarrow import fs

    if not text:
        raise UsageError("the path is empty. Accepted: a file, a pattern, a folder or a URL")
    if not is_url(text):
        return Location(fs.LocalFileSystem(), str(Path(text).absolute()), text, local=True)
    # The value of ${NAME} is shown as ${NAME}.
    shown = hide_known(without_secrets(text))
    scheme = text.partition("://")[0].lower()
    try:
        if scheme in _ARROW_SCHEMES:
            # Arrow needs spaces, brackets and accents in URLs escaped.
            filesystem, path = fs.FileSystem.from_uri(quote(text, safe=_URL_SIGNS))
            if not path:
                raise ValueError(f"the bucket is missing. Accepted: {scheme}://BUCKET/PATH")
        else:
            filesystem, path = _through_fsspec(text)
    except (ValueError, TypeError, OSError) as problem:
        # The message may quote the URL, which has a secret if it is not shown in full.
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
        extra = text.partition("://")[0].lower().replace("https", "http")
        raise UsageError(
            f"{without_secrets(text)}: {problem}. Install it: pip install 'fsspec[{extra}]'"
        ) from problem
    return fs.PyFileSystem(fs.FSSpecHandler(inner)), path


def _reason(problem: Exception) -> str:
    if isinstance(problem, UnicodeError):
        return "a name is not valid UTF-8"
    number = getattr(problem, "errno", None)
    return os.strerror(number) if number else str(problem)


@contextlib.contextmanager
def atomic_file(path: PathLike, *, durable: bool = True) -> Iterator[Path]:
    """A temporary path that replaces `path` if the block succeeds, and is removed if it fails.

    Args:
        path: the file to write.
        durable: wait until the disk has it. Without, a power cut may leave a damaged file, a kill may not.
    """
    text = os.fspath(path)
    if is_url(text):
        raise UsageError(f"{without_secrets(text)}: files can be written only to local paths")
    target = Path(text).resolve()  # replace the target of a link, not the link
    if target.is_dir():
        raise UsageError(f"{text}: is a folder. Accepted: a path for a file")
    if target.exists() and not target.is_file():
        raise UsageError(f"{text}: exists and is not a regular file, so it is not replaced")
    # Truncate the stem, because the name must not exceed the system's limit.
    stem = f".{target.stem[:_LONGEST_PREFIX]}.{secrets.token_hex(8)}"
    scratch = target.parent / f"{stem}{target.suffix}"
    try:
        # From here on, a signal at any moment also removes the temporary file.
        with writing(text, named=(scratch, target, target.parent)):
            target.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(scratch, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            yield scratch
            scratch.chmod(_usual_mode())
            if durable:
                _synchronize(scratch)
            scratch.replace(target)
            if durable:
                _synchronize(target.parent)
    finally:
        with contextlib.suppress(OSError):
            scratch.unlink()


@contextlib.contextmanager
def writing(
    path: PathLike, advice: str = "Free some space, or write somewhere else", named: Sequence[Path] = ()
) -> Iterator[None]:
    """Turn a system error while writing a file into a WriteError that names the file.

    Args:
        path: the file, as the user named it.
        advice: what to do if space runs out.
        named: other paths by which the system may name it.
    """
    try:
        yield
    except OSError as problem:
        full = problem.errno in _NO_SPACE or bool(_CUT_SHORT.search(str(problem)))
        if problem.filename is None and full:
            raise WriteError(path, os.strerror(problem.errno or errno.ENOSPC), advice) from problem
        if problem.filename is not None and Path(os.fsdecode(problem.filename)) in (Path(path), *named):
            raise WriteError(path, _reason(problem), advice if full else "") from problem
        called = [each for each in named if problem.filename is None and str(each) in str(problem)]
        if called:
            # Libraries quote the temporary name; show the user's name instead.
            said = str(problem).replace(str(called[0]), os.fspath(path))
            raise WriteError(path, said, advice if full else "") from problem
        raise


def require_writable(path: PathLike) -> None:
    """Refuse a path that cannot be written, before work is done for it."""
    with contextlib.suppress(_NotMeant), atomic_file(path):
        raise _NotMeant


class _NotMeant(Exception):  # noqa: N818 - aborts a test write internally
    pass


def require_not_among(path: PathLike, inputs: Iterable[object]) -> None:
    """Refuse to write to a file that is read, or that belongs to a folder, pattern or target that is read."""
    target = Path(path).resolve()
    for each in inputs:
        if not isinstance(each, str | os.PathLike):
            continue
        text = os.fspath(each)
        if any(_holds(Path(source).resolve(), target) for source in _local_paths(text)):
            raise UsageError(f"{path}: is a part of the input {without_secrets(text)}. Write somewhere else")


def _holds(source: Path, target: Path) -> bool:
    """Whether a file is, or is in, what a path or pattern names."""
    if target == source or not target.exists():
        return target == source
    matches = target.parent == source.parent and fnmatch(target.name, source.name)
    return matches or (source in target.parents and source.is_dir())


def _local_paths(text: str) -> list[str]:
    """The local paths that an input names: itself without a trial, or the files in a URL of a target."""
    if not is_url(text):
        return [text, text.partition("#")[0]]
    try:
        parts = urlsplit(text, allow_fragments=False)
    except ValueError:
        return []  # refused with its own message where it is opened
    if is_web(text) or parts.scheme in _ARROW_SCHEMES - {"file"}:
        return []
    named = [unquote(parts.netloc + parts.path), *(value for _, value in parse_qsl(parts.query))]
    # Of Path, it raises for an unknown user.
    return [os.path.expanduser(each) for each in named if each and not is_url(each)]  # noqa: PTH111


def write_text(path: PathLike, text: str) -> None:
    """Write a small text file atomically; characters that UTF-8 cannot encode are escaped."""
    with atomic_file(path) as scratch:
        scratch.write_text(writable(text), encoding="utf-8")


def _usual_mode() -> int:
    # Only the owner can read the temporary file; the final file gets the usual permissions.
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _synchronize(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def require_version(where: str, kind: str, found: int, known: int) -> None:
    """Refuse a file written by a newer version of this tool."""
    if found > known:
        raise FormatError(
            where,
            f"{kind} format {found}",
            f"format {known} or older",
            hint="Upgrade: pip install --upgrade recallatk",
        )


def require_ordinary(path: Path) -> None:
    """Refuse pipes, sockets and devices, for files that are read without a Location."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise FormatError(str(path), _SPECIAL, "a regular file")


def read_exactly(location: Location, offset: int, count: int) -> bytes:
    """Exactly `count` bytes, or an error that names the offset."""
    found = location.read_at(offset, count)
    if len(found) != count:
        raise FormatError(
            location.text,
            f"the file ends at byte {offset + len(found)}, but {count} bytes were expected at {offset}",
            "a complete file",
        )
    return found
