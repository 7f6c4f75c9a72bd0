"""How often a gate is right, simulated from real recalls per query.

    python benchmarks/gate.py [--pairs 1000] [--builds 24] [--seed 0]

Recalls are recall@10 of faiss HNSW graphs on the bundled 20,000 vectors; rows that are not in the graphs ask.
Each graph is built with the rows in an order of its own, and each pair draws 1,000 queries. `rebuilt` gives
every query's recalls by two graphs to baseline and candidate at random, so that nothing but chance tells them
apart. `less effort` has one graph: the candidate searches a share of the queries with the next lower effort
such that the true loss is twice the margin of 0.01. `rebuilt, less effort` is both.

`builds vary` compares graphs so thin that their mean recall varies from build to build. Each side draws its
builds from the same ones, so that a FAIL is a false alarm: with one build a side, and with three.

`rare loss` is a pair of equal recalls, but that each query has lost everything with such a probability that
the true loss is 0.0105: a PASS is wrong.

It prints PASS, FAIL and UNDECIDED of all pairs in percent, and the spread of the paired differences.

The last table is of gates that measure: they ask 1,000 drawn queries in random order, in the batches of
`gate bench.toml`, until the goal is decided. `above` is how far the true recall lies above its target, or
above the limit that the baseline gives. It prints how many queries the gates that pass have asked, and how
often the verdict is PASS, FAIL and UNDECIDED. Where the true recall is at the limit, either verdict is wrong.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import faiss
import numpy as np

from recallatk import open_demo
from recallatk.analysis.distribution import mean_of
from recallatk.analysis.sides import ComparedSide, SideBuild, SideKind, SideSetting
from recallatk.core.judgments import Outcome
from recallatk.goals import parse_goal_with_baseline
from recallatk.goals.against_baseline import SettingBesideBaseline
from recallatk.goals.relative import RelativeGoal
from recallatk.goals.sequential_goals import FINAL_CONFIDENCE, SequentialGoal
from recallatk.regression.sequential_run import batch_size

if TYPE_CHECKING:
    from numpy.typing import NDArray

K, ROWS, QUERIES = 10, 16_000, 1_000
MEASURE = f"recall@{K}"
GOAL = parse_goal_with_baseline(f"{MEASURE} >= baseline - 0.01")
LOSS = 0.02
# M and efConstruction of the graphs, and efforts, each with the next lower one.
USUAL, EFFORTS = (8, 40), (32, 48, 96)
THIN, THIN_EFFORT = (4, 12), 96
RARE, FEW = 0.0105, (200, 300)
ABOVE = (0.0, 0.01, 0.03, 0.05)
OUTCOMES = (Outcome.MET, Outcome.MISSED, Outcome.UNDECIDED)


def recalls(rows: Any, asked: Any, graph: tuple[int, int], efforts: tuple[int, ...], seed: int) -> Any:
    """Recall of every query at each effort, by one graph with its rows in random order."""
    order = np.random.default_rng(seed).permutation(len(rows))
    index = faiss.IndexHNSWFlat(rows.shape[1], graph[0], faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = graph[1]
    index.add(rows[order])
    found = []
    for effort in efforts:
        index.hnsw.efSearch = effort
        found.append(order[index.search(asked, K)[1]])
    return found


def shares(found: Any, right: Any) -> NDArray[np.float64]:
    """Recall of each query."""
    return np.array([len(set(a) & set(b)) / K for a, b in zip(found, right, strict=True)])


def setting(builds: Any) -> SideSetting:
    """One setting with the recalls of its builds."""
    made = tuple(SideBuild({MEASURE: mean_of(each, MEASURE)}, {MEASURE: each}) for each in builds)
    return SideSetting("engine", (), (), "latency", made)


def outcome(first: Any, second: Any) -> Outcome:
    """The verdict on the second side."""
    one, other = setting(first), setting(second)
    side = ComparedSide("baseline", SideKind.RUN, (one,), queries=len(first[0]))
    return SettingBesideBaseline(side, one, other).judged(GOAL).result.outcome


def line(name: str, mean: float, spread: float | None, found: list[Outcome]) -> None:
    """One line of the table."""
    percent = "".join(f"{100 * found.count(each) / len(found):>11.1f}" for each in OUTCOMES)
    shown = "" if spread is None else f"{spread:.3f}"
    print(f"{name:<34}{mean:>7.3f}{shown:>8}{percent}", flush=True)


def rare_losses(random: Any, values: Any, pairs: int) -> None:
    """Pairs of equal recalls, of which a rare query has lost everything."""
    for queries in FEW:
        found = []
        for _ in range(pairs):
            one = values[random.integers(0, len(values), queries)]
            # Lost recall, and not only lost queries, adds up to the loss.
            lost = random.random(queries) < RARE / float(values.mean())
            found.append(outcome([one], [np.where(lost, 0.0, one)]))
        line(f"rare loss, {queries} queries", float(values.mean()), None, found)


def asked_until(goal: Any, baseline: Any, values: Any) -> tuple[Outcome, int]:
    """The verdict of a gate that measures, and the number of queries that it asked."""
    test, asked = SequentialGoal(goal), 0
    while asked < len(values) and not test.decided:
        part = slice(asked, asked + batch_size(asked))
        test.take(values[part], baseline[part] if isinstance(goal, RelativeGoal) else None)
        asked = min(part.stop, len(values))
    if test.decided:
        return test.outcome, asked
    one, other = setting([baseline]), setting([values])
    side = ComparedSide("baseline", SideKind.RUN, (one,), queries=len(values))
    return SettingBesideBaseline(side, one, other, FINAL_CONFIDENCE).judged(goal).result.outcome, asked


def measured_gates(random: Any, first: Any, second: Any, pairs: int) -> None:
    """Gates on the second side that stop as soon as they are decided."""
    true, before = float(second.mean()), float(first.mean())
    for above in ABOVE:
        margin = above + before - true
        goals = {
            f"{MEASURE} >= {true - above:.4f}": "target",
            f"{MEASURE} >= baseline {'-' if margin >= 0 else '+'} {abs(margin):.4f}": "baseline",
        }
        for text, name in goals.items():
            if name == "baseline" and above == 0 and margin == 0:
                continue
            goal, found = parse_goal_with_baseline(text), []
            for _ in range(pairs):
                drawn = random.integers(0, len(second), QUERIES)
                found.append(asked_until(goal, first[drawn], second[drawn]))
            outcomes = [each for each, _ in found]
            passed = [asked for each, asked in found if each is Outcome.MET]
            ends = np.percentile(passed, [50, 10, 90]) if passed else [np.nan] * 3
            percent = "".join(f"{100 * outcomes.count(each) / pairs:>11.1f}" for each in OUTCOMES)
            counts = "".join(f"{each:>8.0f}" for each in ends)
            print(f"{name:<10}{true:>7.3f}{above:>7.2f}{counts}{percent}", flush=True)


def main() -> None:
    """Measure recalls, then judge pairs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=1_000)
    parser.add_argument("--builds", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    # Threads would make another graph each time.
    faiss.omp_set_num_threads(1)
    random = np.random.default_rng(asked.seed)
    corpus = open_demo().corpus
    vectors = np.asarray(corpus.vectors.read(0, corpus.rows), np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    shuffled = vectors[random.permutation(len(vectors))]
    rows, queries = shuffled[:ROWS], shuffled[ROWS:]
    right = np.argsort(-(queries.astype(np.float64) @ rows.T.astype(np.float64)), axis=1)[:, :K]
    pool = [
        [shares(found, right) for found in recalls(rows, queries, USUAL, EFFORTS, seed)] for seed in range(2)
    ]
    print(f"{len(queries):,} queries in the pool, {QUERIES:,} per pair, {asked.pairs:,} pairs, {GOAL}")
    print(
        f"{'pairs':<34}{'recall':>7}{'spread':>8}"
        + "".join(f"{each:>11}" for each in ("PASS", "FAIL", "UNDECIDED"))
    )
    for place in range(1, len(EFFORTS)):
        both, lower = (np.array([graph[each] for graph in pool]) for each in (place, place - 1))
        for name, rebuilt, lost in (
            ("rebuilt", True, 0.0),
            ("less effort", False, LOSS),
            ("rebuilt, less effort", True, LOSS),
        ):
            share = lost / float((both - lower).mean())
            found, spreads = [], []
            for _ in range(asked.pairs):
                drawn = random.integers(0, len(queries), QUERIES)
                graph = (random.random(QUERIES) < 0.5).astype(int)
                one = both[graph, drawn]
                graph = 1 - graph if rebuilt else graph
                other = np.where(random.random(QUERIES) < share, lower[graph, drawn], both[graph, drawn])
                found.append(outcome([one], [other]))
                spreads.append(float((other - one).std()))
            line(f"ef {EFFORTS[place]}, {name}", float(both.mean()), float(np.median(spreads)), found)
    rare_losses(random, np.asarray(pool[0][-1]), asked.pairs)
    thin = np.array(
        [
            shares(recalls(rows, queries, THIN, (THIN_EFFORT,), 100 + each)[0], right)
            for each in range(asked.builds)
        ]
    )
    means = thin.mean(axis=1)
    print(f"builds vary: {asked.builds} builds, mean recall {means.min():.3f} to {means.max():.3f}")
    for count in (1, 3):
        found = []
        for _ in range(asked.pairs):
            drawn = random.integers(0, len(queries), QUERIES)
            chosen = random.permutation(asked.builds)[: 2 * count]
            sides = thin[chosen][:, drawn]
            found.append(outcome(sides[:count], sides[count:]))
        line(
            f"no difference, {count} build{'s' if count > 1 else ''} a side", float(thin.mean()), None, found
        )
    print(f"gates that measure, {QUERIES:,} queries at most: asked where they pass, median, 10 % and 90 %")
    print(
        f"{'goal':<10}{'recall':>7}{'above':>7}{'median':>8}{'10 %':>8}{'90 %':>8}"
        + "".join(f"{each:>11}" for each in ("PASS", "FAIL", "UNDECIDED"))
    )
    for place in range(len(EFFORTS)):
        one, other = (np.asarray(graph[place]) for graph in pool)
        measured_gates(random, one, other, asked.pairs)


if __name__ == "__main__":
    main()
