"""faiss index objects that the caller holds, with the parameters of all their parts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from recallatk.adapters.faiss_library import row_selector
from recallatk.adapters.live import IndexFacts, LiveIndex
from recallatk.core import Knob, Metric
from recallatk.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from recallatk.adapters.batch import QueryBatch
    from recallatk.filters import Filter

_MOST = 2**31 - 1
# A bitmap is the fastest selector, as long as labels are not spread too thinly.
_BITMAP_SPREAD = 64


@dataclass(frozen=True)
class Part:
    """A parameter of one part of an index: the part and its attribute."""

    owner: Any
    attribute: str
    knob: Knob


def _whole(name: str, *, low: int = 1, help: str = "") -> Knob:
    return Knob(name, default=1, low=low, high=_MOST, effort=True, help=help)


class LiveFaiss(LiveIndex):
    """Any `faiss.Index`: flat, lists, graphs, codes, and transforms, id maps or reranking around them."""

    family = "faiss"
    distribution = "faiss-cpu"
    abilities: ClassVar = replace(LiveIndex.abilities, filters=True, threads=True)
    aliases: ClassVar = {"ef": "efSearch", "k_factor_rf": "k_factor", "L": "search_L"}

    def __init__(self) -> None:
        super().__init__()
        self._threads: int | None = None
        self._parts = {each.knob.name: each for each in parts(self.index)}

    def title(self) -> str:
        """The class of the outermost index."""
        return f"faiss.{type(downcast(self.index)).__name__}"

    def facts(self) -> IndexFacts:
        """Metric type, dimension and row count; labels if the caller gave ids."""
        import faiss

        if not self.index.is_trained:
            raise EngineError(f"{self.name} is not trained. Call index.train(vectors) and index.add(vectors)")
        metric = {faiss.METRIC_L2: Metric.L2, faiss.METRIC_INNER_PRODUCT: Metric.IP}.get(
            self.index.metric_type
        )
        if metric is None:
            raise EngineError(
                f"{self.name} has metric_type {self.index.metric_type}. Accepted: METRIC_L2 or "
                "METRIC_INNER_PRODUCT"
            )
        return IndexFacts(metric, self.index.d, self.index.ntotal, labels_of(self.index))

    def own(self) -> tuple[Knob, ...]:
        """The parameters of all parts."""
        return tuple(each.knob for each in self._parts.values())

    def current(self, name: str) -> Any:
        """Current value of the parameter on its part."""
        part = self._parts[name]
        return getattr(part.owner, part.attribute)

    def change(self, name: str, value: Any) -> None:
        """Set the parameter on its part."""
        part = self._parts[name]
        setattr(part.owner, part.attribute, value)

    def stored(self, labels: NDArray[np.int64]) -> NDArray[Any] | None:
        """Reconstructed vectors, if the index keeps whole vectors and can look them up by label."""
        import faiss

        whole: Any = downcast(self.index)
        if not isinstance(whole, faiss.IndexIDMap2 | faiss.IndexFlat | faiss.IndexHNSWFlat):
            return None
        try:
            return np.stack([whole.reconstruct(int(each)) for each in labels])
        except RuntimeError:
            return None

    @classmethod
    def can_filter(cls, build: Mapping[str, Any]) -> bool:
        """Whether the object keeps to a selector: one of no rows must leave no answer."""
        import faiss

        index = cls.held_object
        try:
            nothing = search_parameters(index, faiss.IDSelectorBatch(np.empty(0, np.int64)))
            found = index.search(np.ones((1, index.d), np.float32), 1, params=nothing)[1]
        except (EngineError, RuntimeError):
            return False
        return bool((found == -1).all())

    def ask(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """Search once for all queries, or once per filter."""
        found: NDArray[np.int64]
        if batch.filters is None:
            found = self.index.search(batch.vectors, k)[1]
            return found
        found = np.full((batch.count, k), -1, np.int64)
        for condition, places in batch.by_filter():
            chosen = None if condition is None else search_parameters(self.index, self.compiled(condition))
            found[places] = self.index.search(batch.vectors[places], k, params=chosen)[1]
        return found

    def translated(self, condition: Filter) -> Any:
        """A selector of labels: a bitmap, or a set where labels are spread thinly."""
        import faiss

        labels = self.allowed_labels(condition)
        highest = int(labels.max(initial=-1))
        if labels.min(initial=0) < 0 or highest >= _BITMAP_SPREAD * max(self.rows, 1):
            return faiss.IDSelectorBatch(labels)
        mask = np.zeros(highest + 1, bool)
        mask[labels] = True
        return row_selector(mask)

    def scanned(self) -> str | None:
        """All rows, where the index is flat: vectors or codes without lists or a graph."""
        import faiss

        inner = innermost(self.index)
        if not isinstance(inner, faiss.IndexFlatCodes):
            return None
        return f"all rows: {type(inner).__name__} has neither lists nor a graph"

    def version(self) -> str:
        """Faiss's version."""
        import faiss

        return f"faiss {faiss.__version__}"

    def held(self) -> str:
        """The index, and the one inside if it wraps another."""
        inner = type(innermost(self.index)).__name__
        inside = "" if self.name.endswith(f".{inner}") else f", around {inner}"
        return f"{super().held()}{inside}"

    def set_threads(self, count: int) -> None:
        """Set the number of OpenMP threads of faiss; `close` restores it."""
        import faiss

        super().set_threads(count)
        if self._threads is None:
            self._threads = faiss.omp_get_max_threads()
        faiss.omp_set_num_threads(count)

    def client(self) -> LiveFaiss:
        """The engine itself: faiss supports concurrent searches."""
        import faiss

        # OpenMP keeps the thread count per thread, and a new thread starts with OpenMP's default.
        faiss.omp_set_num_threads(self.threads)
        return self

    def close(self) -> None:
        """Restore parameters and thread count."""
        import faiss

        super().close()
        if self._threads is not None:
            faiss.omp_set_num_threads(self._threads)
        self._threads = None


def downcast(index: Any) -> Any:
    """Downcast an index to its own class; faiss returns parts as their base class."""
    import faiss

    return faiss.downcast_index(index)


def innermost(index: Any) -> Any:
    """The index inside transforms, id maps and reranking."""
    import faiss

    index = downcast(index)
    if isinstance(index, faiss.IndexPreTransform | faiss.IndexIDMap | faiss.IndexIDMap2):
        return innermost(index.index)
    return innermost(index.base_index) if isinstance(index, faiss.IndexRefine) else index


def search_parameters(index: Any, selector: Any) -> Any:
    """Search parameters that keep to a selector of labels and change nothing else."""
    import faiss

    index = downcast(index)
    if isinstance(index, faiss.IndexIDMap | faiss.IndexIDMap2):
        inner = downcast(index.index)
        # An id map translates the selector of the index below it, but not of one further inside.
        if isinstance(inner, faiss.IndexPreTransform | faiss.IndexRefine):
            raise EngineError(f"faiss translates no ids through {type(inner).__name__}")
        return search_parameters(inner, selector)
    if isinstance(index, faiss.IndexPreTransform):
        return faiss.SearchParametersPreTransform(index_params=search_parameters(index.index, selector))
    if isinstance(index, faiss.IndexRefine):
        below = search_parameters(index.base_index, selector)
        return faiss.IndexRefineSearchParameters(k_factor=index.k_factor, base_index_params=below)
    if isinstance(index, faiss.IndexIVF):
        return faiss.SearchParametersIVF(sel=selector, nprobe=index.nprobe, max_codes=index.max_codes)
    if isinstance(index, faiss.IndexHNSW):
        # The queue stays bounded: faiss ignores the selector in a search with an unbounded queue.
        return faiss.SearchParametersHNSW(
            sel=selector,
            efSearch=index.hnsw.efSearch,
            check_relative_distance=index.hnsw.check_relative_distance,
        )
    return faiss.SearchParameters(sel=selector)


def parts(index: Any, prefix: str = "") -> Iterator[Part]:
    """Every search parameter of an index and of the parts inside it.

    Args:
        index: the index.
        prefix: prefix of the parameter names, such as `quantizer_`.
    """
    import faiss

    index = downcast(index)
    if isinstance(index, faiss.IndexPreTransform | faiss.IndexIDMap | faiss.IndexIDMap2):
        yield from parts(index.index, prefix)
    elif isinstance(index, faiss.IndexRefine):
        knob = Knob(
            f"{prefix}k_factor", default=1.0, low=1, high=10_000, effort=True, help="rows reranked per k"
        )
        yield Part(index, "k_factor", knob)
        yield from parts(index.base_index, prefix)
    elif isinstance(index, faiss.IndexIVF):
        yield Part(index, "nprobe", _whole(f"{prefix}nprobe", help="lists searched"))
        yield from parts(index.quantizer, f"{prefix}quantizer_")
    elif isinstance(index, faiss.IndexHNSW):
        yield Part(index.hnsw, "efSearch", _whole(f"{prefix}efSearch", help="candidates kept"))
        yield from parts(index.storage, prefix)
    elif isinstance(index, faiss.IndexNSG):
        yield Part(index.nsg, "search_L", _whole(f"{prefix}search_L", help="candidates kept"))
    elif isinstance(index, faiss.IndexRaBitQ):
        yield Part(index, "qb", Knob(f"{prefix}qb", default=0, low=0, high=8, help="bits per query value"))


def labels_of(index: Any) -> NDArray[np.int64] | None:
    """Labels of all rows if the caller may have given ids; None if labels are row numbers."""
    import faiss

    index = downcast(index)
    if isinstance(index, faiss.IndexIDMap | faiss.IndexIDMap2):
        return np.array(faiss.vector_to_array(index.id_map))
    if isinstance(index, faiss.IndexPreTransform):
        return labels_of(index.index)
    if isinstance(index, faiss.IndexRefine):
        return labels_of(index.base_index)
    if not isinstance(index, faiss.IndexIVF) or not index.ntotal:
        return None
    lists = index.invlists
    held = [
        faiss.rev_swig_ptr(lists.get_ids(number), lists.list_size(number)).copy()
        for number in range(index.nlist)
        if lists.list_size(number)
    ]
    return np.concatenate(held) if held else None
