"""How often the statistics of few exact queries are right, and how many exact queries a proxy saves.

    python benchmarks/probe_statistics.py [--repeats 400] [--seed 0] [--wordnet FOLDER]

Populations are recall@10 per query of faiss HNSW and IVF indexes at low effort, on the demo data and on
wordnet-minilm where the folder has it. The good proxy judges the same answers by the same index at its
highest effort instead of by exact search, the fair one at a middling effort. The bad ones are the good one in
random order, upside down, and lower by 0.2. Queries are drawn with replacement: n have an exact recall, and 9
n (99 n in the lines of "many others") have only the proxy's.

It prints how often the 95 % interval covers the true mean, its width over that of the exact recalls alone,
how often the betting bounds are wrong on each side, and their distances from the mean over those of the plain
ones. `exact queries` is the share of exact queries that suffice with the proxy for the width that they have
alone. Then the sequential test: how often it is wrong with the truth at the target, and the median number of
exact queries with the truth 0.05 and 0.02 below the target and 0.03 above it, with the proxy and without; and
with the truth at 0.90 and the target at 0.95, where the recalls of one index are drawn so that 0.90 is their
mean.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import faiss
import numpy as np

from recallatk import open_corpus, open_demo
from recallatk.analysis.betting import SequentialTest, SequentialVerdict, lower_bound, upper_bound
from recallatk.analysis.intervals import mean_interval
from recallatk.analysis.prediction_powered import proxy_mean
from recallatk.analysis.proxy_betting import ProxyTest, proxy_lower_bound, proxy_upper_bound
from recallatk.datasets.opening import open_queries

if TYPE_CHECKING:
    from collections.abc import Iterator

WORDNET = Path(__file__).parents[2] / "shared" / "data" / "wordnet-minilm"
K = 10
# Low efforts, the middling one and the highest one.
HNSW = ((20, 40), 160, 640)
IVF = ((8, 16), 64, 256)
CLUSTERS = 256
SIZES = (50, 200, 500)
OTHERS = 9
MANY_OTHERS = 99
MOST_QUERIES = 1_000
GAPS = (-0.05, -0.02, 0.03)
TARGET, TRUTH = 0.95, 0.90


class Pairs(NamedTuple):
    """Exact and proxy recalls of all queries of a population."""

    name: str
    proxy_name: str
    exact: Any
    proxy: Any


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--wordnet", type=Path, default=WORDNET)
    chosen = parser.parse_args()
    started = time.perf_counter()
    random = np.random.default_rng(chosen.seed)
    data = [("demo", open_demo().corpus, open_demo().queries)]
    if chosen.wordnet.is_dir():
        folder = chosen.wordnet
        data.append(
            ("wordnet", open_corpus(folder / "corpus.parquet"), open_queries(folder / "queries.parquet"))
        )
    pairs = [each for name, corpus, queries in data for each in populations(name, corpus, queries, random)]
    claims = intervals_and_bounds(pairs, chosen.repeats, random)
    claims += perfect_proxy()
    claims += verdicts(pairs, chosen.repeats, random)
    claims += at_target(pairs, chosen.repeats, random)
    print("\n" + "\n".join(claims))
    print(f"{chosen.repeats:,} repeats, {time.perf_counter() - started:.0f} s")


def populations(name: str, corpus: Any, queries: Any, random: Any) -> Iterator[Pairs]:
    rows, asked = (np.array(part.vectors.read(0, part.rows), np.float32) for part in (corpus, queries))
    faiss.normalize_L2(rows)
    faiss.normalize_L2(asked)
    flat = faiss.IndexFlatIP(rows.shape[1])
    flat.add(rows)
    truth = flat.search(asked, K)[1]
    graph = faiss.IndexHNSWFlat(rows.shape[1], 16, faiss.METRIC_INNER_PRODUCT)
    lists = faiss.IndexIVFFlat(faiss.IndexFlatIP(rows.shape[1]), rows.shape[1], CLUSTERS)
    lists.metric_type = faiss.METRIC_INNER_PRODUCT
    lists.train(rows)
    for kind, index, (lows, middling, highest) in (("HNSW", graph, HNSW), ("IVF", lists, IVF)):
        index.add(rows)
        fair, good = (answered(index, effort, asked) for effort in (middling, highest))
        for low in lows:
            answers = answered(index, low, asked)
            exact, proxy = recalls(answers, truth), recalls(answers, good)
            label = f"{name}, {kind} {low}"
            yield Pairs(label, "good", exact, proxy)
            yield Pairs(label, "fair", exact, recalls(answers, fair))
            yield Pairs(label, "random", exact, random.permutation(proxy))
            yield Pairs(label, "upside down", exact, 1 - proxy)
            yield Pairs(label, "0.2 lower", exact, np.maximum(proxy - 0.2, 0))


def answered(index: Any, effort: int, asked: Any) -> Any:
    if isinstance(index, faiss.IndexHNSWFlat):
        index.hnsw.efSearch = effort
    else:
        index.nprobe = effort
    return index.search(asked, K)[1]


def recalls(answers: Any, truth: Any) -> Any:
    return (answers[:, :, None] == truth[:, None, :]).any(axis=2).mean(axis=1)


def intervals_and_bounds(pairs: list[Pairs], repeats: int, random: Any) -> list[str]:
    print(
        f"{'population':<18} {'proxy':<12} {'mean':>6} {'n':>4} {'others':>6} {'covered':>8} {'width':>6} "
        f"{'exact queries':>14} {'low wrong':>10} {'high wrong':>11} {'low gap':>8} {'high gap':>9}"
    )
    lines = []
    for each in pairs:
        many = [(n, MANY_OTHERS) for n in SIZES[:2]] if each.proxy_name == "good" else []
        for n, others in [*((n, OTHERS) for n in SIZES), *many]:
            line = judged(each, n, others, repeats, random)
            lines.append((each, n, others, line))
            covered, width, queries, low, high, low_gap, high_gap = line
            print(
                f"{each.name:<18} {each.proxy_name:<12} {each.exact.mean():>6.3f} {n:>4} {others * n:>6} "
                f"{covered:>8.1%} {width:>6.2f} {queries:>14.0%} {low:>10.1%} {high:>11.1%} {low_gap:>8.2f} "
                f"{high_gap:>9.2f}",
                flush=True,
            )
    told = []
    for name in ("good", "fair", "random", "upside down", "0.2 lower"):
        large = [
            line
            for each, n, others, line in lines
            if each.proxy_name == name and n >= 200 and others == OTHERS
        ]
        covered, queries = ([line[place] for line in large] for place in (0, 2))
        told.append(
            f"{name}, n >= 200: the interval covers the mean in {min(covered):.1%} to {max(covered):.1%}; it "
            f"needs {min(queries):.0%} to {max(queries):.0%} of the exact queries"
        )
    # Chance moves a share of that many repeats by three standard errors.
    noise = 3 * np.sqrt(0.05 * 0.95 / repeats)
    each, n, _, line = max(lines, key=lambda each: max(each[3][3:5]))
    worst = max(line[3:5])
    met = "met" if worst <= 0.05 else "met within chance" if worst <= 0.05 + noise else "not met"
    where = f"{each.name}, {each.proxy_name}, n = {n}; {len(lines)} lines"
    return [*told, f"each bound is wrong in at most 5 %: {met}; worst {worst:.1%} ({where})"]


def judged(pairs: Pairs, n: int, others: int, repeats: int, random: Any) -> Any:
    mean = float(pairs.exact.mean())
    found = []
    for _ in range(repeats):
        drawn = random.integers(0, len(pairs.exact), n * (1 + others))
        exact, proxy, rest = pairs.exact[drawn[:n]], pairs.proxy[drawn[:n]], pairs.proxy[drawn[n:]]
        shown, alone = proxy_mean(exact, proxy, rest), mean_interval(exact)
        high = proxy_upper_bound(exact, proxy, rest)
        plain = mean - lower_bound(exact), upper_bound(exact) - mean
        found.append(
            (
                shown.low <= mean <= shown.high,
                shown.high - shown.low,
                alone.high - alone.low,
                shown.bound > mean,
                high < mean,
                mean - shown.bound,
                high - mean,
                *plain,
            )
        )
    covered, width, alone, low_wrong, high_wrong, low, high, plain_low, plain_high = np.mean(found, axis=0)
    ratio = width / alone
    return covered, ratio, ratio**2, low_wrong, high_wrong, low / plain_low, high / plain_high


def perfect_proxy() -> list[str]:
    """What the bound pays for a proxy that is always right, with 100 others per exact query."""
    told = []
    for n in (50, 100, 200, 500, 2000):
        ones, varied = np.ones(n), np.tile([1.0, 1.0, 0.9, 1.0, 0.7], n // 5)
        gap = 1 - proxy_lower_bound(ones, ones, np.ones(100 * n))
        lower = varied.mean() - proxy_lower_bound(varied, varied, np.tile(varied, 100))
        told.append(f"{n * gap:.1f} / n below 1 and {n * lower:.1f} / n below 0.92 for n = {n}")
    return [f"a perfect proxy, lower bound: {', '.join(told)}"]


def verdicts(pairs: list[Pairs], repeats: int, random: Any) -> list[str]:
    print(f"\n{'population':<18} {'proxy':<12} {'PASS':>6} {'FAIL':>6}  exact queries: with / without proxy")
    wrong: list[tuple[float, str]] = []
    sides = SequentialVerdict.PASS, SequentialVerdict.FAIL
    for each in pairs:
        mean = float(each.exact.mean())
        said = [decided(each, mean, random)[0].verdict for _ in range(repeats)]
        passed, failed = (said.count(side) / repeats for side in sides)
        wrong.append((max(passed, failed), f"{each.name}, {each.proxy_name}"))
        medians = []
        for gap in GAPS:
            tests = [decided(each, mean - gap, random) for _ in range(repeats // 4)] if mean - gap < 1 else []
            if tests:
                used = np.median([[test.used for test in both] for both in tests], axis=0)
                medians.append(f"{gap:+.2f}: {used[0]:.0f} / {used[1]:.0f}")
        print(
            f"{each.name:<18} {each.proxy_name:<12} {passed:>6.1%} {failed:>6.1%}  {'   '.join(medians)}",
            flush=True,
        )
    share, where = max(wrong)
    return [f"truth at the target: wrong in at most {share:.1%} ({where}; {len(wrong)} lines)"]


def decided(pairs: Pairs, target: float, random: Any, places: Any = None) -> tuple[ProxyTest, SequentialTest]:
    size = len(pairs.exact) if places is None else len(places)
    drawn = random.integers(0, size, (MOST_QUERIES, 1 + OTHERS))
    drawn = drawn if places is None else places[drawn]
    tests = ProxyTest(target), SequentialTest(target)
    tests[0].update(pairs.exact[drawn[:, 0]], pairs.proxy[drawn[:, 0]], pairs.proxy[drawn[:, 1:]])
    tests[1].update(pairs.exact[drawn[:, 0]])
    return tests


def at_target(pairs: list[Pairs], repeats: int, random: Any) -> list[str]:
    """Truth 0.90 and target 0.95: queries of an index left out at random until 0.90 is the mean."""
    told = []
    for each in pairs:
        if each.proxy_name != "good" or not 0.85 < each.exact.mean() < 0.94:
            continue
        places = np.arange(len(each.exact))
        while abs(each.exact[places].mean() - TRUTH) > 0.0005:
            recalls = each.exact[places]
            there = recalls < TRUTH if recalls.mean() < TRUTH else recalls > TRUTH
            places = np.delete(places, random.choice(np.flatnonzero(there), 1))
        tests = [decided(each, TARGET, random, places) for _ in range(repeats)]
        used = np.median([[test.used for test in both] for both in tests], axis=0)
        failed = np.mean([[test.verdict == "FAIL" for test in both] for both in tests], axis=0)
        told.append(
            f"truth 0.90, target 0.95, {each.name}: median {used[0]:.0f} exact queries with the proxy, "
            f"{used[1]:.0f} without; FAIL in {failed[0]:.1%} and {failed[1]:.1%}"
        )
    return told


if __name__ == "__main__":
    main()
