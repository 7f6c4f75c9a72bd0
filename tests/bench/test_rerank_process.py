"""Functions that fail on exact lists alone: they cost the trials of their path, and are named."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import recallatk
from recallatk import run
from recallatk.adapters.registry import declare
from recallatk.bench.job import TrialSettings, write_data
from recallatk.bench.path_truths import PathTruths
from recallatk.bench.rerank_process import RerankProcess
from recallatk.core import Trial
from recallatk.pipeline.path_engine import path_engine
from recallatk.tuning.query_split import Side, part_of

ROWS, QUERIES, DIMENSION = 200, 12, 6
LEG = {"retrieve": "exact", "oversample": 4}
BENCH = """
[data]
corpus = "corpus.parquet"
queries = "queries.parquet"
metric = "l2"

[measure]
at = [3]
rounds = 1

[[path]]
name = "trap"
k = 3
stages = [
  {{ retrieve = "exact", dimensions = 1, oversample = 2, search = {{}} }},
  {{ rerank = "trap_functions:trapped", timeout = 1 }},
]

[[path]]
name = "sound"
k = 3
stages = [
  {{ retrieve = "exact", oversample = 2 }},
  {{ rerank = "trap_functions:in_order" }},
]
"""
FUNCTIONS = """
import ctypes, os, signal, time


def in_order(query, candidates):
    return [-each.rank for each in candidates]


def by_id(query, candidates):
    return [(each.id * 37 + query.row) % 101 for each in candidates]


def trapped(query, candidates):
    # The first stage of this query never lists this row; exact search does.
    if query.row == {query} and {row} in [each.id for each in candidates]:
        {harm}
    return in_order(query, candidates)
"""


@pytest.fixture
def trap(tmp_path, monkeypatch):
    """A bench file with a function that does harm only where it is called for the truth."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(3)
    corpus, queries = (random.normal(size=(rows, DIMENSION)).astype("float32") for rows in (ROWS, QUERIES))
    for name, vectors in (("corpus", corpus), ("queries", queries)):
        columns = {"id": np.arange(len(vectors)), "vector": list(vectors), "text": ["amber"] * len(vectors)}
        pq.write_table(pa.table(columns), f"{name}.parquet")
    whole, short = (
        np.argsort(((queries[:, None, :width] - corpus[None, :, :width]) ** 2).sum(axis=2), axis=1)[:, :6]
        for width in (DIMENSION, 1)
    )
    row = next(int(each) for each in whole[7] if each not in short[7])
    (tmp_path / "bench.toml").write_text(BENCH.format())

    def written(harm):
        (tmp_path / "trap_functions.py").write_text(FUNCTIONS.format(query=7, row=row, harm=harm))
        return run("bench.toml", out="found")

    return written


@pytest.mark.parametrize(
    ("harm", "kind", "said"),
    [
        ("os._exit(3)", "crash", r"the process ended with code 3 while it ordered the exact lists.*Correct"),
        ("ctypes.string_at(0)", "crash", "the process ended with signal SIGSEGV while it ordered"),
        ("raise KeyError('lost')", "exception", "it raised KeyError: 'lost'"),
        ("time.sleep(100)", "exception", "it took longer than 1 s. Make it faster, or raise timeout = 1"),
    ],
)
def test_harm_done_on_exact_lists_costs_the_path_and_no_other(trap, harm, kind, said):
    found = trap(harm)
    (failure,) = found.failures
    assert (failure.trial.engine, failure.kind, failure.phase) == ("trap", kind, "truth")
    assert failure.message.startswith("trap: stage rerank (trap_functions:trapped), query 7: ")
    with pytest.raises(AssertionError, match=said):
        raise AssertionError(failure.message)
    (sound,) = found.measurements
    assert sound.trial.engine == "sound" and sound.score["recall@3"] == 1.0


def test_a_call_that_hangs_in_c_code_ends_with_its_process(trap, monkeypatch):
    monkeypatch.setattr("recallatk.bench.rerank_process._GRACE_SECONDS", 1.0)
    # As code in C that does not return to the interpreter, this does not notice its timeout.
    found = trap("signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM]), time.sleep(600)")
    (failure,) = found.failures
    assert failure.kind == "time limit"
    assert "query 7: it took longer than 1 s" in failure.message and "raise timeout = 1" in failure.message
    assert [each.trial.engine for each in found.measurements] == ["sound"]


def test_the_truth_is_that_of_the_function_over_exact_lists(trap):
    found = trap("pass")
    recalls = {each.trial.engine: each.score["recall@3"] for each in found.measurements}
    assert recalls["sound"] == 1.0 and recalls["trap"] < 1.0


def test_a_sample_of_the_corpus_has_the_truth_that_this_process_finds(trap, tmp_path, monkeypatch):
    trap("pass")
    monkeypatch.syspath_prepend(tmp_path)
    data = recallatk.open_dataset("corpus.parquet", "queries.parquet", metric="l2")
    side = part_of(Side("all", np.arange(QUERIES), data, recallatk.ground_truth(data)), 90, 20, seed=1)
    engine = declare(path_engine(recallatk.Path("sampled", [LEG, {"rerank": "trap_functions:by_id"}], k=3)))
    (tmp_path / "data").mkdir()
    write_data(tmp_path / "data", data, [engine])
    process = RerankProcess(tmp_path / "data", tmp_path / "truth", data.metric, 3, TrialSettings())
    trial = Trial("sampled", (), (("oversample", 4),))
    here, apart = (
        PathTruths(side.dataset, side.truth, side.numbers, side.rows, each).of(engine, trial, 3)
        for each in (None, process)
    )
    np.testing.assert_array_equal(apart.rows, here.rows)
    assert not np.array_equal(here.rows, side.truth.rows[:, : here.depth])
