"""A collection in use as an index to tune: it answers at any effort, and its answers are scored once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.analysis.listed_recall import listed_recall
from recallatk.errors import UsageError
from recallatk.probing.references import alike, plain_id
from recallatk.tuning.index_client import ScoredAnswers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from recallatk.adapters.collection import Answer, Collection, Neighbors
    from recallatk.adapters.probe_limits import RateLimit
    from recallatk.core import Weights
    from recallatk.core.filtering import FilterFacts
    from recallatk.goals import Target
    from recallatk.probing.probe_queries import ProbeQueries
    from recallatk.probing.references import Reference


@dataclass(frozen=True, eq=False)
class QuerySide:
    """Some of the queries of a tuning."""

    numbers: NDArray[np.int64]
    weights: Weights | None = None

    def order(self, seed: int) -> NDArray[np.int64]:
        """Its queries in random order."""
        return np.random.default_rng([seed, len(self.numbers)]).permutation(len(self.numbers))


@dataclass(frozen=True, eq=False)
class LiveStudy:
    """The queries to choose by, and the targets; without the held-out queries."""

    side: QuerySide
    targets: Sequence[Target]
    seed: int

    def over(self) -> bool:
        """False: a tuning of one parameter has no time limit."""
        return False


@dataclass
class LiveClient:
    """A collection as an index that answers at any setting, with exact neighbors taken once per query."""

    collection: Collection
    queries: ProbeQueries
    reference: Reference
    k: int
    pace: RateLimit
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Search parameters of every call."""
    settings: Mapping[str, str] | None = None
    progress: Callable[[int, int], None] | None = None
    sent: int = 0
    facts: FilterFacts | None = None
    """What the filters of all queries admit, for targets on a selectivity."""
    known: dict[int, Neighbors] = field(default_factory=dict)
    scored: dict[tuple[str, int], tuple[float, Answer]] = field(default_factory=dict)
    """What was asked already: queries of a bucket are also among all queries."""

    def ask(
        self,
        side: QuerySide,
        targets: Sequence[Target],
        search: dict[str, Any],
        which: NDArray[np.int64],
        *,
        warm: bool = False,
        purpose: str = "look",
    ) -> ScoredAnswers:
        """Ask some queries of a side with these parameters."""
        self.collection.configure(self.whole(search), self.settings)
        setting = repr(sorted(search.items()))
        answers = [self._once(setting, int(side.numbers[each])) for each in which]
        recall = np.array([value for value, _ in answers])
        values = tuple(self._values(target, side.numbers[which], recall) for target in targets)
        shaped = tuple(target.shaped(each) for target, each in zip(targets, values, strict=True))
        latencies = np.array([(answer.seconds or 0.0) * 1e9 for _, answer in answers]).astype(np.int64)
        return ScoredAnswers(which, shaped, values, latencies, recall)

    def whole(self, search: Mapping[str, Any]) -> dict[str, Any]:
        """All search parameters of a call."""
        return {**self.fixed, **search}

    def _once(self, setting: str, place: int) -> tuple[float, Answer]:
        if (setting, place) not in self.scored:
            self.scored[setting, place] = self._one(place)
        return self.scored[setting, place]

    def _one(self, place: int) -> tuple[float, Answer]:
        self.pace.wait()
        if place in self.known:
            query, condition = self.queries.vectors[place], self.queries.filters[place]
            answer = self.collection.answer(query, self.k, condition)
        else:
            pair = self.reference.pair(self.collection, self.queries, place, self.k)
            if pair.exact is None:
                raise UsageError(f"query {place}: there are no exact neighbors to compare with")
            ids = [plain_id(each) for each in pair.exact.ids]
            self.known[place], answer = pair.exact._replace(ids=ids), pair.answer
        self.sent += 1
        if self.progress is not None:
            self.progress(self.sent, 0)
        exact = self.known[place]
        ids = alike(answer.ids, exact.ids)
        value = listed_recall(exact.ids, exact.distances, ids, self.k, complete=exact.complete).value
        return (np.nan if value is None else value), answer

    def _values(
        self, target: Target, numbers: NDArray[np.int64], recall: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        if target.segment is None:
            return recall
        inside = target.members(self.queries.columns, self.queries.queries.rows, self.facts)[numbers]
        return np.where(inside, recall, np.nan)
