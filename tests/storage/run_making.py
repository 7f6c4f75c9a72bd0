"""Runs to write and read, made without measuring anything."""

import dataclasses
import json

import numpy as np

from recallatk import score
from recallatk.core import Build, Calls, Load, Measurement, Metric, Mode, Others, Run, Trial, Truth, WarmUp
from recallatk.fingerprint import fingerprint_truth, fingerprints
from recallatk.storage import run_file
from recallatk.storage.checksums import text_checksum
from recallatk.testing import tiny_dataset

ROWS = 20


def make_truth(queries=3, k=4):
    return Truth(np.tile(np.arange(k), (queries, 1)), None, None, None)


def make_trial(number, **changes):
    return Trial("faiss-hnsw", (("M", 8),), (("ef", 10 * (number + 1)),), **changes)


def make_build(known=True, **changes):
    return Build(
        **{
            "engine": "faiss-hnsw",
            "version": "faiss 1" if known else None,
            "parameters": (("M", 8),),
            "threads": 2,
            "seconds": 1.5 if known else None,
            "memory_bytes": 2**40 if known else None,
            "size_bytes": 12345 if known else None,
            **changes,
        }
    )


def make_calls(random, queries, rounds=2, clients=1, batch=1, arrivals=None):
    """A closed loop in which every query is asked in every round, or so many arrivals of any query."""
    if arrivals is None:
        firsts = np.arange(0, queries, batch)
        query = np.concatenate([random.permutation(firsts) for _ in range(rounds)])
        per_round = len(firsts)
    else:
        query, per_round = random.integers(0, queries, rounds * arrivals), arrivals
    # Clocks are coarse: calls of one round may be sent at the same moment.
    sent = np.sort(random.integers(0, 5 * per_round + 1, (rounds, per_round)), axis=1)
    return Calls(
        query=query.astype(np.int32),
        round=np.repeat(np.arange(rounds), per_round).astype(np.int16),
        client=random.integers(0, clients, len(query)).astype(np.int16),
        sent_ns=sent.reshape(-1),
        latency_ns=random.integers(1, 2**40, len(query)),
        late_ns=random.integers(0, 1000, len(query))
        if arrivals is not None
        else np.zeros(len(query), np.int64),
        round_ns=random.integers(1, 2**40, rounds),
        batch=batch,
        size=np.minimum(batch, queries - query).astype(np.int32),
        clients=clients,
    )


def make_times(calls, queries):
    """How often each query was asked, where batches are of queries that follow each other."""
    times = np.zeros(queries, np.int64)
    for first, size in zip(calls.query.tolist(), calls.size.tolist(), strict=True):
        times[first : first + size] += 1
    return times


def make_others(random, calls, queries, k, count):
    """Answers that differed, of any query that the call had in it, in the order of the calls."""
    pairs = [
        (call, query)
        for call, first in enumerate(calls.query.tolist())
        for query in range(first, min(first + calls.batch, queries))
    ]
    chosen = sorted(random.permutation(len(pairs))[:count].tolist())
    if not chosen:
        return None
    call, query = np.array([pairs[each] for each in chosen]).T
    return Others(call, query.astype(np.int32), random.integers(-1, ROWS, (len(chosen), k)))


def make_measurement(number=0, queries=3, k=4, seed=None, others=0, trial=None, **calls):
    random = np.random.default_rng(number if seed is None else seed)
    answers = random.permuted(np.tile(np.arange(ROWS), (queries, 1)), axis=1)[:, :k]
    answers[0, -1] = -1
    made = make_calls(random, queries, **calls)
    if "arrivals" in calls:
        answers[np.setdiff1d(np.arange(queries), made.query)] = -1
    return Measurement(
        trial=trial or make_trial(number),
        build=make_build(bool(number)),
        k=k,
        answers=answers,
        calls=made,
        exercised="graph" if number else None,
        score=score(truth=make_truth(queries, k), answers=answers, at=[1, k]),
        others=make_others(random, made, queries, k, others),
        times=make_times(made, queries),
    )


def make_run(trials=2, queries=3, rounds=2, k=4, dataset=None, **changes):
    dataset = dataset or tiny_dataset(ROWS, queries)
    run = Run(
        dataset="tiny é",
        metric=Metric.COSINE,
        fingerprints={**fingerprints(dataset), "truth": fingerprint_truth(make_truth(queries, k))},
        environment={"processor": "one", "cores": 2, "load_average": None},
        measurements=tuple(make_measurement(number, queries, k, rounds=rounds) for number in range(trials)),
    )
    return dataclasses.replace(run, **changes)


def make_plan(trials=4, **changes):
    """A run of which nothing is measured yet."""
    plan = tuple(make_trial(number) for number in range(trials))
    settings = {"rounds": 2, "engines": [{"name": "faiss-hnsw", "search": {"ef": [10, 20]}}]}
    return make_run(
        trials=0, **{"planned": plan, "settings": settings, "begun": "2026-01-02T03:04:05Z", **changes}
    )


def write_sealed(folder, header):
    """A run.json that somebody else changed, with a checksum that fits."""
    if isinstance(header, dict):
        header = {name: value for name, value in header.items() if name != "checksum"}
        header["checksum"] = text_checksum(run_file._rewritten(header))
    (folder / "run.json").write_text(json.dumps(header))


RATE = Load(mode=Mode.RATE, rate=100.0)
WARM = WarmUp(calls=20, settled=True, cold_ns=5)


def assert_same_measurement(one, other):
    for name in ("trial", "build", "k", "exercised", "warm_up", "highest_rate"):
        assert getattr(one, name) == getattr(other, name)
    for name in ("queries", "scored", "measures", "anomalies", "sampled_from", "missing"):
        assert getattr(one.score, name) == getattr(other.score, name)
    assert list(one.score.per_query) == list(other.score.per_query)
    for name, values in one.score.per_query.items():
        assert values.dtype == np.float64
        np.testing.assert_array_equal(values, other.score.per_query[name])
    arrays = ("answers", "sentinel_ns", "times")
    assert_same_arrays([getattr(one, name) for name in arrays], [getattr(other, name) for name in arrays])
    assert (one.calls.batch, one.calls.clients) == (other.calls.batch, other.calls.clients)
    for each in dataclasses.fields(Calls):
        if each.name not in ("batch", "clients"):
            assert_same_arrays([getattr(one.calls, each.name)], [getattr(other.calls, each.name)])
    assert (one.others is None) == (other.others is None)
    if one.others is not None:
        for each in dataclasses.fields(Others):
            assert_same_arrays([getattr(one.others, each.name)], [getattr(other.others, each.name)])


def assert_same_arrays(some, others):
    for one, other in zip(some, others, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert one.dtype == other.dtype
            assert one.shape == other.shape
            assert (one == other).all()


def assert_same_run(found, run):
    for each in dataclasses.fields(Run):
        if each.name != "measurements":
            assert getattr(found, each.name) == getattr(run, each.name), each.name
    for one, other in zip(found.measurements, run.measurements, strict=True):
        assert_same_measurement(one, other)
