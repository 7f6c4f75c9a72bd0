"""Runs that nobody measured: as large, as mixed and as hostile as a test wants them."""

import dataclasses

import numpy as np

from recallatk.core import (
    Build,
    Calls,
    Caution,
    Failure,
    Load,
    Mean,
    Measurement,
    Metric,
    Others,
    Run,
    Score,
    Trial,
    WarmUp,
)

PLAIN = Load()
HOSTILE = (
    "evil\x1b[31m\x1b]0;title\x07\r\n\u202e\u200b|<script>alert(1)</script>[x](javascript:y)`#*_&lt;\x00\x9b"
)


def make_calls(latency_ns, batch=1, clients=1, late_ns=0, queries=None):
    """Calls of a (rounds, calls) matrix of latencies, sent one after the other."""
    rounds, count = np.shape(latency_ns)
    latency = np.asarray(latency_ns, np.int64)
    starts, ends = np.arange(count) * batch, count * batch if queries is None else queries
    return Calls(
        query=np.tile(np.arange(count, dtype=np.int32) * batch, rounds),
        round=np.repeat(np.arange(rounds, dtype=np.int16), count),
        client=np.tile(np.arange(count, dtype=np.int16) % clients, rounds),
        sent_ns=(np.cumsum(latency, axis=1) - latency).reshape(-1),
        latency_ns=latency.reshape(-1),
        late_ns=np.full(rounds * count, late_ns, np.int64),
        round_ns=latency.sum(axis=1) // clients,
        batch=batch,
        size=np.tile(np.minimum(batch, ends - starts), rounds).astype(np.int32),
        clients=clients,
    )


def make_measurement(
    trial,
    recall=0.9,
    scale=1.0,
    queries=100,
    rounds=2,
    version="library 1.2.3",
    evidence="graph",
    anomalies=None,
    answers=None,
    **others,
):
    """100 queries, asked twice: 0.01 to 2 ms, times `scale`."""
    batch, clients = trial.load.batch, trial.load.clients_or(16)
    count = -(-queries // batch)
    latency = (np.arange(1, rounds * count + 1).reshape(rounds, count) * 10_000 * scale).astype(np.int64)
    measures = {
        "recall@1": Mean(recall / 2, recall / 2, queries, max(0.0, recall / 2 - 0.1), recall / 2 + 0.1),
        "recall@10": Mean(recall, recall, queries, max(0.0, recall - 0.05), min(1.0, recall + 0.05)),
    }
    built = {"seconds": 12.345, "memory_bytes": 56_700_000, "size_bytes": 34_500_000}
    return Measurement(
        trial=trial,
        build=Build(trial.engine, version, trial.build, threads=2, repeat=trial.repeat, **built),
        k=10,
        answers=np.tile(np.arange(10), (queries, 1)) if answers is None else answers,
        calls=make_calls(latency, batch, clients, others.pop("late_ns", 0), queries),
        exercised=evidence,
        score=Score(queries, queries, measures, anomalies or {"short": 0, "unknown": None}),
        **{"times": None if batch == 1 else np.full(queries, rounds), **others},
    )


def make_run(measurements, **others):
    known = {
        "dataset": "data",
        "metric": Metric.COSINE,
        "fingerprints": {},
        "environment": {"processor": "A Processor", "cores": 2},
    }
    return Run(measurements=tuple(measurements), **{**known, **others})


def varied_run(engines=("faiss-hnsw", "hnswlib"), **others):
    """Two engines with two builds, three loads, a failure, a caution and something odd."""
    first, second = engines
    throughput = Load("throughput", clients=4, via="processes")
    batches = Load("throughput", batch=32)
    rate, looked_for = Load("rate", rate=500.0, seconds=2.0), Load("rate", p99_ms=5.0)
    same = (("M", 16), ("ef_construction", 200))

    def trial(engine, effort, load=None, build=same, repeat=0):
        return Trial(engine, build, (("ef", effort),), load or Load(), repeat)

    failed = trial(second, 160)
    measured = [
        make_measurement(trial(first, 10), 0.70, 0.5),
        make_measurement(trial(first, 40), 0.93, 1.0, anomalies={"short": 3, "padding": 1200}),
        make_measurement(trial(first, 80), 0.92, 2.0),
        make_measurement(trial(first, 40, build=(("M", 32), ("ef_construction", 200))), 0.95, 1.5),
        make_measurement(trial(first, 40, repeat=1), 0.931, 1.01),
        make_measurement(trial(second, 40), 0.94, 0.9, version="hnswlib 0.8", evidence="levels"),
        make_measurement(trial(first, 40, throughput), 0.93, 1.2),
        make_measurement(trial(second, 40, throughput), 0.94, 1.1, version="hnswlib 0.8", evidence="levels"),
        make_measurement(trial(first, 40, batches), 0.93, 20.0),
        make_measurement(
            trial(first, 40, rate),
            0.93,
            1.3,
            late_ns=2_000_000,
            warm_up=WarmUp(500, False),
            others=Others(np.array([3]), np.array([3], np.int32), np.arange(10)[None]),
            answers=np.vstack([np.tile(np.arange(10), (100, 1)), np.full((20, 10), -1)]),
        ),
        make_measurement(trial(first, 40, looked_for), 0.93, 1.3, highest_rate=812.5),
    ]
    known = {
        "planned": (*(each.trial for each in measured), failed, trial(second, 320)),
        "failures": (Failure(failed, "crash", "build", "ended with signal SIGSEGV", "a stack\nof lines"),),
        "cautions": (Caution("noise", "the machine's own pace changed while it measured", 0.234, 0.1),),
        "seconds": {"building": 30.0, "searching": 60.0, "other": 10.0},
        "settings": {"data": {"corpus": "corpus.parquet", "token": "geheim"}},
        "begun": "2026-01-02T03:04:05+00:00",
    }
    return make_run(measured, **{**known, **others})


def large_run(count=400):
    """Many settings of one engine, each better and slower than the one before."""
    return make_run(
        make_measurement(Trial("engine", (), (("ef", 1 + each),)), (1 + each) / (count + 1), 1 + each)
        for each in range(count)
    )


def scored_run(metric=Metric.COSINE, loads=(PLAIN,), rows=80, queries=30, k=10, **others):
    """A run on real data with real recall, with its dataset and truth."""
    from recallatk.analysis import score
    from recallatk.core import Dataset
    from recallatk.datasets import make_corpus, make_queries
    from recallatk.fingerprint import fingerprint_truth, fingerprints
    from recallatk.truths import ground_truth

    random = np.random.default_rng(7)
    dataset = Dataset(
        make_corpus(random.normal(size=(rows, 4)).astype(np.float32)),
        make_queries(random.normal(size=(queries, 4)).astype(np.float32)),
        metric,
        name="made",
    )
    truth = ground_truth(dataset, depth=k)
    measured = []
    for number, load in enumerate(loads):
        answers = truth.rows.copy()
        answers[random.random(answers.shape) < 0.2] = rows - 1 - number
        answers[0, k // 2 :] = -1
        trial = Trial("engine", (("M", 8),), (("ef", 10),), load)
        made = make_measurement(trial, queries=queries, answers=answers)
        found = score(truth, answers, (1, k), eligibility=dataset.eligibility, row_numbers=True)
        measured.append(dataclasses.replace(made, score=found))
    prints = {**fingerprints(dataset), "truth": fingerprint_truth(truth)}
    run = make_run(measured, dataset="made", metric=metric, fingerprints=prints, **others)
    return run, dataset, truth


def filtered_run(engine="other"):
    """A run of two engines on queries with filters of three selectivities, with its truth."""
    run, _, truth = scored_run()
    rows = truth.corpus_rows
    eligible = np.array([rows, rows // 4, rows // 40])[np.arange(len(truth)) % 3]
    truth = dataclasses.replace(truth, eligible=eligible)
    (made,) = run.measurements
    worse = made.answers.copy()
    worse[eligible < rows // 10] = -1
    trial = dataclasses.replace(made.trial, engine=engine)
    slower = dataclasses.replace(
        make_measurement(trial, recall=0.5, scale=5.0, queries=len(truth), answers=worse), score=made.score
    )
    prints = {**run.fingerprints, "metadata": "x"}
    return dataclasses.replace(run, measurements=(made, slower), fingerprints=prints), truth
