"""Every measure of one query, with Python's lists, sets and fractions and nothing of ours.

`scored` are all eligible rows as (score, id) in the order that cuts ties, a smaller score being better.
`counted` are the distinct known answers, best first. Every function gives None for a query without a value.
"""

import math
from decimal import Decimal, localcontext
from fractions import Fraction


def distinct_known(answer, known):
    counted = []
    for each in answer:
        if each in known and each not in counted:
            counted.append(each)
    return counted


def recall(counted, scored, k, within=None):
    """The share of the best k rows among the first `within` answers, any row that ties being as good."""
    first = set(counted[: within or k])
    cut = min(k, len(scored))
    if cut == 0:
        return None
    boundary = scored[cut - 1][0]
    better = {each for score, each in scored if score < boundary}
    tied = {each for score, each in scored if score == boundary}
    return Fraction(len(first & better) + min(cut - len(better), len(first & tied)), cut)


def recall_by_ids(counted, scored, k, within=None):
    cut = min(k, len(scored))
    if cut == 0:
        return None
    return Fraction(len(set(counted[: within or k]) & {each for _, each in scored[:cut]}), cut)


def robust(counted, scored, k, least):
    found = recall(counted, scored, k)
    return None if found is None else Fraction(int(found >= Fraction(str(least))))


def reciprocal_rank(counted, scored, k):
    """One over the place of the first answer that is as near as the nearest row."""
    if not scored:
        return None
    nearest = {each for score, each in scored if score == scored[0][0]}
    for place, each in enumerate(counted[:k], start=1):
        if each in nearest:
            return Fraction(1, place)
    return Fraction(0)


def discounted_gain(counted, scored, k):
    """The j-th of k' rows is worth k' + 1 - j, those that tie as much as the first of them."""
    cut = min(k, len(scored))
    if cut == 0:
        return None
    scores = [score for score, _ in scored]
    worth = {each: max(cut + 1 - (scores.index(score) + 1), 0) for score, each in scored}

    def gained(ids):
        return math.fsum(worth.get(each, 0) / math.log2(place + 1) for place, each in enumerate(ids, start=1))

    return gained(counted[:k]) / gained([each for _, each in scored[:cut]])


def rank_biased_overlap(counted, scored, k, persistence):
    """The mean of recall@1 to recall@k', the d-th with the weight p^(d-1)."""
    p = Fraction(str(persistence))
    depths = range(1, min(k, len(scored)) + 1)
    if not depths:
        return None
    weights = [p ** (depth - 1) for depth in depths]
    parts = [weight * recall(counted, scored, depth) for weight, depth in zip(weights, depths, strict=True)]
    return sum(parts) / sum(weights)


def near_enough(counted, scored, k, epsilon, metric):
    """The share of k' answers that are at most epsilon worse than the k'-th best row.

    Scores are here as the user knows them: distances for l2, similarities for cosine, products for ip.
    """
    cut = min(k, len(scored))
    if cut == 0:
        return None
    last, by_id = scored[cut - 1][0], {each: score for score, each in scored}
    # What is equal in exact arithmetic may differ by rounding here.
    slack = 1e-9
    good = 0
    for each in counted[:k]:
        if each in by_id:
            score = by_id[each]
            if metric == "l2":
                good += score <= (1 + epsilon) * last + slack
            elif metric == "cosine":
                good += 1 - score <= (1 + epsilon) * (1 - last) + slack
            else:
                good += score >= last - epsilon * abs(last) - slack
    return Fraction(min(good, cut), cut)


def distance_error(counted, scored, k, metric):
    """The mean over places of how much farther the answers are, place by place from the nearest on."""
    flipped = (lambda score: score) if metric == "l2" else (lambda score: 1 - score)
    by_id = {each: flipped(score) for score, each in scored}
    answered = sorted(by_id[each] for each in counted[:k] if each in by_id)
    true = [flipped(score) for score, _ in scored[:k]]
    errors = [(mine - best) / best for mine, best in zip(answered, true, strict=False) if best > 1e-9]
    return sum(errors) / len(errors) if errors else None


def exact_distance(metric, query, point):
    """The distance of two integer vectors to 60 digits; exactly 0 where it is."""
    with localcontext(prec=60):
        if metric == "l2":
            return Decimal(sum((a - b) ** 2 for a, b in zip(query, point, strict=True))).sqrt()
        product = sum(a * b for a, b in zip(query, point, strict=True))
        squares = sum(a * a for a in query) * sum(b * b for b in point)
        return Decimal(0) if product > 0 and product**2 == squares else 1 - product / Decimal(squares).sqrt()


def inverse_ratio(counted, distances, k):
    """The mean over k' places of true over answered distance; `distances` are those of all eligible rows."""
    cut = min(k, len(distances))
    if cut == 0:
        return None
    true = sorted(distances.values())
    answered = sorted(distances[each] for each in counted[:k] if each in distances)
    with localcontext(prec=60):
        places = [1 if mine == best else best / mine for best, mine in zip(true, answered, strict=False)]
        return sum(places[:cut], Decimal(0)) / cut
