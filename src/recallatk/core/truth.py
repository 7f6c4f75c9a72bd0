"""Ground truth: the nearest rows of every query, how each query was decided, and its origin."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any

from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.core.data import Metric
    from recallatk.ids import RowIds


class Decision(IntEnum):
    """The least precise arithmetic that decides a query; it depends on the data alone."""

    FLOAT32 = 0
    """Float64 orders the neighbors, and float32 would tell the last one from the next row."""
    FLOAT64 = 1
    """Float64 orders the neighbors, and float32 could not tell the last one from the next row."""
    EXACT = 2
    """Float64 cannot order some neighbors or the next row; exact arithmetic did, or found a tie."""

    @property
    def text(self) -> str:
        """Name in files."""
        return self.name.lower()


@dataclass(frozen=True, eq=False)
class Certificate:
    """Proof of the truth, one entry per query."""

    decided: NDArray[np.uint8]
    """A `Decision`."""
    bounds: NDArray[np.float64]
    """Maximum error of the scores at the boundary: of the last neighbor and the next row.

    Exact arithmetic ordered rows whose scores lie closer than their bounds, or found that they tie.
    NaN without neighbors.
    """
    next_rows: NDArray[np.int64]
    """The best row that is not listed; -1 if there is none."""
    next_scores: NDArray[np.float64]
    """Its score; NaN if there is none."""


class Origin(StrEnum):
    """Where a truth comes from."""

    COMPUTED = "computed"
    IMPORTED = "imported, not certified"


@dataclass(frozen=True, eq=False)
class Truth:
    """The nearest rows of every query in order, with ties."""

    rows: NDArray[np.int64]
    """(queries, depth) corpus rows by (score, row); -1 after the last eligible row."""
    scores: NDArray[np.float64] | None
    """Score of each row; NaN for -1. None if the file has no scores."""
    eligible: NDArray[np.int64] | None
    """Number of eligible rows per query; None if unknown."""
    metric: Metric | None
    origin: Origin = Origin.COMPUTED
    tied: NDArray[np.bool_] | None = None
    """Whether each row ties with the one before. None: equal scores are ties."""
    overflow: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
    """Rows beyond `depth` that tie with the last one: (offsets, rows), as in a CSR matrix."""
    tie_counts: NDArray[np.int64] | None = None
    """Number of rows beyond `depth` that tie with the last one. None: only those in `overflow`."""
    certificate: Certificate | None = None
    """How each query was decided; None without proof."""
    sampled_from: int | None = None
    """For a sampled corpus, the number of rows of the full corpus."""
    query_ids: pa.Array | None = None
    """The user's query ids; None for row numbers."""
    row_ids: RowIds | None = None
    """The user's ids of every listed row; None for row numbers."""
    corpus_ids: pa.Array | None = None
    """All corpus ids by row, if they were kept and are not row numbers."""
    query_columns: pa.Table | None = None
    """Columns of the queries, such as category and text."""
    corpus_rows: int | None = None
    """Number of corpus rows, if known."""
    older_format: int | None = None
    """Format version of its file, if that is an older one with a certificate."""
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    """Fingerprints of vectors, ids and queries, and of metadata if filters read it."""
    models: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The embedding models of `corpus` and `queries`, as far as they are known."""

    @property
    def depth(self) -> int:
        """Maximum number of neighbors per query."""
        return int(self.rows.shape[1])

    @property
    def synthetic(self) -> bool:
        """Whether the filters of its queries are synthetic."""
        from recallatk.filters.expression import SYNTHETIC

        names = () if self.query_columns is None else self.query_columns.column_names
        return any(name.startswith(SYNTHETIC) for name in names)

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    def __repr__(self) -> str:
        queries = counted(len(self), "query", "queries")
        return f"<Truth of {queries}, {self.origin}: depth {self.depth:,}, {self.metric or 'metric unknown'}>"

    def take(self, which: NDArray[np.int64]) -> Truth:
        """The truth for some of its queries, in this order."""

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
        """The user's ids of some rows; null for padding."""
        import pyarrow as pa

        return pa.array(rows, mask=rows < 0) if self.row_ids is None else self.row_ids.of(rows)


def _taken_lists(
    offsets: NDArray[np.int64], flat: NDArray[np.int64], which: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Some rows of a CSR matrix."""
    import numpy as np

    lengths = np.diff(offsets)[which]
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    places = np.repeat(offsets[:-1][which] - starts[:-1], lengths) + np.arange(starts[-1])
    return starts, flat[places]
