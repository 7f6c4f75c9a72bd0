"""The truth of a corpus whose rows come and go, brought up to date from step to step.

For each query it holds a list of rows that is longer than the truth: every live row whose score reaches the
query's floor. A deleted row leaves the lists, a new row joins those whose floor it reaches. As long as enough
rows lie certainly above its floor, a query needs no scan.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import Corpus, Truth
from recallatk.errors import UsageError
from recallatk.truths.compute import count_threads, require_depth
from recallatk.truths.contenders import contenders
from recallatk.truths.corpus_reader import PickedVectors, held
from recallatk.truths.decision import Pairs, decide, grouped
from recallatk.truths.memory_plan import plan
from recallatk.truths.results import Results
from recallatk.truths.search import ExactSearch
from recallatk.truths.shard_scan import CandidateSearch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Dataset

# Rows held beyond twice the depth: deletes must empty the list of a query before it is scanned for again.
_RESERVE = 32


class StepTruth:
    """The exact nearest live rows of every query; all rows are dead at first.

    Args:
        dataset: all rows that are ever live, and the queries, which have no filters.
        depth: how many rows to keep for each query.
        memory: how much to use beyond what the process has, as bytes or text such as `1GiB`.
        threads: how many cores to use; all by default.
    """

    def __init__(
        self, dataset: Dataset, depth: int, *, memory: int | str | None = None, threads: int | None = None
    ) -> None:
        require_depth(depth)
        if dataset.queries.filtered or dataset.queries.corpus_rows is not None:
            raise UsageError("the truth of a step needs queries without filters that are no corpus rows")
        self.depth, self.kept = depth, 2 * depth + _RESERVE
        self.cores = count_threads(threads)
        self.plan = plan(dataset, self.kept, memory, self.cores)
        self.dataset = held(dataset, self.plan.block_rows)
        self.search = ExactSearch(self.dataset, self.kept - 1, self.plan, threads=self.cores, backend="blas")
        rows, queries = dataset.corpus.rows, dataset.queries.rows
        self.live = np.zeros(rows, bool)
        """Whether each row is live now."""
        self._known = self.live.copy()
        """The rows that were live when the lists were brought up to date."""
        none = np.empty(0, np.int64)
        self._lists = Pairs(none, none, np.empty(0), np.empty(0))
        self._floors, self._bounds = np.full(queries, np.nan), np.full(queries, np.nan)
        self._unscanned = np.ones(queries, bool)
        self._results = Results(queries, depth)
        self.scanned_queries = 0
        """Queries that were compared with every live row, over all steps."""

    def delete(self, rows: NDArray[np.int64]) -> None:
        """Rows are dead from now on."""
        self.live[rows] = False

    def insert(self, rows: NDArray[np.int64]) -> None:
        """Rows are live from now on."""
        self.live[rows] = True

    def truth(self) -> Truth:
        """The truth over the live rows, by row of the whole corpus, as if it were computed from scratch."""
        if not self.live.any():
            raise UsageError("no row is live: there is no truth")
        changed = self._drop(self._known & ~self.live)
        changed |= self._add(np.flatnonzero(self.live & ~self._known))
        self._known = self.live.copy()
        again = np.flatnonzero(self._unscanned | ~self._sure())
        self._scan(again)
        changed[again] = True
        self._decide(np.flatnonzero(changed))
        # A copy: the results go on changing with the next step.
        found = deepcopy(self._results).truth(self.dataset, {})
        return replace(found, eligible=np.full(len(found), int(self.live.sum()), np.int64))

    def _drop(self, removed: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Take dead rows off the lists; returns the queries that had one."""
        gone = removed[self._lists.rows]
        changed = np.zeros(len(self._floors), bool)
        changed[self._lists.queries[gone]] = True
        self._lists = _of(self._lists, ~gone)
        return changed

    def _add(self, added: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Put new rows on the lists whose floors they reach; returns the queries that got one."""
        changed = np.zeros(len(self._floors), bool)
        which = np.flatnonzero(~self._unscanned)
        found = contenders(
            self.search,
            self.search.queries[which],
            added,
            self.kept,
            self._floors[which],
            self._bounds[which],
        )
        self._unscanned[which[found.abandoned]] = True
        if len(found.queries):
            queries = which[found.queries]
            changed[queries] = True
            order = np.argsort(queries, kind="stable")
            new = self.search.scored(self.search.queries, queries[order], found.rows[order])
            self._lists = _joined(self._lists, new)
            self._trim()
        return changed

    def _trim(self) -> None:
        """Sort the lists, and raise the floors of those that are longer than needed to their last score."""
        sign = -1.0 if self.search.metric.higher_is_better else 1.0
        order = grouped(self._lists.queries, np.argsort(sign * self._lists.scores, kind="stable"))
        lists = _of(self._lists, order)
        counts = np.bincount(lists.queries, minlength=len(self._floors))
        long = np.flatnonzero(counts >= self.kept)
        last = (np.cumsum(counts) - counts)[long] + self.kept - 1
        self._floors[long], self._bounds[long] = lists.scores[last], lists.tolerances[last]
        self._lists = _of(lists, self._beyond(lists, -1.0) <= 0)

    def _beyond(self, pairs: Pairs, sense: float) -> NDArray[np.float64]:
        """How far each pair lies above its floor after the errors of both, or below it with `sense` -1.

        Above 0 only where it certainly does. Without a floor, every pair lies above it.
        """
        sign = 1.0 if self.search.metric.higher_is_better else -1.0
        above = sign * (pairs.scores - self._floors[pairs.queries])
        above = np.where(np.isnan(above), np.inf, above)
        slack = np.nan_to_num(pairs.tolerances + self._bounds[pairs.queries])
        return np.asarray(sense * above - slack)

    def _sure(self) -> NDArray[np.bool_]:
        """Queries with enough rows certainly above their floors, or whose lists hold every live row."""
        above = self._lists.queries[self._beyond(self._lists, 1.0) > 0]
        enough = np.bincount(above, minlength=len(self._floors)) > self.depth
        return np.asarray(enough | np.isnan(self._floors))

    def _scan(self, which: NDArray[np.int64]) -> None:
        """Make the lists of some queries anew from all live rows."""
        if not len(which):
            return
        self.scanned_queries += len(which)
        rows = np.flatnonzero(self.live)
        corpus = self.dataset.corpus
        picked = Corpus(corpus.name, PickedVectors(self.search.reader, rows), corpus.columns)
        dataset = replace(self.dataset, corpus=picked)
        planned = plan(dataset, self.kept, None, self.cores)
        planned = replace(planned, block_rows=min(planned.block_rows, self.plan.block_rows))
        scan = CandidateSearch(dataset, self.kept - 1, planned, threads=self.cores, backend="blas")
        scan.run(which)
        again = np.zeros(len(self._floors), bool)
        again[which] = True
        parts = [_of(self._lists, ~again[self._lists.queries]), *scan.found]
        self._lists = _joined(*parts)
        self._lists.rows[len(parts[0].rows) :] = rows[self._lists.rows[len(parts[0].rows) :]]
        self._floors[which] = self._bounds[which] = np.nan
        self._unscanned[which] = False
        self._trim()

    def _decide(self, which: NDArray[np.int64]) -> None:
        """Order the lists of some queries exactly, and keep the best rows."""
        if not len(which):
            return
        place = np.full(len(self._floors), -1, np.int64)
        place[which] = np.arange(len(which))
        lists = self._front(_of(self._lists, place[self._lists.queries] >= 0))
        pairs = Pairs(place[lists.queries], lists.rows, lists.scores, lists.tolerances)
        vectors = self.search.queries[which]
        verdict = decide(self.search.metric, vectors, pairs, self.depth, self.search.reader.rows)
        self._results.forget_ties(which)
        self._results.put(which, np.ones(len(which), bool), verdict)

    def _front(self, lists: Pairs) -> Pairs:
        """The best rows of each list, one more than the depth, and all that may tie with the last of them."""
        counts = np.bincount(lists.queries, minlength=len(self._floors))
        starts = np.cumsum(counts) - counts
        places = np.arange(len(lists.rows)) - starts[lists.queries]
        some = np.flatnonzero(counts)
        last = starts[some] + np.minimum(counts[some], self.depth + 1) - 1
        limits, widest = np.zeros(len(counts)), np.zeros(len(counts))
        limits[some] = lists.scores[last]
        widest[some] = np.maximum.reduceat(lists.tolerances, starts[some])
        near = np.abs(lists.scores - limits[lists.queries]) <= 4 * widest[lists.queries]
        return _of(lists, (places <= self.depth) | near)


def _of(pairs: Pairs, chosen: NDArray[np.int64] | NDArray[np.bool_]) -> Pairs:
    parts: list[Any] = [pairs.queries, pairs.rows, pairs.scores, pairs.tolerances]
    return Pairs(*(part[chosen] for part in parts))


def _joined(*several: Pairs) -> Pairs:
    parts: list[Any] = [
        np.concatenate([getattr(each, name) for each in several])
        for name in ("queries", "rows", "scores", "tolerances")
    ]
    return Pairs(*parts)
