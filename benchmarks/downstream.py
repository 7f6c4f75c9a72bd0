"""Coverage of the downstream analysis: the slope's interval, false losses, and losses that are found.

Recalls and losses per query are drawn with a known slope below a known recall. Prints, for several numbers of
queries, how often the interval covers the slope, how often a plateau without losses is said to lose, and
how often the plateau begins at the right setting.
"""

from __future__ import annotations

import argparse

import numpy as np

from recallatk.analysis.joint_losses import joint_test, slope

RECALLS = np.array([0.70, 0.76, 0.82, 0.88, 0.95, 0.97, 0.99])
KNEE, COST, K = 0.93, 0.4, 10


def planted(random, queries):
    """Recall and loss per query and setting; losses are rare and large, and sometimes gains."""
    found = random.binomial(K, RECALLS[:, None], (len(RECALLS), queries)) / K
    means = COST * np.maximum(0.0, KNEE - RECALLS)[:, None]
    rates = np.minimum(1.0, 4 * means + 0.02)
    sizes = means / rates + random.uniform(-0.1, 0.1, found.shape)
    return found, np.where(random.random(found.shape) < rates, sizes, 0.0)


def main():
    """Print one line per number of queries."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=400)
    samples = parser.parse_args().samples
    below = RECALLS < KNEE
    print("queries  slope covered  false losses  all losses found")
    for queries in (100, 300, 1_000, 3_000):
        random, covered, false, found = np.random.default_rng(queries), 0, 0, 0
        for seed in range(samples):
            recalls, losses = planted(random, queries)
            estimate = slope(recalls[below], losses[below], seed=seed)
            covered += estimate.low <= COST / 100 <= estimate.high
            seen = joint_test(losses, seed=seed).p_values < 0.05
            false += seen[~below].any()
            found += seen[below].all()
        shares = (each / samples for each in (covered, false, found))
        print(f"{queries:7,}  {next(shares):13.1%}  {next(shares):12.1%}  {next(shares):16.1%}")


if __name__ == "__main__":
    main()
