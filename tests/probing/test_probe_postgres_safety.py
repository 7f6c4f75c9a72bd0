"""Probes of PostgreSQL that are killed, or whose table changes meanwhile: no trace, and no wrong verdict."""

import os
import signal
import subprocess
import time

import pytest

psycopg = pytest.importorskip("psycopg", reason="the extra pgvector is not installed")

from recallatk.adapters.target_schemes import open_collection  # noqa: E402
from recallatk.errors import RecallError  # noqa: E402
from recallatk.probing import probe  # noqa: E402

from commands import command  # noqa: E402  # isort: skip

K = 10
SEEN = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'recallatk' AND query LIKE '{}%'"
# A session that has asked is idle, and its last statement ended a transaction.
ASKED = (
    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'recallatk' "
    "AND state = 'idle' AND query ~ '^(COMMIT|ROLLBACK)'"
)
SLOW = "SELECT id FROM items, pg_sleep(60) ORDER BY embedding <=> $vector LIMIT $k"
# A statement that is under way when the command is killed, and the command.
KILLED = {
    "probe": ("SELECT id FROM items, pg_sleep(60)", ["probe", "--sql", SLOW]),
    "stream": ("FETCH", ["probe", "--truth", "stream"]),
    "tune": ('SELECT "id"', ["tune", "--target", "recall@10 >= 0.7"]),
}


def started(shop, word, target, *words, rate="40/s"):
    """The command as a process that can be killed."""
    every = [word, target, *words, "--queries", "queries.parquet", "--timeout", "3s", "--max-rate", rate]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command(*every), cwd=shop.folder, **pipes)


@pytest.mark.parametrize("job", KILLED)
def test_a_killed_command_leaves_no_trace_once_its_time_limit_has_passed(shop, job):
    table = "items"
    if job == "stream":
        table = "many"
        shop.run(
            "CREATE TABLE IF NOT EXISTS many AS SELECT number * 10000 + id AS id, embedding FROM items, "
            "generate_series(1, 30) AS number",
        )
    statement, (word, *words) = KILLED[job]
    before = shop.state()
    target = shop.url(table) if table == "items" else shop.url(table, id="id", metric="cosine")
    process = started(shop, word, target, *words)
    with process:
        shop.wait_for(SEEN.format(statement))
        os.kill(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    # The statement that sleeps for a minute ends with its time limit of three seconds.
    shop.wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'recallatk'", 20)
    assert shop.state() == before


@pytest.mark.parametrize("truth", ["exact", "stream"])
def test_a_probe_changes_nothing_on_the_server_and_in_its_own_session(shop, truth):
    before = shop.state()
    with open_collection(shop.url()) as collection:
        rows = collection.session.rows
        for settings in ({"hnsw.iterative_scan": "strict_order"}, None):
            probe(
                collection,
                shop.queries,
                truth=truth,
                max_rate=None,
                settings=settings,
                search={"ef_search": 77},
            )
        assert rows("SELECT count(*) FROM pg_prepared_statements") == [(0,)]
        assert rows("SELECT count(*) FROM pg_cursors WHERE name <> ''") == [(0,)]
        assert rows("SELECT count(*) FROM pg_class WHERE relpersistence = 't'") == [(0,)]
        assert rows("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == [(0,)]
        assert rows("SHOW hnsw.ef_search") == [("40",)]
        assert rows("SHOW hnsw.iterative_scan") == [("off",)]
        assert rows("SHOW enable_indexscan") == [("on",)]
        assert rows("SHOW statement_timeout") == [("0",)]
    assert shop.state() == before


def test_a_row_written_between_answer_and_truth_is_in_neither(shop, monkeypatch):
    """Without one snapshot, each new row would be the first of the exact neighbors, and of no answer."""
    target = shop.copy("written")
    quiet = probe(target, shop.queries[:30], max_rate=None, search={"ef_search": 1000})
    with open_collection(target) as collection:
        exactly, number = collection._exactly, iter(range(10**6, 10**7))

        def written(vector, depth, condition):
            shop.run(f"INSERT INTO written VALUES ({next(number)}, '{vector.tolist()}')")
            return exactly(vector, depth, condition)

        monkeypatch.setattr(collection, "_exactly", written)
        busy = probe(collection, shop.queries[:30], max_rate=None, search={"ef_search": 1000})
    assert shop.run("SELECT count(*) FROM written WHERE id >= 1000000") == [(30,)]
    assert busy.counts.discarded == 0
    assert busy.recall.value == quiet.recall.value


CHANGES = {
    "truncated": "TRUNCATE changing",
    "rewritten": "VACUUM FULL changing",
    "index rebuilt": "REINDEX TABLE changing",
    "index rebuilt without a lock": "REINDEX TABLE CONCURRENTLY changing",
    "index dropped": "DROP INDEX changing_embedding_idx",
    "second index": "CREATE INDEX ON changing USING hnsw (embedding vector_cosine_ops)",
}


@pytest.mark.parametrize(("change", "proxy"), [*((each, False) for each in CHANGES), ("index rebuilt", True)])
def test_a_table_that_is_changed_meanwhile_gives_no_verdict(shop, change, proxy):
    target = shop.copy("changing")
    if change == "truncated":
        # Production may search a view of the table.
        shop.run("CREATE VIEW seen AS SELECT * FROM changing")
        target = shop.url("seen", id="id", metric="cosine")

    def changed(done, _):
        if done == 10:
            shop.run(CHANGES[change])

    scored = "1 of 120" if proxy else "10 of 120"
    said = rf"truncated, rebuilt or replaced.*Start the probe again. No verdict: {scored} queries"
    try:
        with pytest.raises(RecallError, match=said):
            probe(target, shop.queries, max_rate=None, progress=changed, proxy=proxy)
    finally:
        shop.run("DROP VIEW IF EXISTS seen", "DROP TABLE changing")


def test_a_table_that_is_dropped_or_locked_gives_no_verdict(shop):
    target = shop.copy("changing")
    with open_collection(target) as collection, shop.connected() as other:
        with other.transaction():
            other.execute("LOCK TABLE changing IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(RecallError, match=r"another session holds a lock .* Start the probe again"):
                probe(collection, shop.queries, max_rate=None)
        shop.run("DROP TABLE changing")
        with pytest.raises(RecallError, match=r"does not exist\. No verdict: 0 of 120"):
            probe(collection, shop.queries, max_rate=None)


def crash(shop):
    """Kill the session's process: PostgreSQL then restarts, and every connection is lost."""
    ((process,),) = shop.run("SELECT pid FROM pg_stat_activity WHERE application_name = 'recallatk'")
    os.kill(process, signal.SIGKILL)


@pytest.mark.parametrize(
    ("happens", "said"),
    [
        (crash, "the connection was lost"),
        (lambda shop: shop.run("TRUNCATE changing"), "truncated, rebuilt or replaced"),
    ],
    ids=["restart", "truncate"],
)
@pytest.mark.parametrize("word", ["probe", "tune"])
def test_a_command_whose_server_restarts_or_table_changes_ends_with_a_sentence(shop, word, happens, said):
    target = shop.copy("changing")
    # So slow that it is far from its end when the first query has been seen.
    process = started(shop, word, target, "--target", "recall@10 >= 0.75", rate="2/s")
    shop.wait_for(ASKED)
    # The first transactions describe the table.
    time.sleep(1)
    happens(shop)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 2, errors
    assert said in errors
    assert "Start the probe again" in errors
    assert not output
    assert "Traceback" not in errors
    shop.wait_for("SELECT 1")
    shop.run("DROP TABLE changing")
