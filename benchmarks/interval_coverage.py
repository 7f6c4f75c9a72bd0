"""How often intervals, bounds and the sequential test are right, on recalls whose true mean is known.

    python benchmarks/interval_coverage.py [--repeats 2000] [--seed 0]
        [--only intervals,sequential,weighted,classes]

Populations are beta-binomial hits out of k = 10, and recall@10 of a faiss HNSW index at several efforts on
the demo data: its recalls per query are the population, from which samples are drawn with replacement.

`intervals` prints, for samples of n queries, how often nominal 95 % intervals hold the true mean: what we
show (BCa, wider where few queries make a long tail), BCa alone, Student's t, and Wilson's on n x k hits as
though they were independent; and how often the 95 % betting lower bound is above the true mean. `sequential`
prints how often the test decides wrongly, with the truth at the target, a little below and a little above,
and the median number of queries it takes. The worst of many lines is above what it is on average: a line of
more than 5 % is drawn anew with five times the repeats, and both are said.

`weighted` draws entries of a query log whose 100,000 distinct queries have Zipf traffic (exponents 0.6 to
1), until n distinct ones are seen: their counts are the weights. Recall does not depend on popularity, or
common queries have better or worse recall than rare ones; every repeat has queries of its own. It prints how
often the weighted interval and Student's t of n queries hold the traffic-weighted mean, and how often the
weighted betting bound is above it; and how often the caution about a few queries comes, in all repeats and in
those in which the interval misses the mean. Effective numbers below 30 have limits that hold for any
distribution.
`classes` has as many heavy queries, of which few miss, as light ones, of which many miss: heavy misses are
too rare to be seen in some samples. It prints how often the intervals of the weighted share of queries
without a miss, and of the weighted mean of a loss of 0.3 per miss, hold the truth.
`pairs` draws distinct queries regardless of their traffic instead, which leaves out most of the common ones.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import faiss
import numpy as np
from scipy import stats

from recallatk import open_demo, score
from recallatk.analysis.betting import SequentialTest, SequentialVerdict, lower_bound
from recallatk.analysis.distribution import FEWEST_RESAMPLED, interval_of
from recallatk.analysis.intervals import bca_interval, mean_interval
from recallatk.analysis.weighting import few_effective
from recallatk.core import Weights
from recallatk.core.weights import effective_number
from recallatk.truths import ground_truth

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

K = 10
SIZES = (50, 200, 500, 2000)
# Standard deviations: 0.12 where hits out of ten can have it. At 0.80 independent hits alone have more; at
# 0.995 no values from 0 to 1 have as much, and 0.04 is what hits as dependent as at 0.95 have.
SPREADS = {0.80: 0.137, 0.90: 0.12, 0.95: 0.12, 0.98: 0.12, 0.995: 0.04}
EFFORTS = (10, 20, 40, 80)
TARGET = 0.95
TRUTHS = (0.90, 0.93, 0.945, 0.95, 0.955, 0.96, 0.97, 0.98, 0.99)
MOST_QUERIES = 4_000
# Three standard errors of a share of 5 % are no evidence that it is larger.
ALLOWED = 3.0
MORE_REPEATS = 5
WEIGHTED_SIZES = (100, 300, 1000, 2000)
DISTINCT = 100_000
EXPONENTS = (0.6, 0.8, 1.0)
CLASS_SIZES = (100, 400, 2000)
RATIOS = (3, 10, 100, 1000)
# Shares of heavy and of light queries that miss.
MISSES = ((0.01, 0.5), (0.002, 0.3), (0.0, 0.05), (0.05, 0.05))
LOSS = 0.3
# Change of the mean recall per standard deviation of the logarithm of the rank.
SLOPES = {"alike": 0.0, "common better": -0.01, "common worse": 0.015}


TITLES = f"{'population':<16} {'mean':>7} {'sd':>6}"


class Population(NamedTuple):
    """Where recalls come from, and their true mean."""

    name: str
    mean: float
    spread: float
    draw: Callable[[Any, tuple[int, int]], Any]


class Line(NamedTuple):
    """One population and sample size: how often each method was right, or wrong for the bound."""

    population: Population
    n: int
    shown: float
    bca: float
    student: float
    wilson: float
    bound_wrong: float


class Stops(NamedTuple):
    """One population and target: how often the test said either, and after how many queries."""

    population: Population
    target: float
    passed: float
    failed: float
    median: float


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=2_000)
    parser.add_argument("--only", default="intervals,sequential,weighted,classes")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    started = time.perf_counter()
    random = np.random.default_rng(chosen.seed)
    wants_real = "intervals" in chosen.only or "sequential" in chosen.only
    real = list(real_populations()) if wants_real else []
    claims: list[str] = []
    if "intervals" in chosen.only:
        simulated = [beta_binomial(mean, spread) for mean, spread in SPREADS.items()]
        claims += intervals([*simulated, *real], chosen.repeats, random)
    if "sequential" in chosen.only:
        claims += sequential(real, chosen.repeats, random)
    if "weighted" in chosen.only:
        claims += weighted(chosen.repeats, random, pairs=False)
    if "classes" in chosen.only:
        claims += classes(chosen.repeats, random)
    if "pairs" in chosen.only:
        claims += weighted(chosen.repeats, random, pairs=True)
    print("\n" + "\n".join(claims))
    print(f"{chosen.repeats:,} repeats, {time.perf_counter() - started:.0f} s")


def beta_binomial(mean: float, spread: float) -> Population:
    correlation = correlation_of(mean, spread)
    both = (1 - correlation) / correlation

    def draw(random: Any, shape: tuple[int, int]) -> Any:
        return random.binomial(K, random.beta(mean * both, (1 - mean) * both, shape)) / K

    return Population("beta-binomial", mean, spread, draw)


def correlation_of(mean: float, spread: float) -> float:
    """How much the hits of one query depend on each other, for recalls of this mean and deviation."""
    return (K * spread**2 / (mean * (1 - mean)) - 1) / (K - 1)


def real_populations() -> Iterator[Population]:
    dataset = open_demo()
    corpus, queries = (
        np.array(part.vectors.read(0, part.rows), np.float32) for part in (dataset.corpus, dataset.queries)
    )
    faiss.normalize_L2(corpus)
    faiss.normalize_L2(queries)
    truth = ground_truth(dataset, depth=K)
    index = faiss.IndexHNSWFlat(corpus.shape[1], 16, faiss.METRIC_INNER_PRODUCT)
    index.add(corpus)
    for effort in EFFORTS:
        index.hnsw.efSearch = effort
        recalls = score(truth=truth, answers=index.search(queries, K)[1], at=[K], row_numbers=True).per_query[
            f"recall@{K}"
        ]

        def draw(random: Any, shape: tuple[int, int], recalls: Any = recalls) -> Any:
            return random.choice(recalls, shape)

        yield Population(f"HNSW, ef {effort}", float(recalls.mean()), float(recalls.std()), draw)


def intervals(populations: list[Population], repeats: int, random: Any) -> list[str]:
    print(f"{TITLES} {'n':>5} {'shown':>7} {'BCa':>7} {'t':>7} {'Wilson':>7} {'bound wrong':>12}")
    lines = []
    for population in populations:
        for n in SIZES:
            line = covered(population, n, population.draw(random, (repeats, n)))
            lines.append(line)
            found = "".join(f" {each:>7.1%}" for each in line[2:-1])
            print(f"{described(population)} {n:>5}{found} {line.bound_wrong:>12.1%}", flush=True)
    large = [line for line in lines if line.n >= 200]
    wrong = max(lines, key=lambda line: line.bound_wrong)
    return [
        shown_claim("the BCa interval that is shown holds the mean in 93 to 97 % where n >= 200", large),
        claim("the betting bound is wrong in at most 5 %", wrong.bound_wrong, repeats, name(wrong)),
    ]


def described(population: Population) -> str:
    return f"{population.name:<16} {population.mean:>7.4f} {population.spread:>6.3f}"


def covered(population: Population, n: int, samples: Any) -> Line:
    mean = population.mean
    found = np.array([mean_interval(values) for values in samples])
    plain = np.array([bca_interval(values) for values in samples])
    bounds = np.array([lower_bound(values) for values in samples])
    means, errors = samples.mean(axis=1), samples.std(axis=1, ddof=1) / np.sqrt(n)
    student = np.abs(means - mean) <= stats.t.ppf(0.975, n - 1) * errors
    # Wilson's interval holds what a score test of it does not refuse.
    wilson = np.abs(means - mean) <= stats.norm.ppf(0.975) * np.sqrt(mean * (1 - mean) / (n * K))
    shown, bca = ((ends[:, 0] <= mean) & (mean <= ends[:, 1]) for ends in (found, plain))
    return Line(
        population,
        n,
        float(shown.mean()),
        float(bca.mean()),
        float(student.mean()),
        float(wilson.mean()),
        float((bounds > mean).mean()),
    )


def shown_claim(text: str, lines: list[Line]) -> str:
    worst = max(lines, key=lambda line: abs(line.shown - 0.95))
    outside = sum(not 0.93 <= line.shown <= 0.97 for line in lines)
    met = f"not met in {outside} of {len(lines)} lines" if outside else "met"
    return f"{text}: {met}; worst {worst.shown:.1%} ({name(worst)})"


def name(line: Line) -> str:
    return f"{line.population.name}, mean {line.population.mean:.4f}, n = {line.n}"


def claim(text: str, worst: float, repeats: int, where: str) -> str:
    noise = ALLOWED * np.sqrt(0.05 * 0.95 / repeats)
    met = "met" if worst <= 0.05 else "met within chance" if worst <= 0.05 + noise else "not met"
    return f"{text}: {met}; worst {worst:.1%} ({where})"


def sequential(real: list[Population], repeats: int, random: Any) -> list[str]:
    print(f"\n{TITLES} {'target':>7} {'PASS':>7} {'FAIL':>7} {'wrong':>7} {'median queries':>15}")
    cases = [(beta_binomial(truth, spread_near(truth)), TARGET) for truth in TRUTHS]
    cases += [(population, population.mean) for population in real]
    worst = dict.fromkeys(("PASS", "FAIL"), (0.0, cases[0]))
    for population, target in cases:
        stops = decided(population, target, repeats, random)
        wrong = {side: wrong_share(stops, side) for side in worst}
        for side, share in wrong.items():
            worst[side] = max(worst[side], (share, (population, target)), key=lambda each: each[0])
        median = f"{stops.median:,.0f}" if stops.median <= MOST_QUERIES else f"over {MOST_QUERIES:,}"
        shares = f"{stops.passed:>7.1%} {stops.failed:>7.1%} {max(wrong.values()):>7.1%}"
        print(f"{described(population)} {target:>7.4f} {shares} {median:>15}", flush=True)
    return [sequential_claim(side, *worst[side], repeats, random) for side in worst]


def wrong_share(stops: Stops, side: str) -> float:
    mean, target = stops.population.mean, stops.target
    if side == "PASS":
        return stops.passed if mean <= target else 0.0
    return stops.failed if mean >= target else 0.0


def sequential_claim(
    side: str, wrong: float, case: tuple[Population, float], repeats: int, random: Any
) -> str:
    population, target = case
    where = f"{population.name}, mean {population.mean:.4f}, target {target:.4f}"
    text = claim(f"the sequential test says {side} wrongly in at most 5 %", wrong, repeats, where)
    if wrong <= 0.05:
        return text
    again = wrong_share(decided(population, target, MORE_REPEATS * repeats, random), side)
    return f"{text}; {MORE_REPEATS * repeats:,} new repeats of that line: {again:.2%}"


def spread_near(truth: float) -> float:
    """0.12, or what hits as dependent as at 0.95 have: towards a mean of 1 there is less room to vary."""
    same = truth * (1 - truth) * (1 + (K - 1) * correlation_of(0.95, 0.12)) / K
    return min(0.12, float(np.sqrt(same)))


def decided(population: Population, target: float, repeats: int, random: Any) -> Stops:
    verdicts, used = [], []
    for _ in range(repeats):
        test = SequentialTest(target)
        verdicts.append(test.update(population.draw(random, (1, MOST_QUERIES))[0]))
        used.append(test.used if test.verdict is not SequentialVerdict.UNDECIDED else MOST_QUERIES + 1)
    shares = (
        verdicts.count(verdict) / repeats for verdict in (SequentialVerdict.PASS, SequentialVerdict.FAIL)
    )
    return Stops(population, target, *shares, float(np.median(used)))


class Traffic(NamedTuple):
    """Distinct queries with Zipf traffic, and a recall that depends on popularity."""

    exponent: float
    relation: str
    shares: Any
    means: Any
    both: float

    @property
    def mean(self) -> float:
        return float(np.sum(self.shares * self.means))

    def values(self, random: Any, queries: Any) -> Any:
        means = self.means[queries]
        return random.binomial(K, random.beta(means * self.both, (1 - means) * self.both)) / K


def traffic(exponent: float, relation: str, mean: float, spread: float) -> Traffic:
    ranks = np.arange(1, DISTINCT + 1)
    shares = ranks**-exponent
    shares /= shares.sum()
    logs = np.log(ranks)
    place = (logs - np.sum(shares * logs)) / logs.std()
    correlation = correlation_of(mean, spread)
    means = np.clip(mean + SLOPES[relation] * place, 0.02, 0.995)
    return Traffic(exponent, relation, shares, means, (1 - correlation) / correlation)


def logged(below: Any, n: int, random: Any) -> tuple[Any, Any]:
    """Entries of the log until n distinct queries are seen: the queries and their counts."""
    entries = np.empty(0, np.int64)
    while True:
        more = np.minimum(np.searchsorted(below, random.random(n)), DISTINCT - 1)
        entries = np.concatenate([entries, more])
        _, first = np.unique(entries, return_index=True)
        if len(first) >= n:
            seen = entries[: np.sort(first)[n - 1] + 1]
            queries, counts = np.unique(seen, return_counts=True)
            return queries, counts.astype(np.float64)


def weighted(repeats: int, random: Any, *, pairs: bool) -> list[str]:
    kind = "distinct queries drawn regardless of traffic" if pairs else "entries of a query log"
    print(f"\n{kind}\n{'Zipf':>5} {'recall':<14} {'mean':>7} {'n':>5} {'effective':>10}", end="")
    print(f" {'shown':>7} {'t':>7} {'bound wrong':>12} {'mean bound':>11} {'caution':>8} {'if missed':>10}")
    lines = []
    for exponent in EXPONENTS:
        for relation in SLOPES:
            for mean in (0.90, 0.97):
                population = traffic(
                    exponent, relation, mean, min(SPREADS.get(mean, 0.12), spread_near(mean))
                )
                lines += [weighted_line(population, n, repeats, random, pairs=pairs) for n in WEIGHTED_SIZES]
    large = [line for line in lines if line[2] >= FEWEST_RESAMPLED]
    least, most = min(large, key=lambda each: each[3]), max(large, key=lambda each: each[3])
    wrong = max(lines, key=lambda each: each[4])
    return [
        f"{kind}: the weighted interval of an effective number of 30 or more holds the mean in "
        f"{least[3]:.1%} ({least[0]}, n = {least[1]}) to {most[3]:.1%} ({most[0]}, n = {most[1]}); "
        f"within 93 to 97 % in {sum(0.93 <= each[3] <= 0.97 for each in large)} of {len(large)} lines",
        claim(f"{kind}: the weighted bound is wrong in at most 5 %", wrong[4], repeats, f"{wrong[0]}"),
        *(caution_claim(kind, exponent, lines) for exponent in EXPONENTS),
    ]


def caution_claim(kind: str, exponent: float, lines: list[Any]) -> str:
    """How often the caution about a few queries comes, and how often where the interval misses."""
    inside = [each for each in lines if each[0].startswith(f"Zipf {exponent},")]
    came, missed, warned = (sum(each[place] for each in inside) for place in (5, 6, 7))
    return (
        f"{kind}, Zipf {exponent}: a caution in {came / len(inside):.1%}, and in {warned:,} of the "
        f"{missed:,} repeats in which the interval misses the mean"
    )


def weighted_line(
    population: Traffic, n: int, repeats: int, random: Any, *, pairs: bool
) -> tuple[str, int, float, float, float, float, int, int]:
    below, mean = np.cumsum(population.shares), population.mean
    shown, student, wrong, effective, bounds, cautions = [], [], [], [], [], []
    for _ in range(repeats):
        if pairs:
            queries = random.integers(0, DISTINCT, n)
            weights = population.shares[queries]
        else:
            queries, weights = logged(below, n, random)
        values = population.values(random, queries)
        ends = interval_of(values, is_share=False, weights=weights)
        found = np.average(values, weights=weights)
        bound = lower_bound(values, weights=weights)
        shown.append(ends.low <= mean <= ends.high)
        student.append(abs(found - mean) <= stats.t.ppf(0.975, n - 1) * values.std(ddof=1) / np.sqrt(n))
        wrong.append(bound > mean)
        bounds.append(bound)
        effective.append(effective_number(weights))
        cautions.append(few_effective(Weights("count", weights)) is not None)
    middle, missed = float(np.median(effective)), ~np.array(shown)
    warned = int(np.array(cautions)[missed].sum())
    print(
        f"{population.exponent:>5} {population.relation:<14} {mean:>7.4f} {n:>5} {middle:>10.1f}"
        f" {np.mean(shown):>7.1%} {np.mean(student):>7.1%} {np.mean(wrong):>12.1%} {np.mean(bounds):>11.3f}"
        f" {np.mean(cautions):>8.1%} {f'{warned} of {missed.sum()}':>10}",
        flush=True,
    )
    where = f"Zipf {population.exponent}, {population.relation}, mean {mean:.3f}"
    shares = (float(np.mean(each)) for each in (shown, wrong, cautions))
    return where, n, middle, *shares, int(missed.sum()), warned


def classes(repeats: int, random: Any) -> list[str]:
    print(f"\n{'heavy/light':>11} {'misses':<12} {'n':>5} {'share':>7} {'mean':>7}")
    lines = []
    for ratio in RATIOS:
        for misses in MISSES:
            for n in CLASS_SIZES:
                held = class_coverage(ratio, misses, n, repeats, random)
                where = f"{ratio}:1, misses {misses[0]:g} and {misses[1]:g}, n = {n}"
                lines.append((where, held))
                shares = " ".join(f"{each:>7.1%}" for each in held)
                print(f"{ratio:>11} {misses[0]:<5g} {misses[1]:<6g} {n:>5} {shares}", flush=True)
    told = []
    for place, kind in enumerate(("share", "mean")):
        where, held = min(lines, key=lambda each: each[1][place])
        told.append(f"two classes: the interval of a weighted {kind} holds it in {held[place]:.1%} ({where})")
    return told


def class_coverage(
    ratio: float, misses: tuple[float, float], n: int, repeats: int, random: Any
) -> tuple[float, float]:
    weights, rates = np.repeat([float(ratio), 1.0], n // 2), np.repeat(misses, n // 2)
    rate = float(np.average(rates, weights=weights))
    held = np.zeros(2)
    for _ in range(repeats):
        missed = random.random(n) < rates
        for place, part in enumerate((1.0, LOSS)):
            ends = interval_of(1 - part * missed, is_share=place == 0, weights=weights)
            held[place] += ends.low <= 1 - part * rate <= ends.high
    share, mean = held / repeats
    return float(share), float(mean)


if __name__ == "__main__":
    main()
