"""From any format that can be read to any that can be written, changing no number unasked."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from recallatk.datasets.checks import checked
from recallatk.datasets.registry import format_for_writing, get_format, open_source
from recallatk.datasets.source import CORPUS, ROWS, OpenOptions
from recallatk.datasets.widening import RoundedVectors
from recallatk.errors import UsageError, choices
from recallatk.files import PathLike, atomic_file

if TYPE_CHECKING:
    from recallatk.core import Dataset, Records, Truth


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
    """
    writer = format_for_writing(target)
    opened = open_source(source, format=format, options=OpenOptions(id_column, vector_column))
    if part is not None and ROWS not in opened.parts and part not in opened.parts:
        raise UsageError(f"{opened.text} has no part {part!r}. Accepted: {choices(opened.parts)}")
    records = opened.part(part or CORPUS)
    if dtype is not None:
        rounded = RoundedVectors(checked(records), _dtype(dtype))
        records = dataclasses.replace(records, vectors=rounded)
    with atomic_file(target) as scratch:
        try:
            writer.write(records, scratch)
        except pa.ArrowException as problem:
            raise UsageError(f"{opened.text}: cannot be written as {writer.name}: {problem}") from problem
    return Conversion(
        path=str(target),
        format=writer.name,
        rows=records.rows,
        dimension=records.dimension,
        dtype=getattr(writer, "stored", records.vectors.dtype).name,
        left_out=() if writer.writes_columns else _beside(records),
    )


def write_ann_benchmarks(dataset: Dataset, truth: Truth, target: PathLike) -> Conversion:
    """Write a corpus, its queries and their truth as one ann-benchmarks HDF5 file."""
    with atomic_file(target) as scratch:
        get_format("ann-benchmarks").write_dataset(dataset, truth, scratch)
    corpus = dataset.corpus
    return Conversion(
        path=str(target),
        format="ann-benchmarks",
        rows=corpus.rows,
        dimension=corpus.dimension,
        dtype=corpus.vectors.dtype.name,
        left_out=_beside(corpus),
    )


def _beside(records: Records) -> tuple[str, ...]:
    return tuple(records.columns.schema.names)


def _dtype(name: str) -> np.dtype[np.generic]:
    accepted = ("float16", "float32", "float64", "int8", "uint8", "int32")
    if name not in accepted:
        raise UsageError(f"no type {name!r}. Accepted: {choices(accepted)}")
    return np.dtype(name)
