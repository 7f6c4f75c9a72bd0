"""Measures of answers against truth: a measure's text is its identity, parsed here."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from recallatk.analysis.measures.base import Measure
from recallatk.analysis.measures.distance import DistanceError, EpsilonRecall
from recallatk.analysis.measures.rank import DiscountedGain, RankBiasedOverlap, ReciprocalRank
from recallatk.analysis.measures.recall import Recall, RecallWithin, Robustness
from recallatk.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

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


ACCEPTED = (
    "recall@10, recall@10(ids), recall1@100, robust(0.9)@10, mrr@10, ndcg@10, rbo(0.9)@10, eps(0.01)@10 "
    "or rde@10"
)
_NUMBER = r"([0-9]*\.?[0-9]+(?:e[+-]?[0-9]+)?)"
_K = r"@([0-9]{1,9})"
_MAKERS: dict[str, Callable[..., Measure]] = {
    rf"recall{_K}": lambda k: Recall(int(k)),
    rf"recall{_K}\(ids\)": lambda k: Recall(int(k), strict=True),
    rf"recall([0-9]{{1,9}}){_K}": lambda of, k: RecallWithin(int(k), int(of)),
    rf"robust\({_NUMBER}\){_K}": lambda least, k: Robustness(int(k), float(least)),
    rf"mrr{_K}": lambda k: ReciprocalRank(int(k)),
    rf"ndcg{_K}": lambda k: DiscountedGain(int(k)),
    rf"rbo\({_NUMBER}\){_K}": lambda persistence, k: RankBiasedOverlap(int(k), float(persistence)),
    rf"eps\({_NUMBER}\){_K}": lambda epsilon, k: EpsilonRecall(int(k), float(epsilon)),
    rf"rde{_K}": lambda k: DistanceError(int(k)),
}


def parse_measure(text: str) -> Measure:
    """The measure that a text names."""
    found = find_measure(text)
    if found is None:
        raise UsageError(f"no measure {text!r}. Accepted: {ACCEPTED}, with other numbers")
    return found


def find_measure(text: str) -> Measure | None:
    """The measure that a text names; None where it names none."""
    for pattern, make in _MAKERS.items():
        match = re.fullmatch(pattern, text.strip())
        if match:
            return make(*match.groups())
    return None
