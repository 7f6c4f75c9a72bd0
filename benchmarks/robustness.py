"""Whether indexes of equal mean recall serve users equally well: the claim of arXiv 2507.00379, on our data.

The paper finds that indexes with the same mean recall@10 differ in robustness-δ@10, the share of queries with
a recall of at least δ, and that the quality of downstream answers follows robustness. Here a graph (HNSW) and
inverted lists (IVF) answer the same queries at efforts of equal mean recall@10. They are compared query by
query: robustness, and nDCG@10 by relevance judgments.

    python benchmarks/robustness.py [--data FOLDER] [--targets 0.8 0.9 0.95 0.98]

Without --data: the bundled data. Recall does not depend on the load of the machine; the graph is built by one
thread, so that every run builds the same one.
"""

import argparse
import time

import faiss
import numpy as np

import recallatk
from recallatk.analysis.comparison import holm
from recallatk.analysis.relevance import relevance_loss

K = 10
CLOSE = 0.002
DELTAS = (0.1, 0.3, 0.5, 0.7, 0.9, 1.0)


class Searched:
    """Answers of one index by effort, each searched once."""

    def __init__(self, name, search, efforts, dataset, truth):
        self.name, self.search, self.efforts = name, search, efforts
        self.dataset, self.truth, self.found = dataset, truth, {}

    def rows(self, effort):
        if effort not in self.found:
            self.found[effort] = self.search(effort)
        return self.found[effort]

    def score(self, effort):
        measures = [f"robust({delta:g})@{K}" for delta in DELTAS]
        return recallatk.score(self.truth, self.rows(effort), [K], measures=measures, row_numbers=True)

    def recall(self, effort):
        return self.score(effort)[f"recall@{K}"]

    def nearest(self, target):
        """The effort whose recall is nearest to the target; recall grows with effort but for noise."""
        low, high = 0, len(self.efforts) - 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.recall(self.efforts[middle]) < target else (low, middle)
        around = self.efforts[max(0, low - 1) : high + 2]
        return min(around, key=lambda effort: abs(self.recall(effort) - target))


def graph(vectors, queries):
    index = faiss.IndexHNSWFlat(vectors.shape[1], 16, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = 200
    index.add(vectors)

    def search(effort):
        return index.search(queries, K, params=faiss.SearchParametersHNSW(efSearch=effort))[1]

    return search


def lists(vectors, queries):
    count = int(4 * np.sqrt(len(vectors)))
    quantizer = faiss.IndexFlatIP(vectors.shape[1])
    index = faiss.IndexIVFFlat(quantizer, vectors.shape[1], count, faiss.METRIC_INNER_PRODUCT)
    index.train(vectors)
    index.add(vectors)

    def search(effort):
        return index.search(queries, K, params=faiss.SearchParametersIVF(nprobe=effort))[1]

    return search


def equal_efforts(first, second, target):
    """Efforts of both near the target whose recalls are nearest to each other."""
    start = second.nearest(target)
    place = second.efforts.index(start)
    pairs = []
    for effort in second.efforts[max(0, place - 2) : place + 3]:
        other = first.nearest(second.recall(effort))
        pairs.append((abs(first.recall(other) - second.recall(effort)), abs(effort - start), other, effort))
    gap, _, one, other = min(pairs)
    return one, other, gap


def difference(first, second):
    """Second minus first over the queries that have both, with the interval of the paired differences."""
    there = ~np.isnan(first)
    (found,) = recallatk.compare({"HNSW": first[there], "IVF": second[there]})
    return found


def written(found):
    return f"{found.difference:+.4f} [{found.low:+.4f}, {found.high:+.4f}]"


def report(first, second, target):
    """Both at equal mean recall; the difference of their nDCG losses."""
    one, other, gap = equal_efforts(first, second, target)
    scores = first.score(one), second.score(other)
    close = "" if gap <= CLOSE else f", more than {CLOSE} apart: no finer effort"
    print(f"\nHNSW ef={one}, IVF nprobe={other}: mean recall@{K} differs by {gap:.4f}{close}")
    print(f"{'measure':>16} {'HNSW':>8} {'IVF':>8}  IVF - HNSW, 95 % interval")
    for name in scores[0].measures:
        values = [score.per_query[name] for score in scores]
        print(f"{name:>16} {values[0].mean():8.4f} {values[1].mean():8.4f}  {written(difference(*values))}")
    spread = [score.per_query[f"recall@{K}"].std() for score in scores]
    print(f"{'sd of recall@10':>16} {spread[0]:8.4f} {spread[1]:8.4f}")
    losses = [
        relevance_loss(each.rows(effort), each.truth, each.dataset, f"nDCG@{K}")
        for each, effort in ((first, one), (second, other))
    ]
    found = difference(*losses)
    means = [np.nanmean(each) for each in losses]
    # A smaller loss is a larger nDCG.
    print(f"{'nDCG@10 loss':>16} {means[0]:8.4f} {means[1]:8.4f}  {written(found)}, p = {found.p_value:.2g}")
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data")
    parser.add_argument("--targets", type=float, nargs="+", default=[0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98])
    arguments = parser.parse_args()
    dataset = recallatk.open_demo()
    if arguments.data:
        dataset = recallatk.open_dataset(arguments.data, metric="cosine")
    truth = recallatk.ground_truth(dataset, depth=100)
    vectors, queries = (
        np.array(each.vectors.read(0, each.rows), np.float32) for each in (dataset.corpus, dataset.queries)
    )
    for each in (vectors, queries):
        faiss.normalize_L2(each)
    exact = relevance_loss(np.full((len(queries), K), -1), truth, dataset, f"nDCG@{K}")
    judged = int((~np.isnan(exact)).sum())
    print(
        f"{len(vectors):,} rows, {len(queries):,} queries ({judged:,} judged), nDCG@{K} of exact search "
        f"{np.nanmean(exact):.4f}"
    )
    faiss.omp_set_num_threads(1)
    searched = []
    for name, make, efforts in (
        ("HNSW", graph, list(range(K, 400))),
        ("IVF", lists, list(range(1, 257))),
    ):
        began = time.perf_counter()
        searched.append(Searched(name, make(vectors, queries), efforts, dataset, truth))
        print(f"{name} built in {time.perf_counter() - began:.0f} s")
    found = [report(*searched, target) for target in arguments.targets]
    adjusted = holm([each.p_value for each in found])
    print("\nnDCG@10 loss, IVF - HNSW, p adjusted for the number of targets (Holm)")
    for target, each, p_value in zip(arguments.targets, found, adjusted, strict=True):
        print(f"recall about {target:g}: {written(each)}, p = {p_value:.2g}")


if __name__ == "__main__":
    main()
