"""Exact ground truth: the best rows of every query, with scores, ties and proof."""

from recallatk.truths.compute import ground_truth, obtain_truth
from recallatk.truths.ray_cluster import on_cluster
from recallatk.truths.truth_file import is_truth_file, load_truth, save_truth
from recallatk.truths.verification import verify_truth

__all__ = [
    "ground_truth",
    "is_truth_file",
    "load_truth",
    "obtain_truth",
    "on_cluster",
    "save_truth",
    "verify_truth",
]
