"""Existing collections of Milvus Lite: searched on a copy, without a change to their files."""

import json
import socket

import numpy as np
import pytest
from embedded_collections import (
    CITIES,
    DIMENSION,
    FILTERS,
    IDS,
    PRICES,
    QUERIES,
    ROW_OF,
    ROWS,
    VECTORS,
    K,
    files,
    nearest,
    recall,
    streamed,
)
from milvus_databases import RATES, TAGS, made, url
from pymilvus import DataType, MilvusClient

from recallatk.adapters.probe_limits import ProbeLimits
from recallatk.adapters.target_schemes import open_collection
from recallatk.core import Metric
from recallatk.errors import EngineError, FilterError, MismatchError, RecallError, UsageError
from recallatk.filters import parse_filter

SCALARS = {
    "tags contains 't1'": [row % 3 == 1 for row in range(ROWS)],
    "rate >= 0.5 and rate < 1.25": [0.5 <= each < 1.25 for each in RATES],
    "sold = true or not (price < 40)": [
        row % 2 == 0 or (price is not None and price >= 40) for row, price in enumerate(PRICES)
    ],
    "id < 500": [each < 500 for each in IDS],
}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return made(tmp_path_factory.mktemp("a milvus folder") / "it's 100%.db")


@pytest.fixture
def opened(file):
    with open_collection(url(file)) as collection:
        yield collection


def test_a_collection_tells_what_it_is(opened):
    found = opened.discovery()
    assert (found.rows, found.dimension, found.metric) == (ROWS, DIMENSION, Metric.COSINE)
    assert found.index == "HNSW on embedding (COSINE, M=6, efConstruction=40)"
    assert found.settings == {"consistency_level": "Strong"}
    assert found.columns == {
        "city": "VARCHAR", "price": "INT64", "rate": "FLOAT", "sold": "BOOL", "tags": "ARRAY of VARCHAR",
        "extra": "JSON",
    }  # fmt: skip
    assert found.notes == ("a temporary copy is searched: Milvus Lite writes to the database that it opens",)
    assert (opened.on_copy, opened.exact_mode) == (True, False)
    assert [each.name for each in opened.knobs()] == ["ef"]


def test_effort_raises_recall_and_stands_in_the_settings(opened):
    opened.configure({"ef": 10})
    low = recall(opened, "cosine")
    opened.configure({"ef": 500})
    assert low < 0.9 < 0.99 < recall(opened, "cosine")
    assert opened.discovery().settings["ef"] == 500
    answer = opened.answer(QUERIES[0], K, None)
    assert answer.used_index is None and answer.seconds > 0
    assert opened.snippet({"ef": 7}) == "client.search('items', ..., search_params={'params': {'ef': 7}})"


@pytest.mark.parametrize("text", [*FILTERS, *SCALARS])
def test_filters_run_natively_with_the_null_rules(opened, text):
    condition, mask = parse_filter(text), np.array({**FILTERS, **SCALARS}[text])
    assert opened.refusal(condition) is None
    opened.configure({"ef": 2000})
    found = [opened.answer(query, K, condition).ids for query in QUERIES[:5]]
    assert all(mask[ROW_OF[each]] for ids in found for each in ids)
    for query, ids in zip(QUERIES[:5], found, strict=True):
        assert len(set(ids) & set(nearest(query, "cosine", mask))) >= K - 1


def test_filters_without_an_exact_form_are_refused_by_name(opened):
    for text, said in {
        "extra = 1": "milvus cannot filter by 'extra', which holds JSON",
        "rate = 0.3": "milvus compares 'rate' in float32, which cannot represent 0.3",
        "not (rate in (0.5, 0.3))": "milvus compares 'rate' in float32",
    }.items():
        assert opened.refusal(parse_filter(text)).startswith(said)
        with pytest.raises(EngineError, match=said):
            opened.answer(QUERIES[0], K, parse_filter(text))
    with pytest.raises(FilterError, match=r"no column 'town'. The columns are: id, city, price"):
        opened.answer(QUERIES[0], K, parse_filter("town = 'x'"))


def test_every_row_is_streamed_once_with_its_columns(opened, monkeypatch):
    monkeypatch.setattr(type(opened), "block_rows", 300)
    found = streamed(opened, ("city", "price", "sold", "tags"))
    assert max(len(each) for each in opened.batches([])) <= 300
    assert sorted(found["id"].to_pylist()) == IDS
    rows = [ROW_OF[each] for each in found["id"].to_pylist()]
    np.testing.assert_array_equal(np.array(found["vector"].to_pylist(), "float32"), VECTORS[rows])
    for name, held in (("city", CITIES), ("price", PRICES), ("tags", TAGS)):
        assert found[name].to_pylist() == [held[row] for row in rows]
    assert found["sold"].to_pylist() == [row % 2 == 0 for row in rows]
    with pytest.raises(EngineError, match="'extra' holds JSON, so the truth cannot filter by it"):
        next(opened.batches(["extra"]))


def test_a_sample_is_the_same_for_the_same_seed(opened):
    ids, vectors = opened.sample(50, 7)
    assert len(set(ids)) == 50
    assert ids == opened.sample(50, 7)[0] != opened.sample(50, 8)[0]
    np.testing.assert_array_equal(vectors, VECTORS[[ROW_OF[each] for each in ids]])
    assert len(opened.sample(5_000, 1)[0]) == ROWS


def test_text_ids_clusters_inner_products_and_another_name_of_the_key(tmp_path):
    texts = [f"k'{each}" for each in IDS]
    file = made(tmp_path / "a.db", texts, "IVF_FLAT", {"nlist": 16}, "IP", key="name")
    with open_collection(url(file)) as collection:
        found = collection.discovery()
        assert (found.metric, found.index) == (Metric.IP, "IVF_FLAT on embedding (IP, nlist=16)")
        ((name, high),) = [(each.name, each.high) for each in collection.knobs()]
        assert (name, high) == ("nprobe", 16)
        collection.configure({"nprobe": 1})
        expected = {texts[ROW_OF[each]] for each in nearest(QUERIES[0], "ip")}
        assert len(set(collection.answer(QUERIES[0], K, None).ids) & expected) < K
        collection.configure({"nprobe": 16})
        assert set(collection.answer(QUERIES[0], K, None).ids) == expected
        assert set(streamed(collection)["id"].to_pylist()) == set(texts)
        assert set(collection.sample(20, 0)[0]) < set(texts)
        with pytest.raises(UsageError, match=r"nprobe = 17. Accepted: whole numbers from 1 to 16"):
            collection.configure({"nprobe": 17})


def test_a_flat_index_has_no_effort_and_says_so(tmp_path):
    file = made(tmp_path / "a.db", kind="FLAT", params={}, metric="L2", rows=300)
    with open_collection(url(file)) as collection:
        assert collection.knobs() == ()
        assert collection.without_effort().startswith("FLAT compares every row")
        assert collection.discovery().notes[-1].startswith("FLAT compares every row")
        answer = collection.answer(QUERIES[0], K, None)
        mask = np.arange(ROWS) < 300
        assert (answer.ids, answer.used_index) == (nearest(QUERIES[0], "l2", mask), False)


def test_nothing_changes_and_the_copy_goes_even_after_an_error(file, tmp_path, monkeypatch):
    from milvus_lite.server_manager import server_manager_instance

    monkeypatch.setenv("RECALLATK_TMPDIR", str(tmp_path))
    before, servers = files(file), set(server_manager_instance._servers)
    with open_collection(url(file)) as collection:
        assert collection.opened.copy.path.is_relative_to(tmp_path)
        collection.answer(QUERIES[0], K, parse_filter("city = 'c1'"))
        collection.sample(10, 0)
        streamed(collection)
        with pytest.raises(EngineError, match="the query has 5 dimensions, 'embedding' has 32"):
            collection.answer(QUERIES[0][:5], K, None)
    with pytest.raises(MismatchError, match="metric mismatch: the index HNSW on embedding"):
        open_collection(url(file, "/items?metric=l2"))
    assert files(file) == before
    assert list(tmp_path.iterdir()) == []
    assert set(server_manager_instance._servers) == servers


def test_rows_that_a_writer_has_not_flushed_are_there_and_noted(tmp_path):
    file = made(tmp_path / "a.db", rows=300)
    writer = MilvusClient(str(file))
    writer.load_collection("items")
    row = {"city": None, "price": 1, "rate": 0.5, "sold": True, "tags": ["a"], "extra": None}
    writer.insert("items", [{"id": -each, "embedding": VECTORS[each], **row} for each in range(1, 51)])
    writer.delete("items", ids=IDS[:3])
    with open_collection(url(file)) as collection:
        assert collection.discovery().rows == len(streamed(collection)) == 347
        assert "at least 47 rows are not in the index" in collection.discovery().notes[-1]
        assert set(collection.answer(VECTORS[1], 2, None).ids) & {-1, IDS[1]} == {-1}
    writer.close()


def test_a_connection_that_is_lost_or_never_made_is_told(file):
    from milvus_lite.server_manager import server_manager_instance

    with open_collection(url(file)) as collection:
        server_manager_instance.release_server(str(collection.opened.copy.path))
        with pytest.raises(EngineError, match=r"the connection was lost: .* once the server answers"):
            collection.answer(QUERIES[0], K, None)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        target = f"milvus://127.0.0.1:{silent.getsockname()[1]}/items"
        with pytest.raises(EngineError, match=r"no connection: .* Check host, port, https=true"):
            open_collection(target, ProbeLimits(connect_seconds=1))


def test_other_collections_are_not_copied(tmp_path):
    file = made(tmp_path / "a.db", rows=30)
    (file / "collections" / "other" / "wal").mkdir(parents=True)
    (file / "collections" / "other" / "large.bin").write_bytes(b"x" * 1000)
    with open_collection(url(file)) as collection:
        copy = collection.opened.copy.path
        assert (copy / "collections" / "items").is_dir()
        assert not (copy / "collections" / "other").exists()


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ("/things", "no collection 'things'. The collections are: items"),
        ("/items?vector=embeding", "Did you mean embedding"),
        ("/items?metric=cosin", "no metric 'cosin'.*cosine"),
        ("/items?tabel=x", "no option 'tabel'"),
        (".missing/items", "does not exist. Type it as milvus://path/file.db/collection"),
    ],
)
def test_a_wrong_target_is_told_what_there_is(file, rest, said):
    before = files(file)
    with pytest.raises(RecallError, match=said):
        open_collection(url(file, rest))
    assert files(file) == before


def test_hosts_and_paths_are_told_apart(tmp_path, monkeypatch):
    made(tmp_path / "a.db", rows=30)
    monkeypatch.chdir(tmp_path)
    for text in ("milvus://./a.db/items", "milvus://a.db/items"):
        with open_collection(text) as collection:
            assert collection.on_copy
    for text, said in {
        "milvus://host/items": "host does not exist. .* or milvus://host:19530/collection for a server",
        "milvus://host:19530": "names no collection",
        "milvus://host:19530/items?vectr=v": "no option 'vectr'",
        "milvus://user:secret@host:19530/items": "no user or password belongs in the URL. Set MILVUS_TOKEN",
    }.items():
        with pytest.raises(UsageError, match=said) as raised:
            open_collection(text)
        assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rows": 0}, "has no rows"),
        (
            {"rows": 30, "kind": None},
            "there is no index on 'embedding', and Milvus searches no field without",
        ),
        ({"rows": 30, "second": DataType.FLOAT_VECTOR}, "name the vector field with vector="),
    ],
)
def test_a_collection_that_cannot_be_probed_says_why(tmp_path, options, said):
    with pytest.raises(RecallError, match=said):
        open_collection(url(made(tmp_path / "a.db", **options)))


def test_the_truth_of_a_probe_is_that_of_numpy(file):
    from recallatk.probing import probe

    with open_collection(url(file)) as collection:
        collection.configure({"ef": 20})
        expected = recall(collection, "cosine")
        found = probe(collection, QUERIES, search={"ef": 20}, max_rate=None)
    assert found.recall.value == pytest.approx(expected)
    assert json.dumps(found.to_dict()["truth_source"]).startswith(
        '"certified truth of the vectors that milvus'
    )
