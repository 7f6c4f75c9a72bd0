"""The truth of a path: exact search, or its fusion and reranking applied to the exact lists of its legs."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.adapters.batch import QueryBatch
from recallatk.analysis.compared import Compared
from recallatk.analysis.measures import Recall, RecallWithin
from recallatk.analysis.stages import staged_recall
from recallatk.bench.job import query_sparse
from recallatk.core.stages import MeasuredStage, MeasuredStages, widened
from recallatk.errors import RecallError, UsageError
from recallatk.pipeline.fusion import by_rank, by_score
from recallatk.pipeline.hybrid_truth import exact_list, fusion_losses, hybrid_truth, retrieval_losses
from recallatk.pipeline.lexical import query_texts
from recallatk.pipeline.path import EXACT, Rerank, Retrieve
from recallatk.pipeline.path_engine import DEEPER, PathEngine, function_orders, truth_depth
from recallatk.pipeline.path_leg import PathLeg
from recallatk.pipeline.ranking import Ranked
from recallatk.pipeline.rerankers import ExactOrder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.bench.rerank_process import RerankProcess
    from recallatk.core import Dataset, Trial, Truth
    from recallatk.core.stages import StageTrace
    from recallatk.pipeline.fusion import Fuse
    from recallatk.pipeline.hybrid_truth import FusionLoss


class PathTruths:
    """Truths of the trials of paths, each made once.

    Args:
        dataset: the data.
        truth: exact search by vectors, at least as deep as `truth_depth` says.
        numbers: the numbers of the queries that functions are told; by default those in the dataset.
        part: the corpus row of each row of the dataset; by default the dataset has the whole corpus.
        process: orders lists by a function that can be imported, in a process of its own; None: in this one.
    """

    def __init__(
        self,
        dataset: Dataset,
        truth: Truth,
        numbers: NDArray[np.int64] | None = None,
        part: NDArray[np.int64] | None = None,
        process: RerankProcess | None = None,
    ) -> None:
        self.dataset, self.truth, self.part, self.process = dataset, truth, part, process
        self._numbers = np.arange(dataset.queries.rows) if numbers is None else numbers
        self._legs: dict[Any, PathLeg] = {}
        self._made: dict[Any, Truth] = {}
        self._failed: dict[Any, RecallError] = {}

    def of(self, engine: type[PathEngine], trial: Trial, k: int) -> Truth:
        """What the path returns for every query if its legs are exact.

        A fusion that ends the path is that of deeper lists than the trial retrieved, so that its depth can
        lose neighbors. Whatever reranks gets the exact lists of the trial's own depth.
        """
        if engine.path.by_vectors:
            return self.truth
        self.require_depth(engine, trial, k)
        wanted = max(k, engine.path.k or k)
        key = (engine, self._deciding(engine, trial), wanted)
        if key in self._failed:
            raise self._failed[key]
        if key not in self._made:
            try:
                self._made[key] = self._truth(engine, trial, wanted)
            except RecallError as problem:
                # A function that failed once is not called again for every trial.
                self._failed[key] = problem
                raise
        return self._made[key]

    def _truth(self, engine: type[PathEngine], trial: Trial, k: int) -> Truth:
        path = engine.path
        if path.reranks:
            lists = list(self.exact_lists(engine, trial, k).values())
            return self._as_truth(self._joined(engine, trial, lists))
        lists_by_leg = self.exact_lists(engine, trial, k, self.truth.depth)
        if path.fuse is None:
            return self._as_truth(lists_by_leg[path.legs[0].name])
        depth = min(self.truth.depth, self.dataset.corpus.rows)
        return hybrid_truth(
            lists_by_leg, _fusion(engine, trial), depth, dense=self.truth, corpus=self.dataset.corpus
        )

    def require_depth(self, engine: type[PathEngine], trial: Trial, k: int) -> None:
        """Refuse a truth by vectors that is too shallow for a trial of a path."""
        if engine.path.by_vectors:
            return
        depth = min(truth_depth(engine, dict(trial.search), k), self.dataset.corpus.rows)
        if self.truth.depth < depth:
            raise UsageError(
                f"the truth lists {self.truth.depth} neighbors, and the path {engine.name} needs {depth} to "
                f"compare its lists with exact ones. Compute a deeper truth: depth = {depth}"
            )

    def exact_lists(
        self, engine: type[PathEngine], trial: Trial, k: int, depth: int | None = None
    ) -> dict[str, Ranked]:
        """The exact list of every leg by name, of this depth or as long as the leg retrieves.

        A leg by vectors gets no longer list than the truth has.
        """
        found = {}
        for leg in engine.path.legs:
            width = depth or engine.knobs.depth(leg, dict(trial.search), k)
            width = min(width, self.dataset.corpus.rows)
            by_terms = None if leg.dense else self._by_terms(engine, trial, leg, width)
            found[leg.name] = by_terms or exact_list(self.truth, min(width, self.truth.depth), leg.name)
        return found

    def results(self, engine: type[PathEngine], trial: Trial, trace: StageTrace, k: int) -> MeasuredStages:
        """Recall of every stage of a trial, what it lost, and its times."""
        wanted = max(k, engine.path.k or k)
        truth, lists = self.of(engine, trial, k), self._everywhere(trace)
        cut = min(wanted, truth.depth)
        own = self._own(engine, trial, trace, wanted)
        stages = tuple(
            MeasuredStage(name, rows, _contained(truth, rows, cut), recall)
            for name, rows, recall in zip(trace.names, lists, own, strict=True)
        )
        lost = self._lost(engine, trial, lists, self._leg_scores(trace), truth, wanted)
        own_truth = None if truth is self.truth else _shallow(truth, wanted)
        return MeasuredStages(cut, stages, trace.spans_ns, own_truth, lost)

    def _lost(
        self,
        engine: type[PathEngine],
        trial: Trial,
        lists: list[NDArray[np.int64]],
        scores: list[NDArray[np.float64]],
        truth: Truth,
        k: int,
    ) -> dict[str, NDArray[np.float64]]:
        """By cause, the share of each query's true top k that was lost to it."""
        path, cut = engine.path, min(k, truth.depth)
        legs = {leg.name: rows for leg, rows in zip(path.legs, lists, strict=False)}
        exact = self.exact_lists(engine, trial, k) if path.fuse is not None else {}
        whole = path.fuse is not None and path.fuse.depth is None
        if whole and len(lists) == len(legs) + 1:
            # A fusion by rank has no scores to compare.
            of_legs: list[NDArray[np.float64] | None] = [*scores] or [None] * len(legs)
            found = {name: Ranked(rows, own) for (name, rows), own in zip(legs.items(), of_legs, strict=True)}
            losses = fusion_losses(truth, found, exact, _fusion(engine, trial), cut, answers=lists[-1])
            return {name: _per_query(losses, number, len(truth)) for number, name in enumerate(losses.causes)}
        later = list(path.stage_names[len(legs) :])
        retrieved = np.concatenate(list(legs.values()), axis=1)
        first = next(iter(legs)) if len(legs) == 1 else "retrieval"
        if not later:
            return {first: 1 - Recall(cut).per_query(Compared(truth, retrieved))}
        lost = dict(staged_recall([first, *later], [retrieved, *lists[len(legs) :]], truth, cut).lost)
        if not path.reranks or len(legs) == 1:
            return lost
        found = {name: Ranked(rows, None) for name, rows in legs.items()}
        del lost[first]
        return retrieval_losses(truth, found, exact, cut) | lost

    def _everywhere(self, trace: StageTrace) -> list[NDArray[np.int64]]:
        """The lists of every query of the dataset; -1 for queries that were not sent."""
        found = []
        for rows in trace.rows:
            whole = np.full((self.dataset.queries.rows, rows.shape[1]), -1, np.int64)
            whole[trace.queries] = rows
            found.append(whole)
        return found

    def _leg_scores(self, trace: StageTrace) -> list[NDArray[np.float64]]:
        """The scores of every leg for every query, as a weighted fusion added them; none by rank."""
        found = []
        for scores in trace.scores:
            whole = np.full((self.dataset.queries.rows, scores.shape[1]), np.nan)
            whole[trace.queries] = scores
            found.append(whole)
        return found

    def _own(
        self, engine: type[PathEngine], trial: Trial, trace: StageTrace, k: int
    ) -> list[NDArray[np.float64] | None]:
        """Recall of every stage against what it would return with exact inputs; None if that is unknown."""
        path, lists = engine.path, self._everywhere(trace)
        exact = self.exact_lists(engine, trial, k)
        found: list[NDArray[np.float64] | None] = []
        for number, stage in enumerate(each for each in path.read if each.name in trace.names):
            if isinstance(stage, Retrieve):
                right, depth = exact[stage.name], lists[number].shape[1]
                # A leg that is asked without the filter has lists that no truth of the queries is about.
                unfiltered = path.post_filter is not None and self.dataset.queries.filtered
                whole = right.rows.shape[1] >= depth and not stage.reduced and not unfiltered
                found.append(self._of_leg(engine, trial, stage, lists[number]) if whole else None)
            elif path.fuse is not None and stage is path.fuse:
                right = self._fused(engine, trial, list(exact.values()))
                found.append(self._recall(right, lists[number], min(k, right.rows.shape[1])))
            elif number == len(trace.names) - 1:
                truth = self.of(engine, trial, k)
                found.append(Recall(min(k, truth.depth)).per_query(Compared(truth, lists[number])))
            else:
                found.append(None)
        return found

    def _of_leg(
        self, engine: type[PathEngine], trial: Trial, leg: Retrieve, rows: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Recall of a leg's list, with all rows that tie with its last one."""
        depth = rows.shape[1]
        if leg.dense:
            return Recall(depth).per_query(Compared(self.truth, rows))
        longer = min(DEEPER * depth, self.dataset.corpus.rows)
        return self._recall(self._by_terms(engine, trial, leg, longer), rows, depth)

    def _recall(self, right: Ranked, rows: NDArray[np.int64], k: int) -> NDArray[np.float64]:
        return Recall(k).per_query(Compared(self._as_truth(right), rows))

    # Exact lists

    @cached_property
    def _batch(self) -> QueryBatch:
        queries = self.dataset.queries
        filters = None if queries.filters is None else list(queries.filters)
        texts = None if queries.text_column is None else query_texts(queries)
        vectors = queries.vectors.read(0, queries.rows)
        return QueryBatch(vectors, filters, rows=self._numbers, texts=texts)

    def _by_terms(self, engine: type[PathEngine], trial: Trial, leg: Retrieve, depth: int) -> Ranked:
        """The exact list of a leg that ranks by terms, from an index of its own."""
        prefix = engine.knobs.prefix(leg)
        build = tuple((name, value) for name, value in trial.build if name.startswith(prefix))
        key = (engine, leg.name, build)
        if key not in self._legs:
            held = PathLeg(engine.knobs, leg)
            held.build(self.dataset.corpus, self.dataset.metric, dict(trial.build))
            self._legs[key] = held
        batch = self._batch
        if engine.inputs.sparse is not None:
            batch = copy.copy(batch)
            batch.sparse = query_sparse(self.dataset, engine.inputs.sparse)
        found: Ranked = self._legs[key].engine.scored(batch, depth, exact=True)  # type: ignore[attr-defined]
        return found

    # The rest of the path over exact lists

    def _joined(self, engine: type[PathEngine], trial: Trial, lists: list[Ranked]) -> Ranked:
        """The path after its legs, over these lists."""
        found = self._fused(engine, trial, lists)
        for stage in engine.path.reranks:
            found = Ranked(self._reranked(engine, trial, stage, found.rows), None)
        return found

    def _fused(self, engine: type[PathEngine], trial: Trial, lists: list[Ranked]) -> Ranked:
        if engine.path.fuse is None:
            return lists[0]
        whole = sum(each.depth for each in lists)
        search: dict[str, Any] = dict(trial.search)
        return _fusion(engine, trial)(lists, int(search.get(f"{engine.path.fuse.name}.depth", whole)))

    def _reranked(
        self, engine: type[PathEngine], trial: Trial, stage: Rerank, rows: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        search: dict[str, Any] = dict(trial.search)
        width = int(rows.shape[1])
        depth = int(search.get(f"{stage.name}.depth", width))
        first = rows[:, :depth]
        corpus = self.dataset.corpus
        if stage.by == EXACT:
            ordered = ExactOrder(corpus, self.dataset.metric).order(self._batch.vectors, first)
        elif self.process is not None and isinstance(stage.by, str):
            ordered = self._ordered_apart(engine, stage, first, self.process)
        else:
            ordered = function_orders(engine, corpus)[stage.name].order(self._batch, first)
        return ordered if depth >= rows.shape[1] else np.concatenate([ordered, rows[:, depth:]], axis=1)

    def _ordered_apart(
        self, engine: type[PathEngine], stage: Rerank, rows: NDArray[np.int64], process: RerankProcess
    ) -> NDArray[np.int64]:
        """The rows in the order of a function that another process calls, which holds the whole corpus."""
        if self.part is None:
            return process(engine, stage, self._numbers, rows)
        ordered = process(engine, stage, self._numbers, np.where(rows < 0, rows, self.part[rows]))
        places = np.argsort(self.part)
        found = places[np.searchsorted(self.part, ordered, sorter=places) % len(places)]
        return np.where(ordered < 0, ordered, found)

    def _deciding(self, engine: type[PathEngine], trial: Trial) -> tuple[Any, ...]:
        """The parameters of a trial that decide its truth: all but the effort of its indexes."""
        deciding = ["constant", "weight"]
        if engine.path.reranks:
            deciding += ["depth", "oversample"]
        terms = [leg for leg in engine.path.legs if not leg.dense]
        search = [each for each in trial.search if each[0].rpartition(".")[2] in deciding]
        prefixes = tuple(engine.knobs.prefix(leg) for leg in terms)
        build = [(name, value) for name, value in trial.build if terms and name.startswith(prefixes)]
        return (*search, *build)

    def _as_truth(self, ranked: Ranked) -> Truth:
        """The lists as a truth of the same queries; ties are equal scores."""
        rows = ranked.rows
        listed = (rows >= 0).sum(axis=1)
        eligible = self.truth.eligible
        if eligible is not None:
            eligible = np.where(listed < rows.shape[1], np.minimum(listed, eligible), eligible)
        return replace(
            self.truth,
            rows=rows,
            scores=ranked.scores,
            eligible=eligible,
            tied=None,
            overflow=None,
            tie_counts=None,
            certificate=None,
        )


def _fusion(engine: type[PathEngine], trial: Trial) -> Fuse:
    """The fusion of a trial."""
    search: dict[str, Any] = dict(trial.search)
    if "weight" in search:
        return by_score(float(search["weight"]), [leg.name for leg in engine.path.legs])
    return by_rank(search["constant"])


def _contained(truth: Truth, rows: NDArray[np.int64], k: int) -> NDArray[np.float64]:
    """The share of the true top k anywhere in these lists."""
    return RecallWithin(max(k, rows.shape[1]), k).per_query(Compared(truth, rows))


def _per_query(losses: FusionLoss, cause: int, queries: int) -> NDArray[np.float64]:
    chosen = losses.cause == cause
    lost = np.bincount(losses.query[chosen], losses.share[chosen], queries)
    # Rounding must not carry a sum of shares beyond 1.
    return np.minimum(lost, 1.0)


def _shallow(truth: Truth, k: int) -> Truth:
    """The truth as deep as reports need it: k rows, and those that tie with the last."""
    if truth.scores is None or truth.depth <= k:
        return replace(truth, rows=widened(truth.rows[:, :k], min(k, truth.depth)))
    last = truth.scores[:, k - 1 : k]
    tied = (truth.scores == last) & (truth.rows >= 0)
    width = max(k, int(np.max(np.where(tied.any(axis=1), tied.shape[1] - tied[:, ::-1].argmax(axis=1), k))))
    return replace(truth, rows=truth.rows[:, :width], scores=truth.scores[:, :width])
