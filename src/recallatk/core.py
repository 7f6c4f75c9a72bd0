"""The nouns: what a corpus, a query set, a truth, a trial and a run are, and nothing they do.

Inside, a vector is known by its row number in the corpus; the user's ids (strings or integers) stand
beside it and come back only where something is shown or written. Big things are lazy: opening costs
nothing, `read(start, stop)` costs the block.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from recallatk.errors import MismatchError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.certificate import Certificate
    from recallatk.filters import Filter
    from recallatk.filters.eligibility import Eligibility
    from recallatk.ids import RowIds

Parameters: TypeAlias = tuple[tuple[str, Any], ...]

# What a vector may be made of; int32 and int64 matrices are lists of neighbours.
VECTOR_DTYPES = ("float16", "float32", "float64", "int8", "uint8")

# Blocks of about this size keep the caches warm and the memory small.
BLOCK_BYTES = 4 << 20


class Metric(StrEnum):
    """How two vectors are compared."""

    COSINE = "cosine"
    """Cosine similarity; higher is better."""
    IP = "ip"
    """Inner product; higher is better."""
    L2 = "l2"
    """Euclidean distance, not squared; lower is better."""

    @property
    def higher_is_better(self) -> bool:
        """Whether a larger score is a nearer neighbour."""
        return self is not Metric.L2

    @classmethod
    def _missing_(cls, value: object) -> Metric:
        raise UsageError(f"no metric {value!r}. Accepted: cosine, ip or l2")


class Vectors(Protocol):
    """A matrix that is read block by block, in the type it is stored in."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and dimension."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The stored type of one number."""

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows `start` to `stop`, which belong to the caller only until the next read."""


class Columns(Protocol):
    """Everything that stands beside the vectors, read only when it is asked for."""

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


@dataclass(frozen=True, eq=False)
class Records:
    """Vectors with ids and columns beside them: what a corpus and a query set have in common."""

    name: str
    """What messages call it: the file it came from, without secrets."""
    vectors: Vectors
    columns: Columns
    id_column: str | None = None
    """The column of the user's ids; without one, the id is the row number."""

    @property
    def rows(self) -> int:
        """How many vectors there are."""
        return self.vectors.shape[0]

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""
        return self.vectors.shape[1]

    def __len__(self) -> int:
        return self.rows

    def read_ids(self, start: int, stop: int) -> pa.Array:
        """The user's ids of some rows, as int64 or string."""
        from recallatk.ids import plain_ids, row_numbers

        if self.id_column is None:
            return row_numbers(start, stop)
        return plain_ids(self.columns.read([self.id_column], start, stop)[self.id_column], self.name)

    @property
    def metadata_names(self) -> list[str]:
        """The columns other than the id."""
        return [name for name in self.columns.schema.names if name != self.id_column]

    @cached_property
    def ids(self) -> pa.Array:
        """All ids, in memory; a missing or repeated one is refused here."""
        from recallatk.ids import check_ids

        ids = self.read_ids(0, self.rows)
        if self.id_column is not None:
            check_ids(ids, f"{self.name}, column {self.id_column!r}")
        return ids

    @cached_property
    def metadata(self) -> pa.Table:
        """All columns but the id, in memory."""
        return self.columns.read(self.metadata_names, 0, self.rows)


@dataclass(frozen=True, eq=False)
class Corpus(Records):
    """The rows that can be found."""

    sampled_from: int | None = None
    """Set for a sample: of how many rows. Recall on it does not carry over to them."""


@dataclass(frozen=True, eq=False)
class QuerySet(Records):
    """What is asked, with what each query may return."""

    text_column: str | None = None
    """The column with the query as words, where there is one."""
    filters: tuple[Filter | None, ...] | None = None
    """One filter per query, or none at all."""
    corpus_rows: NDArray[np.int64] | None = None
    """Set when the queries are corpus rows: the row of each, which it may not find."""

    def where(self, condition: Filter | None) -> QuerySet:
        """The same queries, each with this one filter."""
        return replace(self, filters=None if condition is None else (condition,) * self.rows)


@dataclass(frozen=True, eq=False)
class Dataset:
    """A corpus, the queries on it, and the metric that compares them."""

    corpus: Corpus
    queries: QuerySet
    metric: Metric
    qrels: Mapping[str, Mapping[str, int]] | None = None
    """Relevance judgements by query id and corpus id, where somebody made some."""
    name: str = ""

    def __post_init__(self) -> None:
        if self.corpus.dimension != self.queries.dimension:
            raise MismatchError(
                f"the corpus {self.corpus.name} has {self.corpus.dimension} dimensions "
                f"and the queries {self.queries.name} have {self.queries.dimension}"
            )

    @cached_property
    def eligibility(self) -> Eligibility:
        """The filters of the queries evaluated on the corpus, each distinct one once."""
        from recallatk.filters.eligibility import eligibility

        filters = self.queries.filters or (None,) * self.queries.rows
        named = sorted(set().union(*(each.columns() for each in filters if each is not None)))
        schema = self.corpus.columns.schema
        # A name that is not there is the mask's to refuse, before anything is read.
        known = set(named) <= set(schema.names)
        table = self.corpus.columns.read(named, 0, self.corpus.rows) if known else schema.empty_table()
        return eligibility(filters, table, self.queries.corpus_rows, self.corpus.rows)


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
    corpus_rows: int | None = None
    """How many rows the corpus has, where it was known."""
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    """The content that it was made from: vectors, ids, queries, and metadata where a filter reads it."""

    @property
    def depth(self) -> int:
        """How many neighbours each query has at the most."""
        return int(self.rows.shape[1])

    def __len__(self) -> int:
        return int(self.rows.shape[0])


@dataclass(frozen=True)
class Knob:
    """One parameter of an engine: what it is called and what it may be."""

    name: str
    default: int
    low: int
    high: int
    scale: str = "log"
    """`log` or `linear`: how a sweep should step through it."""
    effort: bool = False
    """More of it is slower and does not lose recall."""


@dataclass(frozen=True)
class Trial:
    """One configuration to measure: an engine, how it is built and how it is searched."""

    engine: str
    build: Parameters
    search: Parameters

    def __str__(self) -> str:
        build, search = (
            ", ".join(f"{name}={value}" for name, value in part) for part in (self.build, self.search)
        )
        return f"{self.engine}({build})[{search}]"


@dataclass(frozen=True)
class Build:
    """One index as it was built, and what that cost."""

    engine: str
    version: str | None
    """Of the library behind the engine."""
    parameters: Parameters
    threads: int
    seconds: float | None
    memory_bytes: int | None
    """Private memory that the build added to its process; None when it was not measured."""
    size_bytes: int | None
    """The index as it would be stored; None when it was not measured."""


@dataclass(frozen=True)
class Mean:
    """The mean of a measure over queries."""

    value: float | None
    """None when no query could be scored."""
    ids: float | None
    """The same by strict ids, where ties at the boundary are cut by row number."""
    n: int
    """How many queries the mean is over."""


@dataclass(frozen=True, eq=False)
class Score:
    """What an answer set is worth: means by name, and counts of what was odd."""

    queries: int
    scored: int
    measures: Mapping[str, Mean]
    anomalies: Mapping[str, int | None]
    """Counts by kind; None where it could not be told."""
    per_query: Mapping[str, NDArray[np.float64]] = field(default_factory=dict, repr=False)
    """Each measure of every query; empty when the score was read from a file."""

    def __getitem__(self, measure: str) -> float | None:
        """The mean of a measure, for example `score["recall@10"]`."""
        if measure not in self.measures:
            raise UsageError(f"no measure {measure!r}. Scored: {', '.join(self.measures)}")
        return self.measures[measure].value


@dataclass(frozen=True, eq=False)
class Measurement:
    """What one trial answered and how long each call took; nothing here is averaged."""

    trial: Trial
    build: Build
    k: int
    """How many neighbours each call asked for."""
    answers: NDArray[np.int64]
    """(queries, k) corpus rows as returned; -1 where there was no answer."""
    latencies_ns: NDArray[np.int64]
    """(rounds, queries): one number per call."""
    exercised: str | None
    """The engine's evidence that its index answered."""
    score: Score


@dataclass(frozen=True, eq=False)
class Run:
    """Measurements that belong together: one dataset, one truth, one machine."""

    dataset: str
    metric: Metric
    fingerprints: Mapping[str, str]
    """Of the data that was measured, and of the truth that it was scored against."""
    environment: Mapping[str, Any]
    timed: str
    """What a latency covers, in words."""
    measurements: tuple[Measurement, ...]
