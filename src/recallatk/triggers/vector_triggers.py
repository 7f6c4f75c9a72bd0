"""Triggers on vectors: norms, center, nearest rows, hardness, a classifier and a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.analysis.classifier import told_apart
from recallatk.analysis.geometry import dimension_of, distances, unit
from recallatk.analysis.two_samples import (
    copies,
    discrepancy,
    log_ratio_of_means,
    log_ratio_of_medians,
    mean_distance,
    pool_of,
)
from recallatk.core import Metric
from recallatk.core.drifted import Trigger
from recallatk.digests import vector_digests

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from recallatk.analysis.two_samples import Pool, Shift

    Floats = NDArray[np.float64]

# More vectors would cost more and tell the same; kernels grow with the square.
MOST_VECTORS, MOST_REFERENCE, _MOST_IN_KERNEL = 1_000, 1_000, 600
_NEIGHBORS = 20
_FEWEST_KNOWN = 20
# Smaller shifts are real in large samples, and of no consequence for recall.
NORM, CENTER, NEAREST, LID, CONTRAST = 1.05, 0.05, 1.05, 1.20, 1.05
AUC, MMD, COPIES = 0.60, 0.03, 0.10


@dataclass(frozen=True, eq=False)
class VectorSamples:
    """Samples of both sides, and vectors that both are compared with."""

    part: str
    first: NDArray[Any]
    second: NDArray[Any]
    reference: NDArray[Any]
    """Vectors whose nearness says how hard a vector is: rows of the corpus, or others of the baseline."""
    metric: Metric | None
    seed: int = 0


def vector_triggers(samples: VectorSamples) -> Iterator[Trigger]:
    """Every trigger on vectors of one dimension."""
    part = samples.part
    raw = [np.asarray(each, np.float64) for each in (samples.first, samples.second)]
    pool = pool_of(len(raw[0]), len(raw[1]), samples.seed)
    norms = np.concatenate([np.linalg.norm(each, axis=1) for each in raw])
    yield _ratio(
        part,
        "norm",
        pool.ratio(log_ratio_of_means(norms)),
        NORM,
        "the mean norm is {}",
    )
    both = [unit(each) for each in raw] if samples.metric is Metric.COSINE else raw
    found = pool.distance(mean_distance(np.concatenate(both)))
    yield _above(part, "center", found, CENTER, "the mean vector moved by {:.2f} standard deviations")
    yield from _hardness(samples, pool)
    apart = told_apart(both[0], both[1], samples.seed)
    yield Trigger(
        part, "classifier", apart.auc, AUC, low=apart.low, high=apart.high, p=apart.p,
        said=f"a classifier tells them apart with AUC {apart.auc:.2f}",
    )  # fmt: skip
    few = [each[:_MOST_IN_KERNEL] for each in both]
    pool = pool_of(len(few[0]), len(few[1]), samples.seed)
    found = pool.distance(discrepancy(np.concatenate(few)))
    yield _above(part, "MMD", found, MMD, "the maximum mean discrepancy is {:.3f}")


def copies_trigger(samples: VectorSamples) -> Trigger:
    """The share of vectors that are asked more than once, in samples of one size."""
    size = min(len(samples.first), len(samples.second))
    found = copies(vector_digests(samples.first[:size]), vector_digests(samples.second[:size]), samples.seed)
    said = f"the share of duplicates changed by {found.number:+.1%}"
    return Trigger(
        samples.part, "duplicates", found.number, COPIES, -COPIES, found.low, found.high, found.p, said
    )


def _hardness(samples: VectorSamples, pool: Pool) -> Iterator[Trigger]:
    """Nearest rows, local intrinsic dimension and relative contrast, in medians."""
    near = [_nearness(each, samples) for each in (samples.first, samples.second)]
    nearest, lid, contrast = (np.concatenate(each) for each in zip(*near, strict=True))
    found = pool.ratio(log_ratio_of_medians(nearest))
    yield _ratio(samples.part, "nearest", found, NEAREST, "the distance of the nearest row is {}")
    known = np.isfinite(lid)
    sizes = [int(np.count_nonzero(each)) for each in np.split(known, [pool.first])]
    if min(sizes) >= _FEWEST_KNOWN:
        found = pool_of(sizes[0], sizes[1], samples.seed).ratio(log_ratio_of_medians(lid[known]))
        yield _ratio(samples.part, "LID", found, LID, "the local intrinsic dimension is {}")
    found = pool.ratio(log_ratio_of_medians(contrast))
    yield _ratio(samples.part, "contrast", found, CONTRAST, "the relative contrast is {}")


def _nearness(vectors: NDArray[Any], samples: VectorSamples) -> tuple[Floats, Floats, Floats]:
    """Distance of the nearest, LID and relative contrast of each vector; equal vectors are not neighbors."""
    metric = Metric.COSINE if samples.metric is Metric.COSINE else Metric.L2
    found = distances(metric, vectors, samples.reference)
    means = found.mean(axis=1)
    # Rounding leaves a little distance between equal vectors.
    same = found <= 1e-6 * means[:, None]
    found[same] = np.inf
    count = min(_NEIGHBORS, found.shape[1])
    near = np.sort(np.partition(found, count - 1, axis=1)[:, :count], axis=1)
    farthest = np.where(np.isfinite(near), near, 0.0).max(axis=1)
    near = np.where(np.isfinite(near), near, farthest[:, None])
    with np.errstate(divide="ignore", invalid="ignore"):
        contrast = np.where(farthest > 0, means / farthest, 1.0)
    return near[:, 0], dimension_of(near), np.asarray(contrast)


def _ratio(part: str, name: str, found: Shift, most: float, said: str) -> Trigger:
    words = said.format(f"{found.number:.3g} times the baseline's")
    return Trigger(part, name, found.number, most, 1 / most, found.low, found.high, found.p, words)


def _above(part: str, name: str, found: Shift, most: float, said: str) -> Trigger:
    return Trigger(
        part, name, found.number, most, None, found.low, found.high, found.p, said.format(found.number)
    )
