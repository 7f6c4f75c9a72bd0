"""What certified truth costs against uncertified searches of the same data, interleaved in one run.

    python benchmarks/truth.py [--rounds 5] [--data FOLDER] [--only wordnet,million,wide,add]

Three data sets: wordnet-minilm (6,000 queries, cosine, depth 100; the bundled demo data where it is not
there), a generated 1,000,000 x 128 under l2 with 1,000 queries, and a generated 40,000 x 1,536 under cosine
with 2,000, few rows of many dimensions. The peers get prepared float32 arrays:
normalised ones for cosine. `faiss.knn` is the one to beat; scikit-learn's brute force and one query at a
time in NumPy, as ann-benchmarks computes its truth, are run on some of the queries and scaled up.

Ours is `ground_truth` as a user calls it, which scans in 8 bits where `recallatk[fast]` is installed and that
pays; on a processor with VNNI the target is at most 0.7 times `faiss.knn` on all three. It includes range
checks, normalisation, scan, float64 scores, ties, certificates and fingerprints. `sgemm` is NumPy's product of two matrices in the same run: two large square
ones, and all queries with 4,096 rows, which is what any search has to multiply. The rate is that of the
multiplications alone: 2 x queries x rows x dimensions.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import faiss
import numpy as np
from sklearn.neighbors import NearestNeighbors

from recallatk import make_corpus, make_queries, open_dataset, open_demo
from recallatk.truths import ground_truth, obtain_truth

if TYPE_CHECKING:
    from collections.abc import Callable

    Times = dict[str, list[float]]

DEPTH = 100
SQUARE, SAME = "sgemm, 4096 x 4096 x 4096", "sgemm, queries x 4096 rows"
SOME_QUERIES = 200


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/wordnet-minilm"))
    parser.add_argument("--only", default="wordnet,million,wide,add")
    chosen = parser.parse_args()
    parts = chosen.only.split(",")
    if "wordnet" in parts or "add" in parts:
        corpus, queries = load(chosen.data)
    if "wordnet" in parts:
        compare("wordnet-minilm, cosine", corpus, queries, "cosine", chosen.rounds)
    if "million" in parts:
        compare("1,000,000 x 128, l2", *generated(1_000_000, 1_000, 128), "l2", chosen.rounds)
    if "wide" in parts:
        compare("40,000 x 1,536, cosine", *generated(40_000, 2_000, 1_536), "cosine", chosen.rounds)
    if "add" in parts:
        compare_adding(corpus, queries, chosen.rounds)


def generated(rows: int, queries: int, dimension: int) -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    return tuple(random.standard_normal((count, dimension), np.float32) for count in (rows, queries))


def load(folder: Path) -> tuple[Any, Any]:
    dataset = open_dataset(folder, metric="cosine") if folder.exists() else open_demo()
    return tuple(
        np.array(part.vectors.read(0, part.rows), np.float32) for part in (dataset.corpus, dataset.queries)
    )


def compare(name: str, corpus: Any, queries: Any, metric: str, rounds: int) -> None:
    prepared = [unit(each) if metric == "cosine" else each for each in (corpus, queries)]
    kind = faiss.METRIC_L2 if metric == "l2" else faiss.METRIC_INNER_PRODUCT
    few = prepared[1][:SOME_QUERIES]
    scale = len(queries) / len(few)
    square = np.random.default_rng(1).standard_normal((4096, 4096), np.float32)
    product = np.empty_like(square)
    tile = prepared[0][:4096]
    scores = np.empty((len(queries), len(tile)), np.float32)
    tasks: dict[str, Callable[[], object]] = {
        "ours, certified": lambda: ours(corpus, queries, metric),
        "ours, without 8 bits": lambda: ours(corpus, queries, metric, "blas"),
        "faiss.knn": lambda: faiss.knn(prepared[1], prepared[0], DEPTH, kind),
        SQUARE: lambda: np.matmul(square, square, out=product),
        SAME: lambda: np.matmul(prepared[1], tile.T, out=scores),
    }
    times = interleaved(tasks, rounds)
    slow = interleaved(
        {
            "scikit-learn brute": lambda: brute(prepared[0], few, metric),
            "numpy, one query at a time": lambda: one_by_one(prepared[0], few, metric),
        },
        2,
    )
    times |= {peer: [each * scale for each in values] for peer, values in slow.items()}
    operations = 2.0 * len(queries) * corpus.shape[0] * corpus.shape[1]
    work = {SQUARE: 2.0 * len(square) ** 3, SAME: 2.0 * scores.size * corpus.shape[1]}
    report(name, times, operations, work)


def unit(vectors: Any) -> Any:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def ours(corpus: Any, queries: Any, metric: str, backend: str = "auto") -> object:
    dataset = open_dataset(make_corpus(corpus), make_queries(queries), metric=metric)
    return ground_truth(dataset, depth=DEPTH, backend=backend)


def brute(corpus: Any, queries: Any, metric: str) -> object:
    model = NearestNeighbors(
        n_neighbors=DEPTH, algorithm="brute", metric="cosine" if metric == "cosine" else "l2"
    )
    return model.fit(corpus).kneighbors(queries)


def one_by_one(corpus: Any, queries: Any, metric: str) -> None:
    lengths = (corpus**2).sum(axis=1)
    for query in queries:
        scores = lengths - 2 * np.dot(corpus, query) if metric == "l2" else -np.dot(corpus, query)
        nearest = np.argpartition(scores, DEPTH)[:DEPTH]
        nearest[np.argsort(scores[nearest])]


def interleaved(tasks: dict[str, Callable[[], object]], rounds: int) -> Times:
    times: Times = {name: [] for name in tasks}
    random = np.random.default_rng(2)
    for round_number in range(rounds + 1):
        for name in random.permutation(list(tasks)):
            started = time.perf_counter()
            tasks[name]()
            if round_number:  # the first round warms up
                times[name].append(time.perf_counter() - started)
    return times


def report(name: str, times: Times, operations: float, products: dict[str, float]) -> None:
    medians = {task: statistics.median(values) for task, values in times.items()}
    base = medians["faiss.knn"]
    paired = sorted(a / b for a, b in zip(times["ours, certified"], times["faiss.knn"], strict=True))
    print(f"\n{name}")
    print(f"{'task':<28} {'seconds':>8} {'range':>17} {'x faiss':>8} {'GFLOP/s':>8}")
    for task, values in times.items():
        work = products.get(task, operations)
        spread = f"{min(values):.2f} to {max(values):.2f}"
        ratio = "" if task in products else f"{medians[task] / base:.2f}"
        print(f"{task:<28} {medians[task]:>8.2f} {spread:>17} {ratio:>8} {work / medians[task] / 1e9:>8.0f}")
    rate = operations / medians["ours, certified"]
    print(f"round by round, ours / faiss.knn: {', '.join(f'{ratio:.2f}' for ratio in paired)}")
    for task, work in products.items():
        print(f"ours reaches {rate / (work / medians[task]):.0%} of {task}")


def compare_adding(corpus: Any, queries: Any, rounds: int) -> None:
    """The last 1 % of the rows added to a truth, against computing all; the same through the store."""
    before = len(corpus) - len(corpus) // 100
    datasets = [
        open_dataset(make_corpus(rows), make_queries(queries), metric="cosine")
        for rows in (corpus[:before], corpus)
    ]
    earlier = ground_truth(datasets[0], depth=DEPTH)
    tasks: dict[str, Callable[[], object]] = {
        "all rows": lambda: ours(corpus, queries, "cosine"),
        "the last 1 %": lambda: ground_truth(fresh(corpus, queries), depth=DEPTH, since=earlier),
        "all rows, through the store": lambda: through_store(corpus, queries, None),
        "the last 1 %, through the store": lambda: through_store(corpus, queries, earlier_store),
    }
    with tempfile.TemporaryDirectory() as earlier_store:
        obtain_truth(datasets[0], depth=DEPTH, store=earlier_store)
        times = {name: statistics.median(each) for name, each in interleaved(tasks, rounds).items()}
    print(f"\nadding {len(corpus) - before:,} rows to {before:,}")
    for way in ("", ", through the store"):
        added, whole = times[f"the last 1 %{way}"], times[f"all rows{way}"]
        print(f"the last 1 %{way}: {added:.2f} s, {added / whole:.1%} of {whole:.2f} s for all rows")


def fresh(corpus: Any, queries: Any) -> Any:
    return open_dataset(make_corpus(corpus), make_queries(queries), metric="cosine")


def through_store(corpus: Any, queries: Any, store: str | None) -> None:
    """Everything that the command does; what it stores is removed again, so that no round finds it."""
    with tempfile.TemporaryDirectory() as empty:
        found = obtain_truth(fresh(corpus, queries), depth=DEPTH, store=store or empty)
        shutil.rmtree(found.path.parent)


if __name__ == "__main__":
    main()
