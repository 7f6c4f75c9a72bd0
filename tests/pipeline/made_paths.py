"""Small data with texts and groups, paths built from stages, and their steps by plain NumPy."""

import numpy as np
import pyarrow as pa

from recallatk import Path, make_corpus, make_queries
from recallatk.adapters import QueryBatch
from recallatk.adapters.base import resolved
from recallatk.core import Dataset, Metric
from recallatk.pipeline.path_engine import path_engine

ROWS, QUERIES, DIMENSION = 400, 12, 16
WORDS = ("amber", "basalt", "cobalt", "dolomite", "emerald", "feldspar", "garnet", "hematite")


def text(random, length):
    return " ".join(random.choice(WORDS, length))


def dataset(metric="l2", *, unit=False, rows=ROWS, filters=None, seed=0):
    """A corpus with texts and groups, and queries with texts."""
    random = np.random.default_rng(seed)
    parts = []
    for count in (rows, QUERIES):
        vectors = random.normal(size=(count, DIMENSION)).astype(np.float32)
        if unit:
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        parts.append((vectors, [text(random, 6) for _ in range(count)]))
    (corpus, texts), (queries, asked) = parts
    return Dataset(
        make_corpus(
            corpus, [f"c{row}" for row in range(rows)], {"text": texts, "group": np.arange(rows) % 4}
        ),
        make_queries(queries, metadata={"text": asked}, filters=filters),
        Metric(metric),
    )


def vectors(part):
    return np.asarray(part.vectors.read(0, part.rows))


def batch(data, *, one=None):
    """All queries of the dataset in one batch, or one of them."""
    taken = slice(None) if one is None else slice(one, one + 1)
    queries = data.queries
    column = None if queries.text_column is None else queries.columns.read(["text"], 0, queries.rows)
    return QueryBatch(
        vectors(queries)[taken],
        None if queries.filters is None else list(queries.filters)[taken],
        rows=np.arange(queries.rows)[taken],
        texts=None if column is None else pa.chunked_array(column["text"]).to_pylist()[taken],
    )


def built(data, *stages, k=None, **search):
    """The engine of a path over the corpus, with the values that its stages state."""
    kind = path_engine(Path("mine", stages, k))
    engine = kind()
    of_build, of_search = kind.knobs.given()
    engine.build(data.corpus, data.metric, **resolved("mine", kind.build_knobs, of_build))
    engine.configure(**resolved("mine", kind.search_knobs, {**of_search, **search}))
    return engine


def scores(metric, queries, rows):
    """Scores of all pairs in float64, higher is better."""
    queries, rows = queries.astype(float), rows.astype(float)
    if metric == "l2":
        return -(((queries[:, None] - rows[None]) ** 2).sum(axis=2))
    if metric == "cosine":
        queries = queries / np.linalg.norm(queries, axis=1, keepdims=True)
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return queries @ rows.T


def ranked(table, k):
    """The rows of the best k scores, ties by row."""
    return np.argsort(-table, axis=1, kind="stable")[:, :k]


def reordered(table, lists, k):
    """The first k of each list after sorting by score, ties by row; -1 stays last."""
    found = []
    for query, line in enumerate(lists):
        known = sorted((row for row in line if row >= 0), key=lambda row: (-table[query, row], row))
        found.append((known + [-1] * k)[:k])
    return np.array(found)


def hits(lists, truth):
    """Share of the true rows of each query that its list contains."""
    return np.array([len({*line} & {*true}) / len(true) for line, true in zip(lists, truth, strict=True)])
