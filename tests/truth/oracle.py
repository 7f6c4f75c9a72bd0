"""The truth by its definition, in exact rational arithmetic: slow, and with nothing to get wrong."""

from fractions import Fraction


def exact_key(metric, query, row):
    """A rational number that orders rows as the metric does, smaller being better."""
    query, row = ([Fraction(float(x)) for x in vector] for vector in (query, row))
    if metric == "l2":
        return sum((a - b) ** 2 for a, b in zip(query, row, strict=True))
    product = sum(a * b for a, b in zip(query, row, strict=True))
    if metric == "ip":
        return -product
    # The cosine with its sign, squared, times the query's norm, which is the same for every row.
    return -product * abs(product) / sum(b * b for b in row)


def exact_score(metric, query, row):
    """The score as it is stored, from the rational numbers, rounded only at the end."""
    key = exact_key(metric, query, row)
    if metric == "l2":
        return float(key) ** 0.5
    if metric == "ip":
        return float(-key)
    cosine_squared = -key / sum(Fraction(float(a)) ** 2 for a in query)
    return float(abs(cosine_squared)) ** 0.5 * (1 if cosine_squared >= 0 else -1)


def exact_order(metric, query, corpus, eligible):
    """All eligible rows as (key, row), best first, ties by row."""
    return sorted((exact_key(metric, query, corpus[row]), row) for row in eligible)


def tie_block(order, k):
    """Which rows have the score of the k-th best, and how many are strictly better."""
    boundary = order[min(k, len(order)) - 1][0]
    block = {row for key, row in order if key == boundary}
    return sum(key < boundary for key, _ in order), block
