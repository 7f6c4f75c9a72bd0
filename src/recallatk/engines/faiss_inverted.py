"""What the inverted-file engines of faiss share: lists, how many of them a search visits, and updates."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from recallatk.core import Corpus, Knob, Metric
from recallatk.engines.base import Constraint
from recallatk.engines.faiss_library import FaissEngine
from recallatk.engines.matrix import float32_matrix
from recallatk.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

_NUMBERED = "numbered.txt"

NLIST = Knob("nlist", default=1024, low=1, high=1 << 20, help="lists; one for each row where rows are fewer")
NPROBE = Knob("nprobe", default=16, low=1, high=1 << 20, effort=True, help="lists that a search visits")
NPROBE_WITHIN_NLIST = Constraint(
    "nprobe of at most nlist", ("nprobe", "nlist"), lambda nprobe, nlist: bool(nprobe <= nlist)
)


class FaissInverted(FaissEngine):
    """Rows in lists by their nearest centre; a search visits the lists of the nearest centres."""

    abilities = replace(FaissEngine.abilities, updates=True)
    build_knobs: ClassVar[tuple[Knob, ...]] = (NLIST,)
    search_knobs: ClassVar[tuple[Knob, ...]] = (NPROBE,)
    constraints: ClassVar[tuple[Constraint, ...]] = (NPROBE_WITHIN_NLIST,)
    codes: ClassVar[str]
    """What the lists hold of a vector, as the recipe says it."""

    def __init__(self) -> None:
        super().__init__()
        self.numbered = 0

    def recipe(self, corpus: Corpus, parameters: Mapping[str, Any]) -> str:
        """The lists and what is in them."""
        return f"{self.lists(corpus, parameters)},{self.codes}"

    def lists(self, corpus: Corpus, parameters: Mapping[str, Any]) -> str:
        """How the recipe begins."""
        # k-means cannot make more centres than it has rows; with one list a row nothing is lost.
        return f"IVF{min(parameters['nlist'], corpus.rows)}"

    def inverted(self) -> Any:
        """The lists inside the index."""
        import faiss

        return faiss.extract_index_ivf(self.index)

    def fill(self, corpus: Corpus) -> None:
        """Add every row."""
        super().fill(corpus)
        self.numbered = corpus.rows

    def apply(self, settings: Mapping[str, Any]) -> None:
        """Set how many lists a search visits."""
        self.inverted().nprobe = settings["nprobe"]

    def filtered(self, selector: Any) -> Any:
        """The same number of lists, and only the rows of the selector."""
        import faiss

        return faiss.SearchParametersIVF(sel=selector, nprobe=self.inverted().nprobe)

    def insert(self, vectors: NDArray[Any]) -> None:
        """Add rows to the lists that there are; the centres stay."""
        if not self.abilities.updates:
            raise self.unable("insert rows")
        # Numbered here: faiss would give the numbers of deleted rows away again.
        numbers = np.arange(self.numbered, self.numbered + len(vectors))
        self.index.add_with_ids(float32_matrix(vectors, unit=self.unit), numbers)
        self.numbered += len(vectors)
        if self.selectors is not None:
            self.selectors.add(len(vectors))

    def delete(self, rows: NDArray[np.int64]) -> None:
        """Take rows out of their lists."""
        if not self.abilities.updates:
            raise self.unable("delete rows")
        self.index.remove_ids(np.asarray(rows, np.int64))

    def save(self, folder: Path) -> None:
        """Write the index, and the number of the next row."""
        super().save(folder)
        (folder / _NUMBERED).write_text(str(self.numbered))

    def load(self, folder: Path, corpus: Corpus, metric: Metric, **parameters: Any) -> None:
        """Read both back."""
        super().load(folder, corpus, metric, **parameters)
        self.numbered = int((folder / _NUMBERED).read_text())
        if self.selectors is not None:
            self.selectors.add(self.numbered - corpus.rows)

    def forget_searches(self) -> None:
        """Start counting anew."""
        import faiss

        super().forget_searches()
        # The statistics are the library's and count the searches of every index in the process.
        faiss.cvar.indexIVF_stats.reset()

    def held(self) -> str:
        """The lists and the rows in them."""
        return f"{self.index.ntotal:,} rows in {self.inverted().nlist:,} lists"

    def evidence(self) -> str:
        """How many lists and rows the searches went through, as faiss counted them."""
        import faiss

        counted = faiss.cvar.indexIVF_stats
        if not counted.nq:
            raise EngineError(f"{self.name}: faiss counted no search through its lists")
        visited, compared = counted.nlist / counted.nq, counted.ndis / counted.nq
        return f"{self.held()}; {visited:,.0f} lists and {compared:,.0f} rows a query"
