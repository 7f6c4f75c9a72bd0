"""Exact ground truth: which rows are really the best ones, with their scores, ties and proof."""

from recallatk.truth.exact import ground_truth
from recallatk.truth.file import is_truth_file, load_truth, save_truth
from recallatk.truth.obtaining import obtain_truth
from recallatk.truth.verifying import verify_truth

__all__ = ["ground_truth", "is_truth_file", "load_truth", "obtain_truth", "save_truth", "verify_truth"]
