"""The truth by its definition, in exact rational arithmetic: slow, and with nothing to get wrong."""

import math
from fractions import Fraction

# Every float64 is a whole number of these.
GRAIN = 1074


def whole(vector):
    """The numbers of a vector, exactly, as multiples of the smallest float64."""
    ratios = (float(number).as_integer_ratio() for number in vector)
    # A denominator is a power of two.
    return [numerator << (GRAIN + 1 - denominator.bit_length()) for numerator, denominator in ratios]


def dot(one, other):
    return sum(a * b for a, b in zip(one, other, strict=True))


def exact_key(metric, query, row):
    """A rational number that orders rows as the metric does, smaller being better."""
    return _key(metric, whole(query), whole(row))


def _key(metric, query, row):
    if metric == "l2":
        return sum((a - b) ** 2 for a, b in zip(query, row, strict=True))
    product = dot(query, row)
    # The cosine with its sign, squared, times the query's norm, which is the same for every row.
    return -product if metric == "ip" else Fraction(-product * abs(product), dot(row, row))


def exact_value(metric, query, row):
    """The real score, as a rational number: squared, with its sign, where it has a root in it."""
    query, row = whole(query), whole(row)
    key = _key(metric, query, row)
    if metric == "cosine":
        return -key / dot(query, query)
    return Fraction(key if metric == "l2" else -key, 1 << 2 * GRAIN)


def exact_score(metric, query, row):
    """The score as it is stored, from the rational numbers, rounded only at the end."""
    value = exact_value(metric, query, row)
    return float(value) if metric == "ip" else math.copysign(math.sqrt(abs(float(value))), value)


def is_within(metric, value, score, bound):
    """Whether a score is no further than `bound` from the real one, whose `exact_value` this is."""
    low, high = Fraction(score) - Fraction(bound), Fraction(score) + Fraction(bound)
    if metric != "ip":
        # What is compared with a square is squared too, and keeps its sign.
        low, high = low * abs(low), high * abs(high)
    return low <= value <= high


def exact_order(metric, query, corpus, eligible):
    """All eligible rows as (key, row), best first, ties by row."""
    query = whole(query)
    return sorted((_key(metric, query, whole(corpus[row])), row) for row in eligible)


def tie_block(order, k):
    """Which rows have the score of the k-th best, and how many are strictly better."""
    boundary = order[min(k, len(order)) - 1][0]
    block = {row for key, row in order if key == boundary}
    return sum(key < boundary for key, _ in order), block
