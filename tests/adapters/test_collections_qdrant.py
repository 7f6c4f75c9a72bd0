"""Existing Qdrant collections: edge shards on a copy, and the requests that a server would get."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import qdrant_edge
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

from recallatk.adapters.collection import CollectionTarget
from recallatk.adapters.probe_limits import ProbeLimits
from recallatk.adapters.qdrant_collection import UNTESTED, QdrantCollection
from recallatk.adapters.qdrant_points import ServerPoints
from recallatk.adapters.target_schemes import open_collection
from recallatk.core import Metric
from recallatk.errors import EngineError, FilterError, MismatchError, RecallError, UsageError
from recallatk.filters import parse_filter
from recallatk.probing import probe

from commands import recallatk  # isort: skip

DISTANCES = {"cosine": "Cosine", "l2": "Euclid", "ip": "Dot"}
# The client's local mode, which stands in for a server, warns that it has no index.
stand_in = pytest.mark.filterwarnings(
    r"ignore:(Payload indexes have no effect|Local mode performs):UserWarning"
)


@pytest.fixture(autouse=True, scope="module")
def _in_memory():
    """A shard syncs its files many times, which takes a second of every build on a disk."""
    if Path("/dev/shm").is_dir():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tempfile, "tempdir", "/dev/shm")
            yield
    else:
        yield


def payload_of(row):
    values = {"city": CITIES[row], "price": PRICES[row], "known": row % 2 == 0, "weight": row / 4}
    return {key: value for key, value in values.items() if value is not None}


def make_shard(place, rows=ROWS, *, ids=IDS, metric="cosine", vector="", index=True, **more):
    """A shard with a thin graph."""
    api = qdrant_edge
    params = api.EdgeVectorParams(size=DIMENSION, distance=getattr(api.Distance, DISTANCES[metric]), **more)
    config = api.EdgeConfig(
        vectors={vector: params} if vector else params,
        hnsw_config=api.HnswIndexConfig(m=4, ef_construct=20, full_scan_threshold=10),
        optimizers=api.EdgeOptimizersConfig(
            indexing_threshold=1 if index else 10**9, default_segment_number=1
        ),
        wal_enabled=False,
    )
    place.mkdir()
    shard = api.EdgeShard.create(str(place), config)
    for key, kind in (("city", "Keyword"), ("price", "Integer")):
        schema = getattr(api.PayloadSchemaType, kind)
        shard.update(api.UpdateOperation.create_field_index(key, schema))
    points = [
        api.Point(
            ids[row], {vector: VECTORS[row].tolist()} if vector else VECTORS[row].tolist(), payload_of(row)
        )
        for row in range(rows)
    ]
    if points:
        shard.update(api.UpdateOperation.upsert_points(points))
        shard.optimize()
    shard.flush()
    shard.close()
    return place


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_shard(tmp_path_factory.mktemp("qdrant") / "a shard")


@pytest.fixture
def opened(folder):
    with open_collection(f"qdrant://{folder}") as collection:
        yield collection


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """The folder for temporary copies, which nothing else uses."""
    made = tmp_path / "scratch"
    made.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(made))
    return made


def test_a_shard_tells_what_it_is(opened):
    found = opened.discovery()
    assert (found.rows, found.dimension, found.metric) == (ROWS, DIMENSION, Metric.COSINE)
    assert found.index == (
        "hnsw (m=4, ef_construct=20, full_scan_threshold=10), no quantization, 2,000 of 2,000 points indexed"
    )
    assert found.columns == {
        "city": "string, keyword index",
        "known": "bool",
        "price": "int64, integer index",
        "weight": "double",
    }
    assert (found.exact, found.quantized) == ("float32[32]", False)
    assert found.notes == ("a temporary copy of the folder is searched",)
    assert opened.on_copy
    assert [each.name for each in opened.knobs()] == ["hnsw_ef"]


@pytest.mark.parametrize("metric", DISTANCES)
def test_exact_search_agrees_with_numpy_for_every_metric(tmp_path, metric):
    with open_collection(f"qdrant://{make_shard(tmp_path / 'shard', metric=metric)}") as collection:
        assert collection.discovery().metric == Metric(metric)
        for query in QUERIES:
            found = collection.exact(query, K, None)
            assert found.ids == nearest(query, metric)
            assert np.all(np.diff(found.distances) >= 0)
            assert not found.complete
        assert collection.exact(QUERIES[0], ROWS, None).complete
        collection.configure({"hnsw_ef": 500})
        assert recall(collection, metric) > 0.9


def test_exact_search_is_not_over_quantized_vectors(tmp_path):
    codes = qdrant_edge.BinaryQuantizationConfig()
    place = make_shard(tmp_path / "shard", quantization_config=codes)
    with open_collection(f"qdrant://{place}") as collection:
        assert "binary quantization" in collection.discovery().index
        collection.configure({"hnsw_ef": 1000})
        assert recall(collection, "cosine") < 0.9
        assert [collection.exact(each, K, None).ids for each in QUERIES] == [
            nearest(each, "cosine") for each in QUERIES
        ]


def test_effort_raises_recall_and_ends_with_the_call(opened):
    low = recall(opened, "cosine")
    opened.configure({"hnsw_ef": 500})
    assert low < 0.9 < recall(opened, "cosine")
    opened.configure({})
    assert recall(opened, "cosine") == low
    pair = opened.pair(QUERIES[0], K, 2 * K, None)
    assert (pair.answer.used_index, pair.changed, len(pair.exact.ids)) == (None, False, 2 * K)
    assert pair.answer.seconds > 0
    assert "SearchParams(hnsw_ef=97)" in opened.snippet({"hnsw_ef": 97})


MASKS = {
    **FILTERS,
    "price is not null and weight < 2": [price is not None and row < 8 for row, price in enumerate(PRICES)],
    "not (city = 'c1' or price >= 50)": [
        city is not None and city != "c1" and price is not None and price < 50
        for city, price in zip(CITIES, PRICES, strict=True)
    ],
    "weight = 0.25": [row == 1 for row in range(ROWS)],
    "known is null": [False] * ROWS,
    "price = 1.5": [False] * ROWS,
}


@pytest.mark.parametrize("text", MASKS)
def test_filters_run_on_the_payload(opened, text):
    condition, mask = parse_filter(text), np.array(MASKS[text])
    assert opened.refusal(condition) is None
    assert opened.passing(condition) == mask.sum()
    for query in QUERIES[:5]:
        found = opened.exact(query, K, condition)
        assert found.ids == nearest(query, "cosine", mask)
        assert found.complete == (mask.sum() < K)
        assert all(mask[ROW_OF[each]] for each in opened.answer(query, K, condition).ids)


def test_filters_without_native_form_are_refused(opened):
    assert "'known', which holds booleans" in opened.refusal(parse_filter("known = true"))
    assert "cannot compare text" in opened.refusal(parse_filter("city > 'c1'"))
    assert opened.refusal(parse_filter("town = 'x'")) is None
    with pytest.raises(FilterError, match=r"no column 'town'. The columns are: city, known, price, weight"):
        opened.answer(QUERIES[0], K, parse_filter("town = 'x'"))


def test_every_point_is_streamed_once_with_its_columns(opened, monkeypatch):
    monkeypatch.setattr(type(opened), "block_rows", 300)
    found = streamed(opened)
    assert max(len(each) for each in opened.batches([])) <= 300
    assert found["id"].to_pylist() == IDS
    # Qdrant normalizes vectors under cosine.
    unit = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
    np.testing.assert_allclose(np.array(found["vector"].to_pylist()), unit, rtol=1e-5, atol=1e-6)
    assert found["city"].to_pylist() == CITIES
    assert found["price"].to_pylist() == PRICES


def test_a_sample_is_the_same_for_the_same_seed(opened):
    ids, vectors = opened.sample(50, 7)
    assert len(set(ids)) == 50
    assert set(ids) == set(opened.sample(50, 7)[0]) != set(opened.sample(50, 8)[0])
    unit = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors, unit[[ROW_OF[each] for each in ids]], rtol=1e-5, atol=1e-6)
    assert len(opened.sample(5_000, 1)[0]) == ROWS


def test_no_file_changes_and_no_copy_stays(folder, scratch):
    before = files(folder)
    with open_collection(f"qdrant://{folder}") as collection:
        assert any(scratch.rglob("edge_config.json"))
        collection.configure({"hnsw_ef": 20})
        collection.pair(QUERIES[0], K, K, parse_filter("city = 'c1'"))
        collection.sample(10, 0)
        streamed(collection)
        with pytest.raises(EngineError, match="expected dim: 32, got 5"):
            collection.answer(QUERIES[0][:5], K, None)
    with pytest.raises(UsageError, match=r"no vector 'image'"):
        open_collection(f"qdrant://{folder}?vector=image")
    assert files(folder) == before
    assert not list(scratch.iterdir())


def test_a_copy_keeps_the_holes_of_files(folder, scratch):
    def allocated(place):
        return sum(each.stat().st_blocks * 512 for each in place.rglob("*") if each.is_file())

    with open_collection(f"qdrant://{folder}"):
        [copy] = scratch.glob("*/copy")
        assert allocated(copy) < 2 * allocated(folder)


def test_folders_behind_links_are_copied_too(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "shard", ignore=shutil.ignore_patterns("segments"))
    (tmp_path / "shard" / "segments").symlink_to(folder / "segments")
    before = files(folder)
    with open_collection(f"qdrant://{tmp_path}/shard") as collection:
        assert collection.exact(QUERIES[0], K, None).ids == nearest(QUERIES[0], "cosine")
    assert files(folder) == before


def test_a_damaged_shard_says_so_and_leaves_no_copy(folder, scratch, tmp_path):
    shutil.copytree(folder, tmp_path / "damaged")
    for each in (tmp_path / "damaged").rglob("segment.json"):
        each.write_text("{")
    with pytest.raises(EngineError, match="qdrant failed"):
        open_collection(f"qdrant://{tmp_path}/damaged")
    assert not list(scratch.iterdir())


def test_uuids_and_numbers_are_text_together(tmp_path):
    ids = [str(uuid.UUID(int=row + 1)) if row % 2 else row for row in range(400)]
    place = make_shard(tmp_path / "shard", 400, ids=ids)
    with open_collection(f"qdrant://{place}") as collection:
        found = streamed(collection)
        assert sorted(found["id"].to_pylist()) == sorted(str(each) for each in ids)
        collection.configure({"hnsw_ef": 400})
        [sampled], vectors = collection.sample(1, 3)
        assert collection.answer(vectors[0], 1, None).ids == [sampled]
    by_engine, by_stream = (
        probe(f"qdrant://{place}", QUERIES, truth=truth, max_rate=None, search={"hnsw_ef": 30})
        for truth in (None, "stream")
    )
    assert by_engine.recall.value == by_stream.recall.value
    assert by_stream.agreement == 1
    assert probe(f"qdrant://{place}", sample=20, max_rate=None, truth="stream").recall.n == 20


def test_numbers_beyond_63_bits_are_text(tmp_path):
    ids = [2**64 - 1 - row for row in range(200)]
    with open_collection(f"qdrant://{make_shard(tmp_path / 'shard', 200, ids=ids)}") as collection:
        assert collection.answer(VECTORS[7], 1, None).ids == [str(ids[7])]
        assert sorted(streamed(collection)["id"].to_pylist()) == sorted(map(str, ids))


def test_named_vectors_that_some_points_lack_and_shards_without_index_are_noted(tmp_path):
    place = make_shard(tmp_path / "shard", 200, vector="text", index=False)
    shard = qdrant_edge.EdgeShard.load(str(place))
    shard.update(qdrant_edge.UpdateOperation.upsert_points([qdrant_edge.Point(10**6, {}, {"price": 1})]))
    shard.flush()
    shard.close()
    with open_collection(f"qdrant://{place}") as collection:
        found = collection.discovery()
        assert (found.rows, found.index, collection.knobs()) == (201, None, ())
        assert found.notes[:2] == (
            "1 row has no vector in 'text'; searches cannot find them",
            "no point is indexed: every search scans all points",
        )
        assert collection.answer(QUERIES[0], K, None).used_index is False
        assert len(streamed(collection)) == len(collection.sample(400, 0)[0]) == 200
        assert collection.exact(QUERIES[0], 200, None).complete
        assert collection.passing(parse_filter("price = 1")) == sum(each == 1 for each in PRICES[:200])


@stand_in
def test_a_folder_of_the_clients_local_mode_is_refused(tmp_path):
    from qdrant_client import QdrantClient, models

    client = QdrantClient(path=str(tmp_path / "local"))
    params = models.VectorParams(size=4, distance=models.Distance.COSINE)
    client.create_collection("items", vectors_config=params)
    client.upsert("items", [models.PointStruct(id=1, vector=[1, 2, 3, 4])])
    client.close()
    before = files(tmp_path)
    for rest in ("local", "local/items"):
        with pytest.raises(UsageError, match="has no index: every search is exact, and its recall is 1"):
            open_collection(f"qdrant://{tmp_path}/{rest}")
    assert files(tmp_path) == before


def test_a_wrong_target_is_told_what_to_type(tmp_path, folder):
    (tmp_path / "other").mkdir()
    make_shard(tmp_path / "empty", 0)
    for rest, said in [
        (f"{tmp_path}/nothing", "does not exist. Type it as qdrant://"),
        (f"{tmp_path}/other", "is no edge shard: it has no segments"),
        (f"{tmp_path}/empty", "has no rows"),
        (f"{folder}?tabel=x", "no option 'tabel'"),
        ("127.0.0.1:1/items", "127.0.0.1:1 cannot be reached"),
    ]:
        with pytest.raises(RecallError, match=said):
            open_collection(f"qdrant://{rest}")
    assert not list((tmp_path / "other").iterdir())


@stand_in
@pytest.mark.parametrize("vector", ["", "text"])
def test_the_requests_to_a_server_agree_with_numpy(vector):
    """The code for servers over the client's own stand-in, which always searches exactly."""
    from qdrant_client import QdrantClient, models

    client = QdrantClient(":memory:")
    params = models.VectorParams(size=DIMENSION, distance=models.Distance.EUCLID)
    client.create_collection("items", vectors_config={vector: params} if vector else params)
    client.upsert(
        "items",
        [
            models.PointStruct(
                id=IDS[row],
                vector={vector: VECTORS[row].tolist()} if vector else VECTORS[row].tolist(),
                payload=payload_of(row),
            )
            for row in range(500)
        ],
    )
    target = CollectionTarget("qdrant://host:6333/items", "qdrant", "qdrant://host:6333/items", {})
    points = ServerPoints(client, "items")
    with QdrantCollection(target, ProbeLimits(), points, None) as collection:
        found = collection.discovery()
        assert (found.rows, found.dimension, found.metric) == (500, DIMENSION, Metric.L2)
        assert UNTESTED in found.notes
        assert not collection.on_copy
        first = np.arange(ROWS) < 500
        masks = {**MASKS, "known = true": [row % 2 == 0 for row in range(ROWS)]}
        for text, passing in masks.items():
            condition, mask = parse_filter(text), np.array(passing) & first
            assert collection.passing(condition) == mask.sum(), text
            pair = collection.pair(QUERIES[0], K, K, condition)
            assert pair.exact.ids == pair.answer.ids == nearest(QUERIES[0], "l2", mask), text
            assert pair.changed is None
        assert sorted(streamed(collection)["id"].to_pylist()) == IDS[:500]
        ids, vectors = collection.sample(20, 1)
        np.testing.assert_allclose(vectors, VECTORS[[ROW_OF[each] for each in ids]], rtol=1e-6)
        assert "search_params=models.SearchParams(hnsw_ef=97)" in collection.snippet({"hnsw_ef": 97})


@pytest.mark.parametrize("silent", [True, False])
def test_a_server_that_does_not_answer_is_told(silent):
    """The real client, and a server that waits or hangs up."""
    limits = ProbeLimits(seconds=1)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        held = []

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    held.append(listening.accept()[0])
                    if not silent:
                        held.pop().close()

        thread = threading.Thread(target=accept)
        thread.start()
        said = "exceeded the time limit of 1 s" if silent else "the connection was lost"
        with pytest.raises(EngineError, match=said):
            open_collection(f"qdrant://127.0.0.1:{listening.getsockname()[1]}/items", limits)
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()
        for each in held:
            each.close()


def test_a_missing_library_is_named_with_its_install_line(folder):
    code = (
        "import sys\n"
        "sys.modules[{name!r}] = None\n"
        "from recallatk.adapters.target_schemes import open_collection\n"
        "open_collection({target!r})\n"
    )
    for name, target, said in [
        ("qdrant_edge", f"qdrant://{folder}", "pip install 'recallatk[qdrant]'"),
        ("chromadb", "chroma://folder/items", "pip install 'recallatk[chroma]'"),
    ]:
        done = subprocess.run(
            [sys.executable, "-c", code.format(name=name, target=target)],
            capture_output=True,
            text=True,
            env=dict(os.environ),
        )
        assert said in done.stderr


@pytest.fixture(scope="module")
def queries(tmp_path_factory):
    """A file of real queries."""
    vectors = np.random.default_rng(5).normal(size=(150, DIMENSION)).astype("f4")
    file = tmp_path_factory.mktemp("queries") / "queries.parquet"
    pq.write_table(pa.table({"vector": list(vectors)}), file)
    return file, vectors


def oracle(place, vectors, mask=None, condition=None, **search):
    """Mean recall by NumPy of the library's own answers."""
    with open_collection(f"qdrant://{place}") as collection:
        collection.configure(search)
        found = [
            len(set(collection.answer(each, K, condition).ids) & set(nearest(each, "cosine", mask))) / K
            for each in vectors
        ]
    return np.mean(found)


ASK = ("--max-rate", "none", "--json")


def test_it_is_probed_by_the_command(folder, queries):
    file, vectors = queries
    target, text = f"qdrant://{folder}", "price < 40 and city != 'c2'"
    done = recallatk("probe", target, "--queries", file, *ASK, "--target", "recall@10 >= 0.99")
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["verdict"]["outcome"] == "FAIL"
    done = recallatk("probe", target, "--queries", file, *ASK, "--where", text, "--search", "hnsw_ef=40")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    expected = oracle(folder, vectors, np.array(FILTERS[text]), parse_filter(text), hnsw_ef=40)
    assert found["recall"]["value"] == pytest.approx(expected)
    assert (found["rows"], found["k"], found["queries"], found["exact_queries"]) == (ROWS, K, 150, 150)
    assert found["truth_source"] == "exact search of qdrant over the stored vectors (float32[32])"
    assert (found["index_used"], found["settings"], found["discarded"]) == (None, {"hnsw_ef": "40"}, 0)


def test_its_effort_is_tuned_by_the_command(folder, queries):
    file, vectors = queries
    done = recallatk("tune", f"qdrant://{folder}", "--queries", file, *ASK, "--target", "recall@10 >= 0.9")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    effort = found["search"]["hnsw_ef"]
    assert oracle(folder, vectors, hnsw_ef=effort) >= 0.9 > oracle(folder, vectors, hnsw_ef=effort // 3)
    assert f"SearchParams(hnsw_ef={effort})" in found["snippet"]


def test_a_sample_of_points_is_labelled(folder):
    asked = ("--sample", "60", "--max-rate", "none", "--target", "recall@10 >= 0.01")
    done = recallatk("probe", f"qdrant://{folder}", *asked)
    assert done.returncode == 3, done.stderr
    assert "a temporary copy of the folder is searched" in done.stderr
    assert "Optimistic: rows of the collection served as queries" in " ".join(done.stdout.split())


def test_queries_of_another_dimension_are_refused(folder):
    with pytest.raises(MismatchError, match="dimension mismatch"):
        probe(f"qdrant://{folder}", QUERIES[:, :5])
