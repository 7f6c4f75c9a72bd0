"""What databases have in common: filters over columns with nulls, and addresses that lead nowhere."""

import tempfile
from pathlib import Path

import numpy as np
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
]


# What has no operator in a database, and is refused there.
UNABLE = {"chroma": {FILTERS[1], FILTERS[2]}}
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
        if text in UNABLE.get(engine.name, ()):
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


@pytest.mark.parametrize("text", ["whole = 'x'", "unknown = 1", "truth = 1", "number in (true)"])
def test_filters_that_do_not_fit_are_refused(engine, text):
    dataset = nullable()
    rebuild(engine, dataset, {}, {})
    with pytest.raises(FilterError):
        engine.search(batch_of(dataset, [parse_filter(text)]), K)


def test_comparisons_that_would_be_inexact_are_refused(engine):
    dataset = nullable()
    rebuild(engine, dataset, {}, {})
    with pytest.raises(EngineError, match="cannot compare exactly"):
        engine.search(batch_of(dataset, [parse_filter("whole < 9007199254740993")]), K)


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
