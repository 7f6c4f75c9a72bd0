"""Measures of answers against truth: a measure's text is its identity, parsed here."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from recallatk.analysis.measures.base import Measure
from recallatk.analysis.measures.distance import DistanceError, EpsilonRecall, InverseRatio
from recallatk.analysis.measures.rank import DiscountedGain, RankBiasedOverlap, ReciprocalRank
from recallatk.analysis.measures.recall import Recall, RecallWithin, Robustness
from recallatk.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "DiscountedGain",
    "DistanceError",
    "EpsilonRecall",
    "InverseRatio",
    "Measure",
    "RankBiasedOverlap",
    "Recall",
    "RecallWithin",
    "ReciprocalRank",
    "Robustness",
    "find_measure",
    "parse_measure",
    "recorded_measure",
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
    Notation("ndcg_truth@10", rf"ndcg_truth{_K}", lambda k: DiscountedGain(int(k))),
    Notation("rbo(0.9)@10", rf"rbo\({_NUMBER}\){_K}", lambda p, k: RankBiasedOverlap(int(k), float(p))),
    Notation("eps(0.01)@10", rf"eps\({_NUMBER}\){_K}", lambda e, k: EpsilonRecall(int(k), float(e))),
    Notation("rde@10", rf"rde{_K}", lambda k: DistanceError(int(k))),
    Notation("1/ratio@10", rf"1/ratio{_K}", lambda k: InverseRatio(int(k))),
)
ACCEPTED = f"{', '.join(each.example for each in NOTATIONS[:-1])} or {NOTATIONS[-1].example}"


# The names of measures in other tools.
_NAMES_ELSEWHERE = {
    "r": ("recall",),
    "rec": ("recall",),
    "hit": ("recall",),
    "rr": ("mrr",),
    "p": ("recall",),
}
_AMBIGUOUS = re.compile(rf"ndcg{_K}", re.IGNORECASE)


def parse_measure(text: str) -> Measure:
    """The measure that a text names."""
    if not isinstance(text, str):
        raise UsageError(f"{text!r:.60} is no measure. Accepted: text, such as {ACCEPTED}")
    found = find_measure(text)
    if found is None:
        raise UsageError(
            f"no measure {text!r}.{meant_measure(text)} Accepted: {ACCEPTED}, with other numbers"
        )
    return found


def find_measure(text: str) -> Measure | None:
    """The measure that a text names; None where it names none, and an ambiguous name is refused."""
    ambiguous = _AMBIGUOUS.fullmatch(text.strip())
    if ambiguous:
        k = ambiguous[1]
        raise UsageError(
            f"{text.strip()} is ambiguous. Accepted: ndcg_truth@{k}, which compares with the order of the "
            f"truth. Relevance judgments give nDCG@{k}: recallatk score --qrels FILE, or the goal "
            f"nDCG@{k} loss <= 0.005"
        )
    for each in NOTATIONS:
        match = re.fullmatch(each.pattern, text.strip())
        if match:
            return each.make(*match.groups())
    return None


def recorded_measure(text: str) -> Measure:
    """The measure that a run recorded, which before 0.2 could be the ambiguous `ndcg@10`."""
    old = _AMBIGUOUS.fullmatch(text)
    return DiscountedGain(int(old[1])) if old else parse_measure(text)


def meant_measure(text: str) -> str:
    """` Did you mean MEASURE?` for a text that is almost one; empty for any other."""
    name, _, k = text.strip().partition("@")
    written = {each.example.partition("@")[0]: each.example for each in NOTATIONS}
    # `recall10` is as good a guess at recall@10 as `recal@10`.
    letters = name.rstrip("0123456789")
    hint = did_you_mean(letters, written, _NAMES_ELSEWHERE)
    for bare, example in written.items():
        if hint == f" Did you mean {bare}?":
            number = k if k.isdecimal() else name[len(letters) :] or "10"
            return f" Did you mean {example.partition('@')[0]}@{number}?"
    return ""
