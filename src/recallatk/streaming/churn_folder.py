"""The folder of a replay: its identity, its journal and its lock."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from recallatk.bench.journal import Journal
from recallatk.errors import MismatchError, UsageError
from recallatk.files import require_version, write_text
from recallatk.storage.folder_scan import FolderLock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

PLAN, JOURNAL = "plan.json", "journal.jsonl"
_FORMAT, _VERSION = "recallatk.churn", 1
# 1: identity of the runbook, the data and the settings.


@dataclass(frozen=True)
class ChurnFolder:
    """An open folder with its journal."""

    path: Path
    journal: Journal

    @classmethod
    @contextmanager
    def open(cls, path: Path, identity: Mapping[str, Any], *, fresh: bool = False) -> Iterator[ChurnFolder]:
        """Lock a folder, and refuse one that holds a replay of something else.

        Args:
            path: the folder.
            identity: what all measurements in it depend on.
            fresh: remove an earlier replay.
        """
        if path.exists() and not path.is_dir():
            raise UsageError(f"{path}: is a file. Accepted: a folder (--out)")
        path.mkdir(parents=True, exist_ok=True)
        lock = FolderLock(path)
        try:
            _adopt(path, dict(identity), fresh=fresh)
            yield cls(path, Journal(path / JOURNAL))
        finally:
            lock.release()


def _adopt(path: Path, identity: dict[str, Any], *, fresh: bool) -> None:
    plan, journal = path / PLAN, path / JOURNAL
    earlier = _earlier(plan)
    if fresh and earlier is not None:
        journal.unlink(missing_ok=True)
        plan.unlink()
        earlier = None
    if earlier is None:
        if journal.exists():
            raise UsageError(f"{journal}: no replay wrote it. Choose another folder (--out)")
        write_text(plan, json.dumps({"format": _FORMAT, "version": _VERSION, "identity": identity}) + "\n")
        return
    before = earlier["identity"]
    differ = sorted(key for key in {*before, *identity} if before.get(key) != identity.get(key))
    if differ:
        raise MismatchError(
            f"{path}: holds a replay that differs in {', '.join(differ)}. Choose another folder (--out), or "
            "remove the earlier replay with --fresh"
        )


def _earlier(plan: Path) -> dict[str, Any] | None:
    if not plan.exists():
        return None
    try:
        found = json.loads(plan.read_text(encoding="utf-8"))
    except ValueError:
        found = None
    if not isinstance(found, dict) or found.get("format") != _FORMAT or "identity" not in found:
        raise UsageError(f"{plan}: no replay wrote it. Choose another folder (--out)")
    require_version(str(plan), "replay", found["version"], _VERSION)
    return found
