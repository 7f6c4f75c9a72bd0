"""From answers and truth to numbers: pure functions that read no file and no clock."""

from recallatk.analysis.assessment import Assessment, assess
from recallatk.analysis.betting import SequentialTest, SequentialVerdict, is_at_least, lower_bound
from recallatk.analysis.comparison import compare
from recallatk.analysis.latency import percentile
from recallatk.analysis.measures import parse_measure
from recallatk.analysis.planning import queries_to_tell
from recallatk.analysis.score import score
from recallatk.analysis.staged_assessment import StagedAssessment, assess_stages

__all__ = [
    "Assessment",
    "SequentialTest",
    "SequentialVerdict",
    "StagedAssessment",
    "assess",
    "assess_stages",
    "compare",
    "is_at_least",
    "lower_bound",
    "parse_measure",
    "percentile",
    "queries_to_tell",
    "score",
]
