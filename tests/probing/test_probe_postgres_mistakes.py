"""Mistakes in a probe of PostgreSQL: a sentence with what to type next, exit code 2, and never a password."""

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

psycopg = pytest.importorskip("psycopg", reason="the extra pgvector is not installed")

from recallatk.adapters.target_schemes import open_collection  # noqa: E402
from recallatk.errors import RecallError  # noqa: E402

from commands import command, recallatk  # noqa: E402  # isort: skip

PASSWORD = "hunter2-of-the-shop"
ROWS = "SELECT number, '[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]' FROM generate_series(1, 5) AS number"
TABLES = (
    "CREATE TABLE unfilled (id int PRIMARY KEY, v vector(16))",
    "CREATE TABLE allnull (id int PRIMARY KEY, v vector(16))",
    "INSERT INTO allnull SELECT number, NULL FROM generate_series(1, 5) AS number",
    "CREATE TABLE repeated (id int, v vector(16))",
    f"INSERT INTO repeated {ROWS}",
    f"INSERT INTO repeated {ROWS}",
    "CREATE TABLE nullid (id int, v vector(16))",
    f"INSERT INTO nullid {ROWS}",
    "INSERT INTO nullid SELECT NULL, v FROM nullid LIMIT 1",
    "CREATE TABLE keyless (name text, v vector(16))",
    "CREATE TABLE flat (id int PRIMARY KEY, words text)",
    "CREATE TABLE codes (id int PRIMARY KEY, v vector(16))",
    f"INSERT INTO codes {ROWS}",
    "CREATE INDEX codes_bits ON codes USING hnsw ((binary_quantize(v)::bit(16)) bit_hamming_ops)",
)


@pytest.fixture(scope="module")
def store(shop):
    """The shop with tables that cannot be probed, and a role that has to give a password."""
    shop.run(*TABLES, f"CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}'")
    shop.run("CREATE SCHEMA hidden", "CREATE TABLE hidden.things (id int PRIMARY KEY, v vector(16))")
    shop.run("CREATE DATABASE bare", database="postgres")
    ((rules,),) = shop.run("SHOW hba_file")
    before = Path(rules).read_text()
    Path(rules).write_text(f"local all reader scram-sha-256\n{before}")
    shop.run("SELECT pg_reload_conf()")
    refused = "SELECT count(*) FROM pg_hba_file_rules WHERE user_name = '{reader}'"
    shop.wait_for(refused)
    yield shop
    Path(rules).write_text(before)
    shop.run("SELECT pg_reload_conf()", "DROP SCHEMA hidden CASCADE", "DROP OWNED BY reader")
    shop.run("DROP ROLE reader")
    tables = [re.search(r"CREATE TABLE (\w+)", each)[1] for each in TABLES if "CREATE TABLE" in each]
    shop.run(f"DROP TABLE {', '.join(tables)}")
    shop.run("DROP DATABASE bare", database="postgres")


def refused(done):
    """The one sentence of a refusal."""
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert not done.stdout
    assert PASSWORD not in done.stderr
    return " ".join(done.stderr.split())


NAMED = [
    ({"table": "itmes"}, "Did you mean items?"),
    ({"table": "items", "vector": "embeding"}, "Accepted: embedding"),
    ({"table": "items", "index": "other"}, "Accepted: items_hnsw"),
    ({"table": "flat"}, "no column has type vector or halfvec. Name the table with the vectors: table=NAME"),
    ({"table": "keyless", "metric": "l2"}, "Name the column of ids: &id=NAME. Columns: name"),
    ({"table": "unfilled", "metric": "l2"}, "has no rows that this role can see"),
    ({"table": "allnull", "metric": "l2"}, "no row has a vector in 'v'. Name another column: &vector=NAME"),
    ({"table": "repeated", "metric": "l2", "id": "id"}, "more than once"),
    ({"table": "nullid", "metric": "l2", "id": "id"}, "'id' has null"),
    ({"table": "codes", "metric": "l2"}, "no index on 'v' uses l2"),
    ({"table": "codes"}, "measure other statements with --sql"),
    ({"table": "items", "database": "bare"}, "has no extension vector"),
    ({"table": "items", "database": "nowhere"}, "Check host, port, user and database"),
]


@pytest.mark.parametrize(("named", "said"), NAMED)
def test_a_target_that_cannot_be_probed_says_what_to_type(store, named, said):
    assert said in refused(store.command("probe", store.url(**named)))


OPTIONS = [
    (["--set", "hnsw.ef_search=many"], '--set: items: invalid value for parameter "hnsw.ef_search": "many"'),
    (["--set", "statement_timeout=0"], "a probe sets only parameters of the search"),
    (["--set", "hnsw.ef_search"], "Accepted: NAME=VALUE"),
    (["--search", "ef_search=0"], "Accepted: whole numbers from 1 to 1000"),
    (["--by", "color"], "no query column 'color'. Accepted: kind"),
    (["--by", "kind", "--proxy"], "--by cannot be combined with --proxy"),
    (["--sql", "SELECT id FROM items LIMIT $k"], "--sql lacks $vector"),
    (
        ["--sql", "SELECT no FROM items ORDER BY embedding <=> $vector LIMIT $k"],
        "No verdict: 0 of 120 queries",
    ),
    (["--where", "color = 'red'"], "no column 'color'. The columns are: id, category, price"),
    (["--timeout", "0s"], "is not a duration"),
]


@pytest.mark.parametrize(("words", "said"), OPTIONS)
def test_an_option_that_cannot_be_used_says_what_is_accepted(store, words, said):
    assert said in refused(store.command("probe", store.url(), *words))


def test_a_statement_that_would_write_is_refused_by_the_server(store):
    gone = "WITH gone AS (DELETE FROM items RETURNING id, embedding)"
    sql = f"{gone} SELECT id FROM gone ORDER BY embedding <=> $vector LIMIT $k"
    assert "read-only transaction" in refused(store.command("probe", store.url(), "--sql", sql))
    assert store.run("SELECT count(*) FROM items") == [(2_000,)]


def test_a_time_limit_below_a_millisecond_is_no_longer_a_limit_of_none(store):
    sql = "SELECT id FROM items, pg_sleep(5) ORDER BY embedding <=> $vector LIMIT $k"
    from recallatk.adapters.probe_limits import ProbeLimits

    def ask():
        with open_collection(store.url(), ProbeLimits(seconds=0.0004), sql=sql) as collection:
            collection.answer(store.queries[0], 10, None)

    with pytest.raises(RecallError, match="time limit"):
        ask()


def test_the_server_may_be_named_by_the_variables_of_the_driver(store):
    """Not a new server of our own, which would be empty."""
    driver = {"PGHOST": store.host, "PGUSER": "postgres", "PGDATABASE": "shop"}
    found = store.json("probe", "postgresql://?table=items", env=driver)
    assert found["rows"] == 2_000


def test_a_role_without_rights_is_told_which_grants_it_needs(store):
    own = {"PGPASSWORD": PASSWORD}
    for table in ("items", "hidden.things"):
        said = refused(store.command("probe", store.url(table, user="reader", metric="cosine"), env=own))
        assert "GRANT USAGE ON SCHEMA ... and GRANT SELECT ON" in said


def test_a_role_that_sees_some_rows_is_probed_on_those(store):
    store.run(
        "CREATE TABLE own AS SELECT * FROM items",
        "ALTER TABLE own ADD PRIMARY KEY (id)",
        "CREATE INDEX ON own USING hnsw (embedding vector_cosine_ops)",
        "ALTER TABLE own ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY first ON own FOR SELECT USING (id < 500)",
        "GRANT SELECT ON own TO reader",
    )
    try:
        found = store.json("probe", store.url("own", user="reader"), env={"PGPASSWORD": PASSWORD})
        assert found["rows"] == 500
        assert found["queries"] == 120
    finally:
        store.run("DROP TABLE own")


def test_a_password_is_taken_from_the_driver_and_never_shown(store, tmp_path):
    store.run("GRANT SELECT ON items TO reader")
    kept = tmp_path / "pgpass"
    kept.write_text(f"*:*:*:reader:{PASSWORD}\n")
    kept.chmod(0o600)
    target = store.url(user="reader")
    reference = f"postgresql://reader:${{SHOP}}@/shop?host={store.host}&table=items"
    ways = {
        "PGPASSWORD": (target, PASSWORD),
        "PGPASSFILE": (target, str(kept)),
        "SHOP": (reference, PASSWORD),
    }
    for name, (url, value) in ways.items():
        done = store.command("probe", url, "--json", env={name: value})
        assert done.returncode == 0, done.stderr
        assert PASSWORD not in done.stdout + done.stderr
    for name in ("PGPASSWORD", "SHOP"):
        wrong = store.command("probe", ways[name][0], env={name: f"not-{PASSWORD}"})
        assert "password authentication failed" in refused(wrong)
    said = refused(store.command("probe", target))
    assert "a password is taken from PGPASSWORD, from .pgpass" in said


@pytest.mark.parametrize(
    "form",
    ["reader:{}@/shop?host={}&table=items", "/shop?host={1}&user=reader&password={0}&table=items"],
    ids=["user", "parameter"],
)
@pytest.mark.parametrize("word", ["probe", "tune"])
def test_a_password_in_a_target_is_refused_and_not_repeated(store, form, word):
    target = "postgresql://" + form.format(PASSWORD, store.host)
    said = refused(store.command(word, target, "--target", "recall@10 >= 0.9"))
    assert "Take it from PGPASSWORD or .pgpass" in said


def test_no_process_shows_the_password(store):
    store.run("GRANT SELECT ON items TO reader")
    target = f"postgresql://reader:${{SHOP}}@/shop?host={store.host}&table=items"
    words = ["probe", target, "--queries", "queries.parquet", "--max-rate", "1/s"]
    environment = {**os.environ, "SHOP": PASSWORD}
    with subprocess.Popen(
        command(*words), cwd=store.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        store.wait_for("SELECT count(*) FROM pg_stat_activity WHERE usename = 'reader'")
        ((server,),) = store.run("SELECT pid FROM pg_stat_activity WHERE usename = 'reader'")
        shown = [Path(f"/proc/{each}/cmdline") for each in (process.pid, server)]
        titles = [each.read_text() for each in shown if each.exists()]
        rows = store.run("SELECT * FROM pg_stat_activity WHERE usename = 'reader'")
        process.kill()
    assert PASSWORD not in "".join(titles) + str(rows)


def test_queries_of_another_dimension_are_refused_by_the_command(store, tmp_path):
    np.save(tmp_path / "other.npy", np.ones((5, 7), "f4"))
    words = ("probe", store.url(), "--queries", str(tmp_path / "other.npy"))
    assert "Use queries of the same embedding model" in refused(recallatk(*words))


@pytest.mark.parametrize("proxy", [False, True], ids=["exact", "proxy"])
def test_an_undecided_probe_says_about_how_many_more_queries_would_decide(store, proxy):
    words = ["probe", store.url(), "--search", "ef_search=400", "--set", "enable_seqscan=off"]
    words += ["--target", "recall@10 >= 0.99", *(["--proxy"] if proxy else [])]
    done = store.command(*words)
    assert done.returncode == 3, done.stdout + done.stderr
    (more,) = re.findall(r"About ([\d,]+) more queries would decide", done.stdout)
    found = store.json(*words)
    assert found["more_queries"] == int(more.replace(",", ""))
    assert found["verdict"]["outcome"] == "UNDECIDED"
