"""pgvector where the planner is free: which plan answered, how often, and how plans are cached."""

import json
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import recallatk
from recallatk import Metric, make_corpus
from recallatk.adapters import QueryBatch
from recallatk.adapters.base import resolved
from recallatk.adapters.postgres_server import bundled_server
from recallatk.adapters.registry import get_engine
from recallatk.errors import EngineError
from recallatk.filters import parse_filter

ROWS, DIMENSION, K = 5_000, 8, 10
QUERY = np.full(DIMENSION, 3.0, "float32")
RARE = "label = 1"


def vectors():
    return np.random.default_rng(0).normal(size=(ROWS, DIMENSION)).astype("float32")


def labels():
    """The rows farthest from the query have a label of their own, which an index scan never comes to."""
    distance = ((vectors() - QUERY) ** 2).sum(axis=1)
    found = np.zeros(ROWS, int)
    found[np.argsort(distance)[-K:]] = 1
    return found


@pytest.fixture(scope="module")
def engine():
    with get_engine("pgvector-hnsw")() as made:
        corpus = make_corpus(vectors(), None, {"label": labels()})
        made.build(corpus, Metric.L2, **resolved(made.name, made.build_knobs, {}))
        yield made


def configure(engine, **search):
    engine.configure(**resolved(engine.name, engine.search_knobs, search))


def recalls(engine, text, times):
    """The recall of the query with a filter, each time that it is asked."""
    wanted = set(np.flatnonzero(labels() == 1).tolist())
    condition = [parse_filter(text)]
    found = (engine.search(QueryBatch(QUERY[None], condition), K)[0] for _ in range(times))
    return [len(wanted & set(each.tolist())) / K for each in found]


def test_a_cached_plan_that_loses_recall_shows_in_the_evidence(engine):
    """What PostgreSQL does by itself: five plans for the value, then one for any value."""
    configure(engine, plan="free", plan_cache_mode="auto")
    assert recalls(engine, RARE, 10) == [1.0] * 5 + [0.0] * 5
    assert engine.exercised() == (
        "5 of 10 calls (50.0%) scanned items_vector (hnsw), the others scanned the table, "
        "by the counters of PostgreSQL"
    )


def test_each_filter_has_a_plan_of_its_own_by_default(engine):
    configure(engine, plan="free")
    assert recalls(engine, RARE, 10) == [1.0] * 10
    with pytest.raises(EngineError, match="PostgreSQL scanned the table in all 10 calls"):
        engine.exercised()
    engine.search(QueryBatch(QUERY[None]), K)
    assert engine.exercised().startswith("1 of 11 calls (9.1%) scanned items_vector (hnsw), the others")


def test_a_plan_that_was_cached_at_one_setting_is_not_used_at_the_next(engine):
    configure(engine, plan="index", plan_cache_mode="force_generic_plan")
    assert recalls(engine, RARE, 2) == [0.0] * 2
    assert engine.exercised().startswith("2 of 2 calls (100.0%)")
    configure(engine, plan="free", plan_cache_mode="auto")
    assert recalls(engine, RARE, 6) == [1.0] * 5 + [0.0]


def test_the_calls_of_clients_are_in_the_evidence_once_they_have_ended(engine):
    configure(engine, plan="free")

    def ask():
        with engine.client() as client:
            for _ in range(3):
                client.search(QueryBatch(QUERY[None]), K)
            client.search(QueryBatch(QUERY[None], [parse_filter(RARE)]), K)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert engine.exercised().startswith("6 of 8 calls (75.0%) scanned items_vector")
    configure(engine)
    engine.search(QueryBatch(QUERY[None]), K)
    assert engine.exercised().startswith("1 of 1 calls (100.0%) scanned items_vector (hnsw), by")


def test_a_server_that_does_not_count_scans_is_refused_with_the_way_out():
    dsn = f"{bundled_server()} options='-c track_counts=off'"
    with get_engine("pgvector-hnsw")() as made, pytest.raises(EngineError, match="SET track_counts = on"):
        made.build(make_corpus(vectors()), Metric.L2, **resolved(made.name, made.build_knobs, {"dsn": dsn}))


@pytest.fixture
def bench(tmp_path):
    """A bench file whose queries have the rare filter every second time."""
    corpus = pa.FixedSizeListArray.from_arrays(pa.array(vectors().ravel()), DIMENSION)
    pq.write_table(pa.table({"vector": corpus, "label": pa.array(labels())}), tmp_path / "corpus.parquet")
    asked = np.tile(QUERY, (40, 1)) + np.random.default_rng(1).normal(size=(40, DIMENSION)) / 100
    queries = pa.FixedSizeListArray.from_arrays(pa.array(asked.astype("float32").ravel()), DIMENSION)
    filters = pa.array([RARE if number % 2 else None for number in range(40)])
    pq.write_table(pa.table({"vector": queries, "filter": filters}), tmp_path / "queries.parquet")
    path = tmp_path / "bench.toml"
    path.write_text(
        f"""
        name = "plans"
        [data]
        corpus = "{tmp_path / "corpus.parquet"}"
        queries = "{tmp_path / "queries.parquet"}"
        metric = "l2"
        [truth]
        store = "{tmp_path / "store"}"
        [measure]
        k = 10
        rounds = 1
        [[load]]
        mode = "latency"
        [[load]]
        mode = "throughput"
        clients = 2
        via = "processes"
        [[engine]]
        name = "pgvector-hnsw"
        [engine.search]
        plan = "free"
        plan_cache_mode = ["auto", "force_custom_plan"]
        """
    )
    return path


def test_a_run_tells_which_share_of_calls_scanned_the_index(bench, tmp_path):
    ran = recallatk("run", bench, "--json", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    trials = json.loads(ran.stdout)["trials"]
    assert {each["status"] for each in trials} == {"done"}
    shares = {}
    for each in trials:
        mode = each["search"]["plan_cache_mode"], each["load"]["via"]
        scanned, _, calls, *_ = each["evidence"].replace(",", "").split()
        shares[mode] = int(scanned) / int(calls)
        # The block and the warm-up before it; clients that are processes are counted too.
        assert int(calls) == each["calls"] + each["warm_up"]["calls"]
        recall = each["measures"]["recall@10"]["value"]
        assert recall > 0.95 if mode[0] == "force_custom_plan" else recall < 0.8
    # Of every second query each call scans the table, or the first five of a session do.
    assert shares["force_custom_plan", "threads"] == pytest.approx(0.5, abs=0.1)
    assert shares["force_custom_plan", "processes"] == pytest.approx(0.5, abs=0.1)
    assert shares["auto", "threads"] > 0.9
