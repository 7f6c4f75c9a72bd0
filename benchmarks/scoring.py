"""What scoring costs: recall at five k with ties, intervals and anomalies, against Python loops in one run.

    python benchmarks/scoring.py [--rounds 5] [--queries 10000] [--grow 10000,100000,1000000]

10,000 queries with 100 answers each, nine of ten right, some ties in the truth. Ours is `recallatk.score` as
a user calls it. The loops are given what is easiest for them and do less:

- a set loop: for each query and k the intersection of two sets, no ties, no interval, no anomalies;
- the same with ties as big-ann-benchmarks counts them: the rows of the first k distinct distances, of which
  those that differ by at most 1e-6 are one;
- the same with ties, strict ids and anomalies, which is what ours counts;
- the same with scipy's BCa intervals (9,999 resamples), which is the whole of what ours does;
- ann-benchmarks' way: the answers' distances against the k-th true one plus an epsilon;
- VectorDBBench's way: for each answer whether it is in the list of right ones.

All take turns, each for at least a fifth of a second. Then ours alone on more and more queries, each in a
process of its own: time per query, and the largest memory beyond the inputs as a multiple of the answers.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import recallatk
from recallatk.core import Metric, Truth

if TYPE_CHECKING:
    from collections.abc import Callable

AT = (1, 5, 10, 50, 100)
WIDTH, ROWS = 100, 1_000_000
LEAST_SECONDS = 0.2


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--grow", default="10000,100000,1000000")
    parser.add_argument("--alone", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.alone:
        measure_alone(chosen.alone)
        return
    compare(chosen.queries, chosen.rounds)
    print(f"\n{'queries':>10} {'seconds':>8} {'us a query':>11} {'memory beyond inputs / answers':>31}")
    for queries in chosen.grow.split(","):
        subprocess.run([sys.executable, __file__, "--alone", queries], check=True)


def made(queries: int) -> tuple[Truth, Any, Any]:
    """A truth with ties, answers, and the answers' distances."""
    random = np.random.default_rng(0)
    # Distinct rows in every line: a random step through the corpus from a random start.
    start = random.integers(0, ROWS, (queries, 1), dtype=np.int64)
    step = random.integers(1, ROWS // WIDTH - 1, (queries, 1), dtype=np.int64)
    rows = (start + step * np.arange(WIDTH)) % ROWS
    scores = np.sort(random.integers(0, 20_000, (queries, WIDTH)), axis=1) / 20_000.0
    answers, distances = rows.copy(), scores.copy()
    wrong = random.random(rows.shape) < 0.1
    answers[wrong] = random.integers(0, ROWS, int(wrong.sum()))
    distances[wrong] += 0.1
    order = np.argsort(distances + random.normal(0, 0.01, distances.shape), axis=1)
    answers, distances = (np.take_along_axis(each, order, axis=1) for each in (answers, distances))
    offsets = np.zeros(queries + 1, np.int64)
    truth = Truth(
        rows,
        scores,
        np.full(queries, ROWS),
        Metric.L2,
        overflow=(offsets, np.empty(0, np.int64)),
        corpus_rows=ROWS,
    )
    return truth, answers, distances


def compare(queries: int, rounds: int) -> None:
    truth, answers, distances = made(queries)
    plain = truth.rows.tolist(), answers.tolist()
    tasks: dict[str, Callable[[], object]] = {
        "ours: five k, ties, intervals, anomalies": lambda: recallatk.score(
            truth=truth, answers=answers, at=AT
        ),
        "set loop over arrays": lambda: set_loop(truth.rows, answers),
        "set loop over lists": lambda: set_loop(*plain),
        "set loop over arrays, big-ann's ties": lambda: by_groups(truth.rows, truth.scores, answers),
        "set loop over lists, ties and anomalies": lambda: full_loop(truth, *plain),
        "... and intervals by scipy.stats.bootstrap": lambda: with_intervals(truth, *plain),
        "as ann-benchmarks does, by distance": lambda: by_distance(truth.scores, distances),
        "as VectorDBBench does, by list": lambda: by_list(*plain),
    }
    check(recallatk.score(truth=truth, answers=answers, at=AT), full_loop(truth, *plain))
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for number in range(rounds + 1):
        for name in np.random.default_rng(number).permutation(list(tasks)):
            seconds = seconds_a_call(tasks[name])
            if number:
                times[name].append(seconds)
    base = statistics.median(times["ours: five k, ties, intervals, anomalies"])
    print(f"{queries:,} queries x {WIDTH} answers, recall at {', '.join(map(str, AT))}")
    print(f"{'task':<42} {'seconds':>8} {'range':>18} {'x ours':>7}")
    for name, each in times.items():
        middle = statistics.median(each)
        print(f"{name:<42} {middle:>8.4f} {f'{min(each):.4f} to {max(each):.4f}':>18} {middle / base:>7.1f}")


def seconds_a_call(task: Callable[[], object]) -> float:
    """What is short is done again and again: once in ten seconds it would pay for cold caches alone."""
    calls, started = 0, time.perf_counter()
    while True:
        task()
        calls, elapsed = calls + 1, time.perf_counter() - started
        if elapsed > LEAST_SECONDS:
            return elapsed / calls


def check(ours: Any, loop: dict[int, float]) -> None:
    """Nothing is compared that does not agree."""
    for k, value in loop.items():
        assert abs(ours[f"recall@{k}"] - value) < 1e-12, (k, ours[f"recall@{k}"], value)


def set_loop(truth: Any, answers: Any) -> list[float]:
    recalls = []
    for k in AT:
        found = [
            len(set(right[:k]) & set(given[:k])) / k for right, given in zip(truth, answers, strict=True)
        ]
        recalls.append(sum(found) / len(found))
    return recalls


def full_loop(
    truth: Truth, rights: Any, answers: Any, recalls: dict[int, list[float]] | None = None
) -> dict[int, float]:
    """recall@k with ties at the boundary, and everything odd counted, in plain Python."""
    recalls = {} if recalls is None else recalls
    recalls.update({k: [] for k in AT})
    strict: dict[int, list[float]] = {k: [] for k in AT}
    odd = {"duplicate": 0, "padding": 0, "unknown": 0, "short": 0}
    assert truth.scores is not None
    for right, scores, given in zip(rights, truth.scores.tolist(), answers, strict=True):
        counted: dict[int, None] = {}
        for each in given:
            if each < 0:
                odd["padding"] += 1
            elif each >= ROWS:
                odd["unknown"] += 1
            elif each in counted:
                odd["duplicate"] += 1
            else:
                counted[each] = None
        distinct = list(counted)
        odd["short"] += len(distinct) < WIDTH
        for k in AT:
            first, boundary = set(distinct[:k]), scores[k - 1]
            better = {row for row, score in zip(right, scores, strict=True) if score < boundary}
            tied = {row for row, score in zip(right, scores, strict=True) if score == boundary}
            recalls[k].append((len(first & better) + min(k - len(better), len(first & tied))) / k)
            strict[k].append(len(first & set(right[:k])) / k)
    return {k: sum(each) / len(each) for k, each in recalls.items()}


def with_intervals(truth: Truth, rights: Any, answers: Any) -> list[Any]:
    from scipy import stats

    per_query: dict[int, list[float]] = {}
    full_loop(truth, rights, answers, per_query)
    return [
        stats.bootstrap((np.array(values),), np.mean, method="BCa", batch=100).confidence_interval
        for values in per_query.values()
    ]


def by_groups(truth: Any, true: Any, answers: Any) -> list[float]:
    recalls = []
    for k in AT:
        found = []
        for right, distances, given in zip(truth, true, answers, strict=True):
            rows, groups, first = [], 0, -np.inf
            for row, distance in zip(right, distances, strict=True):
                if distance - first > 1e-6:
                    first, groups = distance, groups + 1
                    if groups > k:
                        break
                rows.append(row)
            found.append(len(set(rows) & set(given[:k])) / k)
        recalls.append(float(np.mean(found)))
    return recalls


def by_distance(true: Any, distances: Any) -> list[float]:
    recalls = []
    for k in AT:
        found = []
        for right, given in zip(true, distances, strict=True):
            limit = right[k - 1] + 1e-3
            hits = 0
            for each in given[:k]:
                if each <= limit:
                    hits += 1
            found.append(hits / k)
        recalls.append(float(np.mean(found)))
    return recalls


def by_list(truth: Any, answers: Any) -> list[float]:
    recalls = []
    for k in AT:
        found = []
        for right, given in zip(truth, answers, strict=True):
            hits, right_ones = np.zeros(k), right[:k]
            for place, each in enumerate(given[:k]):
                if each in right_ones:
                    hits[place] = 1
            found.append(np.mean(hits))
        recalls.append(float(np.mean(found)))
    return recalls


def measure_alone(queries: int) -> None:
    truth, answers, _ = made(queries)
    recallatk.score(truth=_part(truth, 100), answers=answers[:100], at=AT)  # imports are not what grows
    # Making the data may have taken more memory than scoring it will (Linux only).
    Path("/proc/self/clear_refs").write_text("5")
    before = _memory("VmRSS")
    started = time.perf_counter()
    recallatk.score(truth=truth, answers=answers, at=AT)
    seconds = time.perf_counter() - started
    memory = f"{(_memory('VmHWM') - before) / answers.nbytes:.2f}"
    print(f"{queries:>10,} {seconds:>8.3f} {seconds / queries * 1e6:>11.2f} {memory:>31}")


def _part(truth: Truth, queries: int) -> Truth:
    assert truth.scores is not None
    none = (np.zeros(queries + 1, np.int64), np.empty(0, np.int64))
    return Truth(truth.rows[:queries], truth.scores[:queries], None, truth.metric, overflow=none)


def _memory(name: str) -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{name}:")[1].split()[0]) * 1024


if __name__ == "__main__":
    main()
