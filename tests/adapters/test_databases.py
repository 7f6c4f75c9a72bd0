"""What databases have in common: filters over columns with nulls, and addresses that lead nowhere."""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from recallatk.adapters.qdrant_store import Server
from recallatk.adapters.registry import get_engine
from recallatk.core import Metric
from recallatk.datasets.opening import make_corpus, make_queries, open_dataset
from recallatk.errors import EngineError, FilterError
from recallatk.filters import parse_filter
from recallatk.testing.contract_ground import K, batch_of, data, rebuild


def nullable():
    """Every kind of column, with nulls, and a name that no database would take unquoted."""
    random = np.random.default_rng(0)
    rows = 200
    values = {
        'the "text".column': [None if i % 7 == 0 else f"it's {i % 5}" for i in range(rows)],
        "whole": [None if i % 5 == 0 else i - 100 for i in range(rows)],
        "number": [None if i % 3 == 0 else float("nan") if i % 11 == 0 else i / 4 for i in range(rows)],
        "truth": [None if i % 4 == 0 else i % 2 == 0 for i in range(rows)],
        "full": list(range(rows)),
        "nothing": [None] * rows,
        "day": pa.array([None if i % 6 == 0 else i - 100 for i in range(rows)], pa.date32()),
        "at": pa.array([None if i % 9 == 0 else i * 500_000 for i in range(rows)], pa.timestamp("ns", "UTC")),
        "clock": pa.array([i * 10 for i in range(rows)], pa.time32("s")),
        "tags": [None if i % 6 == 0 else ["it's", f"t{i % 4}", None][: i % 4] for i in range(rows)],
        "lists": [["x", f"t{i % 4}"][: i % 3] for i in range(rows)],
        "counts": [None if i % 8 == 0 else [i, 2**62 + i] for i in range(rows)],
        "path": [None if i % 10 == 0 else f"a%/{i}" for i in range(rows)],
        "word": [f"w{i}" for i in range(rows)],
    }
    corpus = make_corpus(random.normal(size=(rows, 8)).astype("float32"), None, values)
    return open_dataset(corpus, make_queries(random.normal(size=(1, 8)).astype("float32")), metric=Metric.L2)


FILTERS = [
    '"the ""text"".column" = \'it\'\'s 3\'',
    "\"the \"\"text\"\".column\" not in ('it''s 3', 'none')",
    '"the ""text"".column" is null',
    "whole < 5.5 and whole >= -20",
    "not (whole < 5 or number > 20)",
    "not (whole < 5 and number > 20)",
    "number = 2.5 or number = 1",
    "number between 1 and 3.25",
    "not (number <= 30)",
    "truth = true",
    "truth != true",
    "truth is not null and not (truth = true)",
    "whole = 2.5",
    "not (whole = 2.5)",
    "full is not null",
    "full is null",
    "not (full in (1, 2, 3))",
    "nothing is null and full < 5",
    "nothing = 3 or full < 5",
    "not (nothing = 3)",
    "day >= '1970-01-20' or day = '1969-12-30'",
    "not (day in ('1970-01-02', '1970-01-03'))",
    "day is null",
    "at > '1970-01-01T00:00:00.0105Z' and at <= '1970-01-01T01:00:00.05+01:00'",
    "not (at = '1970-01-01T00:00:00.000000001Z')",
    "at < '9999-12-31T00:00:00Z'",
    "clock between '00:10:00' and '00:20:05.5'",
    "truth or full < 5",
    "word starts with 'w1'",
    "not (word like 'w1%')",
    "path starts with 'a%/1'",
    "not (path starts with 'a%/1')",
    "tags contains 'it''s'",
    "tags contains any ('t1', 'unknown')",
    "tags contains all ('it''s', 't2')",
    "not (tags contains any ('t1', 't2'))",
    "tags is null",
    "lists contains 'x' and not (lists contains 't1')",
    "not (lists contains all ('x', 't1'))",
    "lists is not null",
    "counts contains any (5, 4611686018427387910, 2.5)",
    "counts contains all (5, 2.5)",
    "not (nothing contains 'x' or nothing starts with 'x')",
]


# What has no operator in a database, and is refused there.
UNABLE = {
    "chroma": {
        *FILTERS[1:3],
        "day is null",
        "word starts with 'w1'",
        "not (word like 'w1%')",
        "path starts with 'a%/1'",
        "not (path starts with 'a%/1')",
        "not (tags contains any ('t1', 't2'))",
        "tags is null",
    }
}
# The effort at which every row is found.
MOST = {"qdrant": {"hnsw_ef": 1000}, "chroma": {"ef_search": 1000}, "milvus": {"ef": 1000}}


@pytest.fixture(params=sorted(MOST))
def engine(request, monkeypatch):
    # Qdrant syncs its files many times, which takes a second of every build on a disk.
    if Path("/dev/shm").is_dir():
        monkeypatch.setattr(tempfile, "tempdir", "/dev/shm")
    with get_engine(request.param)() as made:
        yield made


def check(engine, dataset, text):
    condition = parse_filter(text)
    wanted = np.flatnonzero(condition.mask(dataset.corpus.metadata)).tolist()
    found = engine.search(batch_of(dataset, [condition]), 200)[0]
    assert sorted(found[found >= 0].tolist()) == wanted, text


def test_filters_keep_the_rules_for_nulls(engine):
    dataset = nullable()
    rebuild(engine, dataset, {}, MOST[engine.name])
    for text in FILTERS:
        refused = text in UNABLE.get(engine.name, ())
        assert bool(engine.refusal(parse_filter(text))) == refused, text
        if refused:
            with pytest.raises(EngineError, match="cannot filter"):
                check(engine, dataset, text)
        else:
            check(engine, dataset, text)


# The client's own stand-in for a server warns that it has no index and scans instead.
@pytest.mark.filterwarnings("ignore:Payload indexes have no effect:UserWarning")
@pytest.mark.filterwarnings("ignore:Local mode performs exact:UserWarning")
def test_filters_keep_the_rules_for_nulls_over_the_client_of_qdrant(monkeypatch):
    monkeypatch.setattr(Server, "patience", 0)
    dataset = nullable()
    with get_engine("qdrant")() as engine:
        rebuild(engine, dataset, {"url": ":memory:"}, {})
        for text in FILTERS:
            check(engine, dataset, text)


UNFIT = [
    "whole = 'x'",
    "unknown = 1",
    "truth = 1",
    "number in (true)",
    "day = 'someday'",
    "at = '1970-01-01'",
    "tags = 'x'",
    "tags contains 5",
    "word contains 'x'",
    "whole starts with '1'",
]


def test_filters_that_do_not_fit_are_refused(engine):
    dataset = nullable()
    rebuild(engine, dataset, {}, {})
    for text in UNFIT:
        with pytest.raises(FilterError):
            engine.search(batch_of(dataset, [parse_filter(text)]), K)
    with pytest.raises(EngineError, match="cannot compare exactly"):
        engine.search(batch_of(dataset, [parse_filter("whole < 9007199254740993")]), K)


def test_values_that_a_database_cannot_store_are_refused(engine):
    columns = {
        "fine": pa.array([1, 2], pa.timestamp("ns")),
        "far": pa.array([2**60, None], pa.timestamp("us")),
        "long": pa.array([[1] * 5000, None]),
    }
    corpus = make_corpus(np.eye(2, dtype="float32"), None, columns)
    rebuild(engine, open_dataset(corpus, make_queries(np.eye(2, dtype="float32")), metric="l2"), {}, {})
    reasons = [engine.refusal(parse_filter(f"{name} > '2000-01-01'")) for name in ("fine", "far")]
    assert "cannot filter by 'fine' exactly, which holds nanoseconds" in reasons[0]
    assert "cannot filter by 'far' exactly, which holds years before 1 or after 9999" in reasons[1]
    long = engine.refusal(parse_filter("long contains 1"))
    assert (long is not None and "stores at most 4,096" in long) == (engine.name == "milvus")


def test_texts_have_an_order_in_milvus_only(engine):
    dataset = nullable()
    rebuild(engine, dataset, {}, MOST[engine.name])
    text = '"the ""text"".column" < \'it\'\'s 2\''
    if engine.name == "milvus":
        check(engine, dataset, text)
        return
    with pytest.raises(EngineError, match="cannot compare text with < or >"):
        check(engine, dataset, text)


@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection:UserWarning")
def test_an_address_that_leads_nowhere_is_an_error_without_secrets(engine, monkeypatch):
    for name in ("QDRANT_API_KEY", "CHROMA_API_KEY", "MILVUS_TOKEN"):
        monkeypatch.setenv(name, "hush-hush")
    knob = "uri" if engine.name == "milvus" else "url"
    for url, reason in (
        ("http://127.0.0.1:9", f"{engine.name} failed"),
        ("http://me:hush-hush@127.0.0.1:9", "must not contain a user or password"),
    ):
        with pytest.raises(EngineError, match=reason) as problem:
            rebuild(engine, data(rows=20), {knob: url}, {})
        assert "hush" not in str(problem.value)
