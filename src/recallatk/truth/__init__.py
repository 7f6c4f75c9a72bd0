"""Exact ground truth: which rows are really the best ones, with their scores and ties."""

from recallatk.truth.exact import ground_truth
from recallatk.truth.file import load_truth, save_truth

__all__ = ["ground_truth", "load_truth", "save_truth"]
