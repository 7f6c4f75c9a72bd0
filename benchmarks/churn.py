"""What repeated replacement costs in recall, and what the truth of each step costs.

    python benchmarks/churn.py [--only claim|truth] [--cycles 10] [--share 1%] [--engine NAME ...] [--small]

`claim` repeats a published experiment (vecops-bench, December 2025: ten cycles, each of which deletes 1 %
of the rows at random and inserts as many; recall@10 falls from 83.1 to 75.1 % with pgvector, from 97.8 to
89.3 % with Milvus, from 89.0 to 81.6 % with Chroma, at M = 16, ef_construction = 128, ef = 100). It runs on
the bundled embeddings. `rows` inserts other rows of the same data. `noise` inserts what the published
script does: vectors of uniform random numbers from 0 to 1, normalized, which resemble no text. Every search
is scored against the exact neighbors among the rows that are live then. The last lines are controls that
need no engine: exact answers of the last cycle scored against the truth of the first, and exact answers of
an index from which nothing was deleted scored against the truth of the last, without the rows that should
be gone.

`truth` compares the truth of each step, brought up to date, with a computation from scratch, in turns, and
checks that both are the same bytes. It prints the median ratio of their times.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk import churn, make_corpus, make_queries, open_dataset, open_demo
from recallatk.core.churned import Operation
from recallatk.reporting.labels import signed_interval, with_margin
from recallatk.streaming.runbook import Step, resolve
from recallatk.truths import ground_truth
from recallatk.truths.step_truth import StepTruth
from recallatk.units import parse_share

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Dataset
    from recallatk.streaming import Runbook

K, START = 10, 18_000
ENGINES = ("pgvector-hnsw", "milvus", "chroma", "hnswlib", "usearch", "qdrant")
# Every engine takes those of these names that it has.
BUILD: dict[str, Any] = {"M": 16, "ef_construction": 128, "connectivity": 16, "expansion_add": 128}
SEARCH: dict[str, Any] = {"ef": 100, "expansion": 100, "hnsw_ef": 100}


def replacements(rows: int, start: int, share: float, cycles: int, name: str) -> Runbook:
    """Cycles that each delete random rows and insert the next ones; a search after each."""
    random, each = np.random.default_rng(42), round(share * start)
    live, steps = np.arange(start), [Step(1, Operation.INSERT, np.arange(start)), Step(2, Operation.SEARCH)]
    for cycle in range(cycles):
        gone = np.sort(random.choice(live, each, replace=False))
        new = np.arange(start + cycle * each, start + (cycle + 1) * each)
        live = np.concatenate([np.setdiff1d(live, gone), new])
        for operation, chosen in ((Operation.DELETE, gone), (Operation.INSERT, new)):
            steps.append(Step(len(steps) + 1, operation, chosen))
        steps.append(Step(len(steps) + 1, Operation.SEARCH))
    return resolve(steps, rows, name, name)


def with_rows(start: int, needed: int, queries: int, *, noise: bool) -> Dataset:
    """The bundled embeddings in random order; with noise, random numbers take the place of the later rows."""
    demo = open_demo()
    vectors = np.asarray(demo.corpus.vectors.read(0, demo.corpus.rows))
    vectors = vectors[np.random.default_rng(0).permutation(len(vectors))]
    if noise:
        made = np.random.default_rng(1).random((needed, vectors.shape[1]), dtype=np.float32)
        vectors = np.concatenate([vectors[:start], made / np.linalg.norm(made, axis=1, keepdims=True)])
    if len(vectors) < start + needed:
        raise SystemExit(f"{start + needed:,} rows are needed, and there are {len(vectors):,}")
    asked = np.asarray(demo.queries.vectors.read(0, queries))
    data = open_dataset(make_corpus(vectors[: start + needed]), make_queries(asked), metric="cosine")
    return replace(data, name="wordnet-demo")


def claim(engines: list[str], share: float, cycles: int, start: int, queries: int) -> None:
    """Recall before and after the cycles, per engine and kind of inserted rows."""
    print(f"{cycles} cycles of {share:.1%} of {start:,} rows, {queries} queries, recall@{K}")
    for name in ("rows", "noise"):
        needed = cycles * round(share * start)
        dataset = with_rows(start, needed, queries, noise=name == "noise")
        book = replacements(dataset.corpus.rows, start, share, cycles, name)
        for engine in engines:
            known = churn_parameters(engine)
            found = churn(book, dataset, engines=engine, at=K, **known)
            (curve,) = found.curves
            if curve.failure is not None or curve.decay is None:
                print(f"  {name:<6} {engine:<14} failed: {curve.failure}")
                continue
            first, last = curve.churned[0], curve.churned[-1]
            shown = [with_margin(each.measures[f"recall@{K}"]) for each in (first, last)]
            repaired = ", ".join(
                f"{each.operation} {signed_interval(each.gain)} in {each.seconds or 0:.1f} s"
                for each in curve.recoveries
            )
            scanned = sum(bool(each.unused) for each in curve.searches)
            note = f"; {scanned} searches without index" if scanned else ""
            print(
                f"  {name:<6} {engine:<14} {shown[0]} to {shown[1]}, change {signed_interval(curve.decay)}; "
                f"stale rows {sum(each.stale for each in curve.searches)}; {repaired}{note}",
                flush=True,
            )
        controls(dataset, book)


def churn_parameters(engine: str) -> dict[str, dict[str, Any]]:
    """The parameters that an engine has."""
    from recallatk.adapters import get_engine

    kind = get_engine(engine)
    named = {"ef_construct": 128, "ef_search": 100, **BUILD}
    build = {knob.name: named[knob.name] for knob in kind.build_knobs if knob.name in named}
    search = {knob.name: SEARCH[knob.name] for knob in kind.search_knobs if knob.name in SEARCH}
    return {"build": build, "search": search}


def controls(dataset: Dataset, book: Runbook) -> None:
    """What exact answers score against a truth of another cycle."""
    first, *others = book.steps
    truths = StepTruth(dataset, K)
    truths.insert(first.inserted)
    before = truths.truth().rows
    everything = StepTruth(dataset, K)
    everything.insert(first.inserted)
    for step in others:
        truths.delete(step.deleted)
        truths.insert(step.inserted)
        everything.insert(step.inserted)
    after = truths.truth().rows
    kept = everything.truth().rows
    print(f"  {book.name:<6} exact answers against the truth of the first cycle: {hits(after, before):.4f}")
    print(f"  {book.name:<6} exact answers of an index that deletes nothing: {hits(kept, after):.4f}")


def hits(answers: NDArray[np.int64], right: NDArray[np.int64]) -> float:
    """Mean recall by ids."""
    pairs = zip(answers.tolist(), right.tolist(), strict=True)
    return float(np.mean([len(set(a) & set(b)) / len(b) for a, b in pairs]))


def truth_cost(rows: int, dimension: int, queries: int, depth: int, steps: int) -> None:
    """The median ratio of the truth of a step, brought up to date, to one from scratch."""
    random = np.random.default_rng(0)
    vectors = random.normal(size=(round(1.25 * rows), dimension)).astype(np.float32)
    asked = random.normal(size=(queries, dimension)).astype(np.float32)
    moving = StepTruth(open_dataset(vectors, asked, metric="cosine"), depth)
    live = np.zeros(len(vectors), bool)
    live[:rows] = True
    moving.insert(np.arange(rows))
    moving.truth()
    ratios, each = [], rows // 100
    for _ in range(steps):
        gone = random.choice(np.flatnonzero(live), each, replace=False)
        new = random.choice(np.flatnonzero(~live), each, replace=False)
        live[gone], live[new] = False, True
        moving.delete(gone)
        moving.insert(new)
        began = time.perf_counter()
        found = moving.truth()
        middle = time.perf_counter()
        there = np.flatnonzero(live)
        part = open_dataset(vectors[there], asked, metric="cosine")
        prepared = time.perf_counter()
        again = ground_truth(part, depth=depth)
        ended = time.perf_counter()
        ratios.append((middle - began) / (ended - prepared))
        if found.scores is None or again.scores is None:
            raise SystemExit("no scores")
        same = found.scores.tobytes() == again.scores.tobytes() and (found.rows == there[again.rows]).all()
        if not same:
            raise SystemExit("the truths differ")
    low, high = min(ratios), max(ratios)
    print(
        f"{rows:,} x {dimension}, {queries} queries, depth {depth}, 1 % replaced: "
        f"{statistics.median(ratios):.3f} of the time from scratch ({low:.3f} to {high:.3f}, {steps} steps)"
    )


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", choices=["claim", "truth"])
    parser.add_argument("--cycles", type=int, default=10)
    parser.add_argument("--share", default="1%")
    parser.add_argument("--engine", action="append")
    parser.add_argument("--small", action="store_true", help="a tenth of the rows, to see that it works")
    asked = parser.parse_args()
    scale = 10 if asked.small else 1
    if asked.only != "claim":
        for depth in (10, 100):
            truth_cost(50_000 // scale, 384, 500 // scale, depth, 20)
    if asked.only != "truth":
        engines = asked.engine or list(ENGINES)
        claim(engines, parse_share(asked.share), asked.cycles, START // scale, 1_000 // scale)


if __name__ == "__main__":
    main()
