"""Description of vectors: shape, types, norms, duplicates and bad values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import Records, blocks
from recallatk.datasets.registry import open_source
from recallatk.datasets.source import OpenOptions
from recallatk.digests import row_digests
from recallatk.fingerprint import VectorsHash, fingerprint_ids, fingerprint_metadata

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

# A norm within this of 1 is a unit vector stored with float16 precision or better.
UNIT_TOLERANCE = 1e-3


def inspect(
    path: object,
    *,
    format: str | None = None,
    id_column: str | None = None,
    vector_column: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Describe vectors after reading each of them once; bad values are counted, not refused.

    Args:
        path: a file, a pattern of shards, a folder, a URL, or data in memory as in `open_corpus`.
        format: the format's name, if the ending and the first bytes do not tell.
        id_column: the column with the ids.
        vector_column: the column with the vectors.
        progress: called with the rows done and the rows there are.
    """
    source = open_source(path, format=format, options=OpenOptions(id_column, vector_column))
    parts = {role: _describe(records, progress) for role, records in source.parts.items()}
    first, *others = parts
    return {
        "file": source.text,
        "format": source.format,
        **parts[first],
        "metric": source.metric,
        "has_truth": source.truth is not None,
        "has_qrels": source.qrels is not None,
        "details": dict(source.details),
        **{role: parts[role] for role in others},
    }


def _describe(records: Records, progress: Callable[[int, int], None] | None) -> dict[str, Any]:
    rows, dimension = records.vectors.shape
    survey = _Survey(records, progress)
    schema = records.columns.schema
    return {
        "rows": rows,
        "dimension": dimension,
        "dtype": records.vectors.dtype.name,
        "id_column": records.id_column,
        "id_type": str(records.read_ids(0, min(rows, 1)).type),
        "columns": {name: str(schema.field(name).type) for name in records.metadata_names},
        **_id_findings(records),
        **survey.findings(),
        "fingerprint": {
            "vectors": survey.state.text(),
            "ids": fingerprint_ids(records),
            "metadata": fingerprint_metadata(records),
        },
    }


def _id_findings(records: Records) -> dict[str, int]:
    """How many ids are missing, and how many rows have the id of an earlier one."""
    if records.id_column is None:
        return {"missing_ids": 0, "repeated_ids": 0}
    ids = records.read_ids(0, records.rows)
    there = ids.drop_null()
    return {"missing_ids": ids.null_count, "repeated_ids": len(there) - len(there.unique())}


class _Survey:
    """One pass over the vectors: norms, row hashes, counts and the fingerprint."""

    def __init__(self, records: Records, progress: Callable[[int, int], None] | None = None) -> None:
        rows = records.rows
        self.state = VectorsHash(records.vectors)
        self.norms = np.empty(rows, np.float64)
        self.hashes = np.empty(rows, [("a", np.uint64), ("b", np.uint64)])
        self.bad_rows = self.nan = self.infinite = 0
        for start, block in blocks(records.vectors):
            stop = start + len(block)
            self.state.update(block)
            self.norms[start:stop] = _norms(block)
            # Adding 0 leaves only one of the two zeros, so that equal vectors have equal digests.
            self.hashes[start:stop] = row_digests(block + block.dtype.type(0)).view(self.hashes.dtype)[:, 0]
            self._count_bad(block)
            if progress is not None:
                progress(stop, rows)

    def _count_bad(self, block: NDArray[Any]) -> None:
        if block.dtype.kind == "f":
            nan, infinite = np.isnan(block), np.isinf(block)
            self.nan += int(nan.sum())
            self.infinite += int(infinite.sum())
            self.bad_rows += int((nan | infinite).any(axis=1).sum())

    def findings(self) -> dict[str, Any]:
        """The counts and shares; a share of nothing is null."""
        rows = len(self.norms)
        good = self.norms[np.isfinite(self.norms)]
        groups, sizes = np.unique(self.hashes, return_counts=True)
        duplicated = sizes[sizes > 1]
        zero = int((self.norms == 0).sum())
        return {
            "norm": {
                "min": float(good.min()) if good.size else None,
                # Divide first, so that the sum of large norms does not overflow.
                "mean": float((good / good.size).sum()) if good.size else None,
                "max": float(good.max()) if good.size else None,
                "unit_share": float((np.abs(good - 1) <= UNIT_TOLERANCE).mean()) if good.size else None,
            },
            "zero_vectors": zero,
            "zero_share": zero / rows if rows else None,
            "duplicate_vectors": int(duplicated.sum()),
            "duplicate_share": float(duplicated.sum() / rows) if rows else None,
            "largest_duplicate_group": int(duplicated.max(initial=1)) if len(groups) else 0,
            "nan": self.nan,
            "infinite": self.infinite,
            "rows_not_finite": self.bad_rows,
        }


def _norms(block: NDArray[Any]) -> NDArray[np.float64]:
    with np.errstate(all="ignore"):
        wide = block.astype(np.float64)
        largest = np.maximum(np.abs(wide).max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        # Scaled first, so that very large and very small vectors keep a norm.
        result: NDArray[np.float64] = largest[:, 0] * np.linalg.norm(wide / largest, axis=1)
    return result
