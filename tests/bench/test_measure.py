"""Measuring in a process of its own, and what happens when that process dies."""

import dataclasses
import os
import subprocess
import sys
import textwrap

import numpy as np
import psutil
import pyarrow.parquet as pq
import pytest

from recallatk import (
    ground_truth,
    load_run,
    make_corpus,
    make_queries,
    measure,
    open_dataset,
    queries_from_corpus,
    save_run,
    save_truth,
    to_text,
)
from recallatk.adapters import QueryBatch, get_engine
from recallatk.adapters.registry import registered
from recallatk.bench.environment import describe_environment, largest_cache
from recallatk.bench.process_usage import private_bytes
from recallatk.core import Metric, Origin, Truth
from recallatk.errors import EngineError, MismatchError, UsageError
from recallatk.fingerprint import fingerprint_truth, fingerprints
from recallatk.testing import tiny_dataset

BUILD = {"M": 8, "ef_construction": 40}
# Each said when it begins, the first for the run and again for its process; the last, when a block is done
# and again when the trial is.
PHASES = ["preparing", "preparing", "build", "warm-up", "search", "search", "search"]


@pytest.fixture(scope="module")
def tiny():
    dataset = tiny_dataset(300, 25, metric="l2", duplicates=20)
    return dataset, ground_truth(dataset, depth=20)


@pytest.fixture(scope="module")
def measured(tiny):
    dataset, truth = tiny
    steps = []
    run = measure(
        "faiss-hnsw",
        dataset,
        truth=truth,
        build=BUILD,
        search=[{"ef": 4}, {"ef": 300}],
        at=(1, 10),
        rounds=2,
        watch=lambda step: steps.append((step.done, step.trials)),
    )
    return run, steps


def test_a_run_says_what_was_measured(measured, tiny):
    run, steps = measured
    dataset, truth = tiny
    assert [str(each.trial) for each in run.measurements] == [
        "faiss-hnsw(M=8, ef_construction=40)[ef=4]",
        "faiss-hnsw(M=8, ef_construction=40)[ef=300]",
    ]
    assert run.metric is Metric.L2
    assert run.fingerprints == {**truth.fingerprints, "truth": fingerprint_truth(truth)}
    assert run.fingerprints["vectors"] == fingerprints(dataset)["vectors"]
    assert run.timed.startswith("one library call for the top 10, 1 search thread;")
    for each in run.measurements:
        assert each.build.engine == each.trial.engine == "faiss-hnsw"
        assert each.build.parameters == each.trial.build == (("M", 8), ("ef_construction", 40))
        assert each.build.version.startswith("faiss ")
        assert each.build.threads >= 1
    assert steps[0] == (0, 2)
    assert steps[-1] == (2, 2)
    assert steps == sorted(steps)
    assert run.complete
    assert run.planned == tuple(each.trial for each in run.measurements)


def test_every_call_has_a_latency(measured):
    for each in measured[0].measurements:
        assert each.latencies_ns.shape == (50,)
        assert each.calls.rounds == 2
        for turn in range(2):
            assert sorted(each.calls.query[each.calls.round == turn]) == list(range(25))
        assert each.latencies_ns.dtype == np.int64
        assert (each.latencies_ns > 0).all()
        assert each.build.seconds > 0
        assert each.build.size_bytes > 300 * 8 * 4
        assert "comparisons per query" in each.exercised


def test_the_scores_are_those_of_the_answers(measured, tiny):
    run, _ = measured
    dataset, truth = tiny
    low, high = (each.score["recall@10"] for each in run.measurements)
    assert high >= 0.99
    for each, value in zip(run.measurements, (low, high), strict=True):
        # By distance, which knows ties without our help.
        corpus, queries = (
            part.vectors.read(0, part.rows).astype(float) for part in (dataset.corpus, dataset.queries)
        )
        distances = np.sqrt(np.square(queries[:, None] - corpus).sum(axis=2))
        reached = np.take_along_axis(distances, each.answers, axis=1) <= truth.scores[:, 9:10] * (1 + 1e-12)
        assert reached.mean() == pytest.approx(value)
        assert each.k == 10


def test_answers_are_those_of_a_direct_search(tiny):
    dataset, truth = tiny
    run = measure("exact", dataset, truth=truth, at=(10,), rounds=1)
    engine = get_engine("exact")()
    engine.build(dataset.corpus, dataset.metric)
    queries = dataset.queries.vectors.read(0, dataset.queries.rows)
    direct = np.concatenate([engine.search(QueryBatch(queries[i : i + 1]), 10) for i in range(len(queries))])
    assert (run.measurements[0].answers == direct).all()
    assert run.measurements[0].score.measures["recall@10"].value == 1.0


def test_a_corpus_smaller_than_k_is_no_error():
    dataset = tiny_dataset(5, 3)
    run = measure("exact", dataset, truth=ground_truth(dataset, depth=10), at=(10,), rounds=1)
    assert run.measurements[0].answers.shape == (3, 5)
    assert run.measurements[0].score.measures["recall@10"].value == 1.0


@pytest.mark.skipif(sys.platform != "linux", reason="other systems count pages that are shared")
def test_the_memory_of_a_flat_index_is_that_of_its_vectors():
    vectors = np.random.default_rng(0).normal(size=(50_000, 64)).astype("float32")
    dataset = open_dataset(make_corpus(vectors), make_queries(vectors[:2] + 1), metric="l2")
    run = measure("exact", dataset, truth=ground_truth(dataset, depth=1), at=(1,), rounds=1)
    assert run.measurements[0].build.memory_bytes == pytest.approx(vectors.nbytes, rel=0.2)
    assert run.measurements[0].build.size_bytes == vectors.nbytes


@pytest.mark.skipif(sys.platform != "linux", reason="other systems count pages that are shared")
def test_private_memory_grows_with_what_is_held_and_shrinks_again():
    before = private_bytes()
    held = np.ones(4_000_000)
    assert private_bytes() - before == pytest.approx(held.nbytes, rel=0.2)
    del held
    assert private_bytes() - before < 8_000_000


BROKEN = """
    import os, signal, sys
    import numpy as np
    from recallatk.core import Metric
    from recallatk.adapters import Engine
    from recallatk.adapters.exact import Exact

    class Broken(Exact):
        name = "broken"

        def build(self, corpus, metric, **parameters):
            print("a library that talks")
            print('{"done": "nothing of ours"')
            sys.stdout.flush()
            super().build(corpus, metric)
            if os.environ["BROKEN"] == "raise":
                raise RuntimeError("out of luck")
            if os.environ["BROKEN"] == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if os.environ["BROKEN"] == "exit":
                os._exit(7)
            if os.environ["BROKEN"] == "bytes":
                os.write(1, b"\\xff\\xfe\\x80 no UTF-8 \\xc3\\n" * 3000)
                os.write(2, b"\\xff no UTF-8 either\\n")
            if os.environ["BROKEN"] == "asks" and sys.stdin.read():
                raise RuntimeError("somebody typed")

        def nearest(self, batch, k):
            found = super().nearest(batch, k)
            return {
                "floats": lambda: found.astype("float64"),
                "booleans": lambda: found > 0,
                "ids": lambda: found.astype(str),
                "flat": lambda: found[0],
                "twice": lambda: np.concatenate([found, found]),
                "many": lambda: np.tile(found, 2),
                "list": lambda: found.tolist(),
                "none": lambda: found[:0],
                "few": lambda: found[:, :3],
                "small": lambda: found.astype("uint16"),
                "beyond": lambda: found + 10**6,
            }.get(os.environ["BROKEN"], lambda: found)()

        def version(self):
            return None if os.environ["BROKEN"] == "nameless" else super().version()

        def exercised(self):
            if os.environ["BROKEN"] == "unused":
                return Engine.exercised(self)
            return super().exercised()
"""


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """An engine that fails as the environment says, known to this process and to the worker."""
    (tmp_path / "broken_engine.py").write_text(textwrap.dedent(BROKEN))
    described = tmp_path / "broken_engine-1.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-engine\nVersion: 1\n")
    (described / "entry_points.txt").write_text("[recallatk.engines]\nbroken = broken_engine:Broken\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    registered.cache_clear()
    yield lambda how: monkeypatch.setenv("BROKEN", how)
    registered.cache_clear()
    sys.modules.pop("broken_engine", None)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("raise", "exception in build: RuntimeError: out of luck"),
        ("kill", "crash in build: the process ended with signal SIGKILL"),
        ("exit", "crash in build: the process ended with code 7"),
        ("unused", "no evidence in warm-up: broken gives no evidence that its index answered"),
    ],
)
def test_an_engine_that_dies_is_an_error_with_the_reason(tiny, broken, how, said):
    broken(how)
    dataset, truth = tiny
    with pytest.raises(EngineError, match=said):
        measure("broken", dataset, truth=truth, at=(1,), rounds=1)


def test_what_an_engine_prints_disturbs_nothing(tiny, broken):
    broken("not")
    dataset, truth = tiny
    steps = []
    run = measure(
        "broken", dataset, truth=truth, at=(1,), rounds=1, watch=lambda step: steps.append(step.phase)
    )
    assert run.measurements[0].score.measures["recall@1"].value == 1.0
    assert steps == PHASES


def test_bytes_that_are_no_text_disturb_nothing(tiny, broken):
    broken("bytes")
    steps = []
    run = measure(
        "broken", tiny[0], truth=tiny[1], at=(1,), rounds=1, watch=lambda step: steps.append(step.phase)
    )
    assert run.measurements[0].score["recall@1"] == 1.0
    assert steps == PHASES


def test_an_engine_that_asks_the_keyboard_hears_nothing(tiny, broken):
    broken("asks")
    assert (
        measure("broken", tiny[0], truth=tiny[1], at=(1,), rounds=1).measurements[0].score["recall@1"] == 1.0
    )


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("floats", r"returned an array of float64 and shape \(1, 10\) for one query and k = 10"),
        ("booleans", r"an array of bool and shape \(1, 10\)"),
        ("ids", r"an array of <U\d+ and shape \(1, 10\)"),
        ("flat", r"an array of int64 and shape \(10,\)"),
        ("twice", r"an array of int64 and shape \(2, 10\)"),
        ("many", r"an array of int64 and shape \(1, 20\)"),
        ("none", r"an array of int64 and shape \(0, 10\)"),
        ("list", "list"),
    ],
)
def test_an_answer_that_is_no_row_of_row_numbers_is_an_error(tiny, broken, how, said):
    broken(how)
    with pytest.raises(EngineError, match=f"exception in search: .*{said}"):
        measure("broken", tiny[0], truth=tiny[1], at=(10,), rounds=1)


def test_a_short_answer_is_padded_and_scored_as_short(tiny, broken):
    broken("few")
    found = measure("broken", tiny[0], truth=tiny[1], at=(10,), rounds=1).measurements[0]
    assert (found.answers[:, :3] >= 0).all()
    assert (found.answers[:, 3:] == -1).all()
    assert found.score["recall@10"] == pytest.approx(0.3)
    assert found.score.anomalies["short"] == 25


def test_row_numbers_of_another_width_are_row_numbers(tiny, broken):
    broken("small")
    assert (
        measure("broken", tiny[0], truth=tiny[1], at=(10,), rounds=1).measurements[0].score["recall@10"]
        == 1.0
    )


def test_an_engine_without_a_version_gives_a_run(tiny, broken, tmp_path):
    broken("nameless")
    dataset, truth = tiny
    run = measure("broken", dataset, truth=truth, at=(1,), rounds=1)
    assert run.measurements[0].build.version is None
    assert run.measurements[0].score["recall@1"] == 1.0
    assert load_run(save_run(run, dataset, tmp_path / "run")).measurements[0].build.version is None
    assert "Engine: broken." in to_text(run, verbose=True)


def test_answers_beyond_the_corpus_are_counted_and_saved_as_null(tiny, broken, tmp_path):
    broken("beyond")
    dataset, truth = tiny
    run = measure("broken", dataset, truth=truth, at=(10,), rounds=1)
    assert run.measurements[0].score["recall@10"] == 0.0
    assert run.measurements[0].score.anomalies["unknown"] == 250
    save_run(run, dataset, tmp_path / "run")
    table = pq.read_table(tmp_path / "run" / "trial-1.parquet")
    assert table["neighbors"].to_pylist() == [[None] * 10] * 25
    assert min(map(min, table["rows"].to_pylist())) >= 10**6


def test_a_file_of_the_users_is_not_imported_in_place_of_a_library(tmp_path):
    for name in ("faiss", "numpy", "recallatk", "random"):
        (tmp_path / f"{name}.py").write_text(f"raise RuntimeError('the {name} of the user')")
    script = """
        from recallatk import ground_truth, measure
        from recallatk.testing import tiny_dataset

        dataset = tiny_dataset(50, 5)
        truth = ground_truth(dataset, depth=5)
        run = measure("faiss-hnsw", dataset, truth=truth, search=[{"ef": 50}], at=(5,), rounds=1)
        print(run.measurements[0].score["recall@5"], run.measurements[0].build.version)
    """
    # -P is for this process only: the one that it starts has to say it again.
    done = subprocess.run(
        [sys.executable, "-P", "-c", textwrap.dedent(script)],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.startswith("1.0 faiss ")


def test_a_run_on_an_imported_truth_names_the_data(tiny):
    dataset, truth = tiny
    foreign = Truth(truth.rows, None, None, None, Origin.IMPORTED)
    run = measure("exact", dataset, truth=foreign, at=(10,), rounds=1)
    assert run.fingerprints == {**fingerprints(dataset), "truth": fingerprint_truth(foreign)}
    assert {"vectors", "ids", "queries", "truth"} == set(run.fingerprints)


def test_a_truth_with_rows_beyond_the_corpus_is_refused(tiny, monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", lambda *job, **options: pytest.fail("it was built"))
    rows = tiny[1].rows.copy()
    rows[3, 4] = 300
    with pytest.raises(MismatchError, match="rows beyond the corpus of 300"):
        measure("faiss-hnsw", tiny[0], truth=Truth(rows, None, None, None, Origin.IMPORTED), at=(1,))


def test_an_interrupt_ends_the_worker(tiny):
    dataset, truth = tiny
    before = {each.pid for each in psutil.Process().children(recursive=True)}

    def interrupted(progress):
        raise KeyboardInterrupt

    before = psutil.Process().children(recursive=True)
    with pytest.raises(KeyboardInterrupt):
        measure("exact", dataset, truth=truth, at=(1,), rounds=1, watch=interrupted)
    assert set(psutil.Process().children(recursive=True)) <= set(before)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"at": (1, 21)}, "from 1 to 20, the depth of the truth"),
        ({"at": (0,)}, "from 1 to 20"),
        ({"at": ()}, "from 1 to 20"),
        ({"search": []}, "at least one"),
        ({"rounds": 0}, "whole numbers from 1"),
        ({"engine": "none"}, "no engine 'none'"),
        ({"search": [{"nprobe": 3}]}, "search.nprobe: no such search parameter of faiss-hnsw. Accepted: ef"),
        ({"build": {"M": 0}}, "whole numbers from 2 to 256"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is_built(tiny, monkeypatch, options, said):
    monkeypatch.setattr(subprocess, "Popen", lambda *job, **options: pytest.fail("it was built"))
    with pytest.raises(UsageError, match=said):
        measure(options.pop("engine", "faiss-hnsw"), tiny[0], truth=tiny[1], **{"at": (1,), **options})


def test_a_truth_of_other_data_is_refused(tiny):
    dataset, truth = tiny
    # As many rows and queries, other vectors: what a count would not notice.
    other = tiny_dataset(300, 25, metric="l2", seed=1)
    with pytest.raises(MismatchError, match="vectors, queries differ"):
        measure("faiss-hnsw", other, truth=truth, at=(1,))
    with pytest.raises(MismatchError, match="metric mismatch: the truth uses l2, the dataset ip"):
        measure("faiss-hnsw", dataclasses.replace(dataset, metric=Metric.IP), truth=truth, at=(1,))
    with pytest.raises(MismatchError, match="the truth has 25 queries, the dataset 24"):
        measure("faiss-hnsw", tiny_dataset(300, 24, metric="l2"), truth=truth, at=(1,))


def test_queries_that_are_corpus_rows_are_refused(tiny):
    dataset = tiny[0]
    own = open_dataset(dataset.corpus, queries_from_corpus(dataset.corpus, 25), metric="l2")
    with pytest.raises(UsageError, match="the queries are corpus rows"):
        measure("faiss-hnsw", own, truth=ground_truth(own, depth=20), at=(1,))


def test_filters_reach_engines_that_are_able_and_no_others(tiny):
    dataset = tiny[0]
    filtered = open_dataset(dataset.corpus, dataset.queries, metric="l2", where="size > 50")
    truth = ground_truth(filtered, depth=20)
    run = measure("exact", filtered, truth=truth, at=(1, 10), rounds=1)
    score = run.measurements[0].score
    assert score["recall@10"] == 1.0
    assert score.anomalies["ineligible"] == 0
    with pytest.raises(EngineError, match="faiss-nsg cannot filter during search"):
        measure("faiss-nsg", filtered, truth=truth, at=(1,))


def test_the_environment_says_what_a_reader_needs():
    found = describe_environment()
    assert found["cores"] >= 1
    assert found["memory_bytes"] > 1e8
    assert found["processor"]
    assert set(found["packages"]) == {"numpy", "pyarrow", "faiss-cpu"}


def test_the_largest_cache_is_the_last_one(tmp_path):
    for number, text in enumerate(["32K", "1024K", "32768K", "odd"]):
        (tmp_path / f"index{number}").mkdir()
        (tmp_path / f"index{number}" / "size").write_text(f"{text}\n")
    assert largest_cache(tmp_path) == 32 << 20
    assert largest_cache(tmp_path / "nowhere") is None


def test_corpus_and_queries_stand_for_a_dataset(tiny, tmp_path):
    dataset, truth = tiny
    vectors, queries = (part.vectors.read(0, part.rows) for part in (dataset.corpus, dataset.queries))
    run = measure("exact", vectors, queries, metric="l2", at=(10,), rounds=1)
    assert run.measurements[0].score["recall@10"] == 1.0
    path = tmp_path / "truth.parquet"
    save_truth(truth, path)
    assert measure("exact", dataset, truth=path, at=(10,), rounds=1).measurements[0].score["recall@10"] == 1.0
    with pytest.raises(UsageError, match="a Dataset already has queries"):
        measure("exact", dataset, queries)
    with pytest.raises(MismatchError, match="metric mismatch: the dataset uses l2, not ip"):
        measure("exact", dataset, metric="ip")


def test_a_truth_as_the_third_argument_still_works(tiny):
    with pytest.warns(DeprecationWarning, match=r"use measure\(index, dataset, truth=truth\)"):
        run = measure("exact", *tiny, at=(10,), rounds=1)
    assert run.measurements[0].score["recall@10"] == 1.0


def test_lists_of_values_are_grids(tiny):
    dataset, truth = tiny
    run = measure(
        "faiss-hnsw", dataset, truth=truth, build={"M": [4, 8]}, search={"ef": [4, 16]}, at=(10,), rounds=1
    )
    assert [(dict(each.trial.build)["M"], dict(each.trial.search)["ef"]) for each in run.measurements] == [
        (4, 4),
        (4, 16),
        (8, 4),
        (8, 16),
    ]


def test_lists_and_partitions_are_no_candidates_to_caution_about():
    vectors = np.random.default_rng(0).normal(size=(400, 8)).astype(np.float32)
    vectors += 1_000 * (np.arange(400) % 3)[:, None]
    dataset = open_dataset(vectors, vectors[:20] + 1, metric="l2")
    # Neighbors are in the nearest list, so that nprobe changes nothing; the quantizer keeps recall below 1.
    run = measure(
        "faiss-ivf-pq",
        dataset,
        build={"nlist": 3, "M": 2, "nbits": 4},
        search={"nprobe": [1, 2]},
        at=[10],
        rounds=1,
    )
    one, other = run.measurements
    assert np.array_equal(one.answers, other.answers) and one.score.measures["recall@10"].value < 1
    assert not [each for each in run.cautions if each.kind == "effort below k"]


def test_efforts_below_k_that_change_nothing_are_cautioned():
    vectors = np.random.default_rng(0).normal(size=(3_000, 48)).astype(np.float32)
    dataset = open_dataset(vectors, vectors[:20] + 1, metric="l2")
    run = measure("usearch", dataset, search={"expansion": [5, 10]}, at=[100], rounds=1)
    (caution,) = (each for each in run.cautions if each.kind == "effort below k")
    assert "the same answers at expansion=5 and expansion=10" in caution.message
    alone = measure("usearch", dataset, search={"expansion": [5, 50]}, at=[1], rounds=1)
    assert not [each for each in alone.cautions if each.kind == "effort below k"]
