"""A database with tables of vectors, which the modules that probe PostgreSQL share."""

import contextlib
import json
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import recallatk

ROWS, DIMENSION, QUERIES = 2_000, 16, 120
# The state of a server that a probe must not change, of all sessions but the one that asks.
STATES = {
    "settings": "SELECT name, setting FROM pg_settings WHERE name !~ '^(transaction|application)' ORDER BY 1",
    "settings of roles": "SELECT * FROM pg_db_role_setting",
    "classes": "SELECT oid::bigint, relname::text, relfilenode::bigint FROM pg_class ORDER BY 1",
    "sessions": "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'recallatk'",
    "locks": "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) "
    "WHERE application_name = 'recallatk' OR locktype = 'advisory'",
    "prepared transactions": "SELECT count(*) FROM pg_prepared_xacts",
}


class Shop:
    """A database of the bundled server, its rows as the tests know them, and queries in a file."""

    def __init__(self, folder):
        import psycopg

        from recallatk.adapters.postgres_server import bundled_server

        parts = psycopg.conninfo.conninfo_to_dict(bundled_server())
        self.folder, self.host = folder, parts["host"]
        random = np.random.default_rng(5)
        centers = random.normal(size=(30, DIMENSION))
        self.vectors, self.queries = (
            (centers[random.integers(0, 30, count)] + 0.7 * random.normal(size=(count, DIMENSION))).astype(
                "f4"
            )
            for count in (ROWS, QUERIES)
        )
        self.kinds = [f"kind {number % 2}" for number in range(QUERIES)]
        pq.write_table(
            pa.table({"vector": list(self.queries), "kind": self.kinds}), folder / "queries.parquet"
        )

    def connected(self, database="shop", **more):
        import psycopg

        return psycopg.connect(host=self.host, user="postgres", dbname=database, autocommit=True, **more)

    def run(self, *statements, database="shop"):
        """The rows of the last statement, if it has any; each call has a connection of its own."""
        with self.connected(database) as connection:
            for statement in statements:
                done = connection.execute(statement)
            return done.fetchall() if done.description else None

    def url(self, table="items", user="postgres", database="shop", **more):
        named = "".join(f"&{name}={value}" for name, value in more.items())
        return f"postgresql:///{database}?host={self.host}&user={user}&table={table}{named}"

    def copy(self, name):
        """A table like `items`, to be changed."""
        self.run(
            f"DROP TABLE IF EXISTS {name}",
            f"CREATE TABLE {name} (LIKE items INCLUDING ALL)",
            f"INSERT INTO {name} SELECT * FROM items",
            f"ANALYZE {name}",
        )
        return self.url(name)

    def command(self, *words, rate="none", env=None):
        """The command on the queries of the file."""
        words = [*words, "--queries", "queries.parquet", "--max-rate", rate]
        return recallatk(*words, cwd=self.folder, env=env)

    def json(self, *words, **more):
        done = self.command(*words, "--json", **more)
        assert done.returncode in (0, 1, 3), done.stderr
        return json.loads(done.stdout)

    def state(self):
        return {name: self.run(query) for name, query in STATES.items()}

    def wait_for(self, query, seconds=60):
        """Until a query has a true answer; the server may be starting meanwhile."""
        import psycopg

        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with contextlib.suppress(psycopg.OperationalError):
                if self.run(query)[0][0]:
                    return
            time.sleep(0.02)
        raise TimeoutError(query)


@pytest.fixture(scope="session")
def shop(tmp_path_factory):
    """A database with the table `items`, whose index misses neighbors."""
    pytest.importorskip("psycopg", reason="the extra pgvector is not installed")
    made = Shop(Path(tmp_path_factory.mktemp("shop")))
    made.run("DROP DATABASE IF EXISTS shop", "CREATE DATABASE shop", database="postgres")
    made.run(
        "CREATE EXTENSION vector",
        f"CREATE TABLE items (id bigint PRIMARY KEY, embedding vector({DIMENSION}), category text, "
        "price float8)",
    )
    with made.connected() as connection, connection.cursor().copy("COPY items FROM STDIN") as copy:
        for row, vector in enumerate(made.vectors):
            copy.write_row((row, str(vector.tolist()), f"c{row % 10}", row % 100 / 2))
    made.run(
        "CREATE INDEX items_hnsw ON items USING hnsw (embedding vector_cosine_ops) "
        "WITH (m = 4, ef_construction = 16)",
        "ANALYZE items",
    )
    yield made
    made.run("DROP DATABASE shop WITH (FORCE)", database="postgres")
