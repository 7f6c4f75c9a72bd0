"""The headline: the one recall@k that trials are ordered by and that segments and diagnoses are about."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from recallatk.core import Run

USUAL_K = 10
_RECALL = re.compile(r"recall@([0-9]+)")


def headline_k(cutoffs: Iterable[int]) -> int | None:
    """10 where it was measured, else the k nearest to 10, of two the smaller; None without any."""
    return min(set(cutoffs), key=lambda k: (abs(k - USUAL_K), k), default=None)


def recall_cutoffs(names: Iterable[str]) -> list[int]:
    """Every k of `recall@k` among the names of measures, by size."""
    return sorted({int(found[1]) for name in names if (found := _RECALL.fullmatch(name))})


def beyond_corpus(cutoffs: Iterable[int], rows: int | None) -> str:
    """A sentence if a value of k exceeds the rows of the corpus; empty otherwise."""
    large = [] if rows is None else sorted({k for k in cutoffs if k > rows})
    if not large or rows is None:
        return ""
    ks, names = " and ".join(map(str, large)), " and ".join(f"recall@{k}" for k in large)
    exceeds, is_over = ("exceeds", "is over") if len(large) == 1 else ("exceed", "are over")
    return (
        f"k = {ks} {exceeds} the corpus of {counted(rows, 'row', 'rows')}: {names} {is_over} "
        f"{counted(rows, 'neighbor', 'neighbors')}"
    )


def headline_of(names: Iterable[str]) -> str | None:
    """The headline among the names of measures; None where no recall is among them."""
    k = headline_k(recall_cutoffs(names))
    return None if k is None else f"recall@{k}"


def headline_measure(run: Run) -> str | None:
    """The headline of a run; None where no recall was measured."""
    return headline_of(name for each in run.measurements for name in each.score.measures)
