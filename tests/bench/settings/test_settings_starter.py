"""Starter files and implied settings: made for the data, and usable as they are."""

import tomllib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recallatk.adapters import registered
from recallatk.bench.plan import make_plan
from recallatk.bench.settings import SettingsError, open_data, read_settings, settings_from
from recallatk.bench.starter import implied, starter
from recallatk.datasets.demo import DEMO_FOLDER
from recallatk.errors import RecallError, UsageError

OURS = [name for name, entry in registered().items() if entry.package == "recallatk"]


def write(path, rows, dimension=8, unit=False, **columns):
    matrix = np.random.default_rng(rows).normal(size=(rows, dimension))
    if unit:
        matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel(), pa.float32()), dimension)
    pq.write_table(pa.table({"id": range(rows), "vector": vectors, **columns}), path)
    return path


@pytest.fixture
def files(tmp_path):
    folder = tmp_path / "with space"
    folder.mkdir()
    odd = ['it\'s "odd"\n', "b"]
    corpus = write(
        folder / "my corpus.parquet",
        2000,
        **{
            "kind": odd * 1000,
            "publication year": [1990 + row % 30 for row in range(2000)],
            "text": [f"text {row}" for row in range(2000)],
            "score": [float("nan"), 1.5] * 1000,
            "nothing": pa.nulls(2000, pa.string()),
            "tags": [["a"]] * 2000,
        },
    )
    queries = write(folder / "queries.parquet", 30, kind=odd * 15, text=[f"q{n}" for n in range(30)])
    return corpus, queries


def saved(folder, text):
    (folder / "bench.toml").write_text(text)
    return folder / "bench.toml"


def uncommented(text):
    """The file with every suggestion in it taken, one of a kind."""
    taken, lines = set(), []
    for line in text.splitlines():
        key = line.removeprefix("# ").partition(" = ")[0]
        is_suggestion = line.startswith("# ") and (" = " in line or line.startswith("# [")) and ":" not in key
        if is_suggestion and key not in taken:
            taken.add(key) if key == "where" else None
            line = line.removeprefix("# ")
        lines.append(line)
    return "\n".join(lines)


def test_a_starter_reads_back_and_opens_the_data(files):
    corpus, queries = files
    file = saved(corpus.parent, starter(corpus, queries, metric="l2", folder=corpus.parent))
    settings = read_settings(file)
    assert settings.data.corpus == str(corpus)
    assert 'corpus = "my corpus.parquet"' in file.read_text()
    dataset = open_data(settings)
    assert (dataset.corpus.rows, dataset.queries.rows) == (2000, 30)


def test_what_a_starter_suggests_can_be_taken(files):
    corpus, queries = files
    text = starter(corpus, queries, metric="l2", folder=corpus.parent, engine="exact")
    settings = read_settings(saved(corpus.parent, uncommented(text)))
    assert settings.data.where and settings.data.split and settings.measure.by == ("kind",)
    assert {str(load.mode) for load in settings.loads} == {"latency", "throughput", "rate"}
    values = tomllib.loads(uncommented(text))
    del values["data"]["split"]
    dataset = open_data(settings_from(values, folder=corpus.parent))
    assert dataset.queries.filters and len(set(dataset.queries.filters)) == 1


def test_a_starter_knows_shape_columns_and_real_values(files):
    corpus, queries = files
    text = starter(corpus, queries, metric="l2")
    assert "2,000 rows and 30 queries of 8 dimensions" in text
    assert '# by = ["kind"]' in text
    assert "at = [1, 10, 100]" in text
    assert (
        r"""# where = "kind = 'it''s \"odd\"\n'"  # one filter for all queries; passes 50% of rows""" in text
    )
    assert r'''# where = "\"publication year\" >= 2004"''' in text


def test_a_starter_for_the_demo_data_measures_two_builds_at_six_efforts(tmp_path):
    settings = read_settings(saved(tmp_path, starter(DEMO_FOLDER, metric="cosine", folder=tmp_path)))
    plan = make_plan(settings, rows=20_000, dimension=384)
    assert (len(plan.builds), len(plan.trials), plan.dropped) == (2, 12, ())


@pytest.mark.parametrize("name", OURS)
def test_every_engine_has_a_starter_and_implied_settings(name, files):
    corpus, queries = files
    shape = {"rows": 2000, "dimension": 8}
    plan = make_plan(
        settings_from(tomllib.loads(starter(corpus, queries, metric="l2", engine=name))), **shape
    )
    assert plan.trials and len(plan.builds) <= 2
    assert plan.dropped == ()
    settings = implied(corpus, queries, [name], metric="l2", k=[1, 10, 100])
    assert settings_from(tomllib.loads(settings.to_toml())) == settings
    assert 1 <= len(make_plan(settings, **shape).trials) <= 6


@pytest.mark.parametrize("rows", [1, 12, 90, 300])
@pytest.mark.parametrize("name", ["faiss-hnsw", "hnswlib", "faiss-ivf-flat", "scann", "pgvector-ivfflat"])
def test_few_rows_have_a_starter_that_fits_them(tmp_path, rows, name):
    corpus, queries = write(tmp_path / "c.parquet", rows, 7), write(tmp_path / "q.parquet", 3, 7)
    try:
        text = starter(corpus, queries, metric="l2", engine=name)
    except SettingsError as problem:
        assert name == "scann" and rows < 16 and "at least 16 rows" in str(problem)
        return
    plan = make_plan(settings_from(tomllib.loads(text)), rows=rows, dimension=7)
    assert plan.trials and plan.dropped == ()


def test_codes_fit_the_dimension(tmp_path):
    corpus, queries = write(tmp_path / "c.parquet", 400, 15), write(tmp_path / "q.parquet", 3, 15)
    text = starter(corpus, queries, metric="l2", engine="faiss-ivf-pq")
    assert "\nM = 5 " in text


def test_the_metric_is_asked_for_unless_it_makes_no_difference(tmp_path):
    plain = write(tmp_path / "plain.parquet", 50), write(tmp_path / "asked.parquet", 5)
    with pytest.raises(UsageError, match=r"does not state its metric\. State it: --metric cosine, ip or l2"):
        starter(*plain)
    unit = write(tmp_path / "unit.parquet", 50, unit=True), write(tmp_path / "asked.parquet", 5, unit=True)
    assert 'metric = "cosine"  # all vectors have length 1' in starter(*unit)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"engine": "faiss-hsnw"}, "no engine 'faiss-hsnw'. Did you mean faiss-hnsw?"),
        ({"metric": "dot"}, "no metric 'dot'"),
        ({"metric": "ip", "engine": "sqlite-vec"}, "does not support the metric ip"),
        ({"queries": None}, "holds one matrix and no queries"),
    ],
)
def test_what_cannot_be_is_refused(files, arguments, said):
    corpus, queries = files
    with pytest.raises(RecallError, match=said):
        starter(corpus, **{"queries": queries, "metric": "l2", **arguments})


def test_queries_of_another_dimension_are_refused(tmp_path):
    corpus, queries = write(tmp_path / "c.parquet", 40, 8), write(tmp_path / "q.parquet", 3, 7)
    with pytest.raises(RecallError, match="8 dimensions and the queries have 7"):
        starter(corpus, queries, metric="l2")


def test_implied_settings_take_what_else_is_asked(files):
    corpus, queries = files
    settings = implied(
        corpus,
        queries,
        ["faiss-hnsw", "usearch"],
        metric="l2",
        k=[10],
        measure={"rounds": 5},
        data={"sample_queries": 20},
        load=[{"mode": "throughput", "clients": 2}],
    )
    assert (settings.measure.at, settings.measure.rounds, settings.data.sample_queries) == ((10,), 5, 20)
    assert [entry.search for entry in settings.engine] == [
        {"ef": {"from": 16, "to": 512, "steps": 6}},
        {"expansion": {"from": 16, "to": 512, "steps": 6}},
    ]


def test_implied_settings_refuse_an_unknown_engine_with_everything_else(files):
    with pytest.raises(SettingsError) as caught:
        implied(*files, ["faiss-hsnw"], metric="dot")
    assert len(caught.value.problems) == 2
