"""How often rule R37 (separate-spaces) warns about vectors of one model, and how often it finds those of two.

    python benchmarks/separation.py [--repeats 40] [--seed 0] [--wordnet FOLDER]

One model: random subsets of the demo data and of its categories, the same of WordNet glosses if the folder
has them, Gaussian mixtures of one to four clusters, isotropic or with one spectrum for all, and narrow cones
of one or two topics. Two models: a tenth to half of the rows of each in a rotated space, and cones of two
spectra. It prints the share of corpora that the rule warns about, with the limits of a 95 % interval.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from recallatk import open_corpus, open_demo
from recallatk.analysis.separation import MOST_ROWS, separation

if TYPE_CHECKING:
    from collections.abc import Callable

    from recallatk.core import Corpus

ROWS = (500, 2_000)
DIMENSIONS = (32, 128, 384)
SHARES = (0.1, 0.2, 0.5)
FEWEST_OF_A_CATEGORY = 300


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--wordnet", type=Path, default=None)
    chosen = parser.parse_args()
    started = time.perf_counter()
    known = {"demo": open_demo().corpus}
    if chosen.wordnet is not None:
        known["WordNet"] = open_corpus(chosen.wordnet / "corpus.parquet")
    real = {name: source for each, corpus in known.items() for name, source in real_families(each, corpus)}
    made = {**real, **made_families()}
    one = [line(name, draw, chosen) for name, draw in made.items()]
    mixed = {f"{name}, {share:.0%} rotated": rotated(made[name], share) for name in MIXED for share in SHARES
             if name in made}  # fmt: skip
    mixed["cones of two spectra"] = two_cones
    two = [line(name, draw, chosen) for name, draw in mixed.items()]
    print(f"\none model: worst family {max(one):.1%}; two models: worst family {min(two):.1%}")
    print(f"{chosen.repeats} repeats, {time.perf_counter() - started:.0f} s")


MIXED = ("demo subsets", "WordNet subsets", "cone", "1 cluster, one spectrum")


def line(name: str, draw: Callable[[Any], Any], chosen: argparse.Namespace) -> float:
    random = np.random.default_rng([chosen.seed, len(name), *map(ord, name)])
    found = [separation(draw(random)) for _ in range(chosen.repeats)]
    warned = sum(each is not None and each.unrelated for each in found)
    low, high = stats.binomtest(warned, chosen.repeats).proportion_ci(0.95, "wilson")
    share = warned / chosen.repeats
    print(f"{name:<36} {share:>6.1%}  ({low:.1%} to {high:.1%})", flush=True)
    return share


def real_families(name: str, corpus: Corpus) -> list[tuple[str, Callable[[Any], Any]]]:
    vectors = np.asarray(corpus.vectors.read(0, corpus.rows), np.float64)
    labels = np.array(corpus.metadata["category"].to_pylist(), object)
    kinds, counts = np.unique(labels.astype(str), return_counts=True)
    common = kinds[counts >= FEWEST_OF_A_CATEGORY]

    def subset(random: Any) -> Any:
        return vectors[random.choice(len(vectors), size(random), replace=False)]

    def topics(count: int) -> Callable[[Any], Any]:
        def draw(random: Any) -> Any:
            chosen = random.choice(common, count, replace=False)
            rows = np.flatnonzero(np.isin(labels.astype(str), chosen))
            return vectors[random.choice(rows, min(len(rows), MOST_ROWS), replace=False)]

        return draw

    return [(f"{name} subsets", subset), *((f"{name}, {n} categories", topics(n)) for n in (2, 3))]


def size(random: Any) -> int:
    return int(random.integers(*ROWS, endpoint=True))


def made_families() -> dict[str, Callable[[Any], Any]]:
    found: dict[str, Callable[[Any], Any]] = {}
    for count in (1, 2, 3, 4):
        named = f"{count} cluster{'s' if count > 1 else ''}"
        found[f"{named}, isotropic"] = lambda random, count=count: mixture(random, count, spectral=False)
        found[f"{named}, one spectrum"] = lambda random, count=count: mixture(random, count, spectral=True)
    found["cone"] = lambda random: cone(random, 1)
    found["cone of two topics"] = lambda random: cone(random, 2)
    return found


def spectrum(random: Any, dimension: int) -> Any:
    """Standard deviations of coordinates that fall by a power, as those of embeddings, in random order."""
    return random.permutation(np.arange(1, dimension + 1) ** -random.uniform(0.2, 0.8))


def mixture(random: Any, count: int, *, spectral: bool) -> Any:
    """Clusters of equal spread, from touching to far apart."""
    dimension = int(random.choice(DIMENSIONS))
    scale = spectrum(random, dimension) if spectral else np.ones(dimension)
    centers = random.normal(size=(count, dimension)) * scale * random.uniform(0.5, 4.0)
    shares = random.dirichlet(np.full(count, 5.0))
    label = random.choice(count, size(random), p=shares)
    return centers[label] + random.normal(size=(len(label), dimension)) * scale


def cone(random: Any, topics: int) -> Any:
    """Vectors around one direction, as those of language models, with one spectrum for all topics."""
    dimension = int(random.choice(DIMENSIONS))
    return cone_of(random, spectrum(random, dimension), topics, size(random))


def cone_of(random: Any, scale: Any, topics: int, rows: int) -> Any:
    axis = random.normal(size=len(scale))
    axis *= np.linalg.norm(scale) * random.uniform(1.0, 3.0) / np.linalg.norm(axis)
    centers = random.normal(size=(topics, len(scale))) * scale
    label = random.integers(0, topics, rows)
    return axis + centers[label] + random.normal(size=(rows, len(scale))) * scale


def two_cones(random: Any) -> Any:
    dimension = int(random.choice(DIMENSIONS))
    rows = size(random)
    first = int(rows * random.uniform(0.1, 0.9))
    parts = [cone_of(random, spectrum(random, dimension), 1, count) for count in (first, rows - first)]
    return np.concatenate(parts)


def rotated(draw: Callable[[Any], Any], share: float) -> Callable[[Any], Any]:
    """A share of the rows as another model of the same quality would have them."""

    def mixed(random: Any) -> Any:
        vectors = np.array(draw(random))
        which = random.random(len(vectors)) < share
        turn, _ = np.linalg.qr(random.normal(size=(vectors.shape[1],) * 2))
        vectors[which] = vectors[which] @ turn
        return vectors

    return mixed


if __name__ == "__main__":
    main()
