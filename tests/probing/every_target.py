"""The table of targets that need no server: how each store is made, and asked by its own library."""

import json
import threading
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import duckdb
import faiss
import hnswlib
import lancedb
import lancedb.index
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from usearch.index import Index as Usearch

from recallatk.adapters.duckdb import _extension

ROWS, DIMENSION, K = 800, 16, 10
VECTORS = np.random.default_rng(0).normal(size=(ROWS, DIMENSION)).astype("float32")
QUERIES = np.random.default_rng(1).normal(size=(40, DIMENSION)).astype("float32")
COLORS = [None if row % 9 == 0 else ("red", "green", "blue")[row % 3] for row in range(ROWS)]
NUMBERS = [row * 3 + 5 for row in range(ROWS)]
TEXTS = [f"item {row}" for row in range(ROWS)]


def rows(ids):
    """All rows as Arrow."""
    lists = pa.FixedSizeListArray.from_arrays(pa.array(VECTORS.ravel()), DIMENSION)
    return pa.table({"id": ids, "embedding": lists, "color": COLORS})


def nearest(query, metric, chosen=None, k=K):
    """Row numbers of the nearest rows by NumPy in float64, among the chosen ones."""
    wide, query = VECTORS.astype("f8"), query.astype("f8")
    far = np.linalg.norm(wide - query, axis=1) if metric == "l2" else -(wide @ query)
    far = far / np.linalg.norm(wide, axis=1) if metric == "cosine" else far
    among = np.arange(ROWS) if chosen is None else np.flatnonzero(chosen)
    return among[np.argsort(far[among], kind="stable")[:k]].tolist()


@dataclass(frozen=True)
class Existing:
    """A kind of target."""

    make: Callable
    """Writes the store to a folder."""
    text: str
    """The target, as typed in that folder; `{port}` is that of a service."""
    found: Callable
    """folder, queries, k, effort: the ids that the store's own library returns."""
    metric: str
    effort: str
    low: int
    """A value of the effort that misses neighbors."""
    ids: list
    refused: str | None = None
    """What a probe says to filters; None if the target can filter."""
    serve: Callable = nullcontext
    """A context, given the folder, with the port of the service."""

    def right(self, query, **more):
        """Ids of the true neighbors."""
        return [self.ids[row] for row in nearest(query, self.metric, **more)]

    def recall(self, folder, effort, queries=QUERIES, k=K):
        """Recall of each query, by NumPy and the store's own library."""
        lists = self.found(folder, queries, k, effort)
        truths = [self.right(query, k=min(k, ROWS)) for query in queries]
        return [len(set(a) & set(b)) / len(b) for a, b in zip(lists, truths, strict=True)]


def make_duckdb(folder):
    with duckdb.connect(str(folder / "shop.db"), config={"autoinstall_known_extensions": "false"}) as held:
        held.load_extension(str(_extension(duckdb.__version__)))
        held.execute("SET hnsw_enable_experimental_persistence = true; SET threads = 1")
        held.register("given", rows(TEXTS))
        held.execute("CREATE TABLE items AS SELECT * FROM given")
        held.execute(
            "CREATE INDEX near ON items USING HNSW (embedding) WITH (metric = 'l2sq', M = 4, M0 = 6)"
        )


def found_duckdb(folder, queries, k, effort):
    with duckdb.connect(":memory:", config={"autoinstall_known_extensions": "false"}) as held:
        held.load_extension(str(_extension(duckdb.__version__)))
        held.execute(
            f"ATTACH '{folder}/shop.db' AS shop (READ_ONLY); USE shop; SET hnsw_ef_search = {effort}"
        )
        ask = f"SELECT id FROM items ORDER BY array_distance(embedding, ?::FLOAT[{DIMENSION}]) LIMIT {k}"
        return [[one for (one,) in held.execute(ask, [each.tolist()]).fetchall()] for each in queries]


def make_lancedb(folder):
    held = lancedb.connect(folder).create_table("items", rows(TEXTS))
    held.create_index("embedding", config=lancedb.index.IvfFlat(distance_type="cosine", num_partitions=16))


def found_lancedb(folder, queries, k, effort):
    held = lancedb.connect(folder).open_table("items")
    asked = [held.search(each).distance_type("cosine").nprobes(effort).limit(k) for each in queries]
    return [each.to_arrow()["id"].to_pylist() for each in asked]


def make_faiss(folder):
    pq.write_table(rows(TEXTS), folder / "items.parquet")
    faiss.omp_set_num_threads(1)
    index = faiss.index_factory(DIMENSION, "HNSW4")
    index.add(VECTORS)
    faiss.write_index(index, str(folder / "items.faiss"))


def found_faiss(folder, queries, k, effort):
    index = faiss.read_index(str(folder / "items.faiss"))
    index.hnsw.efSearch = effort
    return [[TEXTS[row] for row in line if row >= 0] for line in index.search(queries, k)[1]]


def make_usearch(folder):
    pq.write_table(rows(NUMBERS), folder / "items.parquet")
    index = Usearch(ndim=DIMENSION, metric="cos", connectivity=4, expansion_add=8, dtype="f32")
    index.add(np.array(NUMBERS), VECTORS, threads=1)
    index.save(str(folder / "items.usearch"))


def found_usearch(folder, queries, k, effort):
    index = Usearch.restore(str(folder / "items.usearch"))
    index.expansion_search = effort
    return [index.search(each, k).keys.tolist() for each in queries]


def make_hnswlib(folder):
    pq.write_table(rows(NUMBERS), folder / "items.parquet")
    index = hnswlib.Index("l2", DIMENSION)
    index.init_index(ROWS, M=10, ef_construction=10, random_seed=1)
    index.add_items(VECTORS, NUMBERS, num_threads=1)
    index.save_index(str(folder / "items.bin"))


def found_hnswlib(folder, queries, k, effort):
    index = hnswlib.Index("l2", DIMENSION)
    index.load_index(str(folder / "items.bin"))
    index.set_ef(effort)
    return index.knn_query(queries, min(k, ROWS), num_threads=1)[0].tolist()


# A search that is exact among the first rows: the more of them, the better.
FUNCTION = """
import numpy as np, pyarrow.parquet as pq

table = pq.read_table("items.parquet")
ids, colors = table["id"].to_pylist(), np.array(table["color"].to_pylist(), object)
vectors = np.stack(table["embedding"].to_numpy())

def search(queries, k, ef=50, filters=None):
    found = []
    for query, each in zip(queries, filters):
        among = np.arange(ef * 8) if each is None else np.flatnonzero(colors[: ef * 8] == each.value)
        far = np.linalg.norm(vectors[among].astype("f8") - query, axis=1)
        found.append([ids[row] for row in among[np.argsort(far, kind="stable")[:k]]])
    return found
"""


def make_function(folder):
    pq.write_table(rows(TEXTS), folder / "items.parquet")
    (folder / "search_of_every_target.py").write_text(FUNCTION)


def found_first(ids):
    def found(_, queries, k, effort):
        first = np.arange(ROWS) < effort * 8
        return [[ids[row] for row in nearest(each, "l2", first, k)] for each in queries]

    return found


def make_http(folder):
    pq.write_table(rows(NUMBERS), folder / "items.parquet")
    (folder / "service.toml").write_text(
        'body = \'{"q": "$vector", "k": "$k", "ef": "$ef"}\'\nids = "hits"\nmetric = "l2"\n'
        'corpus = "items.parquet"\neffort = "ef:1..100"\n'
    )


class Service(BaseHTTPRequestHandler):
    """The same search behind a URL."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        query, first = np.array(asked["q"], "f4"), np.arange(ROWS) < asked.get("ef", 50) * 8
        hits = [NUMBERS[row] for row in nearest(query, "l2", first, asked["k"])]
        text = json.dumps({"hits": hits}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


@contextmanager
def served(service=Service):
    """The port of the service."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), service)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


EVERY = {
    "duckdb": Existing(
        make_duckdb, "duckdb://shop.db?table=items&vector=embedding", found_duckdb, "l2", "ef", 10, TEXTS
    ),
    "lancedb": Existing(make_lancedb, "lancedb://./items", found_lancedb, "cosine", "nprobes", 2, TEXTS),
    "faiss": Existing(
        make_faiss, "faiss://items.faiss?corpus=items.parquet", found_faiss, "l2", "efSearch", 8, TEXTS
    ),
    "usearch": Existing(
        make_usearch, "usearch://items.usearch?corpus=items.parquet", found_usearch, "cosine",
        "expansion_search", 10, NUMBERS, "usearch.Index cannot filter during search",
    ),
    "hnswlib": Existing(
        make_hnswlib, "hnswlib://items.bin?corpus=items.parquet&metric=l2", found_hnswlib, "l2", "ef", 10,
        NUMBERS,
    ),
    "function": Existing(
        make_function, "search_of_every_target:search?metric=l2&corpus=items.parquet&effort=ef:1..100",
        found_first(TEXTS), "l2", "ef", 60, TEXTS,
    ),
    "http": Existing(
        make_http, "http://127.0.0.1:{port}/search?config=service.toml", found_first(NUMBERS), "l2", "ef", 60,
        NUMBERS, "http cannot filter during search", served,
    ),
}  # fmt: skip
