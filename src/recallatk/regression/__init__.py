"""Two or more measurements of one thing: opened as sides of a comparison, compared, and gated."""

from recallatk.regression.gating import accept_baseline, gate_results
from recallatk.regression.measured_gate import accept_measured, gate
from recallatk.regression.results import compare_results

__all__ = ["accept_baseline", "accept_measured", "compare_results", "gate", "gate_results"]
