"""The folder of a site: new files are made beside the old ones and exchanged at the end; others stay."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blake3 import blake3

from recallatk.errors import FormatError, UsageError
from recallatk.files import reading, require_version, write_text, writing
from recallatk.publishing.addresses import INDEX
from recallatk.redaction import is_url, without_secrets
from recallatk.storage.folder_scan import NAME as LOCK
from recallatk.storage.folder_scan import FolderLock
from recallatk.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from recallatk.files import PathLike

# 1: the first.
FORMAT_VERSION = 1
MANIFEST = "recallatk-site.json"
NO_JEKYLL = ".nojekyll"
_STAGE = ".recallatk-publishing"
# A branch of a repository that holds nothing yet but the repository itself.
_ALLOWED = {LOCK, _STAGE, ".git"}
_ADDRESS = re.compile(r"(?:[a-z0-9][a-z0-9-]*/)?[a-z0-9][a-z0-9-]*\.[a-z]+|\.nojekyll")
_MOST_NAMED = 5
_BLOCK = 1 << 20


class SiteFolder:
    """A site while it is published; the old one stays as it is until `exchange`.

    The manifest lists every file with its checksum, so that the next publication removes and replaces only
    what this one wrote. Use it as a context manager.
    """

    def __init__(self, target: PathLike) -> None:
        self.target = _local_folder(target)
        self._stage = self.target / _STAGE
        self._lock: FolderLock | None = None
        self._addresses: list[str] = []
        _require_own(self.target)

    def __enter__(self) -> SiteFolder:
        with writing(self.target):
            self.target.mkdir(parents=True, exist_ok=True)
            self._lock = FolderLock(self.target, "a site")
        try:
            self._known = _require_own(self.target)
            self._remove_stage()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Remove what was not exchanged."""
        if self._lock is None:
            return
        with contextlib.suppress(OSError):
            self._remove_stage()
        self._lock.release()
        self._lock = None
        with contextlib.suppress(OSError):
            # Only if nothing was ever written there.
            self.target.rmdir()

    def path(self, address: str) -> Path:
        """Where to write the new file of an address, once."""
        if not _ADDRESS.fullmatch(address):
            raise ValueError(f"not an address of a site: {address!r}")
        self._addresses.append(address)
        return self._stage / address

    def write(self, address: str, text: str) -> None:
        """Write a text file of the site."""
        write_text(self.path(address), text)

    def exchange(self) -> int:
        """Replace the old files by the new ones, the first page last, then remove old ones; their number."""
        new = {address: _checksum(self._stage / address) for address in self._addresses}
        self._require_room(new)
        old = [address for address in self._known if address not in new]
        # A publication that is killed from here on is completed by the next one.
        self._write_manifest(self._known, new)
        for address in sorted(new, key=lambda each: (each == INDEX, each)):
            with writing(self.target / address):
                (self.target / address).parent.mkdir(exist_ok=True)
                (self._stage / address).replace(self.target / address)
        removed = self._remove(old)
        self._write_manifest(new, {})
        return removed

    def _require_room(self, new: Iterable[str]) -> None:
        """Refuse to replace files that no publication wrote."""
        foreign = [each for each in new if each not in self._known and _is_taken(self.target, each)]
        if foreign:
            raise _not_ours(self.target, foreign)

    def _remove(self, old: Iterable[str]) -> int:
        removed = 0
        for address in old:
            path = self.target / address
            path.unlink()
            removed += 1
            if path.parent != self.target:
                with contextlib.suppress(OSError):
                    # Other files keep it.
                    path.parent.rmdir()
        return removed

    def _write_manifest(self, files: Mapping[str, str], replacing: Mapping[str, str]) -> None:
        record = {
            "format_version": FORMAT_VERSION,
            "tool_version": __version__,
            "files": dict(sorted(files.items())),
            **({"replacing": dict(sorted(replacing.items()))} if replacing else {}),
        }
        write_text(self.target / MANIFEST, json.dumps(record, indent=1) + "\n")

    def _remove_stage(self) -> None:
        if self._stage.is_symlink():
            raise _not_ours(self.target, [_STAGE])
        if self._stage.exists():
            shutil.rmtree(self._stage)


def _local_folder(target: PathLike) -> Path:
    text = str(target)
    if is_url(text):
        raise UsageError(f"{without_secrets(text)}: a site can be written only to a local folder")
    path = Path(text)
    if not text or (path.exists() and not path.is_dir()):
        raise UsageError(f"{text!r}: not a folder. Accepted: a new folder, or the folder of an older site")
    return path


def _require_own(target: Path) -> dict[str, str]:
    """Every file of the site with its checksum; refuses a folder or a file that no publication wrote."""
    if not target.is_dir():
        return {}
    if not (target / MANIFEST).is_file() or (target / MANIFEST).is_symlink():
        foreign = sorted(each.name for each in target.iterdir() if each.name not in _ALLOWED)
        if foreign:
            raise UsageError(
                f"{target}: holds other files and no site: {_listed(foreign)}. Choose a new folder (--out)"
            )
        return {}
    listed = _read_manifest(target / MANIFEST)
    there = {address: sums for address, sums in listed.items() if _is_taken(target, address)}
    known = {address: _checksum_of_own(target, address) for address in there}
    changed = [address for address, sums in there.items() if known[address] not in sums]
    if changed:
        raise _not_ours(target, changed)
    return known


def _read_manifest(path: Path) -> dict[str, list[str]]:
    with reading(str(path), "list of the files of a site"):
        record: dict[str, Any] = json.loads(path.read_bytes())
        require_version(str(path), "site", int(record["format_version"]), FORMAT_VERSION)
        known: dict[str, list[str]] = {}
        for part in (record["files"], record.get("replacing", {})):
            for address, checksum in part.items():
                # Whoever made the folder must not choose what is removed elsewhere.
                if not _ADDRESS.fullmatch(address):
                    raise FormatError(
                        str(path), f"an address outside the site: {address!r}", "a file of the site"
                    )
                known.setdefault(address, []).append(str(checksum))
        return known


def _is_taken(target: Path, address: str) -> bool:
    """Whether something stands at an address, or in its way."""
    path = target / address
    return path.exists() or path.is_symlink() or _is_led_astray(target, path)


def _is_led_astray(target: Path, path: Path) -> bool:
    """Whether a link or a file stands where the folder of a file should be."""
    folder = path.parent
    return folder != target and (folder.is_symlink() or (folder.exists() and not folder.is_dir()))


def _checksum_of_own(target: Path, address: str) -> str:
    """The checksum of a regular file; empty for anything else."""
    path = target / address
    if path.is_symlink() or _is_led_astray(target, path) or not path.is_file():
        return ""
    return _checksum(path)


def _not_ours(target: Path, names: list[str]) -> UsageError:
    return UsageError(
        f"{target}: not written by recallatk publish, or changed since: {_listed(names)}. Move them away, or "
        "choose another folder (--out)"
    )


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return f"{', '.join(names[:_MOST_NAMED])}{f' and {more:,} more' if more > 0 else ''}"


def _checksum(path: Path) -> str:
    state = blake3()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            state.update(block)
    return state.hexdigest()
