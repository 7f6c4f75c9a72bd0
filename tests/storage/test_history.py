"""Histories: appended by many, never changed, and refused where they are damaged, foreign or newer."""

import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import recallatk as package
from recallatk.core.history import EntryKind, HistoryEntry
from recallatk.core.measured import Mean
from recallatk.errors import FormatError, RecallError, UsageError, WriteError
from recallatk.storage.history import history, remember, write_history_table
from recallatk.storage.history_store import append_history, read_history, require_appendable

from run_making import make_run  # isort: skip

ENTRY = HistoryEntry(
    when="2026-01-01T00:00:00.000000+00:00",
    kind=EntryKind.PROBE,
    collection="postgresql:///shop?table=items",
    subject="pgvector",
    measure="recall@10",
    value=0.95,
    low=0.93,
    high=0.97,
    queries=500,
    verdict="PASS",
    state={"rows": 1000, "hnsw.ef_search": "64"},
    costs={"p95_ms": 2.5, "index_used": None},
    query_set="abc",
    origin="",
    per_query=np.array([1.0, 0.9, np.nan, 0.0]),
)
WRITER = """
import sys
from dataclasses import replace
from test_history import ENTRY
from recallatk.storage.history_store import append_history
for number in range(100_000):
    when = f"2026-01-01T00:00:00.{number:06d}+00:00"
    append_history(sys.argv[1], [replace(ENTRY, when=when, subject=name) for name in "ab"])
    print(number, flush=True)
"""


def many(path, name):
    for number in range(60):
        append_history(path, [replace(ENTRY, subject=f"{name} {number} {part}") for part in range(2)])


def test_entries_return_as_they_were(tmp_path):
    path = tmp_path / "a folder" / "history.db"
    bare = replace(
        ENTRY, low=None, high=None, verdict=None, state={}, costs={}, query_set=None, per_query=None
    )
    append_history(path, [ENTRY])
    append_history(path, [replace(bare, subject="other")])
    first, second = read_history(path)
    assert first.to_dict() == ENTRY.to_dict()
    assert np.array_equal(first.per_query, np.float32(ENTRY.per_query), equal_nan=True)
    assert second.to_dict() == replace(bare, subject="other").to_dict()
    assert second.per_query is None


def test_the_same_measurement_is_appended_once(tmp_path):
    path = tmp_path / "history.db"
    for _ in range(3):
        append_history(path, [replace(ENTRY, origin="one"), ENTRY])
    found = read_history(path)
    assert len(found) == 1 + 3
    assert len({each.origin for each in found}) == 4


def test_entries_cannot_be_changed_or_removed(tmp_path):
    path = tmp_path / "history.db"
    append_history(path, [ENTRY])
    with sqlite3.connect(path) as connection:
        for statement in ("UPDATE entries SET value = 1", "DELETE FROM entries"):
            with pytest.raises(sqlite3.IntegrityError, match="only appended"):
                connection.execute(statement)


def test_processes_append_at_once_and_nothing_is_lost(tmp_path):
    path = tmp_path / "history.db"
    spawn = multiprocessing.get_context("fork")
    writers = [spawn.Process(target=many, args=(path, name)) for name in "abcd"]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    assert [each.exitcode for each in writers] == [0] * 4
    assert len({each.subject for each in read_history(path)}) == 4 * 60 * 2


def test_a_writer_that_is_killed_leaves_whole_entries(tmp_path):
    path = tmp_path / "history.db"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as writer:
        said = [writer.stdout.readline() for _ in range(20)]
        time.sleep(0.01)
        writer.send_signal(signal.SIGKILL)
        said += writer.stdout.readlines()
    reported = len([line for line in said if line.endswith(b"\n")])
    found = read_history(path)
    assert len(found) % 2 == 0
    assert len(found) // 2 in (reported, reported + 1)
    append_history(path, [ENTRY])
    assert len(read_history(path)) == len(found) + 1


def test_newer_foreign_and_damaged_files_are_refused_and_kept(tmp_path):
    newer, foreign, text, folder = (
        tmp_path / name for name in ("newer.db", "foreign.db", "text.db", "folder")
    )
    append_history(newer, [ENTRY])
    with sqlite3.connect(newer) as connection:
        connection.execute("PRAGMA user_version = 99")
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE entries (a)")
    text.write_text("<<<<<<< HEAD\nno database\n" * 40)
    folder.mkdir()
    for path, said in ((newer, "Upgrade"), (foreign, "another SQLite"), (text, "not a database")):
        before = path.read_bytes()
        for action in (read_history, require_appendable):
            with pytest.raises(FormatError, match=said):
                action(path)
        assert path.read_bytes() == before
    with pytest.raises(UsageError, match="is a folder"):
        require_appendable(folder)
    with pytest.raises(UsageError, match="no history"):
        read_history(tmp_path / "none.db")
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("value", "much"), ("low", 9e999), ("queries", "many"), ("state", "[]"), ("state", "[" * 100_000),
        ("costs", '{"p95_ms": "slow"}'), ("recorded", "zzz"), ("per_query", b"x"), ("kind", "guess"),
    ],
)  # fmt: skip
def test_an_entry_that_somebody_else_made_is_refused_by_name(tmp_path, column, value):
    path = tmp_path / "history.db"
    append_history(path, [ENTRY])
    with sqlite3.connect(path) as connection:
        for trigger in ("only_appended_1", "only_appended_2"):
            connection.execute(f"DROP TRIGGER {trigger}")
        connection.execute(f"UPDATE entries SET {column} = ?", [value])
    with pytest.raises(FormatError, match=r"history\.db"):
        read_history(path)


def test_a_cut_file_is_refused_or_read_in_part_never_a_crash(tmp_path):
    path = tmp_path / "history.db"
    append_history(path, [replace(ENTRY, subject=str(number)) for number in range(50)])
    whole = path.read_bytes()
    for length in range(0, len(whole), 1024):
        path.write_bytes(whole[:length])
        try:
            assert len(read_history(path)) <= 50
        except RecallError as problem:
            assert "history.db" in str(problem)


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs /proc, which nobody can write")
def test_a_place_that_cannot_be_written_is_refused_before_work():
    with pytest.raises(WriteError, match="cannot be written"):
        require_appendable("/proc/self/history.db")


def test_a_run_is_remembered_once_with_every_setting_and_cutoff(tmp_path):
    path = tmp_path / "history.db"
    run = replace(make_run(), begun="2026-05-01T10:00:00+02:00")
    count = remember(run, path)
    assert remember(run, path) == count
    found = read_history(path)
    assert len(found) == count > 0
    assert found[0].when == "2026-05-01T08:00:00.000000+00:00"
    for each in run.candidates:
        for measure, mean in each.score.measures.items():
            if measure.startswith("recall@") and mean.value is not None:
                (same,) = [one for one in found if (one.subject, one.measure) == (str(each.trial), measure)]
                assert (same.value, same.low, same.high) == (mean.value, mean.low, mean.high)


def test_trends_are_selected_by_measure_collection_and_time(tmp_path):
    path = tmp_path / "history.db"
    append_history(path, [ENTRY, replace(ENTRY, measure="recall@1"), replace(ENTRY, collection="other")])
    assert len(history(path)) == 3
    assert [each.measure for each in history(path, measure="recall@1")] == ["recall@1"]
    assert [each.collection for each in history(path, collection="shop", measure="recall@10")] == [
        ENTRY.collection
    ]
    assert history(path, since="2026-01-01") and not history(path, since="2026-01-02")
    assert history(path, since="30d") == []
    assert package.history is history
    for wrong, said in (({"measure": "recall@7"}, "recall@10"), ({"collection": "x"}, "other"),
                        ({"since": "soon"}, "30d")):  # fmt: skip
        with pytest.raises(UsageError, match=said):
            history(path, **wrong)


def test_every_entry_is_a_row_of_the_table(tmp_path):
    path, table = tmp_path / "history.db", tmp_path / "history.parquet"
    append_history(path, [ENTRY, replace(ENTRY, low=None, subject="other")])
    write_history_table(table, history(path))
    rows = pq.read_table(table).to_pylist()
    assert [row["subject"] for row in rows] == ["pgvector", "other"]
    assert rows[0]["value"] == 0.95 and rows[1]["low"] is None
    assert Mean(0.95, None, 500).value == rows[0]["value"]
