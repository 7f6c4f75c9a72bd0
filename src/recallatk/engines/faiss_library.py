"""What the faiss engines share: an index made from a factory string, trained, filled, searched and stored."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from recallatk.core import Corpus, Metric, blocks
from recallatk.engines.base import Abilities, Engine
from recallatk.engines.faiss_filters import Selectors
from recallatk.engines.matrix import float32_matrix
from recallatk.errors import EngineError
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from recallatk.engines.base import Filters

_FILE = "index.faiss"
# As many points as faiss's k-means looks at for each centre; it would throw further ones away.
_POINTS_PER_CENTRE = 256
_FEWEST_CENTRES = 1024


class FaissEngine(Engine):
    """One index of faiss; cosine is inner product on vectors of unit length."""

    family = "faiss"
    distribution = "faiss-cpu"
    metrics = frozenset(Metric)
    abilities: ClassVar[Abilities] = Abilities(
        filters=True, threads=True, deterministic=True, saves=True, clients=True, forks=True
    )

    def __init__(self) -> None:
        self.index: Any = None
        self.unit = False
        self.answered = 0
        self.threads: int | None = None
        self.settings: Mapping[str, Any] = {}
        self.selectors: Selectors | None = None

    # What the engines say of themselves

    def recipe(self, corpus: Corpus, parameters: Mapping[str, Any]) -> str:
        """The index as faiss's index factory writes it."""
        raise NotImplementedError

    def prepare(self, parameters: Mapping[str, Any]) -> None:
        """Set what the recipe cannot say, before any row is added."""

    def apply(self, settings: Mapping[str, Any]) -> None:
        """Set the search parameters on the index."""

    def filtered(self, selector: Any) -> Any:
        """The search parameters of faiss that keep to the rows of a selector."""
        import faiss

        return faiss.SearchParameters(sel=selector)

    def forget_searches(self) -> None:
        """Start counting anew."""
        self.answered = 0

    def held(self) -> str:
        """What the index holds."""
        return f"{type(self.index).__name__} of {self.index.ntotal:,} rows"

    def evidence(self) -> str:
        """What is known of the searches since the last count began, beside what the index holds."""
        return f"{self.held()}; {counted(self.answered, 'query', 'queries')} answered"

    # What an engine does

    def build(self, corpus: Corpus, metric: Metric, **parameters: Any) -> None:
        """Train where the index has to learn, then add every row, block by block."""
        import faiss

        self.close()
        kind = faiss.METRIC_L2 if metric is Metric.L2 else faiss.METRIC_INNER_PRODUCT
        self.unit = metric is Metric.COSINE
        self.selectors = Selectors(corpus)
        with self.own_errors():
            self.index = faiss.index_factory(corpus.dimension, self.recipe(corpus, parameters), kind)
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
        self.settings = parameters
        self.forget_searches()

    def search(self, queries: NDArray[Any], k: int, filters: Filters = None) -> NDArray[np.int64]:
        """The nearest rows that the index found."""
        if filters is None:
            rows: NDArray[np.int64] = self.searched().search(queries, k)[1]  # float32 is made there
        else:
            rows = self._allowed(float32_matrix(queries), k, filters)
        count = len(rows)  # without a call in the next line, threads lose no count there
        self.answered += count
        return rows

    def _allowed(self, queries: NDArray[np.float32], k: int, filters: Filters) -> NDArray[np.int64]:
        """The nearest among the rows that each query may return, filter by filter."""
        if self.selectors is None or not self.abilities.filters:
            self.refuse_filters(filters)
            found: NDArray[np.int64] = self.searched().search(queries, k)[1]
            return found
        rows = np.full((len(queries), k), -1, np.int64)
        for selector, which in self.selectors.groups(filters, len(queries)):
            chosen = None if selector is None else self.filtered(selector)
            rows[which] = self.searched().search(queries[which], k, params=chosen)[1]
        return rows

    def searched(self) -> Any:
        """The index that answers."""
        return self.index

    def exercised(self) -> str:
        """What the index holds, and once something was searched, what is known of that."""
        if self.index is None:
            raise self.unbuilt()
        if not self.index.ntotal:
            raise EngineError(f"{self.name}: the index holds no rows")
        return self.evidence() if self.answered else self.held()

    def save(self, folder: Path) -> None:
        """Write the index as faiss does."""
        import faiss

        with self.own_errors():
            faiss.write_index(self.index, str(folder / _FILE))

    def load(self, folder: Path, corpus: Corpus, metric: Metric, **parameters: Any) -> None:
        """Read it back."""
        import faiss

        self.close()
        self.unit = metric is Metric.COSINE
        self.selectors = Selectors(corpus)
        with self.own_errors():
            self.index = faiss.read_index(str(folder / _FILE))
        self.forget_searches()

    def size_bytes(self) -> int:
        """The index as faiss would write it."""
        import faiss

        counted = faiss.VectorIOWriter()
        faiss.write_index(self.index, counted)
        return int(counted.data.size())

    def version(self) -> str:
        """Faiss's version."""
        import faiss

        return f"faiss {faiss.__version__}"

    def set_threads(self, count: int) -> None:
        """OpenMP threads of faiss."""
        import faiss

        self.threads = count
        faiss.omp_set_num_threads(count)

    def client(self) -> Engine:
        """Itself: faiss searches in any number of threads."""
        if self.threads is not None:
            # OpenMP keeps a number for each thread, and begins in a new one with its own.
            self.set_threads(self.threads)
        return self

    def close(self) -> None:
        """Let go of the index and of the corpus."""
        self.index = self.selectors = None
        self.answered = 0

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
        centres = max(
            _FEWEST_CENTRES,
            0 if inverted is None else inverted.nlist,
            1 << parameters.get("nbits", 0),
        )
        step = max(1, corpus.rows // (centres * _POINTS_PER_CENTRE))
        taken = [
            float32_matrix(block[-start % step :: step], unit=self.unit)
            for start, block in blocks(corpus.vectors)
        ]
        return np.concatenate(taken)
