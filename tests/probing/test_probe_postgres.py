"""Probes of a real PostgreSQL table: numbers against an oracle, read-only, and errors that help."""

import datetime as dt
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

psycopg = pytest.importorskip("psycopg", reason="the extra pgvector is not installed")

from recallatk.adapters.postgres_server import bundled_server  # noqa: E402
from recallatk.adapters.target_schemes import open_collection  # noqa: E402
from recallatk.errors import RecallError  # noqa: E402
from recallatk.probing import probe  # noqa: E402

from commands import recallatk  # noqa: E402  # isort: skip

ROWS, DIMENSION, K = 3_000, 24, 10
_STATES = {
    "settings": "SELECT name, setting FROM pg_settings WHERE name !~ '^(transaction|application)' ORDER BY 1",
    "classes": "SELECT oid::bigint, relname::text FROM pg_class ORDER BY 1",
    "locks": "SELECT locktype, relation::bigint FROM pg_locks WHERE pid <> pg_backend_pid() "
    "AND relation = 'items'::regclass",
    "sessions": "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'recallatk'",
}


@pytest.fixture(scope="module")
def table():
    """A table with an index that misses neighbors, and every type that filters know."""
    from pgvector.psycopg import register_vector

    random = np.random.default_rng(0)
    centers = random.normal(size=(30, DIMENSION))
    vectors, queries = (
        (centers[random.integers(0, 30, count)] + 0.7 * random.normal(size=(count, DIMENSION))).astype("f4")
        for count in (ROWS, 200)
    )
    with psycopg.connect(bundled_server(), autocommit=True) as connection:
        run = connection.execute
        run("CREATE EXTENSION IF NOT EXISTS vector")
        register_vector(connection)
        run("DROP TABLE IF EXISTS items")
        run(
            f"CREATE TABLE items (id bigint PRIMARY KEY, embedding vector({DIMENSION}), category text, "
            "price float8, made timestamptz, tags text[], sold boolean)"
        )
        start = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
        for row, vector in enumerate(vectors):
            sold = None if row % 7 == 0 else row % 2 == 0
            made, tags = start + dt.timedelta(hours=row), ["a", "b"] if row % 3 else ["c"]
            values = (row, vector, f"c{row % 10}", row % 100 / 2, made, tags, sold)
            run("INSERT INTO items VALUES (%s, %s, %s, %s, %s, %s, %s)", values)
        run("CREATE INDEX items_hnsw ON items USING hnsw (embedding vector_cosine_ops) "
            "WITH (m = 4, ef_construction = 16)")  # fmt: skip
        run("CREATE INDEX ON items USING btree (category)")
        run("ANALYZE items")
        yield vectors, queries
        run("DROP TABLE items")


@pytest.fixture
def target():
    parts = psycopg.conninfo.conninfo_to_dict(bundled_server())
    return f"postgresql:///{parts['dbname']}?host={parts['host']}&user={parts['user']}&table=items"


def oracle(vectors, query, mask=None, k=K):
    """The nearest rows by cosine in float64."""
    wide = vectors.astype(np.float64)
    scores = wide @ query.astype(np.float64) / np.linalg.norm(wide, axis=1)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    return np.argsort(-scores, kind="stable")[: min(k, int(len(vectors) if mask is None else mask.sum()))]


def state(query):
    with psycopg.connect(bundled_server()) as connection:
        return connection.execute(query).fetchall()


def test_recall_equals_that_of_an_oracle(table, target):
    vectors, queries = table
    with open_collection(target) as collection:
        expected = []
        for query in queries:
            answer = collection.answer(query, K, None)
            assert answer.used_index
            expected.append(len(set(oracle(vectors, query)) & set(answer.ids)) / K)
    found = probe(target, queries, max_rate=None)
    assert found.recall.value == pytest.approx(np.mean(expected), abs=1e-9)
    assert 0.2 < found.recall.value < 0.99
    assert found.counts.scored == len(queries)
    assert found.index_used == 1.0
    assert found.rows == ROWS
    streamed = probe(target, queries, truth="stream", max_rate=None)
    assert streamed.recall.value == pytest.approx(found.recall.value, abs=1e-9)


def test_more_effort_finds_more_and_the_settings_say_so(table, target):
    _, queries = table
    low = probe(target, queries, search={"ef_search": 1}, max_rate=None)
    high = probe(target, queries, search={"ef_search": 1000}, max_rate=None)
    assert high.recall.value > low.recall.value + 0.1
    assert high.settings["hnsw.ef_search"] == "1000"


@pytest.mark.parametrize(
    ("where", "mask"),
    [
        ("category = 'c1'", lambda row: row % 10 == 1),
        ("price >= 10 and price < 20.5", lambda row: 10 <= row % 100 / 2 < 20.5),
        ("made >= '2024-02-01T00:00:00Z'", lambda row: row >= 31 * 24),
        ("tags contains 'c'", lambda row: row % 3 == 0),
        ("sold = true", lambda row: row % 7 != 0 and row % 2 == 0),
        ("not (sold = true)", lambda row: row % 7 != 0 and row % 2 == 1),
        ("sold is null", lambda row: row % 7 == 0),
        ("category in ('c1', 'c2') or price = 3.5", lambda row: row % 10 in (1, 2) or row % 100 == 7),
    ],
)
def test_filtered_truth_is_that_of_the_filter(table, target, where, mask):
    vectors, queries = table
    from recallatk.filters import parse_filter

    passing = np.array([mask(row) for row in range(ROWS)])
    with open_collection(target) as collection:
        condition = parse_filter(where)
        assert collection.refusal(condition) is None
        for query in queries[:5]:
            exact = collection.exact(query, K, condition)
            assert exact.ids == oracle(vectors, query, passing).tolist()


def test_iterative_scans_answer_filtered_queries_in_full(table, target):
    _, queries = table
    where = "category = 'c3' and tags contains 'c'"
    off = probe(target, queries[:60], where=where, max_rate=None, settings={"enable_bitmapscan": "off"})
    scanned = probe(
        target, queries[:60], where=where, max_rate=None,
        settings={"hnsw.iterative_scan": "strict_order", "enable_bitmapscan": "off"},
    )  # fmt: skip
    assert off.counts.short > 0 or (off.index_used or 0) < 1
    assert scanned.counts.short <= off.counts.short
    assert any("--set hnsw.iterative_scan=strict_order" in each.advice for each in off.next_steps) == (
        off.counts.short > 0
    )
    assert scanned.next_steps == ()


def test_a_query_with_a_filter_that_has_no_sql_form_is_left_out_and_counted(table, target):
    import pandas as pd

    _, queries = table
    data = pd.DataFrame(
        {"vector": list(queries[:20]), "filter": ["category = 'c1'"] * 10 + ["color = 'x'"] * 10}
    )
    found = probe(target, data, max_rate=None)
    assert found.counts.refused == 10
    assert found.counts.scored == 10
    assert "color" in found.refusals[0]


def test_rows_as_queries_leave_themselves_out_and_are_labelled(table, target):
    found = probe(target, sample=50, max_rate=None, goals=["recall@10 >= 0.01"])
    assert found.sampled
    assert found.verdict.outcome == "UNDECIDED"
    assert probe(target, sample=50, max_rate=None, seed=3).recall.value == probe(
        target, sample=50, max_rate=None, seed=3
    ).recall.value  # fmt: skip


def test_the_command_prints_json_and_exits_by_verdict(table, target, tmp_path):
    np.save(tmp_path / "queries.npy", table[1])
    words = ("probe", target, "--queries", "queries.npy", "--max-rate", "none")
    failed = recallatk(*words, "--target", "recall@10 >= 0.999", "--json", cwd=tmp_path)
    assert failed.returncode == 1
    said = json.loads(failed.stdout)
    assert said["verdict"]["outcome"] == "FAIL"
    assert said["queries"] <= 200
    assert said["recall"]["any_time"]
    (step,) = said["next_steps"]
    assert shlex.split(step["command"])[:3] == ["recallatk", "tune", target]
    passed = recallatk(*words, "--target", "recall@10 >= 0.05", cwd=tmp_path)
    assert passed.returncode == 0, passed.stderr
    assert passed.stdout.startswith("PASS.")
    assert "items_hnsw" in passed.stderr


def test_a_probe_leaves_the_server_as_it_was(table, target):
    before = {name: state(query) for name, query in _STATES.items()}
    probe(target, table[1][:20], max_rate=None, search={"ef_search": 99})
    assert {name: state(query) for name, query in _STATES.items()} == before


def test_a_killed_probe_leaves_nothing_behind(table, target, tmp_path):
    np.save(tmp_path / "queries.npy", table[1])
    before = {name: state(query) for name, query in _STATES.items()}
    words = [
        sys.executable,
        "-m",
        "recallatk",
        "probe",
        target,
        "--queries",
        "queries.npy",
        "--timeout",
        "2s",
    ]
    process = subprocess.Popen([*words, "--max-rate", "50/s"], cwd=tmp_path, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 30
    while state(_STATES["sessions"]) == [(0,)] and time.monotonic() < until:
        time.sleep(0.05)
    assert state(_STATES["sessions"]) != [(0,)]
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    until = time.monotonic() + 10
    while state(_STATES["sessions"]) != before["sessions"] and time.monotonic() < until:
        time.sleep(0.1)
    assert {name: state(query) for name, query in _STATES.items()} == before


def test_writers_during_a_probe_do_not_change_its_recall(table, target):
    """Answer and truth share a snapshot, so rows that come and go in between are in both or in none."""
    _, queries = table
    going = threading.Event()

    def write():
        with psycopg.connect(bundled_server(), autocommit=True) as connection:
            number = ROWS
            while not going.is_set():
                vector = str(queries[number % len(queries)].tolist())
                connection.execute(
                    "INSERT INTO items (id, embedding) VALUES (%s, %s::vector)", (number, vector)
                )
                connection.execute("DELETE FROM items WHERE id = %s", (number,))
                number += 1

    quiet = probe(target, queries, max_rate=None, search={"ef_search": 1000})
    writer = threading.Thread(target=write)
    writer.start()
    try:
        busy = probe(target, queries, max_rate=None, search={"ef_search": 1000})
    finally:
        going.set()
        writer.join()
    assert busy.counts.discarded == 0
    assert busy.recall.value == pytest.approx(quiet.recall.value, abs=0.03)


def test_nothing_can_be_written_through_a_probe(table, target):
    with (
        open_collection(target) as collection,
        pytest.raises(RecallError, match="read-only"),
        collection._transaction(),
    ):
        collection.session.connection.execute("DELETE FROM items")
    assert state("SELECT count(*) FROM items") == [(ROWS,)]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("table=items", "table=itmes"), "items"),
        (("table=items", "table=items&vector=embeding"), "embedding"),
        (("table=items", "table=items&vector=category"), "holds text"),
        (("table=items", "table=items&id=nothing"), "nothing"),
        (("table=items", "table=items&metric=l2"), "cosine"),
        (("table=items", "table=items&id=category"), "more than once"),
        (("/postgres?", "/nowhere?"), "cannot connect"),
        (("user=postgres", "user=stranger"), "cannot connect"),
        (("table=items", "tables=items"), "table=items"),
    ],
)
def test_mistakes_in_a_target_name_the_remedy(table, target, change, said):
    with pytest.raises(RecallError, match=said):
        open_collection(target.replace(*change))


def test_queries_of_another_dimension_are_refused(table, target):
    with pytest.raises(RecallError, match="24 dimensions"):
        probe(target, np.ones((5, 7), "f4"))


def test_a_table_without_rows_or_index_is_described(table, target):
    with psycopg.connect(bundled_server(), autocommit=True) as connection:
        connection.execute("CREATE TABLE bare (id int PRIMARY KEY, v vector(2))")
        try:
            with pytest.raises(RecallError, match="metric"):
                open_collection(target.replace("items", "bare"))
            with pytest.raises(RecallError, match="no rows"):
                open_collection(target.replace("items", "bare&metric=l2"))
            connection.execute("INSERT INTO bare VALUES (1, '[1,2]'), (2, '[2,3]'), (3, NULL)")
            with open_collection(target.replace("items", "bare&metric=l2")) as collection:
                notes = " ".join(collection.discovery().notes)
            assert "no index" in notes
            assert "1 row has no vector" in notes
            found = probe(target.replace("items", "bare&metric=l2"), np.array([[1.0, 2.0]]), at=5)
            assert found.recall.value == 1.0
            assert found.index_used == 0.0
        finally:
            connection.execute("DROP TABLE bare")


def test_halfvec_expressions_and_views_and_statements_are_probed(table, target):
    _, queries = table
    with psycopg.connect(bundled_server(), autocommit=True) as connection:
        run = connection.execute
        run("CREATE TABLE half AS SELECT id, embedding FROM items")
        run("ALTER TABLE half ADD PRIMARY KEY (id)")
        run(f"CREATE INDEX ON half USING hnsw ((embedding::halfvec({DIMENSION})) halfvec_l2_ops)")
        run("CREATE VIEW seen AS SELECT id, embedding FROM items WHERE id < 2000")
        try:
            half = probe(target.replace("items", "half"), queries[:50], max_rate=None)
            assert half.index_used == 1.0
            assert half.recall.value > 0.9
            seen = probe(target.replace("items", "seen&metric=cosine&id=id"), queries[:20], max_rate=None)
            assert seen.rows == 2000
            sql = "SELECT id FROM items WHERE $filter ORDER BY embedding <=> $vector LIMIT $k"
            with open_collection(target, sql=sql) as collection:
                stated = probe(collection, queries, max_rate=None)
            assert stated.recall.value == pytest.approx(probe(target, queries, max_rate=None).recall.value)
        finally:
            run("DROP VIEW seen")
            run("DROP TABLE half")


def test_a_server_that_ends_the_connection_gives_no_verdict(table, target):
    _, queries = table
    with open_collection(target) as collection:

        def cut(done, _):
            if done == 20:
                with psycopg.connect(bundled_server(), autocommit=True) as connection:
                    connection.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                        "WHERE application_name = 'recallatk'"
                    )

        with pytest.raises(RecallError, match="20 of 200 queries were scored"):
            probe(collection, queries, max_rate=None, progress=cut)


def test_a_statement_that_takes_too_long_is_ended(table, target):
    sql = "SELECT id, pg_sleep(5) FROM items ORDER BY embedding <=> $vector LIMIT $k"
    from recallatk.adapters.probe_limits import ProbeLimits

    with (
        open_collection(target, ProbeLimits(seconds=0.2), sql=sql) as collection,
        pytest.raises(RecallError, match="time limit"),
    ):
        probe(collection, table[1][:2], max_rate=None)


def test_the_least_effort_that_meets_the_target_is_found_and_confirmed(table, target, tmp_path):
    _, queries = table
    np.save(tmp_path / "queries.npy", queries)
    words = ("tune", target, "--queries", "queries.npy", "--max-rate", "none", "--json")
    done = recallatk(*words, "--target", "recall@10 >= 0.7", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    effort = found["search"]["ef_search"]
    assert found["snippet"].startswith(f"SET hnsw.ef_search = {effort};")
    above = probe(target, queries, search={"ef_search": effort}, max_rate=None)
    below = probe(target, queries, search={"ef_search": max(1, effort // 3)}, max_rate=None)
    assert above.recall.value >= 0.7
    assert below.recall.value < above.recall.value
    with psycopg.connect(bundled_server()) as connection:
        # Production keeps its own setting.
        connection.execute("SELECT '[1]'::vector")
        assert connection.execute("SHOW hnsw.ef_search").fetchall() == [("40",)]


def test_a_target_beyond_the_index_is_not_met_and_says_why(table, target, tmp_path):
    np.save(tmp_path / "queries.npy", table[1])
    words = ("tune", target, "--queries", "queries.npy", "--max-rate", "none")
    missed = recallatk(*words, "--target", "recall@10 >= 0.9999", cwd=tmp_path)
    assert missed.returncode == 1
    assert "Not met" in missed.stdout
    slow = recallatk(*words, "--target", "recall@10 >= 0.5", "--budget", "p50 <= 0.000001ms", cwd=tmp_path)
    assert slow.returncode == 1
    assert "is the limit" in slow.stdout
    none = recallatk("tune", target, "--target", "recall@10 >= 0.5", cwd=tmp_path)
    assert none.returncode == 2
    assert "--queries FILE" in none.stderr


def test_a_proxy_needs_a_tenth_of_the_exact_queries_and_agrees(table, target):
    _, queries = table
    whole = probe(target, queries, max_rate=None)
    found = probe(target, queries, max_rate=None, proxy=True)
    assert found.counts.exact == 20
    assert found.recall.n == 200
    assert found.recall.low <= whole.recall.value <= found.recall.high
    more = probe(target, sample=800, max_rate=None, proxy=True)
    assert more.counts.exact == 80
    assert more.proxy_worth > 120
    assert found.settings["hnsw.ef_search"] == "40"
    failed = probe(
        target, queries, max_rate=None, proxy=True, search={"ef_search": 10}, goals=["recall@10 >= 0.999"]
    )
    assert failed.verdict.outcome == "FAIL"
    with pytest.raises(RecallError, match="at least 10 queries"):
        probe(target, queries[:5], max_rate=None, proxy=True)
