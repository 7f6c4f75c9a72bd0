"""Two or more measurements of one thing: opened as sides of a comparison, compared, and gated."""

from recallatk.regression.gating import accept_baseline, gate_results
from recallatk.regression.results import compare_results

__all__ = ["accept_baseline", "compare_results", "gate_results"]
