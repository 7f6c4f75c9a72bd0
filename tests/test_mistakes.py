"""Plausible mistakes on the command line, in bench files and in Python: each message names the fix."""

import json
import shlex
import warnings
from dataclasses import dataclass

import chromadb
import faiss
import hnswlib
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import recallatk
from recallatk.bench.settings import settings_from
from recallatk.cli import app
from recallatk.errors import RecallError

ROWS, QUERIES, DIMENSION = 120, 20, 4


@dataclass(frozen=True)
class Mistake:
    """What somebody wrote, and a part of the message that tells what to write instead."""

    what: str
    written: object
    fix: str


def mistake(what, written, fix):
    return pytest.param(Mistake(what, written, fix), id=what.replace(" ", "-"))


COMMAND_LINE = [
    mistake("a misspelled command", "tunee c.parquet", "Did you mean 'tune'"),
    mistake("another tool's command", "benchmark c.parquet", "No such command 'benchmark'"),
    mistake("a misspelled option", "run c.parquet q.parquet --metrc l2", "--metric"),
    mistake("an option without a value", "run c.parquet q.parquet --metric", "requires an argument"),
    mistake("no arguments", "score", "Missing argument"),
    mistake(
        "a file that is not there", "run nowhere.parquet q.parquet --metric l2", "no such file or folder"
    ),
    mistake(
        "a bench file that is not there", "run bench.toml", "recallatk init CORPUS QUERIES --out bench.toml"
    ),
    mistake("a folder as a bench file", "run folder.toml", "recallatk init"),
    mistake("no queries", "run c.npy --metric l2", "Pass the queries too"),
    mistake(
        "no queries for the truth",
        "truth c.npy --metric l2",
        "Pass the queries too",
    ),
    mistake("no metric", "truth c.npy q.npy", "(--metric)"),
    mistake("no metric for init", "init c.npy q.npy", "State it: --metric cosine, ip or l2"),
    mistake("euclidean", "truth c.npy q.npy --metric euclidean", "Did you mean l2?"),
    mistake("dot", "run c.npy q.npy --metric dot", "Did you mean ip?"),
    mistake("angular", "init c.npy q.npy --metric angular", "Did you mean cosine?"),
    mistake(
        "inner_product",
        "tune c.npy q.npy --metric inner_product --target 'recall@10>=0.9'",
        "Did you mean ip?",
    ),
    mistake("the metric in capitals", "truth c.npy q.npy --metric COSINE", "Did you mean cosine?"),
    mistake("the engine hnsw", "run c.npy q.npy --metric l2 --engine hnsw", "Did you mean faiss-hnsw?"),
    mistake("an engine with underscores", "run c.npy q.npy --metric l2 --engine faiss_hnsw", "faiss-hnsw?"),
    mistake("the engine pgvector", "engines pgvector", "Did you mean pgvector-hnsw?"),
    mistake("the engine flat", "run c.npy q.npy --metric l2 --engine flat", "Did you mean exact?"),
    mistake("efSearch", "run c.npy q.npy --metric l2 --search efSearch=10", "Did you mean ef?"),
    mistake("ef_search", "run c.npy q.npy --metric l2 --search ef_search=10", "Did you mean ef?"),
    mistake("m", "run c.npy q.npy --metric l2 --build m=8", "Did you mean M?"),
    mistake("efConstruction", "run c.npy q.npy --metric l2 --build efConstruction=8", "ef_construction?"),
    mistake("a build parameter in --search", "run c.npy q.npy --metric l2 --search M=8", "--build M="),
    mistake("a search parameter in --build", "run c.npy q.npy --metric l2 --build ef=8", "--search ef="),
    mistake("a parameter without a value", "run c.npy q.npy --metric l2 --search ef", "--search ef=10,20,40"),
    mistake(
        "a parameter that is no number",
        "run c.npy q.npy --metric l2 --search ef=high",
        "whole numbers from 1",
    ),
    mistake(
        "a parameter of another engine", "run c.npy q.npy --metric l2 --search hnswlib.ef=8", "faiss-hnsw"
    ),
    mistake(
        "a filter for an engine that has none",
        "run c.parquet q.parquet --metric l2 --engine annoy --where \"color = 'red'\"",
        "recallatk: annoy cannot filter during search, and --where is a filter",
    ),
    mistake(
        "a group that is no column",
        "run c.parquet q.parquet --metric l2 --engine exact --by category --by colour",
        "recallatk: --by: no query column 'colour'",
    ),
    mistake(
        "a sample larger than the data",
        "run c.npy q.npy --metric l2 --engine exact --sample 10000",
        "recallatk: --sample: 10000. Accepted: up to",
    ),
    mistake("a number as a setting", "run c.npy q.npy --metric l2 --set M=8", "--build M="),
    mistake("cutoffs with spaces", "run c.npy q.npy --metric l2 --at '1 10'", "such as 1,10,100"),
    mistake("a cutoff of 0", "run c.npy q.npy --metric l2 --at 0", "whole numbers from 1"),
    mistake("a bench file and a metric", "run good.toml --metric l2", "cannot be combined with a bench file"),
    mistake("a bench file and queries", "tune good.toml q.npy", "cannot be combined with a bench file"),
    mistake("no target", "tune c.npy q.npy --metric l2", '--target "recall@10 >= 0.95"'),
    mistake("a number as a target", "tune c.npy q.npy --metric l2 --target 95", "recall@10 >= 95%?"),
    mistake("a share as a target", "tune c.npy q.npy --metric l2 --target 0.95", "recall@10 >= 0.95?"),
    mistake("a percentage as a share", "tune c.npy q.npy --metric l2 --target 'recall@10 >= 95'", "95%?"),
    mistake("a target without k", "tune c.npy q.npy --metric l2 --target 'recall >= 0.9'", "recall@10?"),
    mistake(
        "a target with =", "tune c.npy q.npy --metric l2 --target 'recall@10 = 0.9'", "recall@10 >= 0.9?"
    ),
    mistake(
        "a target without a sign", "tune c.npy q.npy --metric l2 --target recall@10", "recall@10 >= 0.95?"
    ),
    mistake("a target downwards", "tune c.npy q.npy --metric l2 --target 'recall@10 <= 0.9'", "recall@10 >="),
    mistake("R@10", "tune c.npy q.npy --metric l2 --target 'R@10 >= 0.9'", "Did you mean recall@10?"),
    mistake("ndcg in a target", "tune c.npy q.npy --metric l2 --target 'ndcg@10 >= 0.9'", "ndcg_truth@10"),
    mistake("a loss without qrels", "tune c.npy q.npy --metric l2 --target 'nDCG@10 loss <= 0.01'", "qrels"),
    mistake(
        "latency as a budget",
        "tune c.npy q.npy --metric l2 --target 'recall@10>=0.9' --budget 'latency <= 5ms'",
        "Did you mean p95?",
    ),
    mistake(
        "a budget without a unit",
        "tune c.npy q.npy --metric l2 --target 'recall@10>=0.9' --budget 'p95 <= 5'",
        "5ms",
    ),
    mistake(
        "an unknown preference",
        "tune c.npy q.npy --metric l2 --target 'recall@10>=0.9' --prefer p59",
        "Did you mean p95?",
    ),
    mistake(
        "cost without a price",
        "tune c.npy q.npy --metric l2 --target 'recall@10>=0.9' --prefer cost",
        "--price 0.34/h",
    ),
    mistake("a price without a unit", "run c.npy q.npy --metric l2 --price 0.34", "such as 0.34/h"),
    mistake(
        "a misspelled measure",
        "score truth.parquet answers.npy --measure recal@10",
        "Did you mean recall@10?",
    ),
    mistake(
        "a measure without k", "score truth.parquet answers.npy --measure recall", "Did you mean recall@10?"
    ),
    mistake("an ambiguous measure", "score truth.parquet answers.npy --measure ndcg@10", "ndcg_truth@10"),
    mistake("a misspelled column", "score truth.parquet answers.npy --by categry", "Did you mean category?"),
    mistake(
        "a column of the truth",
        "truth c.parquet q.parquet --metric l2 --by categry",
        "Did you mean category?",
    ),
    mistake(
        "a misspelled column of run",
        "run c.parquet q.parquet --metric l2 --by categry",
        "Did you mean category?",
    ),
    mistake("k beyond the truth", "score truth.parquet answers.npy --at 500", "--depth"),
    mistake("answers as the truth", "score answers.npy truth.parquet", "recallatk score TRUTH ANSWERS"),
    mistake("vectors as answers", "score truth.parquet c.npy", "Accepted"),
    mistake("a folder that is no run", "show folder", "run.json"),
    mistake("no such run", "report nowhere", "recallatk runs FOLDER"),
    mistake("an unknown export format", "export folder --to cvs --out x", "Did you mean csv?"),
    mistake("an unknown ending", "convert c.npy out.pickle", "npy"),
    mistake(
        "a misspelled filter column", "truth c.parquet q.parquet --metric l2 --where 'colr = 1'", "color"
    ),
    mistake("a broken filter", "truth c.parquet q.parquet --metric l2 --where 'color == 1'", "color"),
    mistake("a sample of too many", "truth c.npy q.npy --metric l2 --sample 5000", "20"),
    mistake("other dimensions", "truth c.npy wide.npy --metric l2", "dimension mismatch"),
    mistake("NaN in the data", "truth bad.npy q.npy --metric l2", "Accepted: finite numbers"),
    mistake("vectors of zeros under cosine", "truth zero.npy q.npy --metric cosine", "zero"),
    mistake("a flat array", "truth flat.npy q.npy --metric l2", "matrix"),
    mistake("ids as vectors", "truth ids.npy q.npy --metric l2", "float"),
    mistake("resume without a run", "run c.npy q.npy --metric l2 --resume --out none", "Omit --resume"),
]

GOOD = {
    "data": {"corpus": "c.npy", "queries": "q.npy", "metric": "l2"},
    "engine": [{"name": "faiss-hnsw", "search": {"ef": [10, 20]}}],
}
BENCH_FILE = [
    mistake("no data", {"data": {}}, "data.corpus: is required"),
    mistake("no engine", {"engine": []}, "at least one [[engine]]"),
    mistake("a misspelled table", {"mesure": {}}, "Did you mean measure?"),
    mistake("a misspelled key", {"measure": {"round": 3}}, "Did you mean rounds?"),
    mistake("a text as a number", {"measure": {"rounds": "3"}}, "a whole number"),
    mistake("a number as a duration", {"limits": {"trial": 10}}, "10min"),
    mistake("a misspelled metric", {"data": {**GOOD["data"], "metric": "l2sq"}}, "Did you mean l2?"),
    mistake("one engine as a table", {"engine": {"name": "exact"}}, "[[engine]]"),
    mistake(
        "efSearch in the file",
        {"engine": [{"name": "hnswlib", "search": {"efSearch": 9}}]},
        "Did you mean ef?",
    ),
    mistake(
        "nlists", {"engine": [{"name": "faiss-ivf-flat", "build": {"nlists": 9}}]}, "Did you mean nlist?"
    ),
    mistake("M under search", {"engine": [{"name": "hnswlib", "search": {"M": 9}}]}, "[engine.build]"),
    mistake(
        "a range downwards", {"engine": [{"name": "hnswlib", "search": {"ef": {"from": 9, "to": 1}}}]}, "from"
    ),
    mistake("depth below k", {"truth": {"depth": 5}}, "truth.depth"),
    mistake("a bad goal", {"tune": {"target": "recall@10 >= 95"}}, "95%?"),
    mistake("a free price", {"cost": {"per_hour": 0}}, "above 0"),
    mistake("a currency alone", {"cost": {"currency": "USD"}}, "per_hour"),
    mistake("a password in a URL", {"data": {"corpus": "https://me:secret@host/c.npy"}}, "${NAME}"),
]


def vectors(rows=ROWS, dimension=DIMENSION, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, dimension)).astype("float32")


def small_truth():
    return recallatk.ground_truth(small(), depth=1)


def small_run():
    return recallatk.measure(flat_index(), small(), at=[1], rounds=1)


def flat_index():
    index = faiss.IndexFlatL2(vectors().shape[1])
    index.add(vectors())
    return index


def bare_collection():
    """A collection of vectors alone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        made = chromadb.EphemeralClient().create_collection(
            "bare-mistakes", configuration={"hnsw": {"space": "l2"}}, embedding_function=None
        )
    made.add(ids=[str(row) for row in range(ROWS)], embeddings=vectors())
    return made


def small():
    return recallatk.open_dataset("c.npy", "q.npy", metric="l2")


PYTHON = [
    mistake("Metric euclidean", lambda: recallatk.Metric("euclidean"), "Did you mean l2?"),
    mistake("open_dataset with dot", lambda: recallatk.open_dataset("c.npy", "q.npy", metric="dot"), "ip?"),
    mistake("parse_measure", lambda: recallatk.parse_measure("recal@10"), "Did you mean recall@10?"),
    mistake(
        "an engine by another name", lambda: recallatk.measure("hnsw", small()), "Did you mean faiss-hnsw?"
    ),
    mistake(
        "a parameter by another name",
        lambda: recallatk.measure("faiss-hnsw", small(), search={"efSearch": 5}),
        "Did you mean ef?",
    ),
    mistake(
        "a build parameter out of range",
        lambda: recallatk.measure("faiss-hnsw", small(), build={"M": -1}),
        "Accepted: whole numbers",
    ),
    mistake(
        "a file that is missing", lambda: recallatk.open_dataset("nowhere.npy", metric="l2"), "no such file"
    ),
    mistake("a flat corpus", lambda: recallatk.make_corpus(np.zeros(3, "float32")), "matrix"),
    mistake("a bench file that is missing", lambda: recallatk.read_settings("no.toml"), "recallatk init"),
    mistake(
        "a load by its name",
        lambda: recallatk.measure("exact", small(), load="throughput"),
        "recallatk.Load(",
    ),
    mistake("cutoffs as text", lambda: recallatk.measure("exact", small(), at="1,10"), "at=[1, 10]"),
    mistake(
        "parameters as text",
        lambda: recallatk.measure("faiss-hnsw", small(), search="ef=8"),
        "is not a dict of parameters. Accepted",
    ),
    mistake(
        "an index in another row order",
        lambda: recallatk.measure(
            flat_index(), vectors()[::-1], vectors(QUERIES, seed=1), metric="l2", at=[1]
        ),
        "in the order in which it was indexed",
    ),
    mistake(
        "an index of another dimension",
        lambda: recallatk.measure(flat_index(), vectors(ROWS, 7), vectors(QUERIES, 7), metric="l2", at=[1]),
        "dimension mismatch",
    ),
    mistake(
        "an index by another metric",
        lambda: recallatk.measure(flat_index(), vectors(), vectors(QUERIES, seed=1), metric="cosine", at=[1]),
        "metric='l2'",
    ),
    mistake("answers first", lambda: recallatk.score([[1]], small_truth()), "score(truth=…, answers=…)"),
    mistake(
        "a frame without vectors",
        lambda: recallatk.open_corpus(pd.DataFrame({"id": [1], "name": ["a"]})),
        "no column holds lists of numbers (columns: id: int64",
    ),
    mistake("a class as an index", lambda: recallatk.measure(faiss.IndexFlatL2, small()), "is a class"),
    mistake(
        "an index in a pair", lambda: recallatk.measure((flat_index(), "items"), small()), "of type tuple"
    ),
    mistake(
        "faiss's own search",
        lambda: recallatk.measure(flat_index().search, small(), at=[1], rounds=1),
        "faiss has scores first",
    ),
    mistake(
        "a function of one argument",
        lambda: recallatk.measure(lambda queries: [], small(), at=[1], rounds=1),
        "it raised TypeError",
    ),
    mistake("a mask as a filter", lambda: recallatk.measure("exact", small(), where=[True]), "price < 20"),
    mistake(
        "rounds as text", lambda: recallatk.measure("exact", small(), rounds="3"), "whole numbers from 1"
    ),
    mistake("no threads", lambda: recallatk.measure("exact", small(), threads=0), "threads = 0. Accepted"),
    mistake("a seed as text", lambda: recallatk.measure("exact", small(), seed="a"), "whole numbers from 0"),
    mistake("limits as a dict", lambda: recallatk.measure("exact", small(), limits={}), "recallatk.Limits("),
    mistake(
        "a number as a search",
        lambda: recallatk.measure("exact", small(), search=5),
        "is not a dict of parameters. Accepted",
    ),
    mistake("a number as a load", lambda: recallatk.measure("exact", small(), load=4), "recallatk.Load("),
    mistake(
        "a number as a measure",
        lambda: recallatk.measure("exact", small(), measures=[3]),
        "3 is no measure. Accepted: text",
    ),
    mistake(
        "an explanation without evidence",
        lambda: recallatk.explain(recallatk.measure("exact", small(), at=[1], rounds=1)),
        "Collect it: measure(…, explain=True)",
    ),
    mistake(
        "a recall beyond the truth",
        lambda: recallatk.score(
            truth=recallatk.ground_truth(small(), depth=5), answers=[[1]] * QUERIES, at=[3, 7]
        ),
        "--depth 7",
    ),
    mistake(
        "a number as one of the filters",
        lambda: recallatk.open_queries(
            pd.DataFrame({"vector": list(vectors(3)), "filter": ["color = 'red'", None, 5]})
        ),
        "the filter of row 2 is 5",
    ),
    mistake("no target for tune", lambda: recallatk.tune(small()), 'target="recall@10 >= 0.95"'),
    mistake(
        "no rows",
        lambda: recallatk.open_corpus(vectors()[:0]),
        "an array of shape (0, 4). Accepted: ",
    ),
    mistake(
        "filters on an index that has none",
        lambda: recallatk.measure(
            hnswlib.BFIndex("l2", DIMENSION), "c.parquet", "q.parquet", metric="l2", where="color = 'red'"
        ),
        "cannot filter during search",
    ),
    mistake(
        "a collection without the column of a filter",
        lambda: recallatk.measure(
            bare_collection(), "c.parquet", "q.parquet", metric="l2", where="color = 'red'", at=[1], rounds=1
        ),
        "has no 'color' for 0 to filter by",
    ),
    mistake("a target as a number", lambda: small_run().best(0.95), "recall@10 >= 0.95"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with small files of every kind that a mistake names."""
    place = tmp_path_factory.mktemp("mistakes")
    corpus, queries = vectors(), vectors(QUERIES, seed=1)
    np.save(place / "c.npy", corpus)
    np.save(place / "q.npy", queries)
    np.save(place / "wide.npy", vectors(QUERIES, 7))
    np.save(place / "flat.npy", corpus[0])
    np.save(place / "ids.npy", np.arange(12).reshape(3, 4))
    np.save(place / "answers.npy", np.tile(np.arange(10), (QUERIES, 1)))
    np.save(place / "bad.npy", np.where(corpus > 2, np.nan, corpus))
    np.save(place / "zero.npy", np.where(np.arange(ROWS)[:, None] == 3, 0, corpus))
    colors, kinds = ["red", "blue"] * (ROWS // 2), ["a", "b"] * (QUERIES // 2)
    pq.write_table(
        pa.table({"id": range(ROWS), "vector": list(corpus), "color": colors}), place / "c.parquet"
    )
    pq.write_table(
        pa.table({"id": range(QUERIES), "vector": list(queries), "category": kinds}), place / "q.parquet"
    )
    dataset = recallatk.open_dataset(place / "c.parquet", place / "q.parquet", metric="l2")
    recallatk.save_truth(recallatk.ground_truth(dataset, depth=20), place / "truth.parquet")
    (place / "folder").mkdir()
    (place / "folder.toml").mkdir()
    (place / "good.toml").write_text(
        '[data]\ncorpus = "c.npy"\nqueries = "q.npy"\nmetric = "l2"\n[[engine]]\nname = "exact"\n'
    )
    return place


@pytest.fixture(autouse=True)
def inside(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.setenv("COLUMNS", "300")


@pytest.mark.parametrize("case", COMMAND_LINE)
def test_a_command_says_what_to_write_instead(case):
    ran = CliRunner().invoke(app, shlex.split(case.written))
    said = ran.output
    assert ran.exit_code == 2, said
    assert ran.exception is None or isinstance(ran.exception, SystemExit), ran.exception
    assert case.fix in said
    assert "Traceback" not in said


@pytest.mark.parametrize("case", BENCH_FILE)
def test_a_bench_file_is_refused_with_what_to_write(case):
    with pytest.raises(RecallError) as caught:
        settings_from({**GOOD, **case.written})
    assert case.fix in str(caught.value)


@pytest.mark.parametrize("case", PYTHON)
def test_a_call_is_refused_with_what_to_write(case):
    with pytest.raises(RecallError) as caught:
        case.written()
    assert case.fix in str(caught.value)


def test_arguments_that_are_none_or_single_have_their_usual_meaning():
    run = recallatk.measure(flat_index(), small(), search=None, at=None, build=None, load=None, rounds=1)
    assert list(run.measurements[0].score.measures) == ["recall@1", "recall@10", "recall@100"]
    assert recallatk.score(truth=[[1, 2]], answers=[[1, 3]], at=2)["recall@2"] == 0.5


def test_there_are_sixty_of_them():
    assert len(COMMAND_LINE) + len(BENCH_FILE) + len(PYTHON) >= 60


def test_an_old_name_in_a_bench_file_is_noted_once(folder):
    """The command line prints what Python would hide."""
    from commands import recallatk as command

    text = (folder / "good.toml").read_text() + "[measure]\nk = [1]\n"
    (folder / "old.toml").write_text(text)
    ran = command("run", "old.toml", "--dry-run", "--json", cwd=folder)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)
    assert ran.stderr.count("[measure] k is deprecated and will be removed in 0.3; use [measure] at") == 1
