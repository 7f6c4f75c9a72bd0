"""Recall of one answer against one list of exact neighbors, matched by id."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray


class ListedRecall(NamedTuple):
    """recall@k of one query."""

    value: float | None
    """Tie-aware recall; None if no row is eligible."""
    strict: float | None
    """The same by ids: of tied rows, only those listed first count."""
    returned: int
    """Distinct ids in the answer, at most k."""
    short: bool
    """Whether the answer has fewer rows than there are eligible ones, up to k."""
    cut_ties: bool
    """Whether rows tied at rank k may be missing from the list, so that recall may be too low."""


def listed_recall(
    exact: Sequence[Hashable],
    distances: NDArray[np.float64],
    answer: Sequence[Hashable | None],
    k: int,
    *,
    complete: bool,
) -> ListedRecall:
    """Tie-aware recall@k: rows at the distance of rank k are equally right.

    Args:
        exact: ids of the nearest rows, nearest first; at least k of them unless complete.
        distances: of each of them, lower is nearer.
        answer: the ids that a search returned, best first; None is padding.
        k: the cutoff.
        complete: whether there are no eligible rows beyond the list.
    """
    kept = list(dict.fromkeys(each for each in answer if each is not None))[:k]
    wanted = min(k, len(exact)) if complete else k
    if wanted == 0 or not len(exact):
        return ListedRecall(None, None, len(kept), short=False, cut_ties=False)
    boundary = distances[wanted - 1]
    better = set(exact[: int(np.searchsorted(distances, boundary, "left"))])
    until = int(np.searchsorted(distances, boundary, "right"))
    tied = set(exact[len(better) : until])
    hits = len(better.intersection(kept)) + min(wanted - len(better), len(tied.intersection(kept)))
    strict = len(set(exact[:wanted]).intersection(kept))
    return ListedRecall(
        hits / wanted,
        strict / wanted,
        len(kept),
        short=len(kept) < wanted,
        cut_ties=not complete and until == len(exact),
    )
