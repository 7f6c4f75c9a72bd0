"""The base of collections that hold an id, a vector and a dictionary per row, read page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from recallatk.adapters.embedded_collection import EmbeddedCollection
from recallatk.adapters.payload_columns import PayloadColumns
from recallatk.errors import EngineError, UsageError, unknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from recallatk.adapters.stored_columns import FilterColumns
    from recallatk.filters import Filter

_PAGE = 10_000
# Rows whose dictionaries show which columns there are, before a filter needs all of them.
_FIRST = 1_000
_TAKEN = 500


class Page(NamedTuple):
    """Some rows, without what was not asked for."""

    ids: list[Any]
    vectors: NDArray[np.float32] | None = None
    payloads: Sequence[Mapping[str, Any] | None] | None = None


class PayloadCollection(EmbeddedCollection):
    """A collection without a schema: its columns are those that its rows have.

    Subclasses write `pages`, `taken` and `translated`.
    """

    one_number: ClassVar[bool]
    """Whether whole and fractional numbers of one column are compared alike."""
    text_ids: bool
    """Whether ids are text, and not whole numbers."""
    searchable: int
    """Number of rows with a vector."""

    def __init__(self) -> None:
        super().__init__()
        self._columns: tuple[FilterColumns, dict[str, pa.DataType | str]] | None = None
        self._compiled: dict[str, Any] = {}

    def pages(self, rows: int, *, vectors: bool = False, payloads: bool = False) -> Iterator[Page]:
        """All rows that have a vector, in an order that does not change."""
        raise NotImplementedError

    def taken(self, ids: list[Any]) -> Page:
        """The vectors of some ids, in any order."""
        raise NotImplementedError

    def translated(self, condition: Filter, columns: FilterColumns) -> Any:
        """The filter in the form of the library; None lets every row pass, and False none."""
        raise NotImplementedError

    def first_columns(self) -> dict[str, str]:
        """The columns of the first rows, for discovery."""
        found = PayloadColumns()
        for page in self.pages(_FIRST, payloads=True):
            found.read(page.payloads or ())
            break
        return {name: str(kind) for name, kind in found.types().items()}

    def _all_columns(self) -> tuple[FilterColumns, dict[str, pa.DataType | str]]:
        """The columns of all rows: a negated filter depends on whether any row has no value."""
        if self._columns is None:
            found = PayloadColumns()
            for page in self.pages(_PAGE, payloads=True):
                found.read(page.payloads or ())
            self._columns = found.filterable(self.title, one_number=self.one_number), found.types()
        return self._columns

    def compiled(self, condition: Filter) -> Any:
        """The filter in the form of the library, made once; None lets every row pass, and False none."""
        if condition.key not in self._compiled:
            self._compiled[condition.key] = self.translated(condition, self._all_columns()[0])
        return self._compiled[condition.key]

    def refusal(self, condition: Filter) -> str | None:
        """Why a filter has no native form; None for unknown columns, which the search refuses by name."""
        if not condition.columns() - self._all_columns()[0].columns.keys():
            try:
                self.compiled(condition)
            except EngineError as problem:
                return str(problem)
        return None

    def writes(self) -> object | None:
        """Nothing writes to a copy; a server does not tell."""
        return 0 if self.on_copy else None

    def sample(self, count: int, seed: int) -> tuple[list[Any], NDArray[Any]]:
        """Random rows by their position."""
        total = self.searchable
        places = np.sort(np.random.default_rng(seed).choice(total, min(count, total), replace=False))
        chosen: list[Any] = []
        start = 0
        for page in self.pages(_PAGE):
            inside = places[(places >= start) & (places < start + len(page.ids))] - start
            chosen += [page.ids[place] for place in inside]
            start += len(page.ids)
        found = [self.taken(chosen[place : place + _TAKEN]) for place in range(0, len(chosen), _TAKEN)]
        ids = [each for page in found for each in page.ids]
        return ids, np.concatenate([page.vectors for page in found if page.vectors is not None])

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows page by page."""
        known = self._all_columns()[1] if columns else {}
        kinds = [_readable(self.found.target, name, known) for name in columns]
        id_type = pa.string() if self.text_ids else pa.int64()
        for page in self.pages(self.block_rows, vectors=True, payloads=bool(columns)):
            if not page.ids or page.vectors is None:
                continue
            flat = pa.array(np.ascontiguousarray(page.vectors, np.float32).reshape(-1))
            arrays = [
                pa.array(page.ids, id_type),
                pa.FixedSizeListArray.from_arrays(flat, page.vectors.shape[1]),
            ]
            for name, kind in zip(columns, kinds, strict=True):
                arrays.append(pa.array([(each or {}).get(name) for each in page.payloads or ()], kind))
            yield pa.record_batch(arrays, ["id", "vector", *columns])


def _readable(target: str, name: str, known: Mapping[str, pa.DataType | str]) -> pa.DataType:
    if name not in known:
        raise UsageError(f"{target}: {unknown('column', name, known)}")
    kind = known[name]
    if isinstance(kind, str):
        raise EngineError(f"{target}: the column {name!r} holds {kind}, so the truth cannot filter by it")
    return kind
