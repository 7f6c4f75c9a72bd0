"""Synthetic workloads: exact selectivity, requested correlation, deterministic, marked in every output."""

import json
import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import recallatk
from commands import recallatk as command
from recallatk import RecallError

ROWS, QUERIES, DIMENSION = 3_000, 60, 8
LEVELS = (0.5, 0.1, 0.01, 0.002)


def run_command(*arguments, cwd, fails=False):
    done = command(*arguments, cwd=cwd)
    assert (done.returncode != 0) == fails, done.stderr
    return done


def made(metric="l2", seed=0, **settings):
    random = np.random.default_rng(3)
    corpus = random.standard_normal((ROWS, DIMENSION)).astype("float32")
    queries = random.standard_normal((QUERIES, DIMENSION)).astype("float32")
    return recallatk.workload(corpus, queries, metric=metric, seed=seed, selectivities=LEVELS, **settings)


def nearest(dataset, query, count):
    rows = dataset.corpus.vectors.read(0, ROWS).astype(float)
    vector = dataset.queries.vectors.read(query, query + 1)[0].astype(float)
    if dataset.metric == "l2":
        return np.argsort(np.linalg.norm(rows - vector, axis=1))[:count]
    lengths = np.linalg.norm(rows, axis=1) if dataset.metric == "cosine" else 1.0
    return np.argsort(-(rows @ vector) / lengths)[:count]


@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
def test_selectivity_is_exact_and_correlation_has_its_sign(metric):
    dataset = made(metric).dataset
    labels = dataset.queries.metadata
    wanted = np.array(labels["synthetic_selectivity"])
    kinds = np.array(labels["synthetic_correlation"].to_pylist())
    assert (dataset.eligibility.counts == np.round(wanted * ROWS)).all()
    lift = {kind: [] for kind in ("negative", "none", "positive")}
    for query in range(QUERIES):
        near = nearest(dataset, query, 30)
        passed = dataset.queries.filters[query].mask(dataset.corpus.metadata)
        lift[kinds[query]].append(passed[near].mean() - wanted[query])
    assert np.mean(lift["negative"]) < -0.05
    assert abs(np.mean(lift["none"])) < 0.05
    assert np.mean(lift["positive"]) > 0.1


def test_every_selective_positive_filter_is_around_its_query():
    dataset = made().dataset
    labels = dataset.queries.metadata
    for query in range(QUERIES):
        share = labels["synthetic_selectivity"][query].as_py()
        if labels["synthetic_correlation"][query].as_py() == "positive" and share < 0.1:
            passed = dataset.queries.filters[query].mask(dataset.corpus.metadata)
            # Groups of one level share rows among them, so a query may get some from farther away.
            assert passed[nearest(dataset, query, 100)].mean() > 2 * share


def test_the_same_seed_gives_the_same_filters_and_another_seed_others():
    assert made().dataset.queries.filters == made().dataset.queries.filters
    assert made().dataset.corpus.metadata.equals(made().dataset.corpus.metadata)
    assert made().dataset.queries.filters != made(seed=1).dataset.queries.filters


def test_every_cell_gets_as_many_queries_or_one_more():
    cells = made().cells
    assert len(cells) == 12
    assert {each.queries for each in cells} == {5}
    assert [each.rows for each in cells if each.correlation == "none"] == [1500, 300, 30, 6]


def test_crossed_gives_every_query_every_filter():
    workload = made(crossed=True)
    queries = workload.dataset.queries
    assert queries.rows == QUERIES * 12
    assert len(set(queries.ids.to_pylist())) == queries.rows
    assert sorted(set(queries.metadata["synthetic_source"].to_pylist())) == list(range(QUERIES))
    vectors = queries.vectors.read(0, queries.rows)
    assert (vectors[:QUERIES] == vectors[QUERIES : 2 * QUERIES]).all()


def test_crossed_queries_keep_a_column_named_id_that_holds_no_ids(tmp_path):
    vectors = np.random.default_rng(4).standard_normal((60, 4)).astype("float32")
    keys, other = [f"k{row}" for row in range(60)], [row % 3 for row in range(60)]
    lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 4)
    pq.write_table(pa.table({"key": keys, "vector": lists}), tmp_path / "corpus.parquet")
    pq.write_table(pa.table({"key": keys, "id": other, "vector": lists}), tmp_path / "queries.parquet")
    files, how = (
        [tmp_path / "corpus.parquet", tmp_path / "queries.parquet"],
        {"metric": "l2", "crossed": True},
    )
    found = recallatk.workload(*files, id_column="key", selectivities=[0.5, 0.1], **how).dataset.queries
    assert found.ids.to_pylist() == list(range(360))
    assert found.metadata["id"].to_pylist() == other * 6
    assert found.metadata["synthetic_source"].to_pylist() == keys * 6
    # A written file has its ids in the column id.
    options = ("--metric", "l2", "--id-column", "key", "--selectivity", "50%", "--crossed")
    refused = run_command("workload", *files, *options, cwd=tmp_path, fails=True)
    assert "the column 'id' clashes with the id column that is written" in refused.stderr
    # The same in memory, where row numbers are the ids.
    queries = recallatk.make_queries(vectors, metadata={"id": other})
    found = recallatk.workload(vectors, queries, selectivities=[0.5], **how).dataset
    assert found.queries.ids.to_pylist() == list(range(180))
    assert found.queries.metadata["id"].to_pylist() == other * 3


def test_crossed_queries_that_are_corpus_rows_exclude_them_all_the_same():
    vectors = np.random.default_rng(4).standard_normal((60, 4)).astype("float32")
    queries = replace(recallatk.make_queries(vectors[:20]), corpus_rows=np.arange(20))
    dataset = recallatk.open_dataset(vectors, queries, metric="l2")
    found = recallatk.workload(dataset, selectivities=[0.5], crossed=True).dataset
    rows = recallatk.ground_truth(found, depth=5).rows
    assert len(rows) == 60 and not (rows == np.tile(np.arange(20), 3)[:, None]).any()


def test_selectivities_of_less_than_a_row_are_left_out_and_named():
    vectors = np.eye(50, 8, dtype="float32") + np.arange(50)[:, None].astype("float32")
    found = recallatk.workload(vectors, vectors[:20], metric="l2", selectivities=[0.1, 0.001])
    assert found.left_out == (0.001,)
    assert {each.selectivity for each in found.cells} == {0.1}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"selectivities": [0.0]}, "selectivity 0 (0 %). Accepted: above 0 and below 1"),
        ({"selectivities": [1.5]}, "selectivity 1.5 (150 %)"),
        ({"selectivities": [1e-9]}, "too few for a selectivity"),
        ({"correlations": ["strong"]}, "'strong'. Accepted: negative, none or positive"),
        ({"correlations": []}, "at least one selectivity and one correlation"),
        ({"selectivities": [0.5] + [0.1 / n for n in range(1, 30)]}, "--crossed"),
    ],
)
def test_impossible_axes_are_refused(settings, said):
    vectors = np.random.default_rng(0).standard_normal((200, 4)).astype("float32")
    with pytest.raises(RecallError, match=re.escape(said)):
        recallatk.workload(vectors, vectors[:20], metric="l2", **settings)


def test_data_with_filters_or_a_workload_are_refused():
    workload = made()
    with pytest.raises(RecallError, match=r"have filters already.*Remove it from the file"):
        recallatk.workload(workload.dataset)
    plain = recallatk.make_queries(np.ones((20, DIMENSION), "float32"))
    with pytest.raises(RecallError, match="begins with 'synthetic_'"):
        recallatk.workload(workload.dataset.corpus, plain, metric="l2")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A workload written by the command, in a folder with a blank in its name."""
    folder = tmp_path_factory.mktemp("work load")
    random = np.random.default_rng(5)
    np.save(folder / "corpus.npy", random.standard_normal((800, 8)).astype("float32"))
    np.save(folder / "queries.npy", random.standard_normal((40, 8)).astype("float32"))
    out = run_command(
        "workload", "corpus.npy", "queries.npy", "--metric", "l2", "--selectivity", "50%,5%", cwd=folder
    )
    return folder, out.stdout


def test_the_command_writes_two_files_and_the_next_step(files):
    folder, said = files
    assert "rows that pass" in said
    assert "The filters are synthetic." in said
    assert "Next: recallatk run queries-filtered-corpus.parquet queries-filtered.parquet" in said
    table = pq.read_table(folder / "queries-filtered.parquet")
    assert {"filter", "synthetic_selectivity", "synthetic_correlation"} <= set(table.column_names)


def test_existing_files_are_kept_without_force(files):
    folder, _ = files
    again = run_command("workload", "corpus.npy", "queries.npy", "--metric", "l2", cwd=folder, fails=True)
    assert "already exists" in again.stderr


def test_every_later_output_says_synthetic(files):
    folder, _ = files
    data = ("queries-filtered-corpus.parquet", "queries-filtered.parquet", "--metric", "l2")
    ran = run_command(
        "run", *data, "--engine", "exact", "--rounds", "1", "--out", "ran", "--at", "5", cwd=folder
    )
    assert "queries with synthetic filters" in ran.stdout
    assert "with synthetic filters" in run_command("show", "ran", cwd=folder).stdout
    assert json.loads(run_command("show", "ran", "--json", cwd=folder).stdout)["synthetic_filters"] is True
    assert "with synthetic filters" in (folder / "ran" / "report.html").read_text()
    truth = run_command("truth", *data, "--out", "truth.parquet", "--depth", "5", cwd=folder)
    assert "the filters are synthetic" in truth.stdout
    answers = recallatk.load_truth(folder / "truth.parquet").rows
    np.save(folder / "answers.npy", answers)
    scored = run_command("score", "truth.parquet", "answers.npy", "--at", "5", cwd=folder)
    assert "The filters are synthetic." in scored.stdout
