"""A score that k rows will surely reach, guessed from a part of them: high thresholds come early.

A guess proves nothing. Whoever uses one has to see in the end that k rows did reach it, and to begin
anew where they did not.
"""

from __future__ import annotations

import math

import numpy as np

# How many guesses may be too high: one of ten million, which is a second sweep in a thousand computations.
_TOO_HIGH = 1e-7


def guessed_rank(k: int, share: float) -> int:
    """The rank in a random share of the rows whose score is surely below the k-th best of all; at most k.

    That it is not would need as many of the k best in the part. Their number there is hypergeometric,
    whose tail Chernoff's bound for the Poisson distribution of the same mean covers (Hoeffding, 1963).
    """
    mean = k * share
    ranks = np.arange(1, k + 1)
    exponent = ranks * np.log(ranks / mean) - ranks + mean
    unlikely = (ranks > mean) & (exponent >= -math.log(_TOO_HIGH))
    return int(ranks[unlikely][0]) if unlikely.any() else k
