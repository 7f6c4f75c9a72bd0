"""Evidence on missed neighbors: which lists to request from an index, and the rank of each miss in them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.analysis.answers import bounded
from recallatk.analysis.headline import headline_k, recall_cutoffs
from recallatk.analysis.latency import percentile
from recallatk.analysis.loss import missed_by
from recallatk.analysis.matching import find_places
from recallatk.bench.full_effort import effort_knobs, raised, rerank_knobs
from recallatk.bench.messages import ProbeRequest
from recallatk.bench.settings.grid import violations
from recallatk.core.losses import ABSENT, COLUMNS, NOT_ASKED, LossEvidence
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from recallatk.adapters import Engine
    from recallatk.analysis.loss import Misses
    from recallatk.bench.probe_answers import ProbedAnswers
    from recallatk.core import Dataset, Measurement, Truth

    Ask = Callable[[ProbeRequest, NDArray[np.int64]], ProbedAnswers]

_TIMES_DEEPER, _LEAST_DEPTH = 10, 100
# Codes may give many rows the same rank, and filters leave few of many; beyond this, lists take too long.
_MOST_DEPTH = 10_000
# A filter lets its share of the nearest rows pass only on average.
_SPARE = 2
# Factor between efforts on the way to full effort; lists on the way add a third to the cost at most.
_STEEP, _STEP = 4, "step"
# Share of the neighbors found at full effort that a lower effort has to find to be enough.
_NEARLY = 0.9
# Graphs and trees have a knob for their density, which is not a matter of effort alone.
_DENSITY = frozenset({"M", "R", "connectivity", "n_trees", "n_neighbors"})


@dataclass(frozen=True)
class Inquiry:
    """One trial, and what the evidence on its misses is collected from.

    Args:
        measurement: the trial.
        engine: the class of its engine.
        truth: the right answers.
        dataset: the data.
        seconds: time that the evidence may take at most.
        rebuilt: whether the index was built again since the trial.
        costlier: trials of the same build with at least as much effort.
        seed: random seed for the order of the queries.
    """

    measurement: Measurement
    engine: type[Engine]
    truth: Truth
    dataset: Dataset
    seconds: float
    rebuilt: bool = False
    costlier: tuple[Measurement, ...] = ()
    seed: int = 0

    @property
    def k(self) -> int | None:
        """Cutoff of the recall to explain: the headline's."""
        return headline_k(recall_cutoffs(self.measurement.score.measures))

    @property
    def search(self) -> dict[str, Any]:
        """Search parameters of the trial."""
        return dict(self.measurement.trial.search)

    def known(self, k: int) -> dict[str, Any]:
        """Values that constraints of the engine depend on."""
        corpus = self.dataset.corpus
        shape = {"k": k, "rows": corpus.rows, "dimension": corpus.dimension}
        return {**shape, **dict(self.measurement.trial.build)}

    def collect(self, ask: Ask) -> LossEvidence | None:
        """The evidence on every missed neighbor; None if the trial has no recall."""
        if self.k is None:
            return None
        misses = missed_by(self.measurement, self.truth, self.k, self.dataset.corpus.rows)
        known = self._from_costlier(self.nothing(self.k, misses))
        # More effort found these and ranked them well, so nothing else needs to be asked about them.
        settled = (known.full >= 0) & (known.full < known.limit) & ~known.filtered & (not known.rerank_knobs)
        request = self.request(self.k)
        known = replace(known, full_search=request.full_search if known.effort_knobs else None)
        asked = np.flatnonzero(~settled)
        if not len(asked):
            return known
        part = replace(known, **{name: getattr(known, name)[asked] for name in COLUMNS})
        depths = self._depths(self.k, part)
        probed = ask(request, np.stack([part.query, part.row, depths]))
        found = self._evidence(part, request, probed)
        return replace(found, **{name: _spread(known, found, asked, name) for name in COLUMNS})

    def failed(self, why: str) -> LossEvidence | None:
        """Evidence that could not be collected: every miss stays unattributed."""
        if self.k is None:
            return None
        misses = missed_by(self.measurement, self.truth, self.k, self.dataset.corpus.rows)
        return replace(self.nothing(self.k, misses), notes=(why,))

    def nothing(self, k: int, misses: Misses) -> LossEvidence:
        """The misses, before the index is asked about them."""
        count = len(misses.query)
        filters = self.dataset.queries.filters
        filtered = np.zeros(self.dataset.queries.rows, bool)
        if filters is not None:
            filtered[:] = [each is not None for each in filters]
        none = np.full(count, NOT_ASKED, np.int64)
        unknown = np.full(count, ABSENT, np.int8)
        knobs = self.engine.build_knobs
        return LossEvidence(
            k=k,
            **misses._asdict(),
            filtered=filtered[misses.query],
            lacking=self._lacking(k)[misses.query],
            held=unknown,
            deeper=none,
            reranked=none,
            unfiltered=none,
            full=none,
            visited=unknown,
            returned=none,
            removed=none,
            effort_knobs=tuple(each.name for each in effort_knobs(self.engine, self.search)),
            rerank_knobs=tuple(each.name for each in rerank_knobs(self.engine, self.search)),
            build_knobs=tuple(each.name for each in knobs if each.effort or each.name in _DENSITY),
            whole=self.whole,
            budget_seconds=self.seconds,
        )

    def _lacking(self, k: int) -> NDArray[np.int64]:
        """Rows that the answer to each query lacks of k, or of all eligible rows if those are fewer."""
        returned = (bounded(self.measurement.answers, self.dataset.corpus.rows) >= 0).sum(axis=1)
        return np.asarray(np.maximum(np.minimum(k, self.dataset.eligibility.counts) - returned, 0))

    def request(self, k: int) -> ProbeRequest:
        """What to ask: longer lists, more reranking, no filter, full effort, and rows for themselves."""
        rows, own_k = self.dataset.corpus.rows, self.measurement.k
        depth = self._depth(k)
        search, filtered = self.search, self.dataset.queries.filtered
        lists = [_list("again", search, own_k)] if self.rebuilt else []
        deeper = _list("deeper", search, depth if self._allows(search, depth) else own_k)
        lists.append({**deeper, "reaching": True})
        reranking = raised(self.engine, rerank_knobs(self.engine, search), search, self.known(own_k))
        if reranking != search:
            lists.append(_list("reranked", reranking, own_k))
        if filtered:
            lists.append({**_list("unfiltered", search, own_k), "filtered": False, "reaching": True})
        full, full_k = self._full(depth)
        if any(effort_knobs(self.engine, search)):
            steps = enumerate(self._steps(full), 1)
            lists += [_list(f"{_STEP}{step}", each, own_k, self._times(each)) for step, each in steps]
            lists.append(_list("full", full, full_k, self._times(full)))
        widest = full_k if self.whole else min(rows, _MOST_DEPTH)
        own = widest if self._allows(full, widest) else full_k
        call = float(np.median(self.measurement.latencies_ns)) / 1e9
        return ProbeRequest(0, search, full, lists, own_k, self.whole, own, self.seconds, call, self.seed)

    @property
    def whole(self) -> bool:
        """Whether the index compares whole vectors."""
        return self.engine.codes(dict(self.measurement.trial.build)) is None

    def _steps(self, full: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Searches between the trial's and full effort: most neighbors are found long before the latter."""
        knobs = list(effort_knobs(self.engine, self.search))
        more = {each.name: max(self.search[each.name], 1) for each in knobs}
        while True:
            more = {each.name: min(full[each.name], _STEEP * more[each.name]) for each in knobs}
            search = {**self.search, **{each.name: each.plain(more[each.name]) for each in knobs}}
            if search == full:
                return
            if self._allows(search, self.measurement.k):
                yield search

    def _times(self, search: dict[str, Any]) -> float:
        """Effort of a search in multiples of the trial's."""
        own = self.search
        knobs = effort_knobs(self.engine, own)
        return float(np.prod([search[each.name] / max(own[each.name], 1) for each in knobs] or [1.0]))

    def _full(self, depth: int) -> tuple[dict[str, Any], int]:
        """Search parameters at full effort, and how many rows they allow to request."""
        # Where candidates are reranked, a longer list would rerank many times as many.
        lengths = (depth, self.measurement.k)
        for k in lengths[1:] if any(rerank_knobs(self.engine, self.search)) else lengths:
            full = raised(self.engine, effort_knobs(self.engine, self.search), self.search, self.known(k))
            if self._allows(full, k):
                return full, k
        return self.search, self.measurement.k

    def _allows(self, search: dict[str, Any], k: int) -> bool:
        return not any(violations(self.engine, {**self.known(k), **search}))

    def _depth(self, k: int) -> int:
        """Length of the longer list."""
        return min(self.dataset.corpus.rows, max(_TIMES_DEEPER * k, _LEAST_DEPTH, self.measurement.k))

    def _depths(self, k: int, part: LossEvidence) -> NDArray[np.int64]:
        """How many rows each query needs without its filter to see as many eligible ones as k; 0 if none."""
        rows, eligible = self.dataset.corpus.rows, self.dataset.eligibility.counts[part.query]
        needed = np.minimum(_SPARE * k * rows // np.maximum(eligible, 1), min(rows, _MOST_DEPTH))
        return np.where(part.filtered, np.maximum(needed, self._depth(k)), 0)

    def _from_costlier(self, empty: LossEvidence) -> LossEvidence:
        """The misses with their ranks in trials of more effort, which were measured already."""
        full, queries = empty.full, np.unique(empty.query)
        for each in self.costlier if len(empty) else ():
            rows = bounded(each.answers[queries], self.dataset.corpus.rows)
            there = _ranks(empty, queries, rows, np.ones(len(rows), bool))
            full = np.where((full < 0) & (there >= 0), there, full)
        return replace(empty, full=full)

    def _evidence(self, part: LossEvidence, request: ProbeRequest, probed: ProbedAnswers) -> LossEvidence:
        ranks = {name: self._ranks(part, probed, name) for name in probed.lists}
        lists = {name: ranks[name] for name in _LISTS if name in ranks}
        steps = [found for name, found in ranks.items() if name.startswith(_STEP)]
        for before in (*steps, part.full) if "full" in lists else ():
            # A list of less than full effort proves something only by what it has.
            lists["full"] = np.where((lists["full"] < 0) & (before >= 0), before, lists["full"])
        line = np.searchsorted(probed.queries, part.query)
        columns: dict[str, Any] = {**lists, **{name: getattr(probed, name)[line] for name in _COUNTS}}
        enough = _enough(part.limit, ranks, request)
        found = replace(
            part,
            held=np.where(np.isin(part.row, self._returned(probed)), 1, probed.held).astype(np.int8),
            visited=probed.visited,
            **columns,
            scans=probed.scans,
            full_scans=probed.full_scans,
            enough_search=None if enough is None else enough["search"],
            enough_p95_ms=None if enough is None else percentile(probed.latencies[enough["name"]], 0.95),
            seconds=probed.seconds,
            stopped=probed.stopped,
            notes=tuple(f"not asked: {each}" for each in probed.notes),
        )
        return self._as_measured(found, probed) if self.rebuilt else found

    def _returned(self, probed: ProbedAnswers) -> NDArray[np.int64]:
        """Rows that the index returned for any query, so that it has them."""
        # A rebuilt index did not give the answers of the trials.
        answers = [] if self.rebuilt else [each.answers for each in (self.measurement, *self.costlier)]
        return np.unique(np.concatenate([each.reshape(-1) for each in (*answers, *probed.lists.values())]))

    def _as_measured(self, found: LossEvidence, probed: ProbedAnswers) -> LossEvidence:
        """Without what a rebuilt index says about queries that it answers differently."""
        width = self.measurement.k
        before = self.measurement.answers[probed.queries][:, :width]
        again = np.full_like(before, -1)
        again[:, : probed.lists["again"].shape[1]] = probed.lists["again"][:, :width]
        other = (before != again).any(axis=1)
        gone = np.isin(found.query, probed.queries[other | ~probed.asked["again"]])
        columns: dict[str, Any] = {
            name: np.where(gone, NOT_ASKED, getattr(found, name)) for name in (*_LISTS, *_COUNTS)
        }
        for name in _FACTS:
            columns[name] = np.where(gone, ABSENT, getattr(found, name)).astype(np.int8)
        differing = int((other & probed.asked["again"]).sum())
        said = (
            f"the index was rebuilt, and it answers {counted(differing, 'query', 'queries')} "
            "differently; what they lost is unattributed"
        )
        return replace(found, **columns, notes=(*found.notes, *([said] if differing else [])))

    def _ranks(self, empty: LossEvidence, probed: ProbedAnswers, name: str) -> NDArray[np.int64]:
        """The rank of every miss in one list; without the filter, among the eligible rows."""
        rows = bounded(probed.lists[name], self.dataset.corpus.rows)
        if name == "unfiltered":
            query, column = np.nonzero(rows >= 0)
            allowed = self.dataset.eligibility.allowed(probed.queries[query], rows[query, column])
            rows[query[~allowed], column[~allowed]] = ABSENT
        return _ranks(empty, probed.queries, rows, probed.asked[name])


_LISTS, _FACTS = ("deeper", "reranked", "unfiltered", "full"), ("held", "visited")
_COUNTS = ("returned", "removed")


def _spread(known: LossEvidence, part: LossEvidence, places: NDArray[np.int64], name: str) -> Any:
    """A column of all misses, with what is known of some of them at their places."""
    column: NDArray[Any] = getattr(known, name).copy()
    column[places] = getattr(part, name)
    return column


def _enough(
    limit: NDArray[np.int64], ranks: dict[str, NDArray[np.int64]], request: ProbeRequest
) -> dict[str, Any] | None:
    """The list of the lowest effort that finds nearly all that more effort does; None if nothing is found."""
    steps = [each for each in request.lists if each["name"].startswith(_STEP) or each["name"] == "full"]
    found = [(ranks[each["name"]] >= 0) & (ranks[each["name"]] < limit) for each in steps]
    if not found:
        return None
    # A query that has found its neighbors is not asked again with more effort.
    counts = np.logical_or.accumulate(found).sum(axis=1)
    if not counts[-1]:
        return None
    return steps[int(np.argmax(counts >= _NEARLY * counts[-1]))]


def _list(name: str, search: dict[str, Any], k: int, times: float = 1.0) -> dict[str, Any]:
    return {"name": name, "search": search, "k": k, "filtered": True, "times": times, "reaching": False}


def _ranks(
    empty: LossEvidence, queries: NDArray[np.int64], rows: NDArray[np.int64], asked: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """The rank of every miss among the rows of its query.

    Args:
        empty: the misses, ordered by query.
        queries: the queries of the lists, ascending.
        rows: (queries, width) corpus rows, below 0 for what is none.
        asked: the queries that have a list.
    """
    line = np.searchsorted(queries, empty.query)
    column = np.arange(len(line)) - np.searchsorted(line, line)
    wanted = np.full((len(queries), int(column.max()) + 1), -1, np.int64)
    wanted[line, column] = empty.row
    places = find_places(wanted, rows)
    found = places.of_rows[line, column].astype(np.int64)
    ranks = np.where(found == places.never, ABSENT, found)
    return np.where(asked[line], ranks, NOT_ASKED)
