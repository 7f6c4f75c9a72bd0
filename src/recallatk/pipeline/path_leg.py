"""One leg of a path in use: its engine, its number of candidates, and the vectors that it compares."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from recallatk.adapters.batch import QueryBatch
from recallatk.errors import EngineError, RecallError
from recallatk.pipeline.path import BINARY
from recallatk.pipeline.reduced_vectors import ReducedVectors, Reduction, reduction_for

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from recallatk.adapters import Engine
    from recallatk.core import Corpus, Metric
    from recallatk.pipeline.knobs import PathKnobs
    from recallatk.pipeline.path import Retrieve


class PathLeg:
    """The index of one leg, with its parameters by their own names."""

    def __init__(self, knobs: PathKnobs, stage: Retrieve) -> None:
        self.knobs, self.stage = knobs, stage
        self.engine: Engine = knobs.engines[stage.name]()
        self.reduction: Reduction | None = None
        self.rows = self.dimension = 0
        self.search: dict[str, Any] = {}
        self._depths: dict[int, int] = {}

    def build(self, corpus: Corpus, metric: Metric, parameters: dict[str, Any]) -> None:
        """Build its index from whole or smaller vectors."""
        own = self._own(parameters)
        dimensions = own.pop("dimensions", None)
        self.rows, self.dimension = corpus.rows, corpus.dimension
        if self.stage.reduced:
            self.reduction = reduction_for(
                corpus.vectors, metric, dimensions, binary=self.stage.codes == BINARY
            )
            corpus = replace(corpus, vectors=ReducedVectors(corpus.vectors, self.reduction))
        with self.named():
            self.engine.build(corpus, metric, **own)

    def configure(self, parameters: dict[str, Any]) -> None:
        """Set its search parameters."""
        self.search, self._depths = parameters, {}
        own = self._own(parameters)
        knob = self.knobs.candidates(self.stage)
        if knob is not None:
            own.pop(knob.name, None)
        with self.named():
            self.engine.configure(**own)

    def depth(self, k: int) -> int:
        """Number of candidates for k results."""
        if k not in self._depths:
            self._depths[k] = min(self.rows, self.knobs.depth(self.stage, self.search, k))
        return self._depths[k]

    def retrieve(self, batch: QueryBatch, k: int) -> tuple[NDArray[np.int64], NDArray[np.float64] | None]:
        """Candidates for k results, best first, padded with -1, and their scores if the leg has them."""
        asked, depth = self.batch(batch), self.depth(k)
        if self.stage.dense:
            return self.engine.search(asked, depth), None
        found: tuple[NDArray[np.int64], NDArray[np.float64]] = self.engine.scored(asked, depth)  # type: ignore[attr-defined]
        self.engine.searched += batch.count
        return found

    def batch(self, batch: QueryBatch) -> QueryBatch:
        """The queries as its index compares them."""
        if self.reduction is None:
            return batch
        return QueryBatch(self.reduction.apply(batch.vectors), batch.filters, rows=batch.rows)

    def exercised(self) -> str:
        """The evidence of its engine, and what it holds of the vectors."""
        if self.reduction is None:
            return self.engine.exercised()
        return f"{self.engine.exercised()}; {self.reduction.describe(self.dimension)}"

    def _own(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """The parameters of this leg without its prefix, those of other stages left out."""
        prefix = self.knobs.prefix(self.stage)
        engine = self.knobs.engines[self.stage.name]
        names = {
            each.name
            for each in (
                *engine.build_knobs, *engine.stated_build_knobs, *engine.search_knobs,
                *engine.stated_search_knobs,
            )
        } | {"dimensions", "oversample", "depth"}  # fmt: skip
        return {
            name.removeprefix(prefix): value
            for name, value in parameters.items()
            if name.startswith(prefix) and name.removeprefix(prefix) in names
        }

    def named(self) -> _Named:
        """Errors of the engine, with the name of the leg where several could be meant."""
        return _Named(self.stage.name if len(self.knobs.path.legs) > 1 else "")


class _Named:
    """Adds the name of a leg to the errors of its engine."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: object, problem: BaseException | None, __: object) -> None:
        if self.name and isinstance(problem, RecallError) and not str(problem).startswith("stage "):
            raise EngineError(f"stage {self.name}: {problem}") from problem
