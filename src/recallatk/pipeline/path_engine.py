"""A path as an engine: built, configured and searched stage by stage, with the time and rows of each."""

from __future__ import annotations

import copy
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from recallatk.adapters.allowed_rows import AllowedRows
from recallatk.adapters.base import Abilities, Engine
from recallatk.adapters.batch import QueryBatch
from recallatk.adapters.inputs import ColumnKind, Inputs
from recallatk.core import Metric
from recallatk.core.stages import StageTrace, stacked
from recallatk.errors import EngineError
from recallatk.pipeline.fusion import rrf, weighted
from recallatk.pipeline.knobs import PathKnobs
from recallatk.pipeline.path import EXACT, RRF, WEIGHTED, Path, Rerank
from recallatk.pipeline.path_leg import PathLeg
from recallatk.pipeline.rerankers import ExactOrder, FunctionOrder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from recallatk.core import Corpus
    from recallatk.filters import Filter

    Scores = NDArray[np.float64] | None

TEXT = "text"
"""Column with the text of a row, for functions whose stage names none."""


# A fusion is compared with one of lists that are this many times as long, so that its depth can be a loss.
DEEPER = 2


class _StagedCall(NamedTuple):
    """What the stages did in one call."""

    queries: Any
    """Numbers of the queries; None if they are unknown."""
    times: tuple[int, ...]
    """The clock before the first stage and after each, in nanoseconds."""
    lists: tuple[NDArray[np.int64], ...]
    scores: tuple[NDArray[np.float64], ...]
    """Scores that a weighted fusion added, one matrix per leg; empty without one."""


class PathEngine(Engine):
    """Stages of a path around the indexes of its legs."""

    family = "path"
    path: ClassVar[Path]
    knobs: ClassVar[PathKnobs]

    def __init__(self) -> None:
        self.legs: list[PathLeg] = []
        self.lent: tuple[Engine, ...] = ()
        """Engines of the path that this is a client of."""
        self.exact: ExactOrder | None = None
        self.functions: dict[str, FunctionOrder] = {}
        self.allowed: AllowedRows | None = None
        self.masks: dict[str, NDArray[np.bool_]] = {}
        self.log: list[_StagedCall] | None = None

    # Before a build

    @classmethod
    def reaches(cls, **parameters: Any) -> str | None:
        """The first thing of the user that a leg or a stage contacts."""
        for leg in cls.path.legs:
            found = cls.knobs.engines[leg.name].reaches(**leg.build)
            if found is not None:
                return found
        return next((f"the function of stage {each.name}" for each in cls.path.reranks if each.calls), None)

    @classmethod
    def can_filter(cls, build: Mapping[str, Any]) -> bool:
        """Whether every leg can filter, or a stage does."""
        legs = [cls.knobs.engines[leg.name].can_filter(leg.build) for leg in cls.path.legs]
        return cls.path.post_filter is not None or all(legs)

    @classmethod
    def codes(cls, build: Mapping[str, Any]) -> str | None:
        """The quantization of the first leg that has one."""
        for leg in cls.path.legs:
            if leg.codes is not None:
                return f"{leg.codes} codes"
            own = {name.removeprefix(cls.knobs.prefix(leg)): value for name, value in build.items()}
            found = cls.knobs.engines[leg.name].codes(own)
            if found is not None:
                return found
        return None

    # Building and searching

    def build(self, corpus: Corpus, metric: Metric, **parameters: Any) -> None:
        """Build the index of every leg, and load what later stages need."""
        self.close()
        path = self.path
        self.rows = corpus.rows
        self.legs = [PathLeg(self.knobs, each) for each in path.legs]
        for leg in self.legs:
            leg.engine.set_threads(self.threads)
            leg.build(corpus, metric, parameters)
        weighs = path.fuse is not None and path.fuse.method == WEIGHTED
        if weighs or any(each.by == EXACT for each in path.reranks):
            self.exact = ExactOrder(corpus, metric)
        self.functions = function_orders(type(self), corpus)
        if path.post_filter is not None:
            self.allowed = AllowedRows(corpus)

    def configure(self, **parameters: Any) -> None:
        """Set the parameters of every stage."""
        super().configure(**parameters)
        for leg in self.legs:
            leg.configure(parameters)

    def nearest(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """Send the queries through every stage; the path retrieves for its own k if that is larger."""
        if not self.legs:
            raise self.unbuilt()
        wanted = max(k, self.path.k or k)
        times: list[int] = [perf_counter_ns()]
        lists: list[NDArray[np.int64]] = []
        scores: list[Scores] = []
        asked = batch if self.path.post_filter is None else _unfiltered(batch)
        for leg in self.legs:
            retrieved, scored = leg.retrieve(asked, wanted)
            lists.append(retrieved)
            scores.append(scored)
            times.append(perf_counter_ns())
        rows = lists[0]
        fused: tuple[NDArray[np.float64], ...] = ()
        if self.path.fuse is not None:
            if self.path.fuse.method == WEIGHTED:
                fused = self._known_scores(batch, lists, scores)
            rows = self._fused(lists, fused, wanted)
            lists.append(rows)
            times.append(perf_counter_ns())
        if self.path.post_filter is not None:
            rows = self._filtered(batch, rows)
            lists.append(rows)
            times.append(perf_counter_ns())
        for stage in self.path.reranks:
            if stage.name in self.functions or stage.by == EXACT:
                rows = self._reranked(stage, batch, rows)
                lists.append(rows)
                times.append(perf_counter_ns())
        log = self.log
        if log is not None:
            log.append(_StagedCall(batch.rows, tuple(times), tuple(lists), fused))
        return rows[:, :k]

    def _fused(
        self, lists: list[NDArray[np.int64]], scores: tuple[NDArray[np.float64], ...], k: int
    ) -> NDArray[np.int64]:
        """The joined list: as long as its depth, or all candidates if a later stage needs them."""
        fuse = self.path.fuse
        if fuse is None:
            return lists[0]
        later = bool(self.path.reranks) or self.path.post_filter is not None
        width = sum(each.shape[1] for each in lists) if later else k
        width = int(self.settings.get(f"{fuse.name}.depth", width))
        if fuse.method == RRF:
            return rrf(lists, self.settings["constant"], width)[0]
        share = float(self.settings["weight"])
        return weighted(lists, scores, [share, 1 - share], width)[0]

    def _known_scores(
        self, batch: QueryBatch, lists: list[NDArray[np.int64]], scores: list[Scores]
    ) -> tuple[NDArray[np.float64], ...]:
        """The scores of every leg; those of a leg without scores by whole vectors."""
        return tuple(
            self._by_vectors(batch, rows) if scored is None else scored
            for rows, scored in zip(lists, scores, strict=True)
        )

    def _by_vectors(self, batch: QueryBatch, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Exact scores by whole vectors, higher is better, whatever the index compares."""
        if self.exact is None:
            raise self.unbuilt()
        scores = self.exact.scores(batch.vectors, rows)
        return -scores if self.exact.metric is Metric.L2 else scores

    def _filtered(self, batch: QueryBatch, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Candidates that pass the filter of their query, in their order."""
        if batch.filters is None:
            return rows
        kept = np.full_like(rows, -1)
        for place, condition in enumerate(batch.filters):
            line = rows[place][rows[place] >= 0]
            passing = line if condition is None else line[self._mask(condition)[line]]
            kept[place, : len(passing)] = passing
        return kept

    def _mask(self, condition: Filter) -> NDArray[np.bool_]:
        if condition.key not in self.masks:
            if self.allowed is None:
                raise self.unbuilt()
            self.masks[condition.key] = self.allowed.mask(condition)
        return self.masks[condition.key]

    def _reranked(self, stage: Rerank, batch: QueryBatch, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The first candidates in a new order; those beyond the depth follow in their old one."""
        depth = int(self.settings.get(f"{stage.name}.depth", rows.shape[1]))
        first = rows[:, :depth]
        if stage.name in self.functions:
            ordered = self.functions[stage.name].order(batch, first)
        elif self.exact is not None:
            ordered = self.exact.order(batch.vectors, first)
        else:
            raise self.unbuilt()
        return ordered if depth >= rows.shape[1] else np.concatenate([ordered, rows[:, depth:]], axis=1)

    def compiled(self, condition: Filter) -> object:
        """The filter in the form of every leg, or of the stage that filters."""
        if self.path.post_filter is not None:
            return self._mask(condition)
        for leg in self.legs:
            with leg.named():
                leg.engine.compiled(condition)
        return condition

    def refusal(self, condition: Filter) -> str | None:
        """The reason of the first leg that cannot apply this filter; None if all can, or a stage does."""
        if self.path.post_filter is not None:
            return super().refusal(condition)
        found = (leg.engine.refusal(condition) for leg in self.legs)
        return next((said for said in found if said is not None), None)

    # Evidence

    def begin_trace(self) -> None:
        """Record the time and the rows of every stage from now on."""
        self.log = []

    def end_trace(self) -> StageTrace | None:
        """What was recorded; None if no call was made in this process."""
        log, self.log = self.log, None
        if not log or any(call.queries is None for call in log):
            return None
        names = self.path.stage_names
        times = np.array([call.times for call in log], np.int64)
        spans: NDArray[np.int64] = times[:, 1:] - times[:, :-1]
        queries = np.concatenate([np.asarray(call.queries, np.int64) for call in log])
        _, first = np.unique(queries, return_index=True)
        lists = [stacked([call.lists[place] for call in log])[first] for place in range(len(names))]
        scored = range(len(log[0].scores))
        scores = [stacked([call.scores[place] for call in log], np.nan)[first] for place in scored]
        return StageTrace(names, spans, queries[first], tuple(lists), tuple(scores))

    def exercised(self) -> str:
        """The evidence of every leg."""
        if not self.legs:
            raise self.unbuilt()
        if len(self.legs) == 1:
            return self.legs[0].exercised()
        found = []
        for leg in self.legs:
            with leg.named():
                found.append(f"{leg.stage.name}: {leg.exercised()}")
        return "; ".join(found)

    def scans(self) -> bool:
        """Whether every leg compares every row."""
        return all(leg.engine.scans() for leg in self.legs)

    def holds(self, rows: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """Whether the index of the only leg has each of these rows; None with several."""
        return self.legs[0].engine.holds(rows) if len(self.legs) == 1 else None

    def visits(self, batch: QueryBatch, rows: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """Whether the only leg visits the part of its index with each row; None with several."""
        if len(self.legs) > 1:
            return None
        return self.legs[0].engine.visits(self.legs[0].batch(batch), rows)

    def size_bytes(self) -> int | None:
        """Bytes of all stored indexes; None if one is unknown."""
        sizes = [leg.engine.size_bytes() for leg in self.legs]
        return None if None in sizes else sum(each for each in sizes if each is not None)

    def version(self) -> str | None:
        """Versions of all libraries."""
        found = dict.fromkeys(leg.engine.version() for leg in self.legs)
        return ", ".join(each for each in found if each is not None) or None

    def set_threads(self, count: int) -> None:
        """Use this many threads in every leg."""
        super().set_threads(count)
        for leg in self.legs:
            leg.engine.set_threads(count)

    def call(self) -> str:
        """All stages of one query."""
        kinds = dict.fromkeys(leg.engine.call() for leg in self.legs)
        return f"path of {len(self.path.stage_names)} stages ({', '.join(kinds)})"

    def in_process(self) -> bool:
        """Whether all indexes are in the memory of this process."""
        return all(leg.engine.in_process() for leg in self.legs)

    def client(self) -> Engine:
        """Another client of every leg; the record of stages is shared."""
        if not self.abilities.clients:
            raise self.unable("serve several clients at once")
        other = copy.copy(self)
        other.lent = tuple(leg.engine for leg in self.legs)
        other.legs = [copy.copy(leg) for leg in self.legs]
        for leg in other.legs:
            leg.engine = leg.engine.client()
        return other

    def close(self) -> None:
        """Release every leg; a client leaves the indexes that it shares."""
        for leg in self.legs:
            if leg.engine not in self.lent:
                leg.engine.close()
        self.legs, self.exact, self.functions, self.allowed = [], None, {}, None
        self.masks, self.rows, self.searched = {}, 0, 0


def function_orders(engine: type[Engine], corpus: Corpus) -> dict[str, FunctionOrder]:
    """The functions of a path by stage; none for other engines."""
    if not issubclass(engine, PathEngine):
        return {}
    named = TEXT if TEXT in corpus.columns.schema.names else None
    return {
        each.name: FunctionOrder(engine.path.name, each, corpus, each.column or named)
        for each in engine.path.reranks
        if each.calls
    }


def _unfiltered(batch: QueryBatch) -> QueryBatch:
    return QueryBatch(batch.vectors, None, rows=batch.rows, texts=batch.texts, sparse=batch.sparse)


def path_engine(path: Path) -> type[PathEngine]:
    """The engine class of a path."""
    knobs = PathKnobs(path)
    engines = [knobs.engines[leg.name] for leg in path.legs]
    metrics = frozenset(Metric).intersection(*(each.metrics for each in engines))
    if not metrics:
        raise EngineError(f"path {path.name}: its legs have no metric in common")
    own = [each.abilities for each in engines]
    calls = any(each.calls for each in path.reranks)
    abilities = Abilities(
        filters=path.post_filter is not None or all(each.filters for each in own),
        batch=all(each.batch for each in own),
        threads=any(each.threads for each in own),
        deterministic=all(each.deterministic for each in own) and not calls,
        attaches=all(each.attaches for each in own),
        # Only the author of a function knows whether several threads may call it.
        clients=all(each.clients for each in own) and not calls,
        forks=all(each.forks for each in own),
    )
    made = {
        "name": path.name,
        "path": path,
        "knobs": knobs,
        "metrics": metrics,
        "abilities": abilities,
        "build_knobs": knobs.build(),
        "search_knobs": knobs.search(),
        "constraints": knobs.constraints(),
        "inputs": _inputs(path, knobs),
        "list_knob": knobs.list_knob(),
        "declaration": path.to_plain() if path.portable else None,
        "__doc__": f"The path {path.name}: {' → '.join(path.stage_names)}.",
    }
    return type("PathEngine", (PathEngine,), made)


def _inputs(path: Path, knobs: PathKnobs) -> Inputs:
    """Columns that the legs and stages read besides the vectors."""
    from recallatk.datasets.sparse_vectors import is_sparse
    from recallatk.pipeline.lexical import holds_text

    columns: dict[str, None] = {}
    kinds: dict[str, ColumnKind] = {}
    files: dict[str, None] = {}
    sparse = None
    texts = False
    for leg in path.legs:
        own = knobs.engines[leg.name].inputs
        if leg.engine == "bm25":
            texts = True
            columns[name := str(leg.build.get("column", TEXT))] = None
            kinds[name] = ColumnKind("text", holds_text)
        elif leg.engine == "sparse":
            sparse = leg.queries or leg.build.get("column")
            if "column" in leg.build:
                columns[name := str(leg.build["column"])] = None
                kinds[name] = ColumnKind("sparse", is_sparse)
            if leg.build.get("file"):
                files[str(leg.build["file"])] = None
        columns |= dict.fromkeys(own.columns)
    functions = [each for each in path.reranks if each.calls]
    columns |= dict.fromkeys(each.column for each in functions if each.column is not None)
    return Inputs(
        ids=bool(functions) or any(knobs.engines[leg.name].abilities.attaches for leg in path.legs),
        columns=tuple(columns),
        kinds=kinds,
        optional=(TEXT,) if functions else (),
        texts=texts or bool(functions),
        functions=bool(functions) or any(knobs.engines[leg.name].inputs.functions for leg in path.legs),
        sparse=sparse,
        sparse_files=tuple(files),
    )


def truth_depth(engine: type[PathEngine], search: Mapping[str, Any], k: int) -> int:
    """Depth of the truth by vectors that a trial of a path needs."""
    path = engine.path
    wanted = max(k, path.k or k)
    if path.by_vectors:
        return wanted
    depths = [engine.knobs.depth(leg, search, wanted) for leg in path.legs]
    return max([wanted, *depths]) * (DEEPER if path.fuse is not None else 1)
