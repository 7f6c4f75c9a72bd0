"""What engines show about filters, through the commands that users type: rows removed, and scans."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import recallatk
from recallatk import load_run, to_html, to_markdown
from recallatk.core.losses import NOT_ASKED

ROWS, DIMENSION, K, EACH = 4_000, 16, 10, 30
# Half of the rows pass the first filter; so few pass the second that an engine may scan them.
BROAD, NARROW = 2_000, 20


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A corpus with a column to filter by, and queries under two filters."""
    folder = tmp_path_factory.mktemp("filtered")
    random = np.random.default_rng(0)

    def column(rows):
        return pa.FixedSizeListArray.from_arrays(
            pa.array(random.normal(size=rows * DIMENSION).astype("f4")), DIMENSION
        )

    corpus = {"vector": column(ROWS), "rank": random.permutation(ROWS)}
    pq.write_table(pa.table(corpus), folder / "corpus.parquet")
    filters = [f"rank < {count}" for count in (BROAD, NARROW) for _ in range(EACH)]
    pq.write_table(pa.table({"vector": column(2 * EACH), "filter": filters}), folder / "queries.parquet")
    return folder


def measured(files, tmp_path, name, build, search, *options):
    """The one trial of an engine as JSON; its run is in the folder `run`."""
    tables = [("build", build), ("search", search)]
    lines = [
        f'[data]\ncorpus = "{files}/corpus.parquet"\nqueries = "{files}/queries.parquet"\nmetric = "l2"',
        f'[truth]\nstore = "{files}/store"\n[limits]\nexplain = "10min"',
        f'[measure]\nat = {K}\nrounds = 1\n[[engine]]\nname = "{name}"',
        *(
            f"{table} = {{ {', '.join(f'{k} = {json.dumps(v)}' for k, v in of.items())} }}"
            for table, of in tables
        ),
    ]
    (tmp_path / "bench.toml").write_text("\n".join(lines))
    ran = recallatk("run", "bench.toml", "--json", "--out", "run", *options, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr + ran.stdout
    (trial,) = json.loads(ran.stdout)["trials"]
    assert trial["status"] == "done", trial["failure"]
    return trial


@pytest.mark.parametrize(
    ("name", "build", "search"),
    [
        ("pgvector-hnsw", {}, {"ef": 40}),
        ("pgvector-hnsw", {"storage": "bit"}, {"ef": 40, "rerank": 4}),
        ("pgvector-ivfflat", {"lists": 20}, {"probes": 2}),
    ],
)
def test_rows_that_the_filter_removed_are_counted(files, tmp_path, name, build, search):
    measured(files, tmp_path, name, build, search, "--explain")
    run = load_run(tmp_path / "run")
    (measurement,) = run.measurements
    evidence = measurement.loss
    asked = evidence.returned != NOT_ASKED
    queries, first = np.unique(evidence.query[asked], return_index=True)
    returned, removed = evidence.returned[asked][first], evidence.removed[asked][first]
    assert len(queries) == 20
    # Whatever the filter let pass is the answer, or its candidates.
    passed = (measurement.answers[queries] >= 0).sum(axis=1)
    assert (returned - removed >= passed).all()
    if build.get("storage") != "bit":
        assert (returned - removed == passed).all()
    if name == "pgvector-hnsw" and not build:
        assert (returned[passed < K] == 40).all()

    said = recallatk("explain", "run", "--json", cwd=tmp_path)
    (found,) = json.loads(said.stdout)["trials"]
    medians = {"returned": float(np.median(returned)), "removed": float(np.median(removed))}
    assert found["filtering"] == {"queries": 20, **medians}
    sentence = (
        f"{name}: the index returned {medians['returned']:,.10g} rows, the filter removed "
        f"{medians['removed']:,.10g} (median over 20 filtered queries that missed something)"
    )
    assert sentence in " ".join(recallatk("explain", "run", cwd=tmp_path).stdout.split())
    for text in (to_markdown(run), to_html(run)):
        assert "the filter removed" in text


def test_an_engine_that_does_not_count_says_nothing(files, tmp_path):
    measured(files, tmp_path, "faiss-ivf-flat", {"nlist": 16}, {"nprobe": 1}, "--explain")
    (found,) = json.loads(recallatk("explain", "run", "--json", cwd=tmp_path).stdout)["trials"]
    assert found["filtering"] is None
    assert "the filter removed" not in recallatk("explain", "run", cwd=tmp_path).stdout


@pytest.mark.parametrize(
    ("name", "build", "search"),
    [
        ("qdrant", {"M": 2, "ef_construct": 4}, {"hnsw_ef": 1}),
        ("lancedb", {"index": "IVF_HNSW_FLAT", "partitions": 1, "M": 4, "ef_construction": 10}, {"ef": K}),
    ],
)
def test_the_switch_to_a_scan_is_found(files, tmp_path, name, build, search):
    trial = measured(files, tmp_path, name, build, search)
    switch = trial["filters"]["scan_switch"]
    assert switch["group_before"] == "10 to 100 % of the rows"
    assert switch["group"] == "0.1 to 1 % of the rows"
    if name == "qdrant":
        assert "%) walked the graph, the others have filters that few points pass" in trial["evidence"]
        assert "switches to a scan at 0.1 to 1 % of the rows" in to_markdown(load_run(tmp_path / "run"))
    audited = recallatk("audit", "run", cwd=tmp_path)
    assert "R40" in audited.stdout
