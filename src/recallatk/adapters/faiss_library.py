"""The base of the faiss engines: an index from a factory string, trained, filled, filtered and searched."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from recallatk.adapters.allowed_rows import AllowedRows
from recallatk.adapters.base import Abilities, Engine, Library
from recallatk.adapters.batch import QueryBatch, float32_matrix
from recallatk.adapters.snippet import INPUTS, UNIT, Setting, lines
from recallatk.core import Corpus, Metric, blocks
from recallatk.errors import EngineError
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.filters import Filter

# faiss's k-means uses at most this many points per center and discards the rest.
_POINTS_PER_CENTER = 256
_FEWEST_CENTERS = 1024


class FaissEngine(Library):
    """One faiss index; cosine is inner product on unit vectors."""

    family = "faiss"
    distribution = "faiss-cpu"
    metrics = frozenset(Metric)
    abilities: ClassVar[Abilities] = Abilities(
        filters=True, threads=True, deterministic=True, clients=True, forks=True
    )
    factory: ClassVar[str]
    """The index as faiss's index factory writes it, with the names of build knobs in braces."""
    unit = False
    selectors: Selectors | None = None

    # Declared by each engine

    @classmethod
    def recipe(cls, parameters: Mapping[str, Any]) -> str:
        """The factory string of a build."""
        return cls.factory.format(**parameters)

    def fitted(self, parameters: Mapping[str, Any], corpus: Corpus) -> Mapping[str, Any]:
        """The build parameters, reduced to values that the corpus allows."""
        return parameters

    def prepare(self, parameters: Mapping[str, Any]) -> None:
        """Set parameters that a factory string cannot express, before adding rows."""

    def apply(self, settings: Mapping[str, Any]) -> None:
        """Set the search parameters on the index."""

    def filtered(self, selector: Any) -> Any:
        """Search parameters of faiss that restrict a search to the rows of a selector."""
        import faiss

        return faiss.SearchParameters(sel=selector)

    def forget_searches(self) -> None:
        """Reset the library's own counters."""

    def held(self) -> str:
        """Content of the index, in words."""
        return f"{type(self.index).__name__} of {self.index.ntotal:,} rows"

    def work(self) -> str:
        """The number of queries."""
        return f"{counted(self.searched, 'query', 'queries')} answered"

    # The engine contract

    def build(self, corpus: Corpus, metric: Metric, **parameters: Any) -> None:
        """Train if the index needs it, then add every row, block by block."""
        import faiss

        self.close()
        kind = faiss.METRIC_L2 if metric is Metric.L2 else faiss.METRIC_INNER_PRODUCT
        self.unit = metric is Metric.COSINE
        self.selectors = Selectors(corpus)
        with self.own_errors():
            recipe = self.recipe(self.fitted(parameters, corpus))
            self.index = faiss.index_factory(corpus.dimension, recipe, kind)
            self.prepare(parameters)
            if not self.index.is_trained:
                self.index.train(self._sample(corpus, parameters))
            self.fill(corpus)
        self.forget_searches()

    def fill(self, corpus: Corpus) -> None:
        """Add every row."""
        for _, block in blocks(corpus.vectors):
            self.index.add(float32_matrix(block, unit=self.unit))

    def configure(self, **parameters: Any) -> None:
        """Set the parameters of the next searches and reset their count."""
        with self.own_errors():
            self.apply(parameters)
        super().configure(**parameters)
        self.forget_searches()

    def nearest(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """Nearest rows found by the index."""
        if batch.filters is not None:
            return self._allowed(batch, k)
        rows: NDArray[np.int64] = self.answering().search(batch.vectors, k)[1]  # faiss converts to float32
        return rows

    def _allowed(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """Nearest rows among those that pass each query's filter, one filter at a time."""
        if self.selectors is None:
            raise self.unbuilt()
        queries, rows = float32_matrix(batch.vectors), np.full((batch.count, k), -1, np.int64)
        for condition, places in batch.by_filter():
            chosen = None if condition is None else self.filtered(self.selectors.of(condition))
            rows[places] = self.answering().search(queries[places], k, params=chosen)[1]
        return rows

    def holds(self, rows: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """Rows are numbered as they were added."""
        return np.asarray(rows < self.index.ntotal)

    def compiled(self, condition: Filter) -> object:
        """Nothing yet: a bitmap takes any filter whose columns and types are right."""
        super().compiled(condition)
        if self.selectors is None:
            raise self.unbuilt()
        return condition.mask(self.selectors.corpus.columns.schema.empty_table())

    def answering(self) -> Any:
        """The index to search."""
        return self.index

    def exercised(self) -> str:
        """Content of the index and, after searches, their work."""
        if self.index is not None and not self.index.ntotal:
            raise EngineError(f"{self.name}: the index holds no rows")
        return super().exercised()

    def size_bytes(self) -> int:
        """Size of the serialized index."""
        import faiss

        written = faiss.VectorIOWriter()
        faiss.write_index(self.index, written)
        return int(written.data.size())

    def version(self) -> str:
        """Faiss's version."""
        import faiss

        return f"faiss {faiss.__version__}"

    def set_threads(self, count: int) -> None:
        """Set the number of OpenMP threads of faiss."""
        import faiss

        super().set_threads(count)
        faiss.omp_set_num_threads(count)

    def client(self) -> Engine:
        """The engine itself: faiss supports concurrent searches."""
        # OpenMP keeps the thread count per thread, and a new thread starts with OpenMP's default.
        self.set_threads(self.threads)
        return self

    def close(self) -> None:
        """Release the index and the corpus."""
        super().close()
        self.selectors = None

    @contextmanager
    def own_errors(self) -> Iterator[None]:
        """Turn faiss errors into EngineErrors, without the location in faiss's source."""
        try:
            yield
        except RuntimeError as problem:
            said = re.sub(r"^Error in .*? at \S+:\d+: ", "", str(problem), flags=re.DOTALL)
            said = re.sub(r"^Error: '.*?' failed: ", "", said, flags=re.DOTALL)
            raise EngineError(f"{self.name}: {said.strip()}") from problem

    def _sample(self, corpus: Corpus, parameters: Mapping[str, Any]) -> NDArray[np.float32]:
        """Training rows, spread evenly over the corpus."""
        import faiss

        inverted = faiss.try_extract_index_ivf(self.index)
        centers = max(
            _FEWEST_CENTERS,
            0 if inverted is None else inverted.nlist,
            1 << parameters.get("nbits", 0),
        )
        step = max(1, corpus.rows // (centers * _POINTS_PER_CENTER))
        taken = [
            float32_matrix(block[-start % step :: step], unit=self.unit)
            for start, block in blocks(corpus.vectors)
        ]
        return np.concatenate(taken)

    # Snippets

    @classmethod
    def snippet(cls, setting: Setting) -> str:
        """Code that trains if needed, adds, sets the effort, and searches."""
        kind = "METRIC_L2" if setting.metric is Metric.L2 else "METRIC_INNER_PRODUCT"
        return lines(
            "import faiss",
            "import numpy as np" if setting.unit else None,
            "",
            INPUTS,
            f"{UNIT}  # cosine" if setting.unit else None,
            f"index = faiss.index_factory(vectors.shape[1], {cls.recipe(setting.build)!r}, faiss.{kind})",
            *cls.build_lines(setting.build),
            "index.train(vectors)",
            "index.add(vectors)",
            "",
            *cls.effort_lines(setting),
            f"distances, found = {cls.answering_name(setting)}.search(queries, {setting.k})",
        )

    @classmethod
    def build_lines(cls, build: Mapping[str, Any]) -> list[str]:
        """Code for parameters that a factory string cannot express."""
        return []

    @classmethod
    def effort_lines(cls, setting: Setting) -> list[str]:
        """Code that sets the search parameters."""
        return []

    @classmethod
    def answering_name(cls, setting: Setting) -> str:
        """Name of the searched index in the snippet."""
        return "index"


class Selectors(AllowedRows):
    """Filters as faiss selectors: one bitmap of rows per distinct filter, built on first use."""

    def __init__(self, corpus: Corpus) -> None:
        super().__init__(corpus)
        # Keep all of them: rebuilding one would fall into a timed search.
        self._made: dict[str, Any] = {}

    def insert(self, count: int, metadata: pa.Table | None) -> None:
        """Append inserted rows to the corpus."""
        super().insert(count, metadata)
        self._made.clear()

    def of(self, condition: Filter) -> Any:
        """The selector of one filter."""
        if condition.key not in self._made:
            self._made[condition.key] = row_selector(self.mask(condition))
        return self._made[condition.key]


def row_selector(mask: NDArray[np.bool_]) -> Any:
    """The selector of rows, one bit each."""
    import faiss

    return faiss.IDSelectorBitmap(np.packbits(mask, bitorder="little"))
