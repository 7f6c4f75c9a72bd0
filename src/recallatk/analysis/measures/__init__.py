"""Measures of answers against truth: a measure's text is its identity, parsed here."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

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


_NUMBER = r"([0-9]*\.?[0-9]+(?:e[+-]?[0-9]+)?)"
_K = r"@([0-9]{1,9})"


class Notation(NamedTuple):
    """How a measure is written: an example, the pattern of its text, and what makes it from the groups."""

    example: str
    pattern: str
    make: Callable[..., Measure]


NOTATIONS = (
    Notation("recall@10", rf"recall{_K}", lambda k: Recall(int(k))),
    Notation("recall@10(ids)", rf"recall{_K}\(ids\)", lambda k: Recall(int(k), strict=True)),
    Notation("recall1@100", rf"recall([0-9]{{1,9}}){_K}", lambda of, k: RecallWithin(int(k), int(of))),
    Notation("robust(0.9)@10", rf"robust\({_NUMBER}\){_K}", lambda d, k: Robustness(int(k), float(d))),
    Notation("mrr@10", rf"mrr{_K}", lambda k: ReciprocalRank(int(k))),
    Notation("ndcg@10", rf"ndcg{_K}", lambda k: DiscountedGain(int(k))),
    Notation("rbo(0.9)@10", rf"rbo\({_NUMBER}\){_K}", lambda p, k: RankBiasedOverlap(int(k), float(p))),
    Notation("eps(0.01)@10", rf"eps\({_NUMBER}\){_K}", lambda e, k: EpsilonRecall(int(k), float(e))),
    Notation("rde@10", rf"rde{_K}", lambda k: DistanceError(int(k))),
)
ACCEPTED = f"{', '.join(each.example for each in NOTATIONS[:-1])} or {NOTATIONS[-1].example}"


def parse_measure(text: str) -> Measure:
    """The measure that a text names."""
    found = find_measure(text)
    if found is None:
        raise UsageError(f"no measure {text!r}. Accepted: {ACCEPTED}, with other numbers")
    return found


def find_measure(text: str) -> Measure | None:
    """The measure that a text names; None where it names none."""
    for each in NOTATIONS:
        match = re.fullmatch(each.pattern, text.strip())
        if match:
            return each.make(*match.groups())
    return None
