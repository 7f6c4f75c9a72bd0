"""Losses of several trials on the same queries: which differ from 0, and how they grow with lost recall."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recallatk.analysis.distribution import FEWEST_RESAMPLED, Estimate
from recallatk.analysis.planning import STEP
from recallatk.core.weights import effective_number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

CONFIDENCE = 0.95
RESAMPLES = 2_000
# Random numbers per draw.
_AT_ONCE = 4_000_000
# Recalls closer than this have no slope between them.
_LEAST_SPAN = 0.005


class JointTest(NamedTuple):
    """All trials against exact search at once."""

    p_values: Floats
    """One per trial, adjusted for all of them."""
    confidence: float
    """The confidence of each interval such that all hold together with 95 %."""


def joint_test(losses: Floats, weights: Floats | None = None, seed: int = 0) -> JointTest:
    """Which mean losses differ from 0, by flipping the signs of queries (Westfall and Young 1993).

    A query's losses keep or change their sign in all trials together, so trials that answer alike cost no
    confidence. The largest standardized mean of all trials, over random signs, is what each is compared with.
    The test holds for few differing queries too, which a bootstrap of the mean cannot tell from certainty.

    Args:
        losses: one row per trial, one column per query.
        weights: how much each query counts.
        seed: random seed.
    """
    from scipy.special import ndtr

    bonferroni = 1 - (1 - CONFIDENCE) / len(losses)
    counted_losses = losses if weights is None else losses * (weights / weights.mean())
    errors = np.sqrt(np.square(counted_losses).sum(axis=1))
    moving = errors > 0
    if not moving.any():
        return JointTest(np.ones(len(losses)), bonferroni)
    scaled = counted_losses[moving] / errors[moving, None]
    scaled = scaled[:, (scaled != 0).any(axis=0)].T
    largest = np.concatenate([np.abs(signs @ scaled).max(axis=1) for signs in _signs(len(scaled), seed)])
    reached = np.abs(scaled.sum(axis=0)) - 1e-9
    p_values = np.ones(len(losses))
    # The observed signs count as one of the draws, or p could be 0.
    p_values[moving] = (1 + (largest[:, None] >= reached).sum(axis=0)) / (1 + len(largest))
    level = 2 * float(ndtr(np.quantile(largest, CONFIDENCE))) - 1
    return JointTest(p_values, min(max(level, CONFIDENCE), bonferroni))


def _signs(queries: int, seed: int) -> Iterator[Floats]:
    random = np.random.default_rng(seed)
    at_once = max(1, _AT_ONCE // queries)
    for start in range(0, RESAMPLES, at_once):
        drawn = random.integers(0, 2, (min(at_once, RESAMPLES - start), queries), np.int8)
        yield 2.0 * drawn - 1.0


def slope(recalls: Floats, losses: Floats, weights: Floats | None = None, seed: int = 0) -> Estimate | None:
    """The loss that each 0.01 of recall costs, by least squares over trials, with a bootstrap over queries.

    None for trials of one recall, and for too few queries to resample.

    Args:
        recalls: one row per trial, one column per query.
        losses: of the same trials and queries.
        weights: how much each query counts.
        seed: random seed.
    """
    if not len(recalls):
        return None
    # Trials that answer alike, such as those under another load, count once.
    alike = {np.stack(each).tobytes(): place for place, each in enumerate(zip(recalls, losses, strict=True))}
    recalls, losses = recalls[[*alike.values()]], losses[[*alike.values()]]
    n = recalls.shape[1]
    counts = np.ones(n) if weights is None else weights / weights.mean()
    effective = n if weights is None else effective_number(weights)
    means = np.average(recalls, axis=1, weights=counts)
    if effective < FEWEST_RESAMPLED or np.ptp(means) < _LEAST_SPAN:
        return None
    found = _slopes(means[None], np.average(losses, axis=1, weights=counts)[None])
    random = np.random.default_rng(seed)
    at_once = max(1, _AT_ONCE // n)
    drawn = []
    for start in range(0, RESAMPLES, at_once):
        # Poisson counts are drawn ten times as fast as multinomial ones, and means divide by the total.
        resampled = random.poisson(1.0, (min(at_once, RESAMPLES - start), n)) * counts
        total = resampled.sum(axis=1, keepdims=True)
        drawn.append(_slopes(resampled @ recalls.T / total, resampled @ losses.T / total))
    low, high = np.quantile(np.concatenate(drawn), [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Estimate(float(found[0]), float(low), float(high))


def _slopes(recalls: Floats, losses: Floats) -> Floats:
    """Loss per 0.01 of lost recall, for each row of mean recalls and losses of all trials."""
    moved = recalls - recalls.mean(axis=1, keepdims=True)
    spread = np.square(moved).sum(axis=1)
    found: Floats = -STEP * (moved * losses).sum(axis=1) / np.maximum(spread, 1e-12)
    return found
