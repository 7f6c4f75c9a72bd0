"""What a path costs beside calls of the same functions by hand, interleaved in one run.

    python benchmarks/stages.py [--rounds 15] [--queries 300]

The bundled 20,000 vectors and texts, cosine, k = 10, one thread, one query at a time, as the tool times them.
Both sides share the indexes, the full vectors and the function that reranks, so only the path differs: its
loop over the stages, its clock, and its record of what every stage returned and took, which a run keeps.
`by hand` is what a user would write: search, fuse, rerank, cut. Within a round the two take turns query by
query, and who is first changes; a round's figure is the median over its queries. Under `same` the calls by
hand are measured against themselves, which is what the machine's noise is worth.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from typing import TYPE_CHECKING, Any

import faiss
import numpy as np

from recallatk import Path, open_demo
from recallatk.adapters import QueryBatch
from recallatk.adapters.base import resolved
from recallatk.pipeline.fusion import rrf, weighted
from recallatk.pipeline.path_engine import path_engine

if TYPE_CHECKING:
    from collections.abc import Callable

    Search = Callable[[Any], Any]

K, DEPTH, CONSTANT, SHARE, AIM, LEAST_US = 10, 100, 60, 0.6, 1.03, 1_000
LISTS = {
    "retrieve": "faiss-ivf-pq",
    "build": {"nlist": 128, "M": 48, "refine": "none"},
    "search": {"nprobe": 64},
}
GRAPH = {"retrieve": "faiss-hnsw", "depth": DEPTH, "search": {"ef": 128}}
# Takes a millisecond and more.
DEEP = {**GRAPH, "search": {"ef": 800}}
WORDS = {"retrieve": "bm25", "depth": DEPTH}


def overlap(query: Any, candidates: list[Any]) -> list[float]:
    """A small reranker: the share of the query's words that a text has."""
    words = set(query.text.lower().split())
    return [len(words & set(each.text.lower().split())) / len(words) for each in candidates]


PATHS: dict[str, list[dict[str, Any]]] = {
    "ivf-pq, exact rerank": [{**LISTS, "oversample": 20}, {"rerank": "exact"}],
    "64 dimensions, exact rerank": [
        {"retrieve": "exact", "dimensions": 64, "oversample": 20},
        {"rerank": "exact"},
    ],
    "hybrid, rrf": [GRAPH, WORDS, {"fuse": "rrf", "constant": CONSTANT}],
    "hybrid, weighted": [GRAPH, WORDS, {"fuse": "weighted", "weight": SHARE}],
    "hybrid, function": [GRAPH, WORDS, {"fuse": "rrf", "depth": 50}, {"rerank": overlap}],
    "hybrid, rrf, ef 800": [DEEP, WORDS, {"fuse": "rrf", "constant": CONSTANT}],
    "hybrid, weighted, ef 800": [DEEP, WORDS, {"fuse": "weighted", "weight": SHARE}],
    "hybrid, function, ef 800": [DEEP, WORDS, {"fuse": "rrf", "depth": 50}, {"rerank": overlap}],
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--queries", type=int, default=300)
    chosen = parser.parse_args()
    dataset = open_demo()
    asked = min(chosen.queries, dataset.queries.rows)
    vectors = np.array(dataset.queries.vectors.read(0, asked), np.float32)
    texts = dataset.queries.columns.read(["text"], 0, asked)["text"].to_pylist()
    batches = [
        QueryBatch(vectors[row : row + 1], rows=range(row, row + 1), texts=texts[row : row + 1])
        for row in range(asked)
    ]
    print(f"{dataset.corpus.rows:,} rows, {dataset.corpus.dimension} dimensions, {asked:,} queries")
    print(
        f"{'path':<28} {'by hand us':>11} {'ours us':>9} {'us more':>8} {'ratio':>6} {'over rounds':>15} "
        f"{'same':>15}"
    )
    for name, stages in PATHS.items():
        compare(name, stages, dataset, batches, chosen.rounds)


def compare(name: str, stages: list[dict[str, Any]], dataset: Any, batches: list[Any], rounds: int) -> None:
    kind = path_engine(Path(name, stages, K))
    build, search = kind.knobs.given()
    with kind() as engine:
        engine.set_threads(2)
        engine.build(dataset.corpus, dataset.metric, **resolved(name, kind.build_knobs, build))
        engine.set_threads(1)
        engine.configure(**resolved(name, kind.search_knobs, search))
        faiss.omp_set_num_threads(1)
        direct = by_hand(engine)

        def ours(batch: Any) -> Any:
            return engine.search(batch, K)

        assert all((direct(each) == ours(each)).all() for each in batches[:20])
        pairs, noise = [], []
        for _ in range(rounds + 1):
            engine.begin_trace()
            pairs.append(turns(direct, ours, batches))
            engine.end_trace()
            noise.append(turns(direct, direct, batches))
    report(name, pairs[1:], noise[1:])  # the first round warms up


def by_hand(engine: Any) -> Search:
    """The same functions one after the other."""
    legs, path = [each.engine for each in engine.legs], engine.path
    if path.fuse is None:
        return alone(engine)
    graph, words = legs
    if path.reranks:
        order = engine.functions["rerank"].order

        def search(batch: Any) -> Any:
            lists = [graph.search(batch, DEPTH), words.scored(batch, DEPTH).rows]
            return order(batch, rrf(lists, CONSTANT, 50).rows)[:, :K]

    elif path.fuse.method == "rrf":

        def search(batch: Any) -> Any:
            return rrf([graph.search(batch, DEPTH), words.scored(batch, DEPTH).rows], CONSTANT, K).rows

    else:
        scores = engine.exact.scores

        def search(batch: Any) -> Any:
            near, by_words = graph.search(batch, DEPTH), words.scored(batch, DEPTH)
            known = [scores(batch.vectors, near), by_words.scores]
            return weighted([near, by_words.rows], known, [SHARE, 1 - SHARE], K).rows

    return search


def alone(engine: Any) -> Search:
    """One leg and an exact reranking."""
    leg, order = engine.legs[0], engine.exact.order
    reduced = leg.reduction

    def search(batch: Any) -> Any:
        asked = batch if reduced is None else QueryBatch(reduced.apply(batch.vectors))
        return order(batch.vectors, leg.engine.search(asked, 20 * K))[:, :K]

    return search


def turns(first: Search, second: Search, batches: list[Any]) -> tuple[float, float]:
    """The median seconds of both, asked one after the other for each query in alternating order."""
    times: tuple[list[int], list[int]] = ([], [])
    clock = time.perf_counter_ns
    gc.collect()
    gc.disable()
    for number, batch in enumerate(batches):
        # The second finds its rows in the processor's cache: after an untimed call both do.
        first(batch)
        for side in (0, 1) if number % 2 else (1, 0):
            search = second if side else first
            started = clock()
            search(batch)
            times[side].append(clock() - started)
    gc.enable()
    return statistics.median(times[0]) / 1e9, statistics.median(times[1]) / 1e9


def report(name: str, pairs: list[tuple[float, float]], noise: list[tuple[float, float]]) -> None:
    hand, ours = (statistics.median(side) * 1e6 for side in zip(*pairs, strict=True))
    ratios = sorted(second / first for first, second in pairs)
    same = sorted(second / first for first, second in noise)
    ratio = statistics.median(ratios)
    above = ratio > AIM and hand >= LEAST_US
    print(
        f"{name:<28} {hand:>11.1f} {ours:>9.1f} {ours - hand:>8.2f} {ratio:>6.3f} "
        f"{ratios[0]:>6.3f} to {ratios[-1]:.3f} {same[0]:>6.3f} to {same[-1]:.3f}"
        f"{f'  above the aim of {AIM}' if above else ''}"
    )


if __name__ == "__main__":
    main()
