"""The contract over engines that are asked in SQL, against real databases, and what else can go wrong."""

import re
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest

from recallatk.adapters import QueryBatch, get_engine
from recallatk.adapters.base import resolved
from recallatk.adapters.duckdb import _extension
from recallatk.adapters.postgres_server import DSN_VARIABLE, bundled_server, stop_bundled_server
from recallatk.adapters.sql import SqlFilters, metadata_columns
from recallatk.core import Metric
from recallatk.datasets.opening import make_corpus, make_queries, open_dataset
from recallatk.errors import EngineError, FilterError, UsageError
from recallatk.filters import And, ContainsAll, ContainsAny, Equals, Exists, In, Not, Or, Prefix, Range
from recallatk.testing import EngineContract
from recallatk.testing.contract_ground import (
    Gap,
    K,
    Kind,
    batch_of,
    configure,
    data,
    rebuild,
    recall,
    vectors_of,
)

PGVECTOR = ["pgvector-hnsw", "pgvector-ivfflat"]
BUILD = {"pgvector-ivfflat": {"lists": 4}}
HOSTILE = """o'clock"; DROP TABLE items; -- \\' %s"""


@pytest.fixture(scope="module", autouse=True)
def server():
    """One PostgreSQL for all of the module."""
    yield
    stop_bundled_server()


@pytest.fixture(autouse=True)
def no_dsn(monkeypatch):
    monkeypatch.delenv(DSN_VARIABLE, raising=False)


@pytest.fixture
def making():
    made = []

    def make(name, dataset, build=None, **search):
        made.append(get_engine(name)())
        rebuild(made[-1], dataset, {**BUILD.get(name, {}), **(build or {})}, search)
        return made[-1]

    yield make
    for engine in made:
        engine.close()


class TestPgvectorHnsw(EngineContract):
    engine = "pgvector-hnsw"
    full_effort: ClassVar = {"iterative_scan": "strict_order"}


class TestPgvectorHnswHalfvec(EngineContract):
    engine = "pgvector-hnsw"
    build: ClassVar = {"storage": "halfvec"}
    full_effort: ClassVar = {"iterative_scan": "relaxed_order"}


class TestPgvectorIvfFlat(EngineContract):
    engine = "pgvector-ivfflat"
    build: ClassVar = {"lists": 4}
    gaps: ClassVar = {
        "test_one_neighbour_and_one_row": Gap(
            Kind.UPSTREAM, "where rows are fewer than lists, the other lists are empty and may be probed"
        )
    }


class TestSqliteVec(EngineContract):
    engine = "sqlite-vec"


class TestDuckDB(EngineContract):
    engine = "duckdb"
    gaps: ClassVar = {
        "test_maintenance_keeps_rows_and_their_numbers": Gap(
            Kind.UPSTREAM, "an insert after deletes loses rows of the index (vss of 1.5.5)"
        )
    }


class TestLanceDB(EngineContract):
    engine = "lancedb"


class TestLanceDBGraph(EngineContract):
    engine = "lancedb"
    build: ClassVar = {"index": "IVF_HNSW_SQ"}


@pytest.mark.parametrize("name", PGVECTOR)
def test_the_plan_is_the_evidence_before_searches_and_index_scans_are_after_them(name, making):
    dataset = data()
    engine = making(name, dataset)
    assert "Index Scan using items_vector" in engine.exercised()
    engine.search(batch_of(dataset), K)
    method = name.removeprefix("pgvector-")
    said = f"24 of 24 calls (100.0%) scanned items_vector ({method}), by the counters of PostgreSQL"
    assert engine.exercised() == said
    engine.exact_search(batch_of(dataset), K)
    assert engine.exercised() == said


def test_a_planner_that_may_scan_the_table_is_found_out(making):
    dataset = data()
    engine = making("pgvector-hnsw", dataset, plan="free")
    engine.search(batch_of(dataset), K)
    with pytest.raises(EngineError, match="PostgreSQL scanned the table in all 24 calls"):
        engine.exercised()


def test_an_index_dropped_behind_our_back_is_found_out(making):
    dataset = data()
    engine = making("pgvector-hnsw", dataset)
    engine.search(batch_of(dataset), K)
    import psycopg

    with psycopg.connect(bundled_server(), autocommit=True) as other:
        other.execute(f"DROP INDEX {engine.schema}.items_vector")
    engine.search(batch_of(dataset), K)
    with pytest.raises(EngineError, match=r"the index did not answer: items_vector was dropped"):
        engine.exercised()


def test_nothing_is_left_in_the_database(making):
    import psycopg

    engine = making("pgvector-hnsw", data())
    counted = "SELECT count(*) FROM pg_namespace WHERE nspname = %s"
    with psycopg.connect(bundled_server(), autocommit=True) as other:
        assert other.execute(counted, (engine.schema,)).fetchone() == (1,)
        engine.close()
        assert other.execute(counted, (engine.schema,)).fetchone() == (0,)


def test_sqlite_says_that_it_is_exact(making):
    dataset = data()
    engine = making("sqlite-vec", dataset)
    engine.search(batch_of(dataset), K)
    assert engine.exercised() == "exact: vec0 compares all 300 rows"
    with pytest.raises(EngineError, match="4096"):
        engine.search(batch_of(dataset), 4097)


def test_duckdb_without_its_index_is_found_out(making):
    dataset = data()
    engine = making("duckdb", dataset)
    engine.search(batch_of(dataset), K)
    assert "HNSW_INDEX_SCAN" in engine.exercised()
    engine.exact_search(batch_of(dataset), K)
    assert "HNSW_INDEX_SCAN" in engine.exercised()
    engine.connection.execute("DROP INDEX items_vector")
    engine.search(batch_of(dataset), K)
    with pytest.raises(EngineError, match="the index did not answer; the plan was"):
        engine.exercised()


def test_duckdb_takes_no_extension_of_another_version():
    with pytest.raises(EngineError, match=r"duckdb 0\.0\.1 needs the vss extension of the same version"):
        _extension("0.0.1")


@pytest.mark.parametrize("index", ["IVF_FLAT", "IVF_SQ", "IVF_RQ", "IVF_HNSW_FLAT", "IVF_HNSW_PQ"])
def test_every_index_of_lancedb_answers(index, making):
    dataset = data()
    engine = making("lancedb", dataset, {"index": index}, refine=20, ef=300)
    assert recall(engine.search(batch_of(dataset), K), dataset) >= 0.95
    assert index in engine.exercised()


def test_lancedb_says_that_rows_are_too_few_for_an_index(making):
    dataset = data(rows=100)
    engine = making("lancedb", dataset, {"index": "IVF_PQ"})
    assert recall(engine.search(batch_of(dataset), K), dataset) >= 0.99
    with pytest.raises(EngineError, match=r"IVF_PQ covers 0 of 100 rows.* the rows are too few"):
        engine.exercised()


def built(name, **build):
    engine = get_engine(name)()
    try:
        rebuild(engine, data(), build, {})
    finally:
        engine.close()


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://someone:hunter2@127.0.0.1:1/nothing?connect_timeout=2",
        "host=127.0.0.1 port=1 user=someone password=hunter2 connect_timeout=2",
        "password hunter2",
    ],
)
def test_a_wrong_dsn_keeps_its_password_to_itself(dsn, monkeypatch):
    monkeypatch.setenv(DSN_VARIABLE, dsn)
    with pytest.raises(EngineError, match=r"cannot connect|is not valid") as raised:
        built("pgvector-hnsw")
    assert "hunter2" not in str(raised.value)
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__


def test_a_password_among_the_parameters_is_refused():
    with pytest.raises(UsageError, match=DSN_VARIABLE) as raised:
        built("pgvector-hnsw", dsn="postgresql://someone:hunter2@127.0.0.1/nothing")
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    "dsn",
    ["postgresql://postgres:${OUR_LOGIN}@/postgres?host={}", "user=postgres password=${OUR_LOGIN} host={}"],
)
def test_a_password_in_a_dsn_comes_from_the_environment(dsn, making, monkeypatch):
    monkeypatch.setenv("OUR_LOGIN", "hush /@ 'hush'")
    folder = re.search(r"host=(\S+)", bundled_server())[1]
    engine = making("pgvector-hnsw", data(), {"dsn": dsn.replace("{}", folder)}, ef=1000)
    assert engine.connection.info.password == "hush /@ 'hush'"
    with pytest.raises(EngineError, match="cannot connect") as raised:
        built("pgvector-hnsw", dsn="host=127.0.0.1 port=1 password=${OUR_LOGIN} connect_timeout=2")
    assert "hush" not in str(raised.value)


def test_a_dsn_may_be_given(making):
    dataset = data()
    engine = making("pgvector-hnsw", dataset, {"dsn": bundled_server()}, ef=1000)
    assert recall(engine.search(batch_of(dataset), K), dataset) >= 0.99
    assert engine.version().startswith("PostgreSQL 1")


def test_the_bundled_server_has_a_folder_only_while_it_runs():
    folder = bundled_server().split()[0].removeprefix("host=")
    assert Path(folder).is_dir()
    stop_bundled_server()
    assert not Path(folder).exists()


@pytest.mark.parametrize("storage, most", [("vector", 2_000), ("halfvec", 4_000)])
def test_too_many_dimensions_are_refused(storage, most):
    corpus = make_corpus(np.ones((2, most + 1), np.float32))
    engine = get_engine("pgvector-hnsw")()
    with pytest.raises(EngineError, match=f"at most {most:,} dimensions, the corpus has {most + 1:,}"):
        engine.build(corpus, Metric.L2, **resolved(engine.name, engine.build_knobs, {"storage": storage}))


@pytest.mark.parametrize("name", PGVECTOR)
def test_bits_are_reranked_by_the_vectors(name, making):
    dataset = data()
    effort = {"ef": 1000} if name == "pgvector-hnsw" else {"probes": 4}
    found = making(name, dataset, {"storage": "bit"}, rerank=30, **effort).search(batch_of(dataset), K)
    assert recall(found, dataset) >= 0.99


def test_few_candidates_give_short_answers(making):
    dataset = data()
    engine = making("pgvector-hnsw", dataset, ef=4)
    found = engine.search(batch_of(dataset), K)
    assert (found[:, :4] >= 0).all()
    assert (found[:, 4:] == -1).all()
    configure(engine, {"ef": 4, "iterative_scan": "strict_order"})
    assert (engine.search(batch_of(dataset), K) >= 0).all()


@pytest.mark.parametrize("sequence", ["dd", "di", "did", "idi", "idd"])
def test_duckdb_finds_what_is_left_after_any_update(sequence, making):
    dataset = data()
    engine = making("duckdb", dataset, ef=1000)
    random, left, number = np.random.default_rng(0), set(range(300)), 300
    for each in sequence:
        if each == "i":
            engine.insert(random.normal(size=(20, 16)).astype("float32"))
            left |= set(range(number, number + 20))
            number += 20
        else:
            rows = random.choice(sorted(left), 60, replace=False)
            engine.delete(rows)
            left -= set(rows.tolist())
    found = engine.search(batch_of(dataset), 400)
    assert all(set(line) - {-1} == left for line in found.tolist())
    assert (found[:, :K] == engine.exact_search(batch_of(dataset), K)).mean() >= 0.99


def test_a_client_is_a_session_of_its_own_with_the_same_settings(making):
    dataset = data()
    engine = making("pgvector-hnsw", dataset, ef=4)
    client = engine.client()
    assert (client.search(batch_of(dataset), K)[:, 4:] == -1).all()
    configure(client, {"ef": 100})
    assert (client.search(batch_of(dataset), K) >= 0).all()
    assert (engine.search(batch_of(dataset), K)[:, 4:] == -1).all()
    assert "Index Scan using items_vector" in client.exercised()
    client.close()
    assert engine.exercised().startswith("72 of 72 calls")
    with pytest.raises(EngineError, match="no index is built"):
        client.exercised()
    assert engine.call() == "SQL statement over a local socket"
    assert not engine.in_process()


# Filters


def odd_dataset():
    """Every type of column, with nulls, under names and values that would break out of a statement."""
    rows = 60
    numbers = np.arange(rows)
    columns = {
        HOSTILE: [HOSTILE if row % 3 == 0 else f"plain {row % 5}" for row in range(rows)],
        "whole": pa.array([None if row % 7 == 0 else row - 30 for row in range(rows)], pa.int16()),
        "huge": pa.array([2**62 + row for row in range(rows)], pa.int64()),
        "real": pa.array([None if row % 11 == 0 else row / 4 for row in range(rows)], pa.float32()),
        "nan": pa.array([np.nan if row % 2 else 1.0 for row in range(rows)], pa.float64()),
        "flag": pa.array([None if row % 5 == 0 else row % 2 == 0 for row in range(rows)], pa.bool_()),
        "day": pa.array(numbers.astype("datetime64[D]")),
        "coded": pa.array([f"é{row % 4}" for row in range(rows)]).dictionary_encode(),
        "nothing": pa.nulls(rows),
        "at": pa.array([None if row % 6 == 0 else row for row in range(rows)], pa.timestamp("s", "UTC")),
        "tags": [None if row % 6 == 0 else [f"t{row % 4}", HOSTILE, None][: row % 5] for row in range(rows)],
        "numbers": pa.array([[row, 2**62 + row] if row % 3 else None for row in range(rows)]),
        "path": [f"a%{row % 3}/{row}" if row % 8 else None for row in range(rows)],
    }
    random = np.random.default_rng(0)
    corpus = make_corpus(random.normal(size=(rows, 8)).astype(np.float32), None, columns)
    queries = make_queries(random.normal(size=(1, 8)).astype(np.float32))
    return open_dataset(corpus, queries, metric="l2")


FILTERS = [
    Equals(HOSTILE, HOSTILE),
    Not(Equals(HOSTILE, "' OR 1=1 --")),
    In(HOSTILE, ("plain 1", HOSTILE, "')")),
    Range(HOSTILE, gte="plain 1", lt="plain 3"),
    Range("whole", gt=-3.5, lte=7.5),
    Not(Range("whole", gte=0)),
    Or((Equals("whole", 2.5), Equals("whole", 3.0))),
    Not(In("whole", (2.5, 2**70))),
    Range("whole", lt=2**70),
    Range("whole", gte=1e300),
    Range("huge", gt=2**62 + 29, lt=2**62 + 40),
    Equals("huge", 2**62 + 3),
    Range("huge", lte=float(2**62)),
    Range("real", gte=2, lt=2**53 + 1),
    Equals("real", 2**53 + 1),
    Not(Equals("real", 2.25)),
    Exists("nan"),
    Not(Equals("nan", 2)),
    Equals("flag", True),
    Not(Equals("flag", True)),
    And((Exists("flag"), Or((Equals("coded", "é1"), Equals("flag", False))))),
    Range("day", gte="1970-01-20", lt="1970-02-05"),
    Equals("day", "1970-01-02"),
    Range("coded", gt="é1"),
    Equals("nothing", 1),
    Not(Range("nothing", lt=5)),
    Not(Exists("nothing")),
    Range("at", gt="1970-01-01T00:00:10.5Z", lte="1970-01-01T01:00:30+01:00"),
    Not(Equals("at", "1970-01-01T00:00:10.5Z")),
    In("at", ("1970-01-01T00:00:11Z", "9999-12-31T00:00:00Z")),
    Range("at", lt="9999-12-31T00:00:00Z"),
    Exists("tags"),
    ContainsAny("tags", ("t1",)),
    Not(ContainsAny("tags", ("t1", "t2"))),
    ContainsAny("tags", (HOSTILE, "'")),
    ContainsAll("tags", ("t1", HOSTILE)),
    Not(ContainsAll("tags", ("t1", HOSTILE))),
    Or((ContainsAny("tags", ("unknown",)), ContainsAny("numbers", (1, 2**62 + 5)))),
    ContainsAll("numbers", (2, 2**62 + 2)),
    Not(ContainsAll("numbers", (2, 2.5))),
    Not(ContainsAny("numbers", (2.5,))),
    Prefix("path", "a%1/"),
    Not(Prefix("path", "a%1/")),
    Prefix("path", ""),
    Prefix("path", "A%"),
    Prefix("coded", "é"),
    Prefix(HOSTILE, HOSTILE[:9]),
    Not(Prefix("nothing", "x")),
    Not(ContainsAny("nothing", ("x",))),
]
FILTERING = {"pgvector-hnsw": {"ef": 1000}, "sqlite-vec": {}, "lancedb": {}}


@pytest.mark.parametrize("name", FILTERING)
def test_filters_mean_what_they_mean_everywhere(name, making):
    dataset = odd_dataset()
    engine = making(name, dataset, **FILTERING[name])
    vectors, rows = vectors_of(dataset), dataset.corpus.rows
    for condition in FILTERS:
        allowed = np.flatnonzero(condition.mask(dataset.corpus.metadata)).tolist()
        for search in (engine.search, engine.exact_search):
            found = search(QueryBatch(vectors, [condition]), rows)[0]
            assert sorted(found[found >= 0].tolist()) == allowed, str(condition)
    assert (engine.search(QueryBatch(vectors), rows) >= 0).all(), "a filter took rows out for good"


def test_no_name_and_no_value_reaches_a_statement():
    columns = metadata_columns(odd_dataset().corpus)
    text, values = SqlFilters(columns, "?").compile(In(HOSTILE, (HOSTILE, "x")))
    assert text == "(m0 IN (?, ?))"
    assert values == [HOSTILE, "x"]


@pytest.mark.parametrize(
    "condition, said",
    [
        (Equals("no such", 1), "no column 'no such'"),
        (Equals("whole", "1"), "column 'whole' holds int16 and cannot be compared with '1'"),
        (Equals("whole", True), "cannot be compared with true"),
        (Equals("flag", 1), "column 'flag' holds bool"),
        (Equals("day", "someday"), "cannot be compared with 'someday'"),
        (Equals("day", 5), "cannot be compared with 5"),
        (Range(HOSTILE, lt=5), "cannot be compared with 5"),
        (Prefix("whole", "1"), "column 'whole' holds int16"),
        (ContainsAny("whole", (1,)), "column 'whole' holds int16, which is no list"),
        (ContainsAny("tags", (1,)), "cannot be compared with 1"),
        (Equals("tags", "t1"), "Accepted: tags contains 't1'"),
    ],
)
def test_filters_that_do_not_fit_are_refused(condition, said):
    with pytest.raises(FilterError, match=said):
        SqlFilters(metadata_columns(odd_dataset().corpus), "?").compile(condition)


def test_types_that_no_database_shares_are_left_out():
    columns = {"list": [[1.5], [2.5]], "twice": pa.array([1, 2], pa.uint64())}
    corpus = make_corpus(np.ones((2, 2), np.float32), None, columns)
    assert metadata_columns(corpus) == {}
