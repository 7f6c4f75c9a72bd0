"""The running score of a probe: recall of each query, and what became of the others."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.analysis.listed_recall import listed_recall
from recallatk.core.probed import ProbeCounts
from recallatk.errors import EngineError
from recallatk.probing.references import alike, plain_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from recallatk.adapters.collection import Answer, AnswerPair, Neighbors


class Tally:
    """Recall and latency of the queries so far."""

    def __init__(self, k: int) -> None:
        self.k = k
        self.places: list[int] = []
        self.recall: list[float] = []
        self.strict: list[float] = []
        self.milliseconds: list[float] = []
        self.counts: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()

    def refuse(self, reason: str) -> None:
        """Count a query whose filter cannot run."""
        self.counts["refused"] += 1
        self.refusals[reason] += 1

    def take(self, place: int, pair: AnswerPair, own_id: Any = None) -> float | None:
        """Score one pair; its recall, or None if it has none.

        Args:
            place: the query.
            pair: its answer and exact neighbors.
            own_id: the id of the query's own row; None for real queries.
        """
        answer = pair.answer
        if answer.seconds is not None:
            self.counts["asked"] += 1
            self.milliseconds.append(answer.seconds * 1000)
        if answer.used_index is not None:
            self.counts["index_known"] += 1
            self.counts["index_used"] += answer.used_index
        if pair.exact is None or pair.changed:
            self.counts["discarded"] += bool(pair.changed)
            return None
        self.counts["exact"] += 1
        exact, ids = _without(pair.exact, answer, own_id)
        found = listed_recall(exact.ids, exact.distances, ids, self.k, complete=exact.complete)
        self.counts["cut_ties"] += found.cut_ties
        if found.value is None or found.strict is None:
            self.counts["no_eligible"] += 1
            return None
        self.counts["short"] += found.short
        self.counts["scored"] += 1
        self.places.append(place)
        self.recall.append(found.value)
        self.strict.append(found.strict)
        return found.value

    @property
    def values(self) -> NDArray[np.float64]:
        """Recall of the scored queries, in the order asked."""
        return np.array(self.recall, np.float64)

    def totals(self) -> ProbeCounts:
        """The counts so far."""
        return ProbeCounts(**self.counts)


@contextmanager
def without_verdict(tally: Tally, place: int, total: int) -> Iterator[None]:
    """Say of a failure at which query it was, and how many were scored until then.

    Args:
        tally: the score so far.
        place: the query that is asked.
        total: the number of queries.
    """
    try:
        yield
    except EngineError as problem:
        scored = tally.counts["scored"]
        raise EngineError(
            f"query {place}: {problem}. No verdict: {scored:,} of {total:,} queries were scored"
        ) from problem


def _without(exact: Neighbors, answer: Answer, own_id: Any) -> tuple[Neighbors, list[Any]]:
    """Neighbors and answer with plain ids, without the query's own row."""
    ids = [plain_id(each) for each in exact.ids]
    returned = alike(answer.ids, ids)
    if own_id is None:
        return exact._replace(ids=ids), returned
    own = plain_id(own_id)
    kept = [place for place, each in enumerate(ids) if each != own]
    rest = exact._replace(ids=[ids[place] for place in kept], distances=exact.distances[kept])
    return rest, [each for each in returned if each != own]
