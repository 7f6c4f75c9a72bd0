"""Index objects that the caller holds: every kind measured as it is, and refused where it does not fit."""

import sys
import warnings

import annoy
import chromadb
import faiss
import hnswlib
import lancedb
import lancedb.index
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import qdrant_edge
import voyager
from qdrant_client import QdrantClient, models
from sklearn.neighbors import NearestNeighbors
from usearch.index import Index as Usearch

from recallatk import make_corpus, measure, open_dataset
from recallatk.adapters.batch import QueryBatch
from recallatk.adapters.faiss_live import innermost
from recallatk.adapters.registry import live_engine
from recallatk.errors import EngineError, MismatchError, UsageError
from recallatk.filters import parse_filter

ROWS, DIMENSION, K = 500, 16, 10
VECTORS = np.random.default_rng(0).normal(size=(ROWS, DIMENSION)).astype("float32")
UNIT = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
QUERIES = VECTORS[:30] + np.float32(0.2)
SPACES = {"l2": "l2sq", "ip": "ip", "cosine": "cos"}


def neighbors(metric, vectors=VECTORS):
    """The exact neighbors, by NumPy alone."""
    corpus, queries = vectors.astype(float), QUERIES.astype(float)
    if metric == "l2":
        return np.argsort(np.square(queries[:, None] - corpus).sum(axis=2), axis=1)[:, :K]
    if metric == "cosine":
        corpus = corpus / np.linalg.norm(corpus, axis=1, keepdims=True)
    return np.argsort(-queries @ corpus.T, axis=1)[:, :K]


def measured(index, metric="l2", corpus=VECTORS, **how):
    return measure(index, corpus, QUERIES, metric=metric, at=(K,), rounds=1, **how)


def recalls(run, metric="l2"):
    """The recall of every measurement, which must be the one that its answers have by NumPy."""
    exact = neighbors(metric)
    for each in run.measurements:
        hits = [len(set(mine) & set(true)) for mine, true in zip(each.answers, exact, strict=True)]
        assert each.score["recall@10"] == pytest.approx(np.mean(hits) / K)
    return [each.score["recall@10"] for each in run.measurements]


def faiss_index(recipe, metric=faiss.METRIC_L2, vectors=VECTORS, ids=None):
    index = faiss.index_factory(DIMENSION, recipe, metric)
    if "NSG" in recipe:
        index.build_type = 0
    faiss.ParameterSpace().set_index_parameter(index, "verbose", 0)
    index.train(vectors)
    index.add(vectors) if ids is None else index.add_with_ids(vectors, ids)
    return index


def hnsw(space="l2", vectors=VECTORS, labels=None):
    index = hnswlib.Index(space, DIMENSION)
    index.init_index(len(vectors), M=8, random_seed=1)
    index.add_items(vectors, labels)
    return index


def brute_force(space="l2"):
    index = hnswlib.BFIndex(space, DIMENSION)
    index.init_index(ROWS)
    index.add_items(VECTORS)
    return index


def usearch(metric="l2", vectors=VECTORS, keys=None):
    index = Usearch(ndim=DIMENSION, metric=SPACES[metric], dtype="f32")
    index.add(np.arange(len(vectors)) if keys is None else keys, vectors)
    return index


def voyaging(space=voyager.Space.Euclidean, ids=None):
    index = voyager.Index(space, DIMENSION)
    # In one thread: several build a graph of chance.
    index.add_items(VECTORS.copy(), ids, num_threads=1)
    return index


def forest(metric="euclidean", built=True):
    index = annoy.AnnoyIndex(DIMENSION, metric)
    for row, vector in enumerate(VECTORS):
        index.add_item(row, vector)
    if built:
        index.build(10)
    return index


def table(tmp_path, ids, indexed=True):
    column = pa.FixedSizeListArray.from_arrays(pa.array(VECTORS.ravel()), DIMENSION)
    made = lancedb.connect(tmp_path).create_table("t", pa.table({"id": ids, "vector": column}))
    if indexed:
        made.create_index("vector", config=lancedb.index.IvfFlat(distance_type="l2", num_partitions=8))
    return made


def collection(ids, space="l2", vectors=VECTORS):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        client = chromadb.EphemeralClient()
        made = client.create_collection(
            f"c{np.random.default_rng().integers(2**40)}",
            configuration={"hnsw": {"space": space}},
            embedding_function=None,
        )
    made.add(ids=ids, embeddings=vectors)
    return made


def shard(folder, distance=qdrant_edge.Distance.Euclid):
    config = qdrant_edge.EdgeConfig(vectors=qdrant_edge.EdgeVectorParams(size=DIMENSION, distance=distance))
    made = qdrant_edge.EdgeShard.create(str(folder), config)
    points = [qdrant_edge.Point(row, vector, {}) for row, vector in enumerate(VECTORS.tolist())]
    made.update(qdrant_edge.UpdateOperation.upsert_points(points))
    return made


def client():
    made = QdrantClient(":memory:")
    made.create_collection("items", vectors_config=models.VectorParams(size=DIMENSION, distance="Euclid"))
    made.upsert("items", [models.PointStruct(id=r, vector=v) for r, v in enumerate(VECTORS.tolist())])
    return made


@pytest.mark.parametrize(
    ("recipe", "search", "least"),
    [
        ("Flat", {}, 1.0),
        ("IVF8,Flat", {"nprobe": [1, 8]}, 1.0),
        ("HNSW16", {"ef": [10, 200]}, 0.98),
        ("HNSW16", {"efSearch": 200}, 0.98),
        ("PCA16,IVF4,Flat", {"nprobe": 4}, 1.0),
        ("OPQ4,IVF8,PQ4x4,RFlat", {"nprobe": [1, 8], "k_factor": [1, 16]}, 0.95),
        ("NSG16", {"search_L": 100}, 0.98),
        ("SQ8", {}, 0.9),
        ("IVF16_HNSW8,Flat", {"nprobe": 16, "quantizer_efSearch": 32}, 0.99),
    ],
)
def test_any_faiss_index_with_its_own_parameters(recipe, search, least):
    index = faiss_index(recipe)
    found = recalls(measured(index, search=search))
    assert found[0] <= found[-1] == max(found)
    assert found[-1] >= least
    assert index.ntotal == ROWS


def test_faiss_parameters_and_threads_are_put_back():
    index = faiss_index("IDMap,IVF8,Flat", ids=np.arange(ROWS))
    inner = faiss.downcast_index(index.index)
    inner.nprobe, threads = 3, faiss.omp_get_max_threads()
    run = measured(index, search={"nprobe": [1, 8]}, threads=1)
    assert inner.nprobe == 3
    assert faiss.omp_get_max_threads() == threads
    assert [dict(each.trial.search) for each in run.measurements] == [{"nprobe": 1}, {"nprobe": 8}]
    assert "around IndexIVFFlat" in run.measurements[0].exercised
    # Left out, the value on the object counts and is recorded.
    assert measured(index).measurements[0].trial.search == (("nprobe", 3),)


@pytest.mark.parametrize(
    ("make", "name", "search"),
    [
        (hnsw, "hnswlib.Index", {"ef": [10, 300]}),
        (brute_force, "hnswlib.BFIndex", {}),
        (usearch, "usearch.Index", {"expansion_search": [10, 300]}),
        (usearch, "usearch.Index", {"expansion": [10, 300]}),
        (voyaging, "voyager.Index", {"ef": [10, 300]}),
        (voyaging, "voyager.Index", {"query_ef": 300}),
        (forest, "annoy.AnnoyIndex", {"search_k": [50, 10_000]}),
        (lambda: NearestNeighbors().fit(VECTORS), "sklearn.NearestNeighbors", {}),
    ],
)
def test_objects_of_libraries(make, name, search):
    run = measured(make(), search=search)
    found = recalls(run)
    assert found[-1] >= 0.99
    assert len(found) == 1 or found[0] <= found[-1]
    assert {each.trial.engine for each in run.measurements} == {name}
    assert all(each.exercised.startswith(f"{name} of 500 rows") for each in run.measurements)
    assert run.timed.startswith("one library call in this process for the top 10")
    assert run.timed.endswith("nothing was built")
    assert [each.kind for each in run.cautions if each.kind == "in process"] == ["in process"]
    assert all(each.build.seconds is None for each in run.measurements)


def test_a_graph_of_pynndescent():
    # Importing it takes seconds, in every worker of xdist.
    from pynndescent import NNDescent

    index = NNDescent(VECTORS, "euclidean", random_state=1)
    low, high = recalls(measured(index, search={"epsilon": [0.0, 0.4]}))
    assert low <= high >= 0.99
    with pytest.raises(MismatchError, match=r"pynndescent.NNDescent uses l2, the dataset cosine"):
        measured(index, metric="cosine")


@pytest.mark.skipif(sys.platform != "linux", reason="scann has wheels for Linux only")
def test_a_searcher_of_scann():
    from scann import scann_ops_pybind

    builder = scann_ops_pybind.builder(VECTORS, 10, "squared_l2").tree(8, 4, training_sample_size=ROWS)
    searcher = builder.score_ah(2).reorder(100).build()
    found = recalls(measured(searcher, search={"leaves_to_search": [1, 8], "reorder": 200}))
    assert found[0] < found[1] >= 0.98
    flat = scann_ops_pybind.builder(VECTORS, 10, "squared_l2").score_brute_force().build()
    assert live_engine(flat)().scanned() == "all rows: it was built without tree()"
    assert len(measured(searcher).measurements) == 1
    with pytest.raises(MismatchError, match=r"metric mismatch: scann.ScannSearcher uses l2, the dataset ip"):
        measured(searcher, metric="ip")


def test_the_effort_of_a_graph_is_put_back_also_after_an_error():
    index = hnsw()
    index.set_ef(33)
    measured(index, search={"ef": [10, 50]})
    assert index.ef == 33

    def interrupted(progress):
        if progress.phase == "search":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measured(index, search={"ef": 77}, watch=interrupted)
    assert index.ef == 33
    other = usearch()
    before = other.expansion_search
    measured(other, search={"expansion_search": before + 5})
    assert other.expansion_search == before


def test_databases_that_the_caller_opened(tmp_path):
    names = [f"doc-{row}" for row in range(ROWS)]
    named = make_corpus(VECTORS, ids=names)
    run = measured(table(tmp_path / "lance", names), corpus=named, search={"nprobes": [1, 8]})
    low, high = recalls(run)
    assert low < high == 1.0
    assert "IVF_FLAT over 500 rows" in run.measurements[0].exercised
    flat = measured(table(tmp_path / "flat", list(range(ROWS)), indexed=False))
    assert recalls(flat) == [1.0]
    assert "scanning all rows: the table has no vector index" in flat.measurements[0].exercised
    assert recalls(measured(collection(names), corpus=named))[0] >= 0.98
    assert recalls(measured(collection([str(row) for row in range(ROWS)])))[0] >= 0.98


def test_qdrant_as_a_shard_and_as_a_collection(tmp_path):
    folder = tmp_path / "shard"
    folder.mkdir()
    held = shard(folder)
    assert recalls(measured(held, search={"hnsw_ef": [16, 64]}))[-1] >= 0.98
    with pytest.raises(MismatchError, match=r"metric mismatch: qdrant_edge.EdgeShard uses l2, the dataset"):
        measured(held, metric="cosine")
    run = measured((client(), "items"))
    assert recalls(run) == [1.0]
    assert run.measurements[0].exercised.startswith("items: qdrant.collection of 500 rows")
    with pytest.raises(UsageError, match=r'Accepted: \(client, "collection"\)'):
        measured(client())


def appended(tmp_path):
    """A table with rows that its index does not hold."""
    made = table(tmp_path, list(range(ROWS)))
    made.add(made.to_arrow().slice(0, 7).set_column(0, "id", pa.array(range(ROWS, ROWS + 7))))
    return made


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda place: table(place, list(range(ROWS)), indexed=False), "all rows: the table has no vector"),
        (appended, "7 rows that its index does not hold yet"),
        (lambda _: faiss_index("Flat"), "all rows: IndexFlat has neither lists nor a graph"),
        (
            lambda _: faiss_index("IDMap,SQ8", ids=np.arange(ROWS)),
            "all rows: IndexScalarQuantizer has neither lists",
        ),
        (lambda _: brute_force(), "all rows, as BFIndex does by design"),
        (lambda _: NearestNeighbors(algorithm="brute").fit(VECTORS), "all rows: it was fitted without a"),
        (shard, "all points: none of them is indexed"),
        (lambda _: (client(), "items"), "all points: the client's local mode has no index"),
    ],
)
def test_objects_that_scan_are_known(tmp_path, make, said):
    assert live_engine(make(tmp_path))().scanned().startswith(said)


def test_a_run_says_that_it_measured_a_scan():
    run = measured(brute_force())
    [caution] = [each for each in run.cautions if each.kind == "scan"]
    assert caution.message == (
        "hnswlib.BFIndex scans all rows, as BFIndex does by design. Its recall and latency are not those of "
        "an index"
    )
    assert "answered, scanning all rows" in run.measurements[0].exercised
    assert "caution: scan: hnswlib.BFIndex scans all rows" in str(run)


def test_an_index_mentions_no_scan(tmp_path):
    trees = NearestNeighbors(algorithm="kd_tree").fit(VECTORS)
    graphs = [faiss_index("HNSW8"), faiss_index("PCA8,IVF4,PQ4x4"), hnsw(), usearch(), trees]
    for held in [*graphs, table(tmp_path, list(range(ROWS))), collection([str(row) for row in range(ROWS)])]:
        assert live_engine(held)().scanned() is None
    assert "scan" not in [each.kind for each in measured(hnsw()).cautions]


@pytest.mark.parametrize("kind", [hnsw, usearch])
def test_labels_are_ids_or_row_numbers(kind):
    given = {"labels": np.arange(ROWS) * 3 + 7} if kind is hnsw else {"keys": np.arange(ROWS) * 3 + 7}
    numbered = make_corpus(VECTORS, ids=list(range(7, 3 * ROWS + 7, 3)))
    assert recalls(measured(kind(**given), corpus=numbered))[0] >= 0.9
    # The same ids, and an index that was filled without any.
    assert recalls(measured(kind(), corpus=numbered))[0] >= 0.9
    names = make_corpus(VECTORS, ids=[f"doc-{row}" for row in range(ROWS)])
    assert recalls(measured(kind(), corpus=names))[0] >= 0.9
    # Ids that could be row numbers too: the stored vectors decide.
    shuffled = np.random.default_rng(1).permutation(ROWS)
    both = make_corpus(VECTORS, ids=shuffled.tolist())
    assert recalls(measured(kind(), corpus=both))[0] >= 0.9
    by_id = {"labels": shuffled} if kind is hnsw else {"keys": shuffled}
    assert recalls(measured(kind(**by_id), corpus=both))[0] >= 0.9
    with pytest.raises(MismatchError, match=r"label mismatch: .* such as"):
        measured(kind(**given))


def test_ids_of_faiss_far_apart_are_found():
    ids = np.random.default_rng(2).choice(2**60, ROWS, replace=False)
    corpus = make_corpus(VECTORS, ids=ids.tolist())
    assert recalls(measured(faiss_index("IDMap,Flat", ids=ids), corpus=corpus)) == [1.0]
    assert recalls(measured(faiss_index("IVF4,Flat", ids=ids), corpus=corpus, search={"nprobe": 4})) == [1.0]


@pytest.mark.parametrize(
    ("make", "metric", "said"),
    [
        (lambda: faiss_index("Flat"), "cosine", "faiss.IndexFlat uses l2, the dataset cosine"),
        (hnsw, "ip", "hnswlib.Index uses l2, the dataset ip"),
        (brute_force, "cosine", "hnswlib.BFIndex uses l2, the dataset cosine"),
        (usearch, "cosine", "usearch.Index uses l2, the dataset cosine"),
        (voyaging, "ip", "voyager.Index uses l2, the dataset ip"),
        (forest, "cosine", "annoy.AnnoyIndex uses l2, the dataset cosine"),
        (lambda: forest("angular"), "l2", "annoy.AnnoyIndex uses cosine, the dataset l2"),
        (lambda: NearestNeighbors().fit(VECTORS), "cosine", "sklearn.NearestNeighbors uses l2"),
        (lambda: collection([str(row) for row in range(ROWS)]), "ip", "chromadb.Collection uses l2"),
        (lambda: (client(), "items"), "ip", "qdrant.collection uses l2, the dataset ip"),
    ],
)
def test_another_metric_is_refused(make, metric, said):
    with pytest.raises(MismatchError, match=f"metric mismatch: {said}"):
        measured(make(), metric=metric)


@pytest.mark.parametrize(
    "make",
    [
        lambda vectors: faiss_index("Flat", faiss.METRIC_INNER_PRODUCT, vectors),
        lambda vectors: faiss_index("IVF4,Flat", faiss.METRIC_INNER_PRODUCT, vectors),
        lambda vectors: hnsw("ip", vectors),
        lambda vectors: usearch("ip", vectors),
        lambda vectors: collection([str(row) for row in range(ROWS)], "ip", vectors),
    ],
    ids=["flat", "lists", "hnswlib", "usearch", "chroma"],
)
def test_inner_product_stands_for_cosine_on_unit_vectors_only(make):
    index = make(UNIT)
    search = {"nprobe": 4} if isinstance(index, faiss.IndexIVF) else {}
    run = measured(index, metric="cosine", corpus=UNIT, search=search)
    assert recalls(run, "cosine")[0] >= 0.9
    with pytest.raises(MismatchError, match=r"only on unit vectors, and the .* vectors have norms from"):
        measured(make(VECTORS), metric="cosine")


def test_objects_that_hold_other_data_are_refused():
    few, narrow = make_corpus(VECTORS[:400]), np.ascontiguousarray(VECTORS[:, :8])
    with pytest.raises(
        MismatchError, match=r"row count mismatch: hnswlib.Index holds 500 rows, the corpus 400"
    ):
        measured(hnsw(), corpus=few)
    with pytest.raises(
        MismatchError, match=r"dimension mismatch: usearch.Index has 16 dimensions, the corpus 8"
    ):
        measure(usearch(), narrow, np.ascontiguousarray(QUERIES[:, :8]), metric="l2")
    with pytest.raises(EngineError, match=r"faiss.IndexFlatL2 is empty"):
        measured(faiss.IndexFlatL2(DIMENSION))
    with pytest.raises(EngineError, match=r"not trained. Call index.train"):
        measured(faiss.index_factory(DIMENSION, "IVF4,Flat"))
    with pytest.raises(EngineError, match=r"has no trees. Call index.build"):
        measured(forest(built=False))
    with pytest.raises(EngineError, match=r"not fitted. Call fit"):
        measured(NearestNeighbors())
    with pytest.raises(MismatchError, match=r"of 256 ids in chromadb.Collection the corpus has 0"):
        measured(collection([f"other-{row}" for row in range(ROWS)]))


def test_a_parameter_that_the_object_does_not_have_is_refused():
    with pytest.raises(UsageError, match=r"search parameter of faiss.IndexIVFFlat. Did you mean nprobe"):
        measured(faiss_index("IVF4,Flat"), search={"nprobes": 3})
    with pytest.raises(UsageError, match="Accepted: search_k"):
        measured(forest(), search={"ef": 3})
    with pytest.raises(UsageError, match=r"search.ef: 0. Accepted: whole numbers from 1"):
        measured(hnsw(), search={"ef": 0})
    with pytest.raises(UsageError, match=r"no such build parameter of hnswlib.Index"):
        measured(hnsw(), build={"M": 16})


COLORS = np.array(["red", "blue", "green", None], object)[np.arange(ROWS) % 4]
SIZES = np.arange(ROWS) % 50
EVEN = np.arange(ROWS) % 2 == 0
CONDITIONS = {
    "color = 'red'": COLORS == "red",
    "size < 5 and color in ('red', 'blue')": (SIZES < 5) & np.isin(COLORS, ["red", "blue"]),
    "not color = 'red'": (COLORS != "red") & (COLORS != None),  # noqa: E711 - element by element
    "size = 7 or size >= 48": (SIZES == 7) | (SIZES >= 48),
    "color = 'violet'": np.zeros(ROWS, bool),
}


def frame(ids=None):
    """A corpus as a notebook has it."""
    columns = {"color": COLORS, "size": SIZES, "even": EVEN, "vector": list(VECTORS)}
    return pd.DataFrame({**({} if ids is None else {"id": ids}), **columns})


def asked(conditions):
    """Queries with the given filters in turn, and one without."""
    texts = [conditions[number % len(conditions)] for number in range(len(QUERIES))]
    return pd.DataFrame({"vector": list(QUERIES), "filter": [None, *texts[1:]]})


def filtered_table(place):
    kept = {"id": range(ROWS), "color": pa.array(COLORS.tolist()), "size": SIZES, "even": EVEN}
    column = pa.FixedSizeListArray.from_arrays(pa.array(VECTORS.ravel()), DIMENSION)
    made = lancedb.connect(place).create_table("t", pa.table({**kept, "vector": column}))
    made.create_index("vector", config=lancedb.index.IvfFlat(distance_type="l2", num_partitions=4))
    return made


def payloads():
    plain = zip(COLORS.tolist(), SIZES.tolist(), EVEN.tolist(), strict=True)
    return [
        {"size": size, "even": even} | ({} if color is None else {"color": color})
        for color, size, even in plain
    ]


def filtered_collection(_):
    made = collection(["-1"], vectors=VECTORS[:1])
    made.delete(ids=["-1"])
    made.add(ids=[str(row) for row in range(ROWS)], embeddings=VECTORS, metadatas=payloads())
    return made


def filtered_shard(place):
    config = qdrant_edge.EdgeConfig(
        vectors=qdrant_edge.EdgeVectorParams(size=DIMENSION, distance=qdrant_edge.Distance.Euclid)
    )
    made = qdrant_edge.EdgeShard.create(str(place), config)
    rows = enumerate(zip(VECTORS.tolist(), payloads(), strict=True))
    points = [qdrant_edge.Point(row, vector, payload) for row, (vector, payload) in rows]
    made.update(qdrant_edge.UpdateOperation.upsert_points(points))
    return made


def filtered_client(_):
    made = client()
    rows = enumerate(zip(VECTORS.tolist(), payloads(), strict=True))
    made.upsert("items", [models.PointStruct(id=r, vector=v, payload=p) for r, (v, p) in rows])
    return made, "items"


APART = np.random.default_rng(3).choice(2**60, ROWS, replace=False)


@pytest.mark.parametrize(
    ("make", "search", "ids"),
    [
        (lambda _: faiss_index("Flat"), {}, None),
        (lambda _: faiss_index("IVF4,Flat"), {"nprobe": 4}, None),
        (lambda _: faiss_index("HNSW16"), {"ef": 300}, None),
        (lambda _: faiss_index("PCA16,IVF4,Flat"), {"nprobe": 4}, None),
        (lambda _: faiss_index("SQ8,RFlat"), {"k_factor": 10}, None),
        (lambda _: faiss_index("IDMap,HNSW16", ids=np.arange(ROWS) * 3 + 7), {"ef": 300}, range(7, 1507, 3)),
        (lambda _: faiss_index("IVF4,Flat", ids=APART), {"nprobe": 4}, APART.tolist()),
        (lambda _: hnsw(), {"ef": 300}, None),
        (lambda _: hnsw(labels=np.arange(ROWS) * 3 + 7), {"ef": 300}, range(7, 1507, 3)),
        (filtered_table, {"nprobes": 4}, range(ROWS)),
        (filtered_collection, {}, None),
        (filtered_shard, {}, None),
        (filtered_client, {}, None),
    ],
)
def test_objects_filter_natively(tmp_path, make, search, ids):
    dataset = open_dataset(frame(ids), asked(list(CONDITIONS)), metric="l2")
    kind = live_engine(make(tmp_path), search)
    assert kind.can_filter({})
    with kind() as engine:
        engine.attach(dataset.corpus, dataset.metric)
        engine.configure(**{each.name: each.default for each in kind.search_knobs} | search)
        refused = {each for each in dataset.queries.filters if each and engine.refusal(each)}
        filters = [None if each in refused else each for each in dataset.queries.filters]
        found = engine.search(QueryBatch(QUERIES, filters), K)
        single = [engine.search(QueryBatch(QUERIES[n : n + 1], [filters[n]]), K)[0] for n in (0, 1, 2)]
    assert np.array_equal(found[:3], single)
    # Chroma has no test for a missing text.
    assert refused == ({parse_filter("not color = 'red'")} if make is filtered_collection else set())
    passing = {parse_filter(text): mask for text, mask in CONDITIONS.items()}
    for number, (line, condition) in enumerate(zip(found, filters, strict=True)):
        allowed = np.ones(ROWS, bool) if condition is None else passing[condition]
        distances = np.square(VECTORS.astype(float) - QUERIES[number]).sum(axis=1)
        exact = [row for row in np.argsort(distances) if allowed[row]][:K]
        assert line[line >= 0].tolist() == exact, condition


def test_filters_of_a_column_and_of_all_queries_are_measured():
    index = faiss_index("IVF4,Flat")
    run = measure(
        index, frame(), asked(["size < 5"]), metric="l2", at=(K,), rounds=1, search={"nprobe": [1, 4]}
    )
    low, high = (each.score["recall@10"] for each in run.measurements)
    assert low < high == 1.0
    assert all(each.score.anomalies["ineligible"] == 0 for each in run.measurements)
    run = measure(index, frame(), QUERIES, metric="l2", where="even = true", at=(K,), rounds=1)
    assert EVEN[run.measurements[0].answers].all()


@pytest.mark.parametrize(
    ("recipe", "effort", "own"),
    [
        ("IVF16,Flat", {"nprobe": 16}, {"max_codes": 60}),
        ("PCA16,IVF16,Flat", {"nprobe": 16}, {"max_codes": 60}),
        ("HNSW4", {"efSearch": 10}, {"check_relative_distance": False}),
    ],
)
def test_a_filter_that_passes_every_row_changes_no_answer(recipe, effort, own):
    index = faiss_index(recipe)
    inner = innermost(index)
    part = inner.hnsw if isinstance(inner, faiss.IndexHNSW) else inner
    answers = []
    for parameters in (effort, own):
        for name, value in parameters.items():
            setattr(part, name, value)
        answers.append(index.search(QUERIES, K)[1])
    assert not np.array_equal(*answers)
    run = measure(index, frame(), QUERIES, metric="l2", where="size >= 0", at=(K,), rounds=1)
    assert np.array_equal(run.measurements[0].answers, answers[1])


def test_a_graph_with_an_unbounded_queue_keeps_to_filters():
    index = faiss_index("HNSW16")
    index.hnsw.search_bounded_queue = False
    run = measure(index, frame(), QUERIES, metric="l2", where="even = true", at=(K,), rounds=1)
    assert EVEN[run.measurements[0].answers].all()


def test_booleans_of_a_payload(tmp_path):
    run = measure(
        filtered_client(None), frame(), QUERIES, metric="l2", where="even = true", at=(K,), rounds=1
    )
    assert run.measurements[0].score["recall@10"] == 1.0
    with pytest.raises(EngineError, match=r"EdgeShard cannot filter by 'even', which holds booleans"):
        measure(
            filtered_shard(tmp_path), frame(), QUERIES, metric="l2", where="even = true", at=(K,), rounds=1
        )


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (usearch, "usearch.Index"),
        (brute_force, "hnswlib.BFIndex"),
        (lambda: faiss_index("NSG16"), "faiss.IndexNSGFlat"),
        (lambda: faiss_index("IDMap,PCA8,Flat", ids=np.arange(ROWS)), "faiss.IndexIDMap"),
        (lambda: NearestNeighbors().fit(VECTORS), "sklearn.NearestNeighbors"),
    ],
)
def test_filters_that_an_object_cannot_apply_are_refused(make, name):
    with pytest.raises(EngineError, match=rf"{name} cannot filter during search, and these queries have"):
        measure(make(), frame(), QUERIES, metric="l2", where="even = true", at=(K,))


def test_a_table_without_the_column_is_refused(tmp_path):
    held = table(tmp_path, list(range(ROWS)))
    with pytest.raises(EngineError, match=r"lancedb.Table has no column 'size' to filter by. It has id, vec"):
        measure(held, frame(range(ROWS)), QUERIES, metric="l2", where="size < 5", at=(K,), rounds=1)


def test_objects_of_no_known_kind_are_not_recognized():
    assert live_engine(object()) is None
    assert live_engine((1, 2)) is None
    assert live_engine(faiss.IndexBinaryFlat(16)) is None
