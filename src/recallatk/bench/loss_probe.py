"""Questions to an index about the neighbors that a trial missed, asked in the worker until time is up."""

from __future__ import annotations

import time
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.adapters.base import Engine
from recallatk.adapters.batch import QueryBatch
from recallatk.adapters.installation import importing
from recallatk.bench.loss_budget import TimeBudget
from recallatk.bench.messages import in_words
from recallatk.bench.probe_answers import ProbedAnswers
from recallatk.bench.trial_result import corpus_rows
from recallatk.core import Metric
from recallatk.core.losses import NOT_ASKED
from recallatk.redaction import redact_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from recallatk.adapters.base import FilterCounts
    from recallatk.bench.messages import ProbeRequest
    from recallatk.bench.session import Session

    VectorOf = Callable[[int], NDArray[Any]]
    Answer = tuple[NDArray[np.int64], int]

# A list that this many queries in a row cannot get is not requested again.
_MOST_REFUSALS = 3
# Calls that show the latency at full effort.
_PRICED = 32
# Filtered queries whose rows are counted; their medians change little with more.
_COUNTED = 20
# Queries asked between two configurations of the engine; few, so that all lists get their share of the time.
_CHUNK = 16

_CONFIGURE = "configure"


class LossProbe:
    """Asks one index about the missed neighbors of one trial.

    Args:
        session: the index and the queries.
        request: what to ask, and for how long.
        misses: (3, neighbors) queries, ascending, corpus rows, and lengths of lists that reach.
        vector_of: the stored vector of a corpus row, as a matrix of one line.
    """

    def __init__(
        self, session: Session, request: ProbeRequest, misses: NDArray[np.int64], vector_of: VectorOf
    ) -> None:
        self.session, self.request, self.vector_of = session, request, vector_of
        self.engine = session.built
        self.query, self.row, depth = misses
        self.queries, first = np.unique(self.query, return_index=True)
        ends = [*first[1:].tolist(), len(self.query)]
        self.own = dict(zip(self.queries.tolist(), map(slice, first.tolist(), ends), strict=True))
        self.depths = dict(zip(self.queries.tolist(), depth[first].tolist(), strict=True))
        self.answers: dict[str, dict[int, Answer]] = {each["name"]: {} for each in request.lists}
        self.held = np.full(len(self.query), -1, np.int8)
        self.visited = np.full(len(self.query), -1, np.int8)
        self.counts: dict[int, FilterCounts | None] = {}
        self.refused: dict[str, str] = {}
        self.refusals: dict[str, int] = {}
        self.budget = TimeBudget(request.seconds, request.call_seconds, request.k)

    def run(self) -> ProbedAnswers:
        """Ask query by query, in random order, so that those asked in time stand for all."""
        with importing(type(self.engine)):
            scans, full_scans = self._scans(self.request.search), self._scans(self.request.full_search)
            self._look_up()
            lists = self.request.lists
            order = np.random.default_rng(self.request.seed).permutation(self.queries)
            for start in range(0, len(order), _CHUNK):
                chunk = order[start : start + _CHUNK].tolist()
                self._visits(chunk)
                self._count(chunk)
                for each in lists:
                    self._list(each, chunk)
                self._own_vectors(chunk)
                if self.budget.stopped:
                    break
                enough = len(self.answers.get("full", range(_PRICED))) >= _PRICED
                if enough and full_scans and self.request.whole and (self.held != -1).all():
                    # What a scan would find is certain; the first queries have shown its price.
                    lists = [each for each in lists if each["name"] in self._compared]
        return self._result(scans, full_scans)

    @property
    def _compared(self) -> tuple[str, ...]:
        """Lists that show more than what the index can find."""
        return ("again", "deeper", "unfiltered") if "unfiltered" in self.answers else ("again",)

    def _scans(self, search: dict[str, Any]) -> bool:
        if not self.budget.allows(_CONFIGURE):
            return False
        started = time.perf_counter()
        self.engine.configure(**search)
        self.budget.took(_CONFIGURE, time.perf_counter() - started)
        return bool(self.engine.scans())

    def _configured(self, name: str, search: dict[str, Any]) -> bool:
        """Set the search parameters of a list, if there is time and the engine takes them."""
        if not self.budget.allows(_CONFIGURE):
            return False
        return self._timed(name, lambda: self.engine.configure(**search), kind=_CONFIGURE) is not None

    def _index_rows(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return rows if self._places is None else self._places[rows]

    @cached_property
    def _places(self) -> NDArray[np.int64] | None:
        """Index row of each corpus row; None: the same."""
        return None if self.session.order is None else np.argsort(self.session.order)

    def _timed(
        self, name: str, call: Callable[[], Any], k: int | None = None, kind: str | None = None
    ) -> tuple[Any, int] | None:
        """One call and its time; None where the engine refuses it, which is noted once."""
        started = time.perf_counter_ns()
        try:
            found = call()
        except Exception as problem:
            self.refused[name] = redact_text(in_words(problem))
            return None
        spent = time.perf_counter_ns() - started
        self.budget.took(kind or name, spent / 1e9, k)
        return found, spent

    def _look_up(self) -> None:
        """Ask the engine which of the missed rows it has, where it can tell without a search."""
        if not self.budget.allows("holds"):
            return
        found = self._timed("holds", lambda: self.engine.holds(self._index_rows(self.row)))
        self.refused.pop("holds", None)
        if found is not None and found[0] is not None:
            self.held[:] = found[0]

    def _visits(self, chunk: Sequence[int]) -> None:
        if not self._shows("visits") or not self._configured("visits", self.request.search):
            return
        for query in chunk:
            own = self.own[query]
            rows = self._index_rows(self.row[own])
            batch = self.session.questions.single[query][0]
            if not self.budget.allows("visits"):
                return
            found = self._timed("visits", partial(self.engine.visits, batch, rows))
            if found is not None and found[0] is not None:
                self.visited[own] = found[0]

    def _shows(self, name: str) -> bool:
        """Whether the engine implements a method that shows more, and has not refused it."""
        return getattr(type(self.engine), name) is not getattr(Engine, name) and name not in self.refused

    def _count(self, chunk: Sequence[int]) -> None:
        """Count rows before and after the filter, for some filtered queries."""
        name = "filter_counts"
        filters = self.session.questions.filters or ()
        filtered = [query for query in chunk if filters and filters[query] is not None]
        asked = filtered[: _COUNTED - len(self.counts)]
        if not asked or not self._shows(name) or not self._configured(name, self.request.search):
            return
        for query in asked:
            if name in self.refused or not self.budget.allows(name):
                return
            batch = self.session.questions.single[query][0]
            found = self._timed(name, partial(self.engine.filter_counts, batch, self.request.k))
            if found is not None:
                self.counts[query] = found[0]

    def _list(self, each: dict[str, Any], chunk: Sequence[int]) -> None:
        """Request one list for some queries; full effort is remembered for the other trials of the build."""
        name, search, filtered = each["name"], each["search"], each["filtered"]
        parameters = repr(sorted(search.items()))
        configured = False
        for query in chunk:
            if name in self.refused:
                return
            # Filters let rows of any rank pass, so some lists are as long as each query needs.
            k = max(each["k"], self.depths[query]) if each["reaching"] else each["k"]
            known = self.session.probed.setdefault((parameters, k), {})
            if filtered and query in known:
                self.answers[name][query] = known[query]
                continue
            if each["times"] > 1 and not len(self._unseen([query], held=True)):
                continue
            configured = configured or self._configured(name, search)
            batch = self._batch(query, filtered=filtered)
            if not configured or not self._affordable(each, batch, k):
                return
            answer = self._answer(name, batch, k, each["k"])
            if answer is not None:
                self.answers[name][query] = answer
                if filtered:
                    known[query] = answer

    def _affordable(self, each: dict[str, Any], batch: QueryBatch, k: int) -> bool:
        """Whether there is time for a list; a shorter one shows how time grows with the rows, if need be."""
        name, short, times = each["name"], each["k"], each["times"]
        budget = self.budget
        if short < k and not budget.knows(name) and not budget.fits(name, k) and budget.fits(name, short):
            self._timed(name, partial(self.engine.search, batch, short), short)
        return budget.allows(name, k, times)

    def _answer(self, name: str, batch: QueryBatch, *lengths: int) -> Answer | None:
        """One list, of the first length that the engine can fill; at last, as long as the trial's."""
        for length in dict.fromkeys((*lengths, self.request.k)):
            found = self._timed(name, partial(self.engine.search, batch, length), length)
            if found is not None:
                self.refused.pop(name, None)
                self.refusals[name] = 0
                return found[0][0].astype(np.int64), found[1]
        self.refusals[name] = self.refusals.get(name, 0) + 1
        if self.refusals[name] < _MOST_REFUSALS:
            self.refused.pop(name, None)
        return None

    def _batch(self, query: int, *, filtered: bool) -> QueryBatch:
        batch = self.session.questions.single[query][0]
        return batch if filtered else QueryBatch(batch.vectors, None, rows=batch.rows)

    def _own_vectors(self, chunk: Sequence[int]) -> None:
        """Search for rows that no list had by their own vectors, at full effort and without filters."""
        rows = self._unseen(chunk)
        if not len(rows) or "itself" in self.refused:
            return
        if not self._configured("itself", self.request.full_search):
            return
        effort = max(each["times"] for each in self.request.lists)
        for row in rows.tolist():
            if "itself" in self.refused or not self.budget.allows("itself", self.request.own_k, effort):
                return
            held = self.session.rows_held.get(row)
            if held is None:
                held = self._asked_for_itself(row)
                if "itself" in self.refused:
                    return
                self.session.rows_held[row] = held
            self.held[self.row == row] = held

    def _unseen(self, chunk: Sequence[int], *, held: bool = False) -> NDArray[np.int64]:
        """Rows missed by these queries that no list had; without `held`, those that the index may lack."""
        unknown = []
        for query in chunk:
            own = self.own[query]
            lists = [found[query][0] for found in self.answers.values() if query in found]
            seen = np.concatenate(lists) if lists else np.empty(0, np.int64)
            own_rows = self.row[own] if held else self.row[own][self.held[own] == -1]
            unknown.append(own_rows[~np.isin(self._index_rows(own_rows), seen)])
        return np.unique(np.concatenate(unknown))

    def _asked_for_itself(self, row: int) -> int:
        """1 if the index returns the row for its own vector, 0 if not, -1 if rows as good fill the list."""
        session = self.session
        vector = session.kind.prepared(self.vector_of(row), Metric(session.job.metric))
        batch = QueryBatch(np.ascontiguousarray(vector), None)
        own_k = self.request.own_k
        found = self._timed("itself", lambda: self.engine.search(batch, own_k), own_k)
        if found is None:
            return -1
        rows = self._corpus(found[0])[0]
        if row in rows:
            return 1
        known = rows[rows >= 0]
        full = len(known) == own_k
        return -1 if full and self._as_good(int(known[-1]), row) else 0

    def _as_good(self, other: int, row: int) -> bool:
        """Whether another row answers the vector of a row at least as well as the row itself."""
        one, own = self.vector_of(other), self.vector_of(row)
        if np.array_equal(one, own):
            return True
        if Metric(self.session.job.metric) is not Metric.IP:
            return False
        # By inner product, every longer vector of a like direction is better than the vector itself.
        one, own = one.astype(np.float64), own.astype(np.float64)
        return bool((one * own).sum() >= (own * own).sum())

    def _corpus(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        order = self.session.order
        return rows if order is None else corpus_rows(rows, order)

    def _result(self, scans: bool, full_scans: bool) -> ProbedAnswers:
        lists, asked = {}, {}
        for name, found in self.answers.items():
            width = max((len(rows) for rows, _ in found.values()), default=1)
            matrix = np.full((len(self.queries), width), -1, np.int64)
            for place, query in enumerate(self.queries.tolist()):
                if query in found:
                    rows = found[query][0]
                    matrix[place, : len(rows)] = rows
            lists[name] = self._corpus(matrix)
            asked[name] = np.isin(self.queries, list(found))
        return ProbedAnswers(
            queries=self.queries,
            lists=lists,
            asked=asked,
            held=self.held,
            visited=self.visited,
            returned=self._counted("returned"),
            removed=self._counted("removed"),
            latencies={
                name: np.array([spent for _, spent in found.values()], np.int64)
                for name, found in self.answers.items()
            },
            scans=scans,
            full_scans=full_scans,
            stopped=self.budget.stopped,
            seconds=self.budget.spent,
            notes=[f"{name}: {why}" for name, why in self.refused.items()],
        )

    def _counted(self, name: str) -> NDArray[np.int64]:
        found = {query: getattr(counts, name, NOT_ASKED) for query, counts in self.counts.items()}
        return np.array([found.get(query, NOT_ASKED) for query in self.queries.tolist()], np.int64)
