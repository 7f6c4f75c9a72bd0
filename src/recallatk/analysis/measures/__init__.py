"""What can be measured of answers against truth: one file per measure, whose text is its identity."""

from recallatk.analysis.measures.base import Measure
from recallatk.analysis.measures.distance_error import DistanceError
from recallatk.analysis.measures.epsilon import EpsilonRecall
from recallatk.analysis.measures.gain import DiscountedGain
from recallatk.analysis.measures.overlap import RankBiasedOverlap
from recallatk.analysis.measures.parsing import find_measure, parse_measure
from recallatk.analysis.measures.recall import Recall, RecallWithin
from recallatk.analysis.measures.reciprocal_rank import ReciprocalRank
from recallatk.analysis.measures.robustness import Robustness

__all__ = [
    "DiscountedGain",
    "DistanceError",
    "EpsilonRecall",
    "Measure",
    "RankBiasedOverlap",
    "Recall",
    "RecallWithin",
    "ReciprocalRank",
    "Robustness",
    "find_measure",
    "parse_measure",
]
