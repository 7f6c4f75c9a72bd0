"""Copies of collections: those of one state, whatever happens while they are made."""

import os
import time

import pytest

from recallatk.adapters import collection_copy
from recallatk.adapters.collection_copy import CollectionCopy
from recallatk.errors import EngineError


def settle(path):
    """Make a file look as if it was written a minute ago."""
    before = time.time() - 60
    os.utime(path, (before, before))


def test_a_file_that_is_gone_after_the_first_attempt_is_not_in_the_copy(tmp_path, monkeypatch):
    base, journal = tmp_path / "a.db", tmp_path / "a.db-journal"
    for path, text in ((base, "old"), (journal, "how to undo")):
        path.write_text(text)
        settle(path)
    copied = collection_copy._copy

    def commit_meanwhile(path, target):
        copied(path, target)
        if path == journal and journal.exists():
            base.write_text("new")
            settle(base)
            journal.unlink()

    monkeypatch.setattr(collection_copy, "_copy", commit_meanwhile)
    copy = CollectionCopy(base, endings=["-journal"])
    try:
        assert {each.name: each.read_text() for each in copy.path.parent.iterdir()} == {"copy": "new"}
    finally:
        copy.remove()


def test_what_is_written_without_end_is_refused(tmp_path, monkeypatch):
    folder = tmp_path / "store"
    folder.mkdir()
    (folder / "a").write_text("a")
    settle(folder / "a")
    copied, count = collection_copy._copy, iter(range(100))

    def write_meanwhile(path, target):
        copied(path, target)
        (folder / "a").write_text("a" * next(count))
        settle(folder / "a")

    monkeypatch.setattr(collection_copy, "_copy", write_meanwhile)
    with pytest.raises(EngineError, match="Probe it while nothing writes to it"):
        CollectionCopy(folder)
