"""Two or more measurements of one thing: opened as sides of a comparison, and compared."""

from recallatk.regression.results import compare_results

__all__ = ["compare_results"]
