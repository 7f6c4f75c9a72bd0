"""Probes of PostgreSQL by the command: index types, filters, groups and statements, against an oracle."""

import numpy as np
import pytest

psycopg = pytest.importorskip("psycopg", reason="the extra pgvector is not installed")

from recallatk.adapters.target_schemes import open_collection  # noqa: E402
from recallatk.probing import probe  # noqa: E402

K = 10


def oracle(vectors, queries, mask=None):
    """The nearest rows of each query by Euclidean distance in float64."""
    wide = vectors.astype(np.float64)
    far = ((wide[None] - queries.astype(np.float64)[:, None]) ** 2).sum(axis=2)
    far = far if mask is None else np.where(mask, far, np.inf)
    return np.argsort(far, axis=1, kind="stable")[:, :K]


def recalls(shop, table, right, *, settings, clause=""):
    """Recall of each query by statements of the test's own."""
    found = []
    with shop.connected() as connection:
        connection.execute("SELECT '[1]'::vector")
        for name, value in settings.items():
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        for query, exact in zip(shop.queries, right.tolist(), strict=True):
            nearest = f"ORDER BY embedding <-> '{query.tolist()}' LIMIT {K}"
            rows = connection.execute(f"SELECT id FROM {table} {clause} {nearest}").fetchall()
            found.append(len({each for (each,) in rows} & set(exact)) / K)
    return np.array(found)


@pytest.fixture(scope="module")
def lists(shop):
    """The same rows as halfvec with IVFFlat, and as vector with IVFFlat."""
    for name, kind in (("halves", "halfvec"), ("lists", "vector")):
        shop.run(
            f"DROP TABLE IF EXISTS {name}",
            f"CREATE TABLE {name} AS SELECT id, embedding::{kind}(16), category, price FROM items",
            f"ALTER TABLE {name} ADD PRIMARY KEY (id)",
            f"CREATE INDEX ON {name} USING ivfflat (embedding {kind}_l2_ops) WITH (lists = 40)",
            f"ANALYZE {name}",
        )
    yield shop
    shop.run("DROP TABLE halves, lists")


@pytest.mark.parametrize("table", ["lists", "halves"])
def test_ivfflat_of_vectors_and_half_vectors_has_the_recall_of_an_oracle(lists, table):
    stored = lists.vectors.astype(np.float16) if table == "halves" else lists.vectors
    right = oracle(stored, lists.queries)
    means = {}
    for probes in (2, 40):
        # A planner that thinks a scan of so small a table is cheaper would not use the index.
        words = ("--search", f"probes={probes}", "--set", "enable_seqscan=off")
        found = lists.json("probe", lists.url(table), *words)
        settings = {"ivfflat.probes": str(probes), "enable_seqscan": "off"}
        means[probes] = recalls(lists, table, right, settings=settings).mean()
        assert found["recall"]["value"] == pytest.approx(means[probes])
        assert found["index_used"] == 1
        assert found["settings"]["ivfflat.probes"] == str(probes)
        assert found["queries"] == len(lists.queries)
        assert ("less precise" in found["truth_source"]) == (table == "halves")
    assert 0.3 < means[2] < 0.98
    assert means[40] > 0.99


def test_the_probes_of_ivfflat_are_tuned(lists):
    words = ("--target", "recall@10 >= 0.9", "--set", "enable_seqscan=off")
    found = lists.json("tune", lists.url("lists"), *words)
    probes = found["search"]["probes"]
    assert found["snippet"].startswith(f"SET ivfflat.probes = {probes};")
    right = oracle(lists.vectors, lists.queries)
    settings = {"enable_seqscan": "off", "ivfflat.probes": str(probes)}
    assert recalls(lists, "lists", right, settings=settings).mean() >= 0.9
    settings["ivfflat.probes"] = str(max(1, probes // 3))
    assert recalls(lists, "lists", right, settings=settings).mean() < 0.9


SCANS = [
    ("items", "hnsw.iterative_scan", "strict_order"),
    ("lists", "ivfflat.iterative_scan", "relaxed_order"),
]


@pytest.mark.parametrize(("table", "setting", "scan"), SCANS)
def test_a_selective_filter_is_short_without_an_iterative_scan_and_full_with_it(lists, table, setting, scan):
    where = "category = 'c3' and price < 20"
    words = ("probe", lists.url(table), "--where", where, "--set", "enable_seqscan=off")
    off = lists.json(*words, "--set", f"{setting}=off")
    on = lists.json(*words, "--set", f"{setting}={scan}")
    assert off["index_used"] == on["index_used"] == 1
    assert off["short"] > 100
    assert on["short"] == 0
    assert on["recall"]["value"] > off["recall"]["value"] + 0.3
    # Both are of all queries: a short answer keeps its place in the mean.
    assert off["queries"] == on["queries"] == 120
    assert on["by"]["selectivity"][0]["queries"] == 120
    if table == "lists":
        rows = np.arange(len(lists.vectors))
        right = oracle(lists.vectors, lists.queries, (rows % 10 == 3) & (rows % 100 / 2 < 20))
        clause = "WHERE category = 'c3' AND price < 20"
        settings = {setting: "off", "enable_seqscan": "off"}
        expected = recalls(lists, table, right, settings=settings, clause=clause)
        assert off["recall"]["value"] == pytest.approx(expected.mean())


def test_groups_statements_and_settings_of_the_command(shop):
    sql = "SELECT id FROM items WHERE $filter ORDER BY embedding <=> $vector LIMIT $k"
    settings = {"hnsw.ef_search": "15", "enable_seqscan": "off"}
    stated = [f"{name}={value}" for name, value in settings.items()]
    flags = ("--by", "kind", "--where", "price < 40", "--set", stated[0], "--set", stated[1])
    found = shop.json("probe", shop.url(), "--sql", sql, *flags)
    plain = shop.json("probe", shop.url(), *flags)
    assert found["recall"] == plain["recall"]
    assert found["settings"]["hnsw.ef_search"] == "15"
    groups = {each["segment"]: each for each in found["by"]["kind"]}
    assert {name: each["queries"] for name, each in groups.items()} == {"kind 0": 60, "kind 1": 60}
    mean = np.mean([each["recall"] for each in groups.values()])
    assert mean == pytest.approx(found["recall"]["value"])
    with open_collection(shop.url()) as collection:
        few = shop.queries[::2]
        half = probe(collection, few, where="price < 40", max_rate=None, settings=settings)
    assert half.recall.value == pytest.approx(groups["kind 0"]["recall"])
    # A limit without the filter would count rows that the filter excludes as found.
    wrong = shop.json("probe", shop.url(), "--sql", sql.replace("$filter", "TRUE OR $filter"), *flags)
    assert wrong["recall"]["value"] < plain["recall"]["value"]


def test_a_watch_asks_the_statement_of_the_user(shop):
    sql = "SELECT id FROM items WHERE 'a;b' <> 'c' ORDER BY embedding <=> $vector LIMIT $k"
    found = shop.json("watch", shop.url(), "--once", "--sql", sql)
    assert found["probe"]["recall"]["value"] == shop.json("probe", shop.url())["recall"]["value"]
    # A statement that finds other rows shows that it is the one that was asked.
    wrong = sql.replace("'a;b' <> 'c'", "id % 2 = 0")
    assert shop.json("watch", shop.url(), "--once", "--sql", wrong)["probe"]["recall"]["value"] < 0.9


def test_codes_with_rerank_are_probed_by_the_statement_that_production_runs(shop):
    target = shop.copy("coded")
    shop.run(
        "DROP INDEX coded_embedding_idx",
        "CREATE INDEX ON coded USING hnsw ((binary_quantize(embedding)::bit(16)) bit_hamming_ops)",
    )
    codes = "binary_quantize(embedding)::bit(16) <~> binary_quantize($vector::vector)"
    sql = (
        f"SELECT id FROM (SELECT id, embedding FROM coded ORDER BY {codes} LIMIT 40) AS found "
        "ORDER BY embedding <=> $vector LIMIT $k"
    )
    refused = shop.command("probe", target)
    assert refused.returncode == 2
    assert "--sql and &metric=cosine" in refused.stderr
    found = shop.json("probe", f"{target}&metric=cosine", "--sql", sql)
    assert 0.1 < found["recall"]["value"] < 1
    missed = shop.json("probe", f"{target}&metric=cosine", "--sql", sql, "--target", "recall@10 >= 0.999")
    assert missed["verdict"]["outcome"] == "FAIL"
    shop.run("DROP TABLE coded")


def test_a_truth_that_was_streamed_is_of_the_rows_at_that_time_and_says_so(shop):
    found = shop.json("probe", shop.url(), "--truth", "stream")
    assert any("Rows written since the truth was taken" in each for each in found["notes"])
    assert found["exact_agreement"] == 1
    assert found["recall"]["value"] == shop.json("probe", shop.url())["recall"]["value"]


def test_a_large_table_is_described_by_its_statistics(shop):
    shop.copy("large")
    shop.run(
        "UPDATE large SET embedding = NULL WHERE id % 4 = 0",
        "ALTER TABLE large DROP CONSTRAINT large_pkey",
        "ANALYZE large",
        # Counting would take longer than a probe may.
        "UPDATE pg_class SET reltuples = 8000000 WHERE oid = 'large'::regclass",
    )
    try:
        with open_collection(shop.url("large", id="id")) as collection:
            found = collection.discovery()
        assert found.rows == 8_000_000
        notes = " ".join(found.notes)
        assert "about 2,000,000 rows have no vector" in notes
        assert "no constraint keeps 'id' unique" in notes
    finally:
        shop.run("DROP TABLE large")


def test_rows_without_a_vector_are_counted_and_are_no_neighbors(shop):
    target = shop.copy("gaps")
    shop.run("UPDATE gaps SET embedding = NULL WHERE id % 2 = 0")
    try:
        with open_collection(target) as collection:
            assert "1,000 rows have no vector" in " ".join(collection.discovery().notes)
            odd = collection.exact(shop.queries[0], 2_000, None)
            assert len(odd.ids) == 1_000
            assert all(each % 2 for each in odd.ids)
        found = probe(target, shop.queries, max_rate=None, search={"ef_search": 1000})
        assert found.counts.scored == 120
        assert found.recall.value > 0.9
    finally:
        shop.run("DROP TABLE gaps")
