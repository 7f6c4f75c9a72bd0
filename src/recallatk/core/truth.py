"""Ground truth: the best rows of every query, how each was decided, and who computed them."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.core.data import Metric
    from recallatk.ids import RowIds


class Decision(IntEnum):
    """The least arithmetic that settled a query."""

    FLOAT32 = 0
    """Bounds of a float32 scan kept every other row out; float64 scores lie apart."""
    FLOAT64 = 1
    """The same with a float64 scan, because float32's bounds were too wide."""
    EXACT = 2
    """Float64 cannot order two of the neighbors and the next row; exact arithmetic did, or found a tie."""

    @property
    def text(self) -> str:
        """As it stands in files."""
        return self.name.lower()


@dataclass(frozen=True, eq=False)
class Certificate:
    """One entry per query."""

    decided: NDArray[np.uint8]
    """A `Decision`."""
    bounds: NDArray[np.float64]
    """How far the scores at the boundary, the last neighbor's and the next row's, can be from the real ones.

    Rows whose scores lie closer than their bounds were ordered, or found to tie, in exact arithmetic.
    NaN without neighbors.
    """
    next_rows: NDArray[np.int64]
    """The best row that was left out; -1 where none is left."""
    next_scores: NDArray[np.float64]
    """Its score; NaN where none is left."""


class Origin(StrEnum):
    """Who says that a truth is true."""

    COMPUTED = "computed"
    IMPORTED = "imported, not certified"


@dataclass(frozen=True, eq=False)
class Truth:
    """The best rows of every query, best first, with what decides ties."""

    rows: NDArray[np.int64]
    """(queries, depth) corpus rows by (score, row); -1 after the last eligible row."""
    scores: NDArray[np.float64] | None
    """Beside each row its score; NaN beside -1. None when the file it came from has none."""
    eligible: NDArray[np.int64] | None
    """How many rows each query could have returned. None when nobody said."""
    metric: Metric | None
    origin: Origin = Origin.COMPUTED
    tied: NDArray[np.bool_] | None = None
    """Beside each row, whether it ties with the one before. None: equal scores are ties."""
    overflow: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
    """Rows beyond `depth` that tie with the last one: (offsets, rows), as in a CSR matrix."""
    tie_counts: NDArray[np.int64] | None = None
    """How many rows beyond `depth` tie with the last one. None: just those in `overflow`."""
    certificate: Certificate | None = None
    """How each query was decided; None when nobody proved anything."""
    sampled_from: int | None = None
    """Set when the corpus was a sample: of how many rows."""
    query_ids: pa.Array | None = None
    """The user's ids of the queries; row numbers where nobody said."""
    row_ids: RowIds | None = None
    """The user's ids of every row that the truth names; row numbers where nobody said."""
    corpus_ids: pa.Array | None = None
    """All ids of the corpus, by row, where the id is not the row number and somebody kept them."""
    query_columns: pa.Table | None = None
    """What stands beside each query: its category, its text."""
    corpus_rows: int | None = None
    """How many rows the corpus has, where it was known."""
    older_format: int | None = None
    """The format of the file it was read from, where that is an older one with a certificate."""
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    """The content that it was made from: vectors, ids, queries, and metadata where a filter reads it."""

    @property
    def depth(self) -> int:
        """How many neighbors each query has at the most."""
        return int(self.rows.shape[1])

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    def take(self, which: NDArray[np.int64]) -> Truth:
        """The same for some of its queries, in this order."""

        def taken(array: Any) -> Any:
            return None if array is None else array.take(which)

        def lines(array: Any) -> Any:
            return None if array is None else array[which]

        proof = self.certificate
        if proof is not None:
            proof = replace(proof, **{each.name: lines(getattr(proof, each.name)) for each in fields(proof)})
        return replace(
            self,
            rows=self.rows[which],
            scores=lines(self.scores),
            eligible=lines(self.eligible),
            tied=lines(self.tied),
            overflow=None if self.overflow is None else _taken_lists(*self.overflow, which),
            tie_counts=lines(self.tie_counts),
            certificate=proof,
            query_ids=taken(self.query_ids),
            query_columns=taken(self.query_columns),
            fingerprints={},
        )

    def ids_of(self, rows: NDArray[np.int64]) -> pa.Array:
        """The user's ids of some of its rows; null for padding."""
        import pyarrow as pa

        return pa.array(rows, mask=rows < 0) if self.row_ids is None else self.row_ids.of(rows)


def _taken_lists(
    offsets: NDArray[np.int64], flat: NDArray[np.int64], which: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Some lines of a CSR matrix."""
    import numpy as np

    lengths = np.diff(offsets)[which]
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    places = np.repeat(offsets[:-1][which] - starts[:-1], lengths) + np.arange(starts[-1])
    return starts, flat[places]
