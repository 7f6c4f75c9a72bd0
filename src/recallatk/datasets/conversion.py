"""Conversion between formats; no number changes unless rounding was requested."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from recallatk.datasets.checks import checked
from recallatk.datasets.matrix import VectorsView
from recallatk.datasets.registry import format_for_writing, open_source
from recallatk.datasets.source import CORPUS, ROWS, OpenOptions
from recallatk.errors import UsageError, choices
from recallatk.files import PathLike, atomic_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from recallatk.core import Dataset, Records, Truth, Vectors


def widened(block: NDArray[Any], dtype: np.dtype[Any], where: str) -> NDArray[Any]:
    """The block in another type; a type that cannot hold every number of the first is refused."""
    same_width = dtype == np.int32 and block.dtype == np.int64 and _fits(block)
    if not np.can_cast(block.dtype, dtype, "safe") and not same_width:
        raise UsageError(
            f"{where}: {block.dtype} numbers would be rounded to {dtype.name}. "
            f"To round them, pass --dtype {dtype.name}"
        )
    return block.astype(dtype, copy=False)


def _fits(block: NDArray[Any]) -> bool:
    return bool(block.size == 0 or (block.max() < 1 << 31 and block.min() >= -(1 << 31)))


@dataclass(frozen=True, eq=False)
class RoundedVectors:
    """A matrix converted to the type that the user requested."""

    vectors: Vectors
    dtype: np.dtype[Any]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and dimension."""
        return self.vectors.shape

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Some rows, rounded to the nearest; numbers beyond the type's range stay within it."""
        block = self.vectors.read(start, stop)
        if self.dtype.kind in "iu":
            # float64 holds every limit of these types; narrower floats would round them outwards.
            limits = np.iinfo(self.dtype)
            block = np.clip(np.rint(block.astype(np.float64)), limits.min, limits.max)
        elif np.promote_types(block.dtype, self.dtype) != self.dtype:
            largest = np.finfo(self.dtype).max
            block = np.clip(block.astype(np.float64), -float(largest), float(largest))
        return block.astype(self.dtype)


@dataclass(frozen=True, eq=False)
class WatchedVectors(VectorsView):
    """A matrix that says how far it has been read."""

    progress: Callable[[int, int], None] | None

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Some rows."""
        if self.progress is not None:
            self.progress(start, self.shape[0])
        return self.vectors.read(start, stop)


@dataclass(frozen=True)
class Conversion:
    """What was written and what the format had no place for."""

    path: str
    format: str
    rows: int
    dimension: int
    dtype: str
    left_out: tuple[str, ...]
    """The columns that the target format cannot hold, the ids among them."""


def convert(
    source: PathLike,
    target: PathLike,
    *,
    part: str | None = None,
    dtype: str | None = None,
    format: str | None = None,
    id_column: str | None = None,
    vector_column: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Conversion:
    """Write the vectors of one file as another, in the format that the target's ending names.

    Args:
        source: a file, a pattern of shards, a folder or a URL.
        target: a local path; it is written whole or not at all.
        part: `corpus` or `queries`, when the source holds both; the corpus if nothing is said.
        dtype: round to this type; without it, a conversion that would change a number is refused.
        format: the source's format, when it cannot be told.
        id_column: the column with the ids.
        vector_column: the column with the vectors.
        progress: called with the rows done and the rows there are.
    """
    writer = format_for_writing(target)
    opened = open_source(source, format=format, options=OpenOptions(id_column, vector_column))
    if part is not None and ROWS not in opened.parts and part not in opened.parts:
        raise UsageError(f"{opened.text} has no part {part!r}. Accepted: {choices(opened.parts)}")
    role = part or CORPUS
    records = opened.part(role)
    if writer.writes_columns:
        _ = records.ids  # missing and repeated ones are refused here, before anything is written
    vectors = checked(records) if dtype is None else _rounded(records, dtype)
    records = dataclasses.replace(records, vectors=WatchedVectors(vectors, progress))
    return write_records(records, target, opened.besides(role))


def write_records(records: Records, target: PathLike, besides: tuple[str, ...] = ()) -> Conversion:
    """Write vectors, ids and columns as one file, in the format that its ending names.

    Args:
        records: what to write.
        target: a local path; it is written whole or not at all.
        besides: further content of the source, which is not written.
    """
    writer = format_for_writing(target)
    with atomic_file(target) as scratch:
        try:
            writer.write(records, scratch)
        except pa.ArrowException as problem:
            raise UsageError(f"{records.name}: cannot be written as {writer.name}: {problem}") from problem
    return Conversion(
        path=str(target),
        format=writer.name,
        rows=records.rows,
        dimension=records.dimension,
        dtype=(writer.stored or records.vectors.dtype).name,
        left_out=(*(() if writer.writes_columns else _beside(records)), *besides),
    )


def convert_dataset(dataset: Dataset, truth: Truth, target: PathLike) -> Conversion:
    """Write a corpus, its queries and their truth as one file, in the format that its ending names."""
    writer = format_for_writing(target)
    with atomic_file(target) as scratch:
        writer.write_dataset(dataset, truth, scratch)
    corpus = dataset.corpus
    return Conversion(
        path=str(target),
        format=writer.name,
        rows=corpus.rows,
        dimension=corpus.dimension,
        dtype=corpus.vectors.dtype.name,
        left_out=_beside(corpus),
    )


def rounded_dataset(dataset: Dataset, dtype: str) -> Dataset:
    """The dataset with the numbers of corpus and queries rounded to another type."""
    corpus, queries = dataset.corpus, dataset.queries
    return dataclasses.replace(
        dataset,
        corpus=dataclasses.replace(corpus, vectors=_rounded(corpus, dtype)),
        queries=dataclasses.replace(queries, vectors=_rounded(queries, dtype)),
    )


def _rounded(records: Records, dtype: str) -> RoundedVectors:
    return RoundedVectors(checked(records), _dtype(dtype))


def _beside(records: Records) -> tuple[str, ...]:
    return tuple(records.columns.schema.names)


def _dtype(name: str) -> np.dtype[np.generic]:
    accepted = ("float16", "float32", "float64", "int8", "uint8", "int32")
    if name not in accepted:
        raise UsageError(f"no type {name!r}. Accepted: {choices(accepted)}")
    return np.dtype(name)
