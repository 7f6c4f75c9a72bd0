"""What the faiss engines share: an index from a factory string, trained, filled, filtered and searched."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from recallatk.adapters.base import Abilities, Engine, Library
from recallatk.adapters.batch import QueryBatch, completed, float32_matrix
from recallatk.adapters.snippet import INPUTS, UNIT, Setting, lines
from recallatk.core import Corpus, Metric, blocks
from recallatk.errors import EngineError
from recallatk.filters.eligibility import eligibility
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.filters import Filter

# As many points as faiss's k-means looks at for each center; it would throw further ones away.
_POINTS_PER_CENTER = 256
_FEWEST_CENTERS = 1024


class FaissEngine(Library):
    """One index of faiss; cosine is inner product on vectors of unit length."""

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

    # What the engines say of themselves

    @classmethod
    def recipe(cls, parameters: Mapping[str, Any]) -> str:
        """The factory string of a build."""
        return cls.factory.format(**parameters)

    def fitted(self, parameters: Mapping[str, Any], corpus: Corpus) -> Mapping[str, Any]:
        """The parameters that the recipe is made from, where the corpus allows no others."""
        return parameters

    def prepare(self, parameters: Mapping[str, Any]) -> None:
        """Set what the recipe cannot say, before any row is added."""

    def apply(self, settings: Mapping[str, Any]) -> None:
        """Set the search parameters on the index."""

    def filtered(self, selector: Any) -> Any:
        """The search parameters of faiss that keep to the rows of a selector."""
        import faiss

        return faiss.SearchParameters(sel=selector)

    def forget_searches(self) -> None:
        """Restart the counts that are the library's own."""

    def held(self) -> str:
        """What the index holds."""
        return f"{type(self.index).__name__} of {self.index.ntotal:,} rows"

    def work(self) -> str:
        """The number of queries."""
        return f"{counted(self.searched, 'query', 'queries')} answered"

    # What an engine does

    def build(self, corpus: Corpus, metric: Metric, **parameters: Any) -> None:
        """Train where the index has to learn, then add every row, block by block."""
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
        """Set what the next searches use, and count these from here."""
        with self.own_errors():
            self.apply(parameters)
        super().configure(**parameters)
        self.forget_searches()

    def nearest(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """The nearest rows that the index found."""
        if batch.filters is not None:
            return self._allowed(batch, k)
        rows: NDArray[np.int64] = self.answering().search(batch.vectors, k)[1]  # float32 is made there
        return rows

    def _allowed(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """The nearest among the rows that each query may return, filter by filter."""
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

    def answering(self) -> Any:
        """The index that answers."""
        return self.index

    def exercised(self) -> str:
        """What the index holds, and once something was searched, what is known of that."""
        if self.index is not None and not self.index.ntotal:
            raise EngineError(f"{self.name}: the index holds no rows")
        return super().exercised()

    def size_bytes(self) -> int:
        """The index as faiss would write it."""
        import faiss

        written = faiss.VectorIOWriter()
        faiss.write_index(self.index, written)
        return int(written.data.size())

    def version(self) -> str:
        """Faiss's version."""
        import faiss

        return f"faiss {faiss.__version__}"

    def set_threads(self, count: int) -> None:
        """OpenMP threads of faiss."""
        import faiss

        super().set_threads(count)
        faiss.omp_set_num_threads(count)

    def client(self) -> Engine:
        """Itself: faiss searches in any number of threads."""
        # OpenMP keeps a number for each thread, and begins in a new one with its own.
        self.set_threads(self.threads)
        return self

    def close(self) -> None:
        """Release the index and the corpus."""
        super().close()
        self.selectors = None

    @contextmanager
    def own_errors(self) -> Iterator[None]:
        """What faiss refuses, as an error of this engine and without the place in faiss's source."""
        try:
            yield
        except RuntimeError as problem:
            said = re.sub(r"^Error in .*? at \S+:\d+: ", "", str(problem), flags=re.DOTALL)
            said = re.sub(r"^Error: '.*?' failed: ", "", said, flags=re.DOTALL)
            raise EngineError(f"{self.name}: {said.strip()}") from problem

    def _sample(self, corpus: Corpus, parameters: Mapping[str, Any]) -> NDArray[np.float32]:
        """Rows to learn from, spread evenly over the corpus."""
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

    # Its code

    @classmethod
    def snippet(cls, setting: Setting) -> str:
        """Train where the index has to learn, add, set the effort, search."""
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
        """Code for what the recipe cannot say."""
        return []

    @classmethod
    def effort_lines(cls, setting: Setting) -> list[str]:
        """Code that sets the search parameters."""
        return []

    @classmethod
    def answering_name(cls, setting: Setting) -> str:
        """The index that answers, as the code names it."""
        return "index"


class Selectors:
    """Filters as faiss takes them: one bitmap of rows for each distinct filter, made on first use."""

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self._inserted: list[pa.Table] = []
        # All are kept: one that were made again would be made inside a timed search.
        self._made: dict[str, Any] = {}

    def insert(self, count: int, metadata: pa.Table | None) -> None:
        """Continue the corpus by inserted rows."""
        self._inserted.append(completed(metadata, self.corpus.columns.schema, count))
        self._made.clear()

    def of(self, condition: Filter) -> Any:
        """The selector of one filter."""
        import faiss

        if condition.key not in self._made:
            bits = np.packbits(self._mask(condition), bitorder="little")
            self._made[condition.key] = faiss.IDSelectorBitmap(bits)
        return self._made[condition.key]

    def _mask(self, condition: Filter) -> NDArray[np.bool_]:
        rows, schema = self.corpus.rows, self.corpus.columns.schema
        named = sorted(condition.columns())
        # A name that is not there is the mask's to refuse, before anything is read.
        known = set(named) <= set(schema.names)
        table = self.corpus.columns.read(named, 0, rows) if known else schema.empty_table()
        masks = [_allowed(condition, table, rows)]
        masks += [_allowed(condition, each.select(named), each.num_rows) for each in self._inserted]
        return np.concatenate(masks)


def _allowed(condition: Filter, table: pa.Table, rows: int) -> NDArray[np.bool_]:
    allowed = eligibility([condition], table, None, rows).sets[0]
    return np.ones(rows, bool) if allowed is None else allowed.mask(0, rows)
