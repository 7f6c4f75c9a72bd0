"""How often triggers fire on snapshots that did not drift, and how often on those that did.

    python benchmarks/drift.py [--repeats 200] [--drifts 40] [--seed 0] [--wordnet FOLDER]

Undrifted: random halves of the queries, draws with repeats as in a log with popular queries, and corpora of
which a twentieth of the rows were replaced. Drifted: queries of another kind, rotated and re-scaled
embeddings, another mix of categories, a new filter, another k, growth and deletes. It prints how often any
trigger fired, with the limits of a 95 % interval, and the triggers that fired most often.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from scipy import stats

from recallatk import make_corpus, make_queries, open_corpus, open_demo, open_queries
from recallatk.triggers import shifts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Corpus, QuerySet

WORDNET = Path(__file__).parents[2] / "shared" / "data" / "wordnet-minilm"
MOST_QUERIES, MOST_ROWS, CORPUS_ROWS = 2_000, 20_000, 6_000
FILTERED, REPLACED = 0.3, 0.05


class Data:
    """Queries and rows of one data set, and snapshots drawn from them."""

    def __init__(self, corpus: Corpus, queries: QuerySet, seed: int) -> None:
        draw = np.random.default_rng(seed)
        rows = np.sort(draw.permutation(corpus.rows)[:MOST_ROWS])
        asked = np.sort(draw.permutation(queries.rows)[:MOST_QUERIES])
        self.rows = np.asarray(corpus.vectors.read(0, corpus.rows)[rows], np.float32)
        self.kinds = np.array(corpus.metadata["category"].to_pylist(), object)[rows]
        self.queries = np.asarray(queries.vectors.read(0, queries.rows)[asked], np.float32)
        self.query_kinds = np.array(queries.metadata["category"].to_pylist(), object)[asked]
        self.corpus = make_corpus(self.rows, metadata=pa.table({"category": self.kinds.astype(str)}))
        common = Counter(self.kinds.astype(str)).most_common()
        self.common, self.rare = [name for name, _ in common[:5]], common[-1][0]
        dimension = self.rows.shape[1]
        self.turn = np.linalg.qr(draw.normal(size=(dimension, dimension)))[0].astype(np.float32)

    def halves(self, random: Any) -> list[NDArray[np.int64]]:
        """Two random halves of the queries."""
        mixed = random.permutation(len(self.queries))
        return [mixed[: len(mixed) // 2], mixed[len(mixed) // 2 :]]

    def log(self, random: Any, places: Any, vectors: Any = None, kinds: Any = None, new: float = 0.0,
            other_k: float = 0.0) -> QuerySet:  # fmt: skip
        """Queries as a log has them: with filters, k and a category."""
        chosen = self.queries[places] if vectors is None else vectors
        labels = (self.query_kinds[places] if kinds is None else kinds).astype(str)
        count = len(chosen)
        filters: list[str | None] = [
            f"category = '{random.choice(self.common)}'" if each < FILTERED else None
            for each in random.random(count)
        ]
        for place in np.flatnonzero(random.random(count) < new):
            filters[place] = f"category = '{self.rare}'"
        ks = np.where(random.random(count) < other_k, 50, 10)
        return make_queries(chosen, metadata=pa.table({"k": ks, "category": labels}), filters=filters)

    def snapshot(self, rows: Any) -> Corpus:
        """A corpus of these rows, with ids."""
        return make_corpus(
            self.rows[rows], ids=rows, metadata=pa.table({"category": self.kinds[rows].astype(str)})
        )


Draw = "Callable[[Data, Any], tuple[Any, Any]]"


def same_queries(data: Data, random: Any) -> tuple[Any, Any]:
    one, two = data.halves(random)
    return data.log(random, one), data.log(random, two)


def popular_queries(data: Data, random: Any) -> tuple[Any, Any]:
    weights = 1 / np.arange(1, len(data.queries) + 1) ** 0.8
    draws = [random.choice(len(data.queries), 1_000, p=weights / weights.sum()) for _ in range(2)]
    return data.log(random, draws[0]), data.log(random, draws[1])


def same_corpus(data: Data, random: Any) -> tuple[Any, Any]:
    mixed = random.permutation(len(data.rows))
    before, others = mixed[:CORPUS_ROWS], mixed[CORPUS_ROWS:]
    gone = int(REPLACED * CORPUS_ROWS)
    return data.snapshot(before), data.snapshot(np.concatenate([before[gone:], others[:gone]]))


def other_kind(share: float) -> Any:
    def draw(data: Data, random: Any) -> tuple[Any, Any]:
        one, two = data.halves(random)
        vectors = data.queries[two].copy()
        moved = random.random(len(two)) < share
        rows = random.choice(len(data.rows), int(moved.sum()), replace=False)
        vectors[moved] = data.rows[rows]
        return data.log(random, one), data.log(random, two, vectors)

    return draw


def turned(share: float) -> Any:
    def draw(data: Data, random: Any) -> tuple[Any, Any]:
        one, two = data.halves(random)
        vectors = data.queries[two].copy()
        moved = random.random(len(two)) < share
        vectors[moved] = vectors[moved] @ data.turn
        return data.log(random, one), data.log(random, two, vectors)

    return draw


def scaled(factor: float) -> Any:
    def draw(data: Data, random: Any) -> tuple[Any, Any]:
        one, two = data.halves(random)
        return data.log(random, one), data.log(random, two, factor * data.queries[two])

    return draw


def another_mix(share: float) -> Any:
    """The most common category takes a share of the queries from all others."""

    def draw(data: Data, random: Any) -> tuple[Any, Any]:
        one, two = data.halves(random)
        kind = Counter(data.query_kinds.astype(str)).most_common(1)[0][0]
        of_kind = np.flatnonzero(data.query_kinds.astype(str) == kind)
        moved = random.random(len(two)) < share
        two[moved] = random.choice(of_kind, int(moved.sum()))
        return data.log(random, one), data.log(random, two)

    return draw


def log_option(**options: float) -> Any:
    def draw(data: Data, random: Any) -> tuple[Any, Any]:
        one, two = data.halves(random)
        return data.log(random, one), data.log(random, two, **options)

    return draw


def resized(gone: float, more: float) -> Any:
    def draw(data: Data, random: Any) -> tuple[Any, Any]:
        mixed = random.permutation(len(data.rows))
        start = int(gone * CORPUS_ROWS)
        return data.snapshot(mixed[:CORPUS_ROWS]), data.snapshot(mixed[start : int(CORPUS_ROWS * (1 + more))])

    return draw


UNDRIFTED = {"queries, random halves": same_queries, "queries, popular ones repeat": popular_queries,
             "corpus, 5 % of the rows replaced": same_corpus}  # fmt: skip
DRIFTED = {
    **{f"{share:.0%} of the queries of another kind": other_kind(share) for share in (0.1, 0.25, 0.5, 1.0)},
    **{f"{share:.0%} of the queries rotated": turned(share) for share in (0.05, 0.2, 1.0)},
    **{f"queries scaled by {factor}": scaled(factor) for factor in (1.02, 1.1, 2.0)},
    **{f"{share:.0%} moved to one category": another_mix(share) for share in (0.1, 0.2, 0.4)},
    **{f"a new filter in {share:.0%}": log_option(new=share) for share in (0.05, 0.15, 0.3)},
    **{f"another k in {share:.0%}": log_option(other_k=share) for share in (0.05, 0.2)},
    "corpus, grown by 30 %": resized(0.0, 0.3),
    "corpus, 15 % deleted": resized(0.15, 0.0),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--drifts", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--wordnet", type=Path, default=WORDNET)
    parser.add_argument("--only", choices=["demo", "WordNet"])
    chosen = parser.parse_args()
    started = time.perf_counter()
    demo = open_demo()
    known = {"demo": Data(demo.corpus, demo.queries, chosen.seed)}
    if chosen.wordnet.is_dir():
        parts = (
            open_corpus(chosen.wordnet / "corpus.parquet"),
            open_queries(chosen.wordnet / "queries.parquet"),
        )
        known["WordNet"] = Data(*parts, chosen.seed)
    for name, data in known.items():
        if chosen.only not in (None, name):
            continue
        print(f"\n| {name} | any trigger | fired most often |\n|---|---|---|", flush=True)
        for repeats, families in ((chosen.repeats, UNDRIFTED), (chosen.drifts, DRIFTED)):
            for family, draw in families.items():
                line(data, family, draw, repeats, chosen.seed)
    print(f"\n{time.perf_counter() - started:.0f} s")


def line(data: Data, family: str, draw: Any, repeats: int, seed: int) -> None:
    random = np.random.default_rng([seed, *map(ord, family)])
    fired: Counter[str] = Counter()
    alarms = 0
    for _ in range(repeats):
        first, second = draw(data, random)
        corpus = None if "corpus" in family else data.corpus
        found = shifts(first, second, corpus=corpus, metric="cosine").fired
        alarms += bool(found)
        fired.update(each.name for each in found)
    low, high = stats.binomtest(alarms, repeats).proportion_ci(0.95, "wilson")
    most = ", ".join(f"{name} {count / repeats:.0%}" for name, count in fired.most_common(3))
    print(f"| {family} | {alarms / repeats:.1%} ({low:.1%} to {high:.1%}) | {most or '-'} |", flush=True)


if __name__ == "__main__":
    main()
