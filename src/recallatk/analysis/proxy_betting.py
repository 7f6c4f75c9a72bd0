"""Betting bounds and a sequential test for a mean exact recall that a cheap proxy helps to estimate.

Exact recalls are known of few queries and proxy recalls of many. Each exact query is dealt a block of queries
of which only the proxy recall is known, so that

    exact - weight (proxy - mean proxy of the block)

has the mean of the exact recalls, whatever the proxy is worth, and varies less if the proxy is good. All
queries are a sample of the workload, and so are these values: they are bet on as plain recalls are in
`betting`, and no share of alpha is set aside for the mean proxy recall. A weight may depend on the queries
before, never on its own.

Such a value can lie outside [0, 1], by the weight times the range of the proxy, and bets shrink accordingly.
That costs most near a recall of 1, so that proxies are also clipped to windows, which leaves the mean as it
is.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recallatk.analysis.betting import (
    BATCH,
    LARGEST_LOSS,
    BettingTest,
    SequentialVerdict,
    checked_values,
    constant_bets,
    largest_refuted,
    lower_bound,
    needed_gain,
    shuffled,
    variances_before,
)
from recallatk.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

# Each way to use the proxy is a weight and a window; the first is not to use it. Windows at 1 are for recalls
# near 1, and those at 0 are their mirror images.
WEIGHTS = (0.5, 1.0)
WINDOWS = ((0.0, 1.0), (0.5, 1.0), (0.8, 1.0), (0.0, 0.5), (0.0, 0.2))
# The capital of the test that ignores the proxy: a useless one costs no more than the factor 1 / share.
SHARE_WITHOUT = 0.5
# A gambler of the test never bets everything.
LARGEST_SHARE = 0.99
# Bounds of a test that is repeated for every target are found to this precision.
_CLOSE = 1e-5


class _Controlled(NamedTuple):
    """Values per exact query (rows) and way to use the proxy (columns), and how far they can leave [0, 1]."""

    values: Floats
    reach: Floats


def proxy_lower_bound(
    exact: Floats, proxy: Floats, others: Floats, confidence: float = 0.95, seed: int = 0
) -> float:
    """What the mean exact recall is above, with a confidence that holds for every n, distribution and proxy.

    `proxy` has the proxy recalls of the exact queries, in their order; `others` those of the queries without
    an exact recall. Both are random samples of the workload. Without others it is `lower_bound`.

    Each value uses the proxy in the way that promises the highest bound at the end, by the variances before
    it.
    """
    known, judged, rest = checked_pairs(exact, proxy, others)
    if not len(known) or not len(rest):
        return lower_bound(known, confidence, seed)
    needed = needed_gain(confidence)
    drawn, beside = shuffled(known, judged, seed)
    controlled = _controlled(drawn, judged if beside is None else beside, _dealt(rest, len(known), seed))
    variances = variances_before(controlled.values)
    best_bets = np.sqrt(2 * needed / (len(known) * variances))
    possible = np.minimum(best_bets, LARGEST_LOSS / (1 + controlled.reach))
    # How far below the mean the bound will be: capital grows by bet * gap - bet^2 variance / 2 per query.
    gaps = needed / (len(known) * possible) + possible * variances / 2
    chosen = np.argmin(gaps, axis=1)[:, None]
    values, reach, bets = (
        np.take_along_axis(each, chosen, axis=1)[:, 0] for each in (*controlled, best_bets)
    )

    def is_refuted(mean: float) -> bool:
        gains = np.log1p(np.minimum(bets, LARGEST_LOSS / (mean + reach)) * (values - mean))
        return bool(np.max(np.cumsum(gains)) >= needed)

    return largest_refuted(is_refuted)


def proxy_upper_bound(
    exact: Floats, proxy: Floats, others: Floats, confidence: float = 0.95, seed: int = 0
) -> float:
    """What the mean exact recall is below; the mirror image of `proxy_lower_bound`."""
    known, judged, rest = checked_pairs(exact, proxy, others)
    return 1.0 - proxy_lower_bound(1.0 - known, 1.0 - judged, 1.0 - rest, confidence, seed)


class ProxyTest(BettingTest):
    """Whether the mean exact recall reaches its target, with a proxy and as few exact queries as decide it.

    As `SequentialTest`: PASS and FAIL are each wrong with a probability of at most `alpha`, whenever one
    looks and whatever the proxy is worth. Half of the capital ignores the proxy; the rest is spread over ways
    to use it.
    """

    def __init__(self, target: float, alpha: float = 0.05) -> None:
        sides = constant_bets(target)
        reach = _reach()[:, None]
        self._bets_for, self._bets_against = (
            np.minimum(bets, LARGEST_SHARE / (room + reach))
            for bets, room in zip(sides, (target, 1 - target), strict=True)
        )
        ways = len(reach)
        shares = np.full(ways, (1 - SHARE_WITHOUT) / (ways - 1))
        shares[0] = SHARE_WITHOUT
        starts = (np.repeat(shares * ways, len(bets)) for bets in sides)
        super().__init__(target, alpha, *starts)

    def update(self, exact: ArrayLike, proxy: ArrayLike, others: ArrayLike) -> SequentialVerdict:
        """Take exact queries in random order, up to the first that decides; what follows it changes nothing.

        `others` has one row per exact query: proxy recalls of queries without an exact recall, in random
        order, each used once. The more there are in a row, the more the proxy helps; none leave the exact
        recall alone.
        """
        known, judged = (np.atleast_1d(checked_values(each)) for each in (exact, proxy))
        rows: Floats = np.atleast_2d(np.asarray(others, np.float64))
        if known.shape != judged.shape or rows.ndim != 2 or len(rows) != len(known):
            raise UsageError(
                f"{len(known)} exact and {len(judged)} proxy recalls with others of shape {rows.shape}. "
                "Accepted: one proxy recall and one row of others per exact recall"
            )
        checked_values(rows.ravel())
        for start in range(0, len(known), BATCH):
            if self.verdict is not SequentialVerdict.UNDECIDED:
                break
            part = slice(start, start + BATCH)
            above = _controlled(known[part], judged[part], rows[part]).values[:, :, None] - self.target
            size = len(above)
            self._take(
                (1 + self._bets_for * above).reshape(size, -1),
                (1 - self._bets_against * above).reshape(size, -1),
            )
        return self.verdict


def any_time_bounds(
    exact: Sequence[float], proxy: Sequence[float], rows: Sequence[Sequence[float]], confidence: float = 0.95
) -> tuple[float, float]:
    """What the mean exact recall is above and what it is below, each with this confidence at any moment.

    They are the targets that `ProxyTest` would have decided: it cannot contradict them, and they also hold if
    the recalls themselves decided when to stop, which `proxy_lower_bound` does not promise.

    Args:
        exact: exact recalls in the order in which they came.
        proxy: the proxy recalls of the same queries.
        rows: for each of them, the proxy recalls of its others.
        confidence: of each bound.
    """
    known, judged, _ = checked_pairs(np.asarray(exact), np.asarray(proxy), np.empty(0))
    ends = [
        0,
        *(place for place in range(1, len(rows)) if len(rows[place]) != len(rows[place - 1])),
        len(rows),
    ]

    def decides(target: float, wanted: SequentialVerdict) -> bool:
        test = ProxyTest(target, 1 - confidence)
        for start, end in pairwise(ends):
            test.update(known[start:end], judged[start:end], rows[start:end])
        return test.verdict is wanted

    low = largest_refuted(lambda mean: decides(mean, SequentialVerdict.PASS), _CLOSE)
    high = 1 - largest_refuted(lambda gap: decides(1 - gap, SequentialVerdict.FAIL), _CLOSE)
    return low, high


def checked_pairs(exact: Floats, proxy: Floats, others: Floats) -> tuple[Floats, Floats, Floats]:
    """The three as recalls, with as many proxy as exact ones."""
    known, judged, rest = (np.atleast_1d(checked_values(each)) for each in (exact, proxy, others))
    if len(known) != len(judged):
        raise UsageError(
            f"{len(known)} exact and {len(judged)} proxy recalls. "
            "Accepted: both of the same queries, in the same order"
        )
    return known, judged, rest


def _ways() -> list[tuple[float, float, float]]:
    """Weight and window of each way to use the proxy."""
    return [(0.0, 0.0, 1.0), *((weight, *window) for window in WINDOWS for weight in WEIGHTS)]


def _reach() -> Floats:
    return np.array([weight * (high - low) for weight, low, high in _ways()])


def _dealt(others: Floats, n: int, seed: int) -> Floats:
    """The others in n rows, whose lengths differ by at most one; NaN stands for none."""
    drawn, _ = shuffled(others, None, seed)
    rows = np.full(-(-len(drawn) // n) * n, np.nan)
    rows[: len(drawn)] = drawn
    return rows.reshape(-1, n).T


def _controlled(exact: Floats, proxy: Floats, rows: Floats) -> _Controlled:
    there = ~np.isnan(rows)
    count = np.count_nonzero(there, axis=1)
    values = np.repeat(exact[:, None], len(_ways()), axis=1)
    for way, (weight, low, high) in enumerate(_ways()):
        # Contiguous rows are added up in the same order, whatever the number of rows.
        clipped = np.ascontiguousarray(np.where(there, np.clip(rows, low, high), 0.0))
        block = np.sum(clipped, axis=1) / np.maximum(count, 1)
        moved = np.clip(proxy, low, high) - np.clip(block, low, high)
        values[:, way] -= np.where(count > 0, weight * moved, 0.0)
    return _Controlled(values, np.where(count[:, None] > 0, _reach(), 0.0))
