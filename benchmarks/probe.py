"""How many queries a probe of a real PostgreSQL table asks before it decides, and how often it is wrong.

    python benchmarks/probe.py [--rows 100000] [--queries 3000] [--probes 100] [--repeats 1000] [--quick]
        [--parts decisions,coverage] [--keep FOLDER]

A pgvector table of real MiniLM embeddings (wordnet-minilm where the folder has it, otherwise clustered random
vectors of 384 dimensions) gets an HNSW index. `hnsw.ef_search` is chosen twice: so that true recall@10 is
about 0.90, and so that it is about 0.985. The target is 0.95. Recall has no room for the same distance above
the target as below it: 0.985 is the side that passes.

Every query of a pool is asked once of the live table: its exact neighbors, and its answers at both settings,
at the highest effort (the good proxy) and at a middling one. `--keep` saves that. The probes then are calls
of `recallatk.probe` on a collection that repeats what the table answered, with queries drawn at random from
the pool, which is the workload. A few probes of the table itself come first, with the same queries and the
same seeds: verdict, number of queries and recall have to be the same as those of the repeated ones.

A bad proxy is the good one with the answers of another query (`other`), with two of ten ids wrong
(`2 wrong`), or, as recalls alone, upside down. `held` is the share of probes whose interval, at the moment
at which they stopped, has the true recall. The lines with the truth at the target ask for a target that is
the true recall, where every verdict is wrong or luck. Coverage and widths of intervals of a fixed size come
from `proxy_mean`, which the probe calls, over draws of exact and proxy recalls; `exact queries` is the share
of exact queries that suffice for the width that they have alone.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psycopg

from recallatk import open_corpus, probe
from recallatk.adapters import get_engine
from recallatk.adapters.base import resolved
from recallatk.adapters.collection import Answer, Collection, Discovery, Neighbors
from recallatk.adapters.postgres_server import bundled_server
from recallatk.adapters.target_schemes import open_collection
from recallatk.analysis.betting import lower_bound
from recallatk.analysis.intervals import mean_interval
from recallatk.analysis.listed_recall import listed_recall
from recallatk.analysis.prediction_powered import proxy_mean
from recallatk.core import Knob, Metric
from recallatk.datasets.opening import open_queries
from recallatk.files import atomic_file
from recallatk.probing.references import BEYOND

WORDNET = Path(__file__).parents[2] / "shared" / "data" / "wordnet-minilm"
K, TARGET = 10, 0.95
SIDES = {"FAIL": 0.90, "PASS": 0.985}
HIGHEST, MIDDLING = 1000, 100
DIMENSIONS, CENTERS, LATENT = 384, 400, 32
# Clustered random vectors are easier than embeddings: only a weaker index misses as many neighbors.
WEAKER = {"M": 6, "ef_construction": 24}
# Queries in hand: what a sequential probe needs at most, and ten per exact query with a proxy.
IN_HAND, IN_HAND_WITH_PROXY, AT_TRUTH_WITH_PROXY = 1_000, 5_000, 2_000
OTHERS = 9
SIZES = (50, 200)
_DECIDED = (6, 7, 12, 7, 14, 5, 5, 5, 6)
_COVERED = (6, 12, 6, 7, 8, 14, 8, 8, 6, 6)


class Pool(NamedTuple):
    """What the table answered to every query of the pool."""

    vectors: Any
    rows: int
    exact: Any
    distances: Any
    answers: dict[int, Any]
    """Ids by effort; -1 is padding."""
    efforts: dict[str, int]
    """The effort of each side."""
    live: list[Any]
    """Outcomes of probes of the table itself."""

    def recall(self, effort: int, judge: Any = None) -> Any:
        """Recall of every query, by exact neighbors or by the ids of a judge."""
        found = []
        for place, ids in enumerate(self.answers[effort].tolist()):
            right = self.exact[place].tolist() if judge is None else judge[place].tolist()
            far = self.distances[place] if judge is None else np.arange(len(right), dtype=np.float64)
            found.append(listed_recall(right, far, ids, K, complete=False).value)
        return np.array(found, np.float64)

    def judges(self, random: Any) -> dict[str, Any]:
        """Ids of proxies, from good to useless."""
        good = self.answers[HIGHEST]
        wrong = good.copy()
        for row in wrong:
            row[random.choice(K, 2, replace=False)] = -2 - np.arange(2)
        other = good[random.permutation(len(good))]
        return {"good": good, "middling": self.answers[MIDDLING], "2 wrong": wrong, "other": other}


class Repeated(Collection):
    """The table as it answered: the same ids and exact neighbors for every query of the pool."""

    exact_mode = True
    snapshots = True

    def __init__(self, pool: Pool, judge: Any) -> None:
        self.pool, self.judge = pool, judge
        self.places = {vector.tobytes(): place for place, vector in enumerate(pool.vectors)}
        self.effort = 0

    def discovery(self) -> Discovery:
        return Discovery(
            "repeated", "pgvector", self.pool.rows, self.pool.vectors.shape[1], Metric.COSINE, ""
        )

    def knobs(self) -> tuple[Knob, ...]:
        return (Knob("ef_search", default=40, low=1, high=HIGHEST, effort=True),)

    def configure(self, search: Any, settings: Any = None) -> None:
        self.effort = search["ef_search"]

    def answer(self, vector: Any, k: int, condition: Any) -> Answer:
        place = self.places[np.asarray(vector, np.float32).tobytes()]
        ids = self.judge if self.effort == HIGHEST else self.pool.answers[self.effort]
        return Answer([each for each in ids[place].tolist() if each != -1], 0.0, True)

    def exact(self, vector: Any, depth: int, condition: Any) -> Neighbors:
        place = self.places[np.asarray(vector, np.float32).tobytes()]
        return Neighbors(self.pool.exact[place, :depth].tolist(), self.pool.distances[place, :depth], False)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=3_000)
    parser.add_argument("--probes", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=1_000)
    parser.add_argument("--wordnet", type=Path, default=WORDNET)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--parts", default="decisions,coverage")
    parser.add_argument("--quick", action="store_true", help="a small table and few probes")
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.rows, chosen.queries, chosen.probes, chosen.repeats = 5_000, 400, 10, 50
    with tempfile.TemporaryDirectory() as scratch:
        folder = chosen.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        data = "wordnet" if chosen.wordnet.is_dir() else "clusters"
        file = folder / f"{data}-{chosen.rows}-{chosen.queries}.npz"
        if not file.exists():
            measure(file, chosen)
        pool = read_pool(file)
    random = np.random.default_rng(0)
    judges = pool.judges(random)
    for side, effort in pool.efforts.items():
        values = pool.recall(effort)
        print(
            f"{side}: {data}, {pool.rows:,} x {pool.vectors.shape[1]}, ef_search={effort}, true recall@{K} "
            f"{values.mean():.4f} (standard deviation {values.std():.3f}), target {TARGET}"
        )
    print(agreement(pool, judges["good"]) + "\n")
    claims = decisions(pool, judges, chosen.probes) if "decisions" in chosen.parts else []
    claims += coverage(pool, judges, chosen.repeats, random) if "coverage" in chosen.parts else []
    print("\n" + "\n".join(claims))


# The table, once


def measure(file: Path, chosen: Any) -> None:
    """Build the table, ask every query of the pool, and probe the table itself."""
    corpus, queries = data_of(chosen)
    vectors = np.array(queries.vectors.read(0, queries.rows), np.float32)[: chosen.queries]
    kind, build = get_engine("pgvector-hnsw"), {} if chosen.wordnet.is_dir() else WEAKER
    with kind() as engine:
        started = time.perf_counter()
        engine.build(corpus, Metric.COSINE, **resolved("pgvector-hnsw", kind.build_knobs, build))
        print(f"index built in {time.perf_counter() - started:.0f} s", flush=True)
        parts = psycopg.conninfo.conninfo_to_dict(bundled_server())
        target = (f"postgresql:///{parts['dbname']}?host={parts['host']}&user={parts['user']}"
                  f"&table={engine.schema}.items&id=number")  # fmt: skip
        pool = asked(target, corpus.rows, vectors)
        pool = pool._replace(live=[outcome(target, pool, *each) for each in live_probes()])
    saved = {f"answers_{effort}": ids for effort, ids in pool.answers.items()}
    said = json.dumps({"rows": pool.rows, "efforts": pool.efforts, "live": pool.live})
    with atomic_file(file) as path, Path(path).open("wb") as out:
        np.savez(out, vectors=vectors, exact=pool.exact, distances=pool.distances, said=said, **saved)


def read_pool(file: Path) -> Pool:
    with np.load(file) as saved:
        said = json.loads(str(saved["said"]))
        answers = {int(name[8:]): saved[name] for name in saved.files if name.startswith("answers_")}
        vectors, exact, distances = saved["vectors"], saved["exact"], saved["distances"]
    return Pool(vectors, said["rows"], exact, distances, answers, said["efforts"], said["live"])


def data_of(chosen: Any) -> tuple[Any, Any]:
    if chosen.wordnet.is_dir():
        corpus = open_corpus(chosen.wordnet / "corpus.parquet")
        if chosen.rows < corpus.rows:
            # Spread over the file: its rows are in the order of their meaning.
            places = np.linspace(0, corpus.rows - 1, chosen.rows).astype(np.int64)
            corpus = open_corpus(np.array(corpus.vectors.read(0, corpus.rows), np.float32)[places])
        queries = open_queries(chosen.wordnet / "queries.parquet")
        order = np.random.default_rng(1).permutation(queries.rows)
        return corpus, open_queries(np.array(queries.vectors.read(0, queries.rows), np.float32)[order])
    random = np.random.default_rng(1)
    centers = random.normal(size=(CENTERS, LATENT))
    spread = random.normal(size=(LATENT, DIMENSIONS))
    drawn = [
        centers[random.integers(0, CENTERS, count)] + random.normal(size=(count, LATENT))
        for count in (chosen.rows, chosen.queries)
    ]
    rows, asked = ((each @ spread).astype(np.float32) for each in drawn)
    return open_corpus(rows), open_queries(asked)


def asked(target: str, rows: int, vectors: Any) -> Pool:
    """Exact neighbors once, then the answers at every effort that is needed."""
    with open_collection(target) as table:

        def answers(effort: int) -> Any:
            table.configure({"ef_search": effort})
            found = np.full((len(vectors), K), -1, np.int64)
            for place, vector in enumerate(vectors):
                ids = table.answer(vector, K, None).ids
                found[place, : len(ids)] = ids
            return found

        started = time.perf_counter()
        exact = [table.exact(vector, K + BEYOND, None) for vector in vectors]
        print(f"{len(vectors):,} exact searches in {time.perf_counter() - started:.0f} s", flush=True)
        ids, distances = np.array([each.ids for each in exact]), np.array([each.distances for each in exact])
        known = {effort: answers(effort) for effort in (MIDDLING, HIGHEST)}
        pool = Pool(vectors, rows, ids, distances, known, {}, [])
        efforts = {}
        for side, wanted in SIDES.items():
            low, high = K, HIGHEST
            while high - low > 1:
                middle = (low + high) // 2
                if middle not in known:
                    known[middle] = answers(middle)
                low, high = (middle, high) if pool.recall(middle).mean() < wanted else (low, middle)
            for effort in (low, high):
                if effort not in known:
                    known[effort] = answers(effort)
            efforts[side] = min((low, high), key=lambda effort: abs(pool.recall(effort).mean() - SIDES[side]))
            print(f"{side}: ef_search={efforts[side]}", flush=True)
    kept = {*efforts.values(), MIDDLING, HIGHEST}
    return pool._replace(answers={effort: known[effort] for effort in kept}, efforts=efforts)


# Probes


def live_probes() -> list[tuple[str, int, bool]]:
    """Side, seed and whether with a proxy, of the probes of the table itself."""
    return [(side, seed, proxy) for side in SIDES for seed, proxy in ((0, False), (1, False), (2, True))]


def outcome(target: Any, pool: Pool, side: str, seed: int, proxy: bool, goal: float = TARGET) -> list[Any]:
    """Verdict, queries with exact neighbors, all queries, recall and its interval of one probe."""
    count = IN_HAND if not proxy else IN_HAND_WITH_PROXY if goal == TARGET else AT_TRUTH_WITH_PROXY
    drawn = np.random.default_rng([seed, proxy, len(side)]).integers(0, len(pool.vectors), count)
    found = probe(
        target,
        pool.vectors[drawn],
        goals=[f"recall@{K} >= {goal}"],
        search={"ef_search": pool.efforts[side]},
        max_rate=None,
        proxy=proxy,
        seed=seed,
    )
    recall = found.recall
    counts = [found.counts.exact, recall.n]
    return [found.verdict.outcome, *counts, recall.value, recall.low, recall.high]


def agreement(pool: Pool, good: Any) -> str:
    same = 0
    for each, live in zip(live_probes(), pool.live, strict=True):
        repeated = outcome(Repeated(pool, good), pool, *each)
        agree = repeated[:3] == live[:3] and np.allclose(repeated[3], live[3], atol=1e-12)
        same += agree
        if not agree:
            print(f"{each}: the table gave {live}, the repeated probe {repeated}")
    return f"{same} of {len(pool.live)} probes of the table had the outcome of the repeated probe"


def decisions(pool: Pool, judges: dict[str, Any], probes: int) -> list[str]:
    """Verdicts and numbers of exact queries, without a proxy and with each."""
    names = ("truth", "target", "proxy", "median", "10 % to 90 %", "PASS", "FAIL", "open", "held")
    print(line(names, _DECIDED))
    told = []
    for side, effort in pool.efforts.items():
        mean = float(pool.recall(effort).mean())
        for goal in (TARGET, mean):
            for name in ("", *(judges if goal == TARGET else ("good", "other"))):
                table = Repeated(pool, judges[name or "good"])
                seeds = range(1_000, 1_000 + probes)
                found = [outcome(table, pool, side, seed, bool(name), goal) for seed in seeds]
                said = [each[0] for each in found]
                used = np.array([each[1] for each in found])
                held = np.mean([low <= mean <= high for *_, low, high in found])
                low, median, high = (f"{each:.0f}" for each in np.percentile(used, [10, 50, 90]))
                passed, failed, still = (said.count(each) for each in ("PASS", "FAIL", "UNDECIDED"))
                cells = (f"{mean:.3f}", f"{goal:.3f}", name or "none", median, f"{low} to {high}",
                         passed, failed, still, f"{held:.0%}")  # fmt: skip
                print(line(cells, _DECIDED), flush=True)
                if goal == TARGET and name in ("", "good"):
                    wrong = failed if mean > TARGET else passed
                    told.append(
                        f"truth {mean:.3f}, target {goal}, proxy {name or 'none'}: median {median} exact "
                        f"queries (wanted: at most 150), {wrong} of {probes} wrong (wanted: at most 5 %)"
                    )
    return told


def line(cells: Any, widths: tuple[int, ...]) -> str:
    return " ".join(f"{each:>{width}}" for each, width in zip(cells, widths, strict=True))


def coverage(pool: Pool, judges: dict[str, Any], repeats: int, random: Any) -> list[str]:
    """Intervals and bounds with each proxy, over those of the exact recalls alone."""
    names = (
        "truth",
        "proxy",
        "exact",
        "others",
        "covered",
        "exact queries",
        "gap",
        "alone",
        "ratio",
        "wrong",
    )
    print("\n" + line(names, _COVERED))
    told = []
    for effort in pool.efforts.values():
        exact = pool.recall(effort)
        mean = float(exact.mean())
        proxies = {name: pool.recall(effort, judge) for name, judge in judges.items()}
        proxies["upside down"] = 1 - proxies["good"]
        for name, proxy in proxies.items():
            for n in SIZES:
                covered, queries, gap, alone, wrong = judged(exact, proxy, n, repeats, random)
                cells = (f"{mean:.3f}", name, n, OTHERS * n, f"{covered:.1%}", f"{queries:.0%}",
                         f"{gap:.4f}", f"{alone:.4f}", f"{gap / alone:.2f}", f"{wrong:.1%}")  # fmt: skip
                print(line(cells, _COVERED), flush=True)
                if name == "good":
                    told.append(
                        f"truth {mean:.3f}, good proxy, {n} exact queries: {queries:.0%} of those without "
                        f"(wanted: at most 33 %), covered {covered:.1%} (wanted: 93 to 97 %), decision bound "
                        f"{gap / alone:.2f} times as far from the mean"
                    )
    return told


def judged(exact: Any, proxy: Any, n: int, repeats: int, random: Any) -> tuple[float, ...]:
    """Coverage, exact queries for the same width, gaps of both bounds, and how often the bound is wrong."""
    mean, lines = float(exact.mean()), []
    for _ in range(repeats):
        drawn = random.integers(0, len(exact), n * (1 + OTHERS))
        known, of_known, others = exact[drawn[:n]], proxy[drawn[:n]], proxy[drawn[n:]]
        found, alone = proxy_mean(known, of_known, others), mean_interval(known)
        gaps = mean - found.bound, mean - lower_bound(known)
        covered = found.low <= mean <= found.high
        lines.append((covered, found.high - found.low, alone.high - alone.low, *gaps, found.bound > mean))
    covered, width, plain, gap, plain_gap, wrong = np.mean(lines, axis=0)
    return covered, (width / plain) ** 2, gap, plain_gap, wrong


if __name__ == "__main__":
    main()
