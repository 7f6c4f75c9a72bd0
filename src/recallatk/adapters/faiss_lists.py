"""faiss-ivf-flat, faiss-ivf-sq8 and faiss-ivf-pq: inverted lists, of which a search probes some."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from recallatk.adapters.base import Constraint
from recallatk.adapters.batch import float32_matrix
from recallatk.adapters.faiss_codes import (
    K_FACTOR,
    M_DIVIDES_DIMENSION,
    REFINE,
    VECTORS_TO_REFINE_BY,
    FaissRefined,
)
from recallatk.adapters.faiss_library import FaissEngine
from recallatk.adapters.memory_model import FLOAT_BYTES, NUMBER_BYTES, Content
from recallatk.core import Corpus, Knob, Metric
from recallatk.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.adapters.batch import QueryBatch
    from recallatk.adapters.snippet import Setting

# For l2, faiss precomputes a table of centers times codebooks, unless it would be larger than this.
_MOST_PRECOMPUTED = 2 << 30


class FaissInverted(FaissEngine):
    """Inverted lists, one per center of k-means; a search probes the lists of the nearest centers."""

    abilities = replace(FaissEngine.abilities, updates=True)
    build_knobs: ClassVar[tuple[Knob, ...]] = (
        Knob("nlist", default=1024, low=1, high=1 << 20, help="number of lists; at most one per row"),
    )
    search_knobs: ClassVar[tuple[Knob, ...]] = (
        Knob("nprobe", default=16, low=1, high=1 << 20, effort=True, help="lists visited per search"),
    )
    constraints: ClassVar[tuple[Constraint, ...]] = (
        Constraint(
            "nprobe of at most nlist", ("nprobe", "nlist"), lambda nprobe, nlist: bool(nprobe <= nlist)
        ),
    )
    list_knob = "nlist"
    places: NDArray[np.int64] | None = None
    """The list of each row, looked up when first needed."""

    def fitted(self, parameters: Mapping[str, Any], corpus: Corpus) -> Mapping[str, Any]:
        """Limit the number of lists to the number of rows."""
        # k-means cannot find more centers than rows; one list per row loses nothing.
        return {**parameters, "nlist": min(parameters["nlist"], corpus.rows)}

    def inverted(self) -> Any:
        """The inverted-list index inside wrappers."""
        import faiss

        return faiss.extract_index_ivf(self.index)

    def fill(self, corpus: Corpus) -> None:
        """Add every row."""
        super().fill(corpus)
        self.rows = corpus.rows

    def apply(self, settings: Mapping[str, Any]) -> None:
        """Set the number of lists that a search probes."""
        self.inverted().nprobe = settings["nprobe"]

    def filtered(self, selector: Any) -> Any:
        """The same number of probes, restricted to rows of the selector."""
        import faiss

        return faiss.SearchParametersIVF(sel=selector, nprobe=self.inverted().nprobe)

    def insert(self, vectors: NDArray[Any], metadata: pa.Table | None = None) -> None:
        """Add rows to the existing lists; the centers do not change."""
        if not self.abilities.updates:
            raise self.unable("insert rows")
        if self.selectors is None:
            raise self.unbuilt()
        # Pass explicit numbers: faiss would reuse the numbers of deleted rows.
        self.index.add_with_ids(float32_matrix(vectors, unit=self.unit), self.next_numbers(len(vectors)))
        self.rows += len(vectors)
        self.places = None
        self.selectors.insert(len(vectors), metadata)

    def delete(self, rows: NDArray[np.int64]) -> None:
        """Remove rows from their lists."""
        if not self.abilities.updates:
            raise self.unable("delete rows")
        self.index.remove_ids(np.asarray(rows, np.int64))
        self.places = None

    def close(self) -> None:
        """Release the index and what is known of its lists."""
        super().close()
        self.places = None

    def scans(self) -> bool:
        """Whether a search visits every list."""
        inverted = self.inverted()
        return bool(inverted.nprobe >= inverted.nlist)

    def holds(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """The rows that some list has."""
        return np.asarray(self._lists_of(rows) >= 0)

    def visits(self, batch: QueryBatch, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether the list of each row is among those that the query visits."""
        inverted = self.inverted()
        probed = inverted.quantizer.search(float32_matrix(batch.vectors), inverted.nprobe)[1]
        return np.isin(self._lists_of(rows), probed[probed >= 0])

    def _lists_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The list of each row; -1 if none has it."""
        import faiss

        lists = self.inverted().invlists
        if self.places is None:
            self.places = np.full(self.rows, -1, np.int64)
            for number in range(lists.nlist):
                size = lists.list_size(number)
                if size:
                    self.places[faiss.rev_swig_ptr(lists.get_ids(number), size)] = number
        return self.places[rows]

    def forget_searches(self) -> None:
        """Reset the library's own counters."""
        import faiss

        # These statistics are global: they count the searches of every index in the process.
        faiss.cvar.indexIVF_stats.reset()

    def held(self) -> str:
        """The number of lists and of rows in them."""
        return f"{self.index.ntotal:,} rows in {self.inverted().nlist:,} lists"

    def work(self) -> str:
        """The number of lists and rows that the searches scanned, from faiss's counters."""
        import faiss

        done = faiss.cvar.indexIVF_stats
        if not done.nq:
            raise EngineError(f"{self.name}: faiss counted no list search")
        return f"{done.nlist / done.nq:,.0f} lists and {done.ndis / done.nq:,.0f} rows per query"

    @classmethod
    def effort_lines(cls, setting: Setting) -> list[str]:
        """Code that sets the number of lists that a search probes."""
        return [f"faiss.extract_index_ivf(index).nprobe = {setting.search['nprobe']}"]


class FaissIvfFlat(FaissInverted):
    """IndexIVFFlat: whole vectors in inverted lists."""

    name = "faiss-ivf-flat"
    factory = "IVF{nlist},Flat"

    @classmethod
    def content(cls, build: Mapping[str, Any], dimension: int, metric: Metric) -> Content | None:
        """Bytes of the centers, and of the vectors and row numbers in the lists."""
        vector = FLOAT_BYTES * dimension
        return Content(vector * build["nlist"], vector + NUMBER_BYTES)


class FaissIvfSq8(FaissInverted):
    """IndexIVFScalarQuantizer with 8 bits: one byte per dimension in inverted lists."""

    name = "faiss-ivf-sq8"
    factory = "IVF{nlist},SQ8"
    quantized = True


class FaissIvfPq(FaissRefined, FaissInverted):
    """IndexIVFPQ: PQ codes in inverted lists; no updates, because IndexRefineFlat cannot delete."""

    name = "faiss-ivf-pq"
    abilities = FaissEngine.abilities
    build_knobs = (
        *FaissInverted.build_knobs,
        Knob("M", default=8, low=1, high=4096, help="subquantizers"),
        Knob("nbits", default=8, low=1, high=12, scale="linear", help="bits per subquantizer"),
        REFINE,
    )
    search_knobs = (*FaissInverted.search_knobs, K_FACTOR)
    constraints = (
        *FaissInverted.constraints,
        M_DIVIDES_DIMENSION,
        VECTORS_TO_REFINE_BY,
        Constraint(
            "at least 2^nbits rows to train its codes",
            ("nbits", "rows"),
            lambda nbits, rows: bool(1 << nbits <= rows),
        ),
    )
    # np: skip polysemous training, which takes most of a build and helps only Hamming-distance searches.
    factory = "IVF{nlist},PQ{M}x{nbits}np"

    @classmethod
    def content(cls, build: Mapping[str, Any], dimension: int, metric: Metric) -> Content | None:
        """Bytes of the centers, codebooks and codes, and of the vectors if the build keeps them."""
        centers, codes, vector = build["nlist"], 1 << build["nbits"], FLOAT_BYTES * dimension
        table = FLOAT_BYTES * centers * build["M"] * codes
        precomputed = table if metric is Metric.L2 and table <= _MOST_PRECOMPUTED else 0
        code = -(-build["M"] * build["nbits"] // 8)
        refined = vector if build["refine"] == "flat" else 0
        return Content(vector * (centers + codes) + precomputed, code + NUMBER_BYTES + refined)
