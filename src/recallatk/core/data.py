"""Data types: metric, vectors, corpus, queries, dataset, answers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from recallatk.errors import MismatchError, UsageError, unknown
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.filters import Filter
    from recallatk.filters.eligibility import Eligibility

# Element types of vectors; int32 and int64 matrices are lists of neighbors.
VECTOR_DTYPES = ("float16", "float32", "float64", "int8", "uint8")

# Blocks of about this size fit in cache and need little memory.
BLOCK_BYTES = 4 << 20


class Metric(StrEnum):
    """Similarity or distance between vectors."""

    COSINE = "cosine"
    """Cosine similarity; higher is better."""
    IP = "ip"
    """Inner product; higher is better."""
    L2 = "l2"
    """Euclidean distance, not squared; lower is better."""

    @property
    def higher_is_better(self) -> bool:
        """Whether a larger score means a nearer neighbor."""
        return self is not Metric.L2

    @classmethod
    def _missing_(cls, value: object) -> Metric:
        raise UsageError(unknown("metric", value, cls, _METRICS_ELSEWHERE))


# Names of other tools, for whoever writes one of them.
_METRICS_ELSEWHERE = {
    "euclidean": ("l2",),
    "euclid": ("l2",),
    "l2sq": ("l2",),
    "l2squared": ("l2",),
    "sqeuclidean": ("l2",),
    "squaredl2": ("l2",),
    "dot": ("ip",),
    "dotproduct": ("ip",),
    "dotp": ("ip",),
    "innerproduct": ("ip",),
    "maxinnerproduct": ("ip",),
    "mips": ("ip",),
    "angular": ("cosine",),
    "cos": ("cosine",),
    "cosinesimilarity": ("cosine",),
    "cosinedistance": ("cosine",),
}


class Vectors(Protocol):
    """A matrix that is read block by block, in its stored type."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and dimension."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Stored element type."""

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows `start` to `stop`, valid until the next read."""


@dataclass(frozen=True, eq=False)
class ArrayVectors:
    """A matrix in memory."""

    array: NDArray[Any]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and dimension."""
        return self.array.shape[0], self.array.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""
        return self.array.dtype

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """A view of the rows."""
        return self.array[start:stop]


class Columns(Protocol):
    """Columns stored with the vectors, read on demand."""

    @property
    def schema(self) -> pa.Schema:
        """Names and types."""

    def read(self, names: list[str], start: int, stop: int) -> pa.Table:
        """Some columns of rows `start` to `stop`."""


def blocks(vectors: Vectors, block_bytes: int = BLOCK_BYTES) -> Iterator[tuple[int, NDArray[Any]]]:
    """Every block of a matrix with the number of its first row, in order."""
    rows, dimension = vectors.shape
    step = max(1, block_bytes // max(1, dimension * vectors.dtype.itemsize))
    for start in range(0, rows, step):
        yield start, vectors.read(start, min(start + step, rows))


def in_memory(vectors: Vectors, most_bytes: int | None = None) -> Vectors:
    """The matrix read into memory, unless it takes more than `most_bytes`."""
    rows, dimension = vectors.shape
    if isinstance(vectors, ArrayVectors):
        return vectors
    if most_bytes is not None and rows * dimension * vectors.dtype.itemsize > most_bytes:
        return vectors
    return ArrayVectors(vectors.read(0, rows))


@dataclass(frozen=True, eq=False)
class Records:
    """Vectors with ids and columns: the base of corpus and query set."""

    name: str
    """Name for messages: the file it came from, redacted."""
    vectors: Vectors
    columns: Columns
    id_column: str | None = None
    """Column with the user's ids; without one, the id is the row number."""
    model: str | None = field(default=None, kw_only=True)
    """The embedding model of all vectors, if known."""
    model_column: str | None = field(default=None, kw_only=True)
    """Column with the embedding model of each vector, in place of `model`."""

    @property
    def rows(self) -> int:
        """Number of vectors."""
        return self.vectors.shape[0]

    @property
    def dimension(self) -> int:
        """Dimension of the vectors."""
        return self.vectors.shape[1]

    def __len__(self) -> int:
        return self.rows

    def __repr__(self) -> str:
        shape = f"{self.rows:,} x {self.dimension:,} {self.vectors.dtype}"
        return f"<{type(self).__name__} {self.name}: {shape}>"

    def read_ids(self, start: int, stop: int) -> pa.Array:
        """The user's ids of some rows, as int64 or string."""
        from recallatk.ids import plain_ids, row_numbers

        if self.id_column is None:
            return row_numbers(start, stop)
        return plain_ids(self.columns.read([self.id_column], start, stop)[self.id_column], self.name)

    @property
    def metadata_names(self) -> list[str]:
        """Names of all columns except the id."""
        return [name for name in self.columns.schema.names if name != self.id_column]

    @cached_property
    def ids(self) -> pa.Array:
        """All ids, in memory; refuses missing and duplicate ids."""
        from recallatk.ids import check_ids

        ids = self.read_ids(0, self.rows)
        if self.id_column is not None:
            check_ids(ids, f"{self.name}, column {self.id_column!r}")
        return ids

    @cached_property
    def models(self) -> tuple[str, ...]:
        """The embedding models of the vectors, sorted; empty if unknown."""
        if self.model_column is None:
            return () if self.model is None else (self.model,)
        values = self.columns.read([self.model_column], 0, self.rows)[self.model_column].unique()
        return tuple(sorted(str(each) for each in values.to_pylist() if each is not None))

    @cached_property
    def metadata(self) -> pa.Table:
        """All columns except the id, in memory."""
        return self.columns.read(self.metadata_names, 0, self.rows)


@dataclass(frozen=True, eq=False, repr=False)
class Corpus(Records):
    """The rows to search."""

    sampled_from: int | None = None
    """For a sample, the number of rows of the full corpus, to which its recall does not carry over."""


@dataclass(frozen=True, eq=False, repr=False)
class QuerySet(Records):
    """The queries, with the filter of each."""

    text_column: str | None = None
    """Column with the query text, if any."""
    filters: tuple[Filter | None, ...] | None = None
    """One filter per query; None if there are no filters."""
    corpus_rows: NDArray[np.int64] | None = None
    """For queries that are corpus rows, the row of each, which is excluded from its answers."""

    @property
    def filtered(self) -> bool:
        """Whether any query has a filter."""
        return any(each is not None for each in self.filters or ())

    @property
    def all_filtered(self) -> bool:
        """Whether every query has a filter."""
        return bool(self.filters) and all(each is not None for each in self.filters or ())

    @property
    def synthetic(self) -> bool:
        """Whether any filter was made by `recallatk workload`."""
        return any(each is not None and each.synthetic for each in set(self.filters or ()))

    def where(self, condition: Filter | None) -> QuerySet:
        """The same queries with this filter on each."""
        return replace(self, filters=None if condition is None else (condition,) * self.rows)


def _called(part: str, name: str) -> str:
    """A part of a dataset with its name, which data in memory do not have."""
    return f"the {part}" if name in ("", part) else f"the {part} {name}"


@dataclass(frozen=True, eq=False)
class Dataset:
    """A corpus, the queries on it, and the metric that compares them."""

    corpus: Corpus
    queries: QuerySet
    metric: Metric
    qrels: Mapping[str, Mapping[str, int]] | None = None
    """Relevance judgments by query id and corpus id, if any."""
    name: str = ""

    def __post_init__(self) -> None:
        if self.corpus.dimension != self.queries.dimension:
            raise MismatchError(
                f"dimension mismatch: {_called('corpus', self.corpus.name)} has {self.corpus.dimension}, "
                f"{_called('queries', self.queries.name)} have {self.queries.dimension}"
            )

    def __repr__(self) -> str:
        return f"<Dataset {self.name}, {self.metric}: {self.corpus!r}, {self.queries!r}>"

    @property
    def models(self) -> dict[str, tuple[str, ...]]:
        """The embedding models of `corpus` and `queries`, as far as they are known."""
        found = {"corpus": self.corpus.models, "queries": self.queries.models}
        return {part: models for part, models in found.items() if models}

    @cached_property
    def eligibility(self) -> Eligibility:
        """The queries' filters evaluated on the corpus, each distinct filter once."""
        from recallatk.filters.eligibility import distinct_filters, eligibility

        filters = self.queries.filters or (None,) * self.queries.rows
        named = sorted(distinct_filters(filters).columns())
        schema = self.corpus.columns.schema
        # The mask refuses unknown column names, before anything is read.
        known = set(named) <= set(schema.names)
        table = self.corpus.columns.read(named, 0, self.corpus.rows) if known else schema.empty_table()
        return eligibility(filters, table, self.queries.corpus_rows, self.corpus.rows)


@dataclass(frozen=True, eq=False)
class Answers:
    """A ranked list of ids per query; lists may differ in length."""

    ids: pa.Array
    """All ids, list after list: int64 or string. Null is padding; so is -1 among integers."""
    offsets: NDArray[np.int64]
    """Start of each query's list, and the end of the last one."""
    query_ids: pa.Array | None = None
    """The user's query ids, int64 or string; without them, queries are matched by position."""
    scores: NDArray[np.float64] | None = None
    """The system's score for each id; never trusted."""
    ordered_by: str | None = None
    """The keys that each list was sorted by; None if the lists are in their original order."""
    columns: pa.Table | None = None
    """Other columns, one row per query."""
    name: str = "answers"
    """Name for messages: the file it came from, redacted."""

    def __len__(self) -> int:
        return len(self.offsets) - 1


# Query logs can be larger than a small corpus, but ten times as large is rare.
MOST_QUERIES_PER_ROW = 10


def swapped(rows: int | None, queries: int) -> str | None:
    """The question to ask if corpus and queries look swapped; None if they do not."""
    if rows is None or queries < MOST_QUERIES_PER_ROW * rows:
        return None
    asked = counted(queries, "query", "queries")
    return (
        f"the corpus has {counted(rows, 'row', 'rows')} and there are {asked}. Are corpus and queries "
        "swapped? The corpus comes first"
    )


def different_models(there: Mapping[str, Sequence[str]], here: Mapping[str, Sequence[str]]) -> list[str]:
    """The parts whose embedding models are known on both sides and differ, with both, in words."""
    return [
        f"the embedding model of the {part} ({', '.join(there[part])} there, {', '.join(here[part])} here)"
        for part in ("corpus", "queries")
        if part in there and part in here and set(there[part]) != set(here[part])
    ]
