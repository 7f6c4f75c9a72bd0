"""From answers and truth to numbers: pure functions that read no file and no clock."""

from recallatk.analysis.latency import percentile
from recallatk.analysis.recall import recall_per_query
from recallatk.analysis.score import score

__all__ = ["percentile", "recall_per_query", "score"]
