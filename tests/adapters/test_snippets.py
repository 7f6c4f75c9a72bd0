"""The code that a tuning hands out runs, and answers as the adapter does with the same parameters."""

import json

import numpy as np
import pytest

from recallatk.adapters import get_engine, registered
from recallatk.adapters.duckdb import _extension
from recallatk.adapters.postgres_server import DSN_VARIABLE, bundled_server, stop_bundled_server
from recallatk.adapters.snippet import snippet
from recallatk.core import Metric
from recallatk.errors import UsageError
from recallatk.testing.contract_ground import K, batch_of, data, rebuild, recall, vectors_of

ATTACHED = ("callable", "command", "http")
SETTINGS = [
    ("annoy", {"n_trees": 4}, {"search_k": 60}),
    ("chroma", {"M": 6, "ef_construction": 20}, {"ef_search": 10}),
    ("duckdb", {"M": 4, "ef_construction": 16}, {"ef": 12}),
    ("exact", {}, {}),
    ("faiss-factory", {"factory": "IVF8,Flat"}, {"parameters": "nprobe=2"}),
    ("faiss-hnsw", {"M": 4, "ef_construction": 16}, {"ef": 10}),
    ("faiss-ivf-flat", {"nlist": 8}, {"nprobe": 2}),
    ("faiss-ivf-pq", {"nlist": 8, "M": 4, "nbits": 4}, {"nprobe": 4, "k_factor": 2}),
    ("faiss-ivf-pq", {"nlist": 8, "M": 4, "nbits": 4}, {"nprobe": 4, "k_factor": 0}),
    ("faiss-ivf-pq", {"nlist": 8, "M": 4, "nbits": 4, "refine": "none"}, {"nprobe": 4, "k_factor": 0}),
    ("faiss-ivf-sq8", {"nlist": 8}, {"nprobe": 2}),
    ("faiss-nsg", {"R": 8}, {"search_L": 16}),
    ("faiss-pq-fastscan", {"M": 4}, {"k_factor": 2}),
    ("faiss-sq", {"type": "SQ4"}, {}),
    ("hnswlib", {"M": 4, "ef_construction": 16}, {"ef": 10}),
    ("lancedb", {"index": "IVF_FLAT", "partitions": 8}, {"probes": 2}),
    ("lancedb", {"index": "IVF_PQ", "partitions": 4, "sub_vectors": 4}, {"probes": 4, "refine": 2}),
    ("lancedb", {"index": "IVF_HNSW_SQ", "partitions": 1, "M": 8}, {"probes": 1, "ef": 20}),
    ("milvus", {"M": 4, "ef_construction": 16}, {"ef": 10}),
    ("milvus", {"index": "IVF_FLAT", "nlist": 8}, {"nprobe": 2}),
    ("milvus", {"index": "FLAT"}, {}),
    ("qdrant", {"M": 4, "ef_construct": 16}, {"hnsw_ef": 10}),
    ("qdrant", {"quantization": "scalar"}, {"hnsw_ef": 32}),
    ("scann", {"num_leaves": 8}, {"leaves_to_search": 7, "reorder": 100}),
    ("sqlite-vec", {}, {}),
    ("usearch", {"connectivity": 4, "expansion_add": 16}, {"expansion": 10}),
    ("usearch", {"storage": "b1"}, {"expansion": 64}),
    ("voyager", {"M": 8, "ef_construction": 32, "storage": "e4m3"}, {"ef": 20}),
]
OTHER_CODE_FOR_OTHER_METRICS = ("duckdb", "faiss-hnsw", "hnswlib", "scann", "usearch", "voyager")
SQL = [
    ("pgvector-hnsw", {"M": 8, "ef_construction": 64}, {"ef": 40}),
    ("pgvector-hnsw", {"storage": "halfvec"}, {"iterative_scan": "relaxed_order"}),
    ("pgvector-hnsw", {"storage": "bit"}, {"ef": 100, "rerank": 8}),
    ("pgvector-ivfflat", {"lists": 8}, {"probes": 2}),
]
# Seeds and threads of the two builds may differ, and such small graphs differ with them.
TOLERANCE = 0.12


def test_every_engine_of_ours_is_tried():
    ours = {name for name, entry in registered().items() if entry.package == "recallatk"}
    assert ours == {name for name, _, _ in [*SETTINGS, *SQL]} | {"pynndescent"} | set(ATTACHED)


def test_the_one_that_compiles_for_a_minute_before_it_answers_is_only_read():
    code = snippet("pynndescent", Metric.COSINE, {"n_neighbors": 8}, {"epsilon": 0.05}, K)
    compile(code, "snippet", "exec")
    assert "n_neighbors=8" in code
    assert "epsilon=0.05" in code


def adapted(name, dataset, build, search):
    """What our adapter finds with the same parameters."""
    with get_engine(name)() as engine:
        rebuild(engine, dataset, build, search)
        return recall(engine.search(batch_of(dataset), K), dataset)


def padded(found):
    rows = np.full((len(found), K), -1, np.int64)
    for line, each in zip(rows, found, strict=True):
        line[: len(each)] = each
    return rows


def run(code, dataset):
    vectors = np.array(dataset.corpus.vectors.read(0, dataset.corpus.rows))
    names = {"vectors": vectors, "queries": vectors_of(dataset)}
    exec(compile(code, "snippet", "exec"), names)
    for holder in ("connection", "client", "shard"):
        if hasattr(names.get(holder), "close"):
            names[holder].close()
    return recall(padded(names["found"]), dataset)


@pytest.mark.filterwarnings("ignore:legacy embedding function config:DeprecationWarning")
@pytest.mark.parametrize(
    ("name", "build", "search", "metric"),
    [
        *((*each, Metric.COSINE) for each in SETTINGS),
        *((*each, Metric.L2) for each in SETTINGS if each[0] in OTHER_CODE_FOR_OTHER_METRICS),
    ],
)
def test_python_runs_and_finds_what_the_adapter_does(name, build, search, metric, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dataset = data(metric=metric)
    code = snippet(name, metric, build, search, K)
    if name == "duckdb":
        # Nothing is fetched in a test: the extension comes as a package.
        import duckdb

        local = f"connection.load_extension({str(_extension(duckdb.__version__))!r})"
        assert 'connection.execute("INSTALL vss; LOAD vss")' in code
        code = code.replace('connection.execute("INSTALL vss; LOAD vss")', local)
    assert run(code, dataset) == pytest.approx(adapted(name, dataset, build, search), abs=TOLERANCE)


@pytest.mark.filterwarnings("ignore:Local mode performs exact")
@pytest.mark.parametrize("quantization", ["none", "scalar", "binary"])
def test_a_qdrant_server_is_asked_through_its_client(quantization):
    build = {"url": "https://qdrant.example:6333", "M": 8, "quantization": quantization}
    code = snippet("qdrant", "cosine", build, {"hnsw_ef": 32}, K)
    assert "QdrantClient('https://qdrant.example:6333')" in code and "hnsw_ef=32" in code
    # The client's own memory stands for the server: it takes the same calls and compares all rows.
    assert run(code.replace("'https://qdrant.example:6333'", "':memory:'"), data(metric=Metric.COSINE)) > 0.99


def test_a_chroma_and_a_milvus_server_are_named():
    chroma = snippet("chroma", "l2", {"url": "https://chroma.example"}, {}, K)
    assert "chromadb.HttpClient(host='chroma.example', port=443, ssl=True)" in chroma
    assert "MilvusClient('http://milvus.example')" in snippet(
        "milvus", "l2", {"uri": "http://milvus.example"}, {}, K
    )


@pytest.fixture
def postgres(monkeypatch):
    import psycopg

    monkeypatch.delenv(DSN_VARIABLE, raising=False)
    with psycopg.connect(bundled_server(), autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        connection.execute("DROP TABLE IF EXISTS items")
        yield connection
        connection.execute("DROP TABLE IF EXISTS items")


@pytest.fixture(scope="module", autouse=True)
def server():
    yield
    stop_bundled_server()


@pytest.mark.parametrize("metric", list(Metric))
@pytest.mark.parametrize(("name", "build", "search"), SQL)
def test_sql_runs_in_postgresql_through_the_index(name, build, search, metric, postgres):
    dataset = data(metric=metric)
    dimension = dataset.corpus.dimension
    postgres.execute(f"CREATE TABLE items (id bigint, embedding vector({dimension}))")
    with postgres.cursor() as cursor:
        vectors = dataset.corpus.vectors.read(0, dataset.corpus.rows)
        rows = [(row, str(vector.tolist())) for row, vector in enumerate(vectors)]
        cursor.executemany("INSERT INTO items VALUES (%s, %s)", rows)
    code = snippet(name, metric, build, search, K, dimension)
    *before, query = [part for part in code.split(";") if part.strip()]
    postgres.execute("SET enable_seqscan = off")
    for statement in before:
        postgres.execute(statement)
    kept = "\n".join(line for line in query.splitlines() if not line.startswith("--"))
    query = kept.replace("$1", "%(asked)s::vector")
    found = []
    for vector in vectors_of(dataset):
        asked = {"asked": str(vector.tolist())}
        found.append([row for (row,) in postgres.execute(query, asked).fetchall()])
    plan = str(postgres.execute(f"EXPLAIN {query}", asked).fetchall())
    assert "items_embedding" in plan
    got = recall(padded(found), dataset)
    assert got == pytest.approx(adapted(name, dataset, build, search), abs=TOLERANCE)


def test_sql_without_a_dimension_says_what_to_fill_in():
    code = snippet("pgvector-hnsw", "cosine", {"storage": "halfvec"}, {}, K)
    assert "halfvec(DIMENSION)" in code and "-- DIMENSION is the length of a vector" in code
    assert "DIMENSION" not in snippet("pgvector-hnsw", "cosine", {}, {}, K)


@pytest.mark.parametrize("name", [*ATTACHED, "somebody-elses"])
def test_what_has_no_code_has_its_parameters_as_json(name):
    build = (("url", "https://search.example"), ("headers", '{"Authorization": "Bearer abcdefgh"}'))
    code = snippet(name, "cosine", build, (("parameters", '{"ef": 64}'),), K)
    said, _, rest = code.partition("\n")
    assert said == f"The parameters of {name}, as measured:"
    found = json.loads(rest)
    assert found["search"] == {"parameters": {"ef": 64}} and found["k"] == K
    assert "abcdefgh" not in code


def test_parameters_that_cannot_be_are_refused():
    with pytest.raises(UsageError, match="no parameter 'size'"):
        snippet("hnswlib", "cosine", {"size": 4}, {}, K)
    with pytest.raises(UsageError, match="storage = "):
        snippet("pgvector-hnsw", "cosine", {"storage": "x) DROP TABLE items; --"}, {}, K)
