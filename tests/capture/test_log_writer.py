"""The background writer: bounded, redacting, and never in the way of the search."""

import gc
import logging
import threading
import time

import numpy as np
import pyarrow.parquet as pq
import pytest
from logs import rows

from recallatk import tap

VECTOR = np.arange(64, dtype=np.float32)


def search(vector, k=2):
    return list(range(k))


def test_a_stalled_writer_takes_bounded_memory_and_drops_the_rest(tmp_path, caplog):
    go = threading.Event()

    def stall(record):
        go.wait(30)
        return record

    tapped = tap(search, sample=1.0, to=tmp_path, redact=stall, max_bytes=100_000)
    began = time.perf_counter()
    with caplog.at_level(logging.WARNING, "recallatk"):
        for _ in range(2_000):
            tapped(VECTOR)
    assert time.perf_counter() - began < 10
    waiting = tapped.log._waiting_bytes
    assert 0 < waiting <= 100_000
    go.set()
    assert tapped.log.close(30)
    counts = tapped.log.counts
    assert counts["dropped"] > 1_500 and counts["written"] + counts["dropped"] == 2_000
    assert len(rows(tmp_path)) == counts["written"] and tapped.log._waiting_bytes == 0
    assert len(caplog.records) == 1 and "does not keep up" in caplog.text


def test_a_flush_that_takes_too_long_says_so(tmp_path):
    go = threading.Event()
    tapped = tap(search, sample=1.0, to=tmp_path, redact=lambda record: record if go.wait(30) else None)
    tapped(VECTOR)
    assert tapped.log.flush(timeout=0.05) is False
    go.set()
    assert tapped.log.flush(30) and len(rows(tmp_path)) == 1


def test_files_rotate_by_rows_bytes_and_time(tmp_path):
    tapped = tap(search, sample=1.0, to=tmp_path / "rows", rotate_rows=10)
    for _ in range(35):
        tapped(VECTOR)
    tapped.log.close()
    assert sorted(len(pq.read_table(path)) for path in (tmp_path / "rows").iterdir()) == [5, 10, 10, 10]

    tapped = tap(search, sample=1.0, to=tmp_path / "bytes", max_bytes=40_000)
    for _ in range(40):
        tapped(VECTOR)
        time.sleep(0.001)
    tapped.log.close()
    assert len(list((tmp_path / "bytes").iterdir())) > 2 and tapped.log.counts["written"] == 40

    tapped = tap(search, sample=1.0, to=tmp_path / "time", rotate_seconds=0.05)
    tapped(VECTOR)
    until = time.monotonic() + 20
    while not rows(tmp_path / "time") and time.monotonic() < until:
        time.sleep(0.02)
    assert len(rows(tmp_path / "time")) == 1


def test_the_oldest_files_go_when_the_folder_is_full(tmp_path):
    (tmp_path / "mine.txt").write_text("not a log")
    tapped = tap(search, sample=1.0, to=tmp_path, rotate_rows=10, keep_bytes=20_000)
    for number in range(300):
        tapped(np.full(64, number, np.float32))
        if number % 10 == 9:
            tapped.log.flush()
    tapped.log.close()
    kept = {row["vector"][0] for row in rows(tmp_path)}
    assert 299 in kept and 0 not in kept
    assert sum(path.stat().st_size for path in tmp_path.glob("calls-*")) < 30_000
    assert (tmp_path / "mine.txt").exists()


def test_a_redaction_changes_or_drops_records(tmp_path):
    def redact(record):
        if record.parameters["tenant"] == 2:
            return None
        del record.parameters["tenant"]
        record.filter = None
        record.ids = [f"h{each}" for each in record.ids]
        return record

    tapped = tap(lambda vector, where, tenant: [1], sample=1.0, to=tmp_path, redact=redact)
    tapped(VECTOR, "owner = 'ann'", 1)
    tapped(VECTOR, "owner = 'bob'", 2)
    tapped.log.close()
    (row,) = rows(tmp_path)
    assert (row["parameters"], row["filter"], row["neighbors"]) == ("{}", None, ["h1"])
    assert tapped.log.counts["redacted"] == 1
    assert not any(name in path.read_bytes() for path in tmp_path.iterdir() for name in (b"ann", b"bob"))


def test_a_redaction_sees_every_query_of_a_batch_whole(tmp_path):
    seen = []

    def redact(record):
        seen.append((record.parameters.pop("tenant"), record.filter.pop("owner")))
        return

    tapped = tap(lambda vectors, where, tenant: [[1]] * len(vectors), sample=1.0, to=tmp_path, redact=redact)
    tapped(np.eye(3), {"owner": "ann"}, "hospital")
    tapped.log.close()
    assert seen == [("hospital", "ann")] * 3


def test_large_filters_and_ids_count_as_memory(tmp_path):
    go = threading.Event()
    tapped = tap(
        lambda vector, where, ids: ids,
        sample=1.0,
        to=tmp_path,
        redact=lambda record: go.wait(30) and None,
        max_bytes=1_000_000,
    )
    for _ in range(10):
        tapped(VECTOR, {"id": {"$in": list(range(10_000))}}, [1])
        tapped(VECTOR, None, ["x" * 1_000] * 500)
    assert tapped.log.counts["dropped"] > 15
    go.set()
    tapped.log.close(30)


class Raising(logging.Handler):
    def emit(self, record):
        raise RuntimeError("no logs today")


def test_a_handler_of_the_service_that_raises_reaches_nobody(tmp_path):
    logger, handler = logging.getLogger("recallatk.capture"), Raising()
    logger.addHandler(handler)
    try:
        tapped = tap(search, sample=1.0, to=tmp_path)
        assert tapped("no vector") == [0, 1]
        assert tapped.log.counts["skipped"] == 1
    finally:
        logger.removeHandler(handler)


BROKEN = {
    "raises": lambda record: 1 / 0,
    "returns something else": lambda record: {"vector": [1]},
    "breaks the vector": lambda record: setattr(record, "vector", "x") or record,
    "breaks the ids": lambda record: setattr(record, "ids", [object()]) or record,
    "breaks k": lambda record: setattr(record, "k", "many") or record,
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_record_that_a_redaction_broke_is_never_written(tmp_path, kind, caplog):
    broken = iter([BROKEN[kind]])
    tapped = tap(
        search, sample=1.0, to=tmp_path, redact=lambda record: next(broken, lambda each: each)(record)
    )
    with caplog.at_level(logging.WARNING, "recallatk"):
        tapped(VECTOR)
        tapped(VECTOR, 3)
        tapped.log.close()
    assert [row["k"] for row in rows(tmp_path)] == [3]
    assert tapped.log.counts["redacted"] == 1 and "redact failed" in caplog.text


def test_a_folder_that_cannot_be_written_costs_one_warning(tmp_path, caplog):
    (tmp_path / "log").write_text("a file where the folder should be")
    tapped = tap(search, sample=1.0, to=tmp_path / "log", rotate_rows=1)
    with caplog.at_level(logging.WARNING, "recallatk"):
        for _ in range(5):
            assert tapped(VECTOR) == [0, 1]
        assert tapped.log.flush()
        (tmp_path / "log").unlink()
        tapped(VECTOR)
        assert tapped.log.flush()
    assert tapped.log.counts["unwritable"] == 5 and len(caplog.records) == 1
    assert "cannot be written" in caplog.text
    # The log goes on once the folder can be written.
    assert len(rows(tmp_path / "log")) == 1


def test_vectors_of_several_types_and_ids_go_to_files_of_their_own(tmp_path):
    tapped = tap(lambda vector, ids: ids, sample=1.0, to=tmp_path, vector=lambda vector, ids: vector)
    for dtype in ("float16", "float32", "float64", "int8", "uint8"):
        tapped(np.ones(3, dtype), [1])
    tapped(np.ones(5, "float32"), [1])
    tapped(np.ones(3, "float32"), ["a"])
    tapped.log.close()
    files = [pq.read_schema(path) for path in tmp_path.iterdir()]
    kinds = {str(schema.field("vector").type).split("<")[1] for schema in files}
    assert len(kinds) == 6 and len(rows(tmp_path)) == 7
    assert ["1"] in [row["neighbors"] for row in rows(tmp_path)]


def test_a_wrapper_that_is_gone_leaves_no_thread_and_loses_no_call(tmp_path):
    before = threading.active_count()
    tapped = tap(search, sample=1.0, to=tmp_path)
    tapped(VECTOR)
    del tapped
    gc.collect()
    until = time.monotonic() + 20
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.02)
    assert threading.active_count() == before and len(rows(tmp_path)) == 1
