"""Public functions that join several rooms: they take data and truths in any form and open them."""

from recallatk.api.scoring import assess, assess_stages, compare, score
from recallatk.api.truth import filter_facts, ground_truth, load_truth, verify_truth
from recallatk.api.truth_plan import plan_truth

__all__ = [
    "assess",
    "assess_stages",
    "compare",
    "filter_facts",
    "ground_truth",
    "load_truth",
    "plan_truth",
    "score",
    "verify_truth",
]
