"""Public functions that join several rooms: they take data and truths in any form and open them."""

from recallatk.api.scoring import assess, compare, score
from recallatk.api.truth import filter_facts, ground_truth, load_truth, verify_truth

__all__ = ["assess", "compare", "filter_facts", "ground_truth", "load_truth", "score", "verify_truth"]
