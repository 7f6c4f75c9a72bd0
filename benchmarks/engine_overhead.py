"""What a search through an adapter costs beside the same call of the bare library, interleaved in one run.

    python benchmarks/engine_overhead.py [--rounds 15] [--queries 400] [--data FOLDER]

The bundled 20,000 vectors, then all 117,659 of wordnet-minilm where they are there, under cosine, k = 10,
ef = 64, one thread, one query at a time, as the tool times them. What an adapter takes is the same at any
size, so that its share falls as indexes grow: `us more` is what a call takes longer. Both search the same
index object with the same prepared float32 queries, so only the adapter differs. Within a round the two take
turns query by query, and who is first changes; a round's figure is the median over its queries. `bare` is
what a user of the library would write: the search, and the row numbers as it returns them. Under `same` the
bare call is measured against itself, which is what the machine's noise is worth.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import faiss
import numpy as np

from recallatk import make_corpus, open_dataset, open_demo
from recallatk.adapters import QueryBatch
from recallatk.adapters.base import resolved
from recallatk.adapters.registry import get_engine
from recallatk.core import Metric

if TYPE_CHECKING:
    from collections.abc import Callable

    Search = Callable[[Any], Any]

K, EFFORT, AIM = 10, 64, 1.03
EFFORT_KNOBS = {"faiss-hnsw": "ef", "usearch": "expansion", "hnswlib": "ef"}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--queries", type=int, default=400)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/wordnet-minilm"))
    chosen = parser.parse_args()
    datasets = [open_demo()]
    if chosen.data.exists():
        datasets.append(open_dataset(chosen.data, metric="cosine"))
    for dataset in datasets:
        corpus = make_corpus(np.array(dataset.corpus.vectors.read(0, dataset.corpus.rows), np.float32))
        asked = min(chosen.queries, dataset.queries.rows)
        queries = np.array(dataset.queries.vectors.read(0, asked), np.float32)
        print(f"\n{corpus.rows:,} rows, {corpus.dimension} dimensions, {len(queries):,} queries")
        print(
            f"{'engine':<12} {'bare us':>8} {'ours us':>8} {'us more':>8} {'ratio':>6} {'over rounds':>15} "
            f"{'same':>15}"
        )
        for name in EFFORT_KNOBS:
            compare(name, corpus, queries, chosen.rounds)


def compare(name: str, corpus: Any, queries: Any, rounds: int) -> None:
    kind = get_engine(name)
    with kind() as engine:
        engine.set_threads(2)
        engine.build(corpus, Metric.COSINE, **resolved(name, kind.build_knobs, {}))
        engine.set_threads(1)
        engine.configure(**resolved(name, kind.search_knobs, {EFFORT_KNOBS[name]: EFFORT}))
        faiss.omp_set_num_threads(1)
        direct = bare(name, engine)
        assert (np.ravel(direct(queries[:1])) == engine.search(QueryBatch(queries[:1]), K)[0]).all()
        pairs = [
            turns(direct, lambda batch: engine.search(batch, K), queries, batched=True)
            for _ in range(rounds + 1)
        ]
        noise = [turns(direct, direct, queries) for _ in range(rounds + 1)]
    report(name, pairs[1:], noise[1:])  # the first rounds warm up


def bare(name: str, engine: Any) -> Search:
    index = engine.index
    if name == "faiss-hnsw":
        return lambda asked: index.search(asked, K)[1]
    if name == "usearch":
        return lambda asked: index.search(asked, K, threads=1).keys
    return lambda asked: index.knn_query(asked, K, 1)[0]


def turns(first: Search, second: Search, queries: Any, *, batched: bool = False) -> tuple[float, float]:
    """The median seconds of both, asked one after the other for each query in alternating order.

    Where `batched`, the second takes a QueryBatch, prepared outside the timed call as the tool does.
    """
    times: tuple[list[int], list[int]] = ([], [])
    clock = time.perf_counter_ns
    gc.collect()
    gc.disable()
    for number in range(len(queries)):
        asked = queries[number : number + 1]
        batch = QueryBatch(asked) if batched else asked
        # The second finds the nodes in the processor's cache: after an untimed call both do.
        first(asked)
        for side in (0, 1) if number % 2 else (1, 0):
            search, given = (second, batch) if side else (first, asked)
            started = clock()
            search(given)
            times[side].append(clock() - started)
    gc.enable()
    return statistics.median(times[0]) / 1e9, statistics.median(times[1]) / 1e9


def report(name: str, pairs: list[tuple[float, float]], noise: list[tuple[float, float]]) -> None:
    bare_median, ours_median = (statistics.median(side) for side in zip(*pairs, strict=True))
    ratios = sorted(ours / direct for direct, ours in pairs)
    same = sorted(second / first for first, second in noise)
    ratio = statistics.median(ratios)
    print(
        f"{name:<12} {bare_median * 1e6:>8.1f} {ours_median * 1e6:>8.1f} "
        f"{(ours_median - bare_median) * 1e6:>8.2f} {ratio:>6.3f} "
        f"{ratios[0]:>6.3f} to {ratios[-1]:.3f} {same[0]:>6.3f} to {same[-1]:.3f}"
        f"{'' if ratio <= AIM else f'  above the aim of {AIM}'}"
    )


if __name__ == "__main__":
    main()
