"""Every engine that filters, measured by `recallatk run` with filters of every type, against plain NumPy."""

import datetime as dt
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import recallatk
from recallatk import load_run
from recallatk.adapters.registry import get_engine, registered

ROWS, DIMENSION, K = 2_000, 16, 10
# Eligible rows at selectivities of 30 %, 3 % and 0.3 %.
COUNTS = (600, 60, 6)
GROUPS = ("('group 0', 'group 1', 'group 2')", "('group 1', 'group 2')", "('group 2')")
START = dt.date(2020, 1, 1)
FILTERING = [name for name in registered() if get_engine(name).abilities.filters]
# Parameters at which an index of these rows finds everything.
BUILD = {
    "faiss-ivf-flat": {"nlist": 4},
    "faiss-ivf-pq": {"nlist": 4},
    "faiss-ivf-sq8": {"nlist": 4},
    "pgvector-ivfflat": {"lists": 4},
}
SEARCH = {
    "chroma": {"ef_search": ROWS},
    "faiss-hnsw": {"ef": ROWS},
    "faiss-ivf-flat": {"nprobe": 4},
    "faiss-ivf-pq": {"nprobe": 4, "k_factor": 64},
    "faiss-ivf-sq8": {"nprobe": 4},
    "lancedb": {"probes": 2000, "refine": 100},
    "milvus": {"ef": ROWS},
    "pgvector-hnsw": {"ef": 1000, "iterative_scan": "strict_order"},
    "pgvector-ivfflat": {"probes": 4},
    "qdrant": {"hnsw_ef": ROWS},
}
# Engines that keep a byte for each dimension cannot tell near neighbors apart.
LOSSY = {"faiss-ivf-sq8": 0.95, "faiss-sq": 0.95}
# Kinds of conditions that a database has no operator for.
REFUSED = {"chroma": {"order", "prefix", "null"}, "qdrant": {"order"}}


def level(rank):
    """0 for the rows of the widest filter alone, 2 for those of all three; -1 for the others."""
    return sum(rank < count for count in COUNTS) - 1


# Of each kind of condition: the type of its column, the value of the row with this rank, and the text of the
# filter that lets the first rows pass. The ranks are the oracle.
KINDS = {
    "int": (pa.int32(), lambda rank: rank, lambda name, count: f"{name} < {count}"),
    "float": (pa.float32(), lambda rank: rank / 8, lambda name, count: f"{name} <= {(count - 1) / 8}"),
    "text": (
        pa.string(),
        lambda rank: f"group {level(rank)}",
        lambda name, count: f"{name} in {GROUPS[COUNTS.index(count)]}",
    ),
    "order": (pa.string(), lambda rank: f"é{rank:04}", lambda name, count: f"{name} < 'é{count:04}'"),
    "prefix": (
        pa.string(),
        lambda rank: "/".join(["a%", "b", "c"][: level(rank) + 1]) + f"/{rank}",
        lambda name, count: f"{name} starts with '{'/'.join(['a%', 'b', 'c'][: COUNTS.index(count) + 1])}/'",
    ),
    "date": (
        pa.date32(),
        lambda rank: START + dt.timedelta(rank),
        lambda name, count: f"{name} < '{START + dt.timedelta(count)}'",
    ),
    "moment": (
        pa.timestamp("ms", "UTC"),
        lambda rank: rank * 250,
        lambda name, count: (
            f"{name} < '{dt.datetime(1970, 1, 1, 2) + dt.timedelta(seconds=count / 4)}+02:00'"
        ),
    ),
    "tags": (
        pa.list_(pa.string()),
        lambda rank: None if rank % 7 == 6 and rank > COUNTS[0] else ["t0", "t1", "t2"][: level(rank) + 1],
        lambda name, count: f"{name} contains all ('t0', 't{COUNTS.index(count)}')",
    ),
    "numbers": (
        pa.list_(pa.int64()),
        lambda rank: [rank, rank // 6],
        lambda name, count: f"{name} contains any ({', '.join(map(str, range(count // 6)))})",
    ),
}
# A column for each selectivity, because two values or a null cannot have three.
FLAGS = {
    "bool": (pa.bool_(), lambda rank, count: rank < count, lambda name: name),
    "null": (pa.int64(), lambda rank, count: None if rank < count else rank, lambda name: f"{name} is null"),
}


def passing(kind, rank, count):
    """Whether the row of this rank passes."""
    return rank // 6 < count // 6 if kind == "numbers" else rank < count


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The folder, both matrices, and of each query its kind, its filter and which rows are eligible."""
    folder = tmp_path_factory.mktemp("filtered")
    random = np.random.default_rng(0)
    columns, asked = {}, []
    for kind, (stored, value, text) in KINDS.items():
        ranks = random.permutation(ROWS)
        columns[kind] = pa.array([value(rank) for rank in ranks.tolist()], stored)
        asked += [
            (kind, text(f'"{kind}"', count), [passing(kind, r, count) for r in ranks]) for count in COUNTS
        ]
    for kind, (stored, value, text) in FLAGS.items():
        for count in COUNTS:
            ranks = random.permutation(ROWS)
            columns[f"{kind}{count}"] = pa.array([value(rank, count) for rank in ranks.tolist()], stored)
            asked.append((kind, text(f"{kind}{count}"), (ranks < count).tolist()))
    asked += [
        ("nothing", '"int" < 0', [False] * ROWS),
        ("unknown", "tags contains 'unknown'", [False] * ROWS),
    ]
    vectors = random.normal(size=(ROWS, DIMENSION)).astype("float32")
    columns["vector"] = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), DIMENSION)
    pq.write_table(pa.table(columns), folder / "corpus.parquet")
    queries = random.normal(size=(len(asked), DIMENSION)).astype("float32")
    return folder, vectors, queries, asked


def measured(name, data, tmp_path):
    """The queries that an engine takes, its trial and its answers, by the command that users type."""
    folder, _, queries, asked = data
    taken = [number for number, (kind, _, _) in enumerate(asked) if kind not in REFUSED.get(name, ())]
    columns = {
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(queries[taken].ravel()), DIMENSION),
        "filter": [asked[number][1] for number in taken],
    }
    pq.write_table(pa.table(columns), tmp_path / "queries.parquet")
    lines = [
        'name = "filtered"',
        f'[data]\ncorpus = "{folder / "corpus.parquet"}"\nqueries = "queries.parquet"\nmetric = "l2"',
        f'[truth]\nstore = "{folder / "store"}"',
        f"[measure]\nat = {K}\nrounds = 1",
        f'[[engine]]\nname = "{name}"\n[engine.build]',
        *(f"{key} = {json.dumps(value)}" for key, value in BUILD.get(name, {}).items()),
        "[engine.search]",
        *(f"{key} = {json.dumps(value)}" for key, value in SEARCH.get(name, {}).items()),
    ]
    (tmp_path / "bench.toml").write_text("\n".join(lines))
    ran = recallatk("run", "bench.toml", "--json", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr + ran.stdout
    (trial,) = json.loads(ran.stdout)["trials"]
    assert trial["status"] == "done", trial["failure"]
    (measurement,) = load_run(tmp_path / "runs" / "filtered").measurements
    return taken, trial, measurement.answers


@pytest.mark.parametrize("name", FILTERING)
def test_filtered_recall_is_that_of_plain_python(name, data, tmp_path):
    _, vectors, queries, asked = data
    taken, trial, answers = measured(name, data, tmp_path)
    recalls = []
    for number, answer in zip(taken, answers.tolist(), strict=True):
        eligible = np.flatnonzero(asked[number][2])
        returned = [row for row in answer if row >= 0]
        assert set(returned) <= set(eligible.tolist()), asked[number][1]
        distances = ((vectors[eligible].astype(float) - queries[number]) ** 2).sum(axis=1)
        true = eligible[np.argsort(distances)[:K]].tolist()
        if true:
            recalls.append(len(set(returned) & set(true)) / len(true))
    assert trial["measures"]["recall@10"]["value"] == pytest.approx(np.mean(recalls))
    assert np.mean(recalls) >= LOSSY.get(name, 0.99)
