"""The base of legs without dense vectors: scores of the rows that share a term with a query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from recallatk.adapters.allowed_rows import AllowedRows
from recallatk.adapters.base import Abilities, Library
from recallatk.core import Metric, QuerySet
from recallatk.errors import UsageError, choices
from recallatk.pipeline.ranking import Ranked, Scores, contenders, ranked
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.adapters.batch import QueryBatch
    from recallatk.core import Corpus, Records
    from recallatk.filters import Filter


class TermLeg(Library):
    """Ranking by shared terms; rows without a term of the query are never returned.

    It is a stage of a path and no engine of its own: its ranking is not the one that a dense truth is about.
    Subclasses write `build` and `term_scores`.
    """

    metrics = frozenset(Metric)
    abilities: ClassVar[Abilities] = Abilities(
        filters=True, deterministic=True, exact_search=True, clients=True
    )
    allowed: AllowedMasks | None = None

    def term_scores(
        self, batch: QueryBatch, query: int, mask: NDArray[np.bool_] | None, *, exact: bool
    ) -> Scores:
        """Scores of the rows that share a term with one query and pass the mask.

        Args:
            batch: the queries.
            query: place of the query in the batch.
            mask: rows that pass the query's filter; None for all.
            exact: disregard search parameters that drop terms.
        """
        raise NotImplementedError

    def scored(self, batch: QueryBatch, k: int, *, exact: bool = False) -> Ranked:
        """The best k rows of each query with their scores, by score and then by row.

        Args:
            batch: the queries.
            k: maximum number of rows per query.
            exact: rank exactly, whatever the search parameters are; this is the truth of the leg.
        """
        if self.index is None or self.allowed is None:
            raise self.unbuilt()
        found: list[Scores | None] = [None] * batch.count
        for condition, places in batch.by_filter():
            mask = None if condition is None else self.allowed.of(condition)
            for query in places:
                found[query] = contenders(self.term_scores(batch, query, mask, exact=exact), k)
        answered = [each for each in found if each is not None]
        if not answered:
            return Ranked(np.empty((0, k), np.int64), np.empty((0, k)))
        numbers = np.repeat(np.arange(batch.count), [len(each.rows) for each in answered])
        together = Scores(*(np.concatenate(parts) for parts in zip(*answered, strict=True)))
        return ranked(numbers, together, batch.count, k)

    def nearest(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """The best k rows of each query."""
        return self.scored(batch, k).rows

    def exact_search(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """The exact best k rows of each query."""
        return self.scored(batch, k, exact=True).rows

    def compiled(self, condition: Filter) -> object:
        """Nothing yet: a mask takes any filter whose columns and types are right."""
        if self.allowed is None:
            raise self.unbuilt()
        return condition.mask(self.allowed.corpus.columns.schema.empty_table())

    def work(self) -> str:
        """The number of queries."""
        return f"{counted(self.searched, 'query', 'queries')} answered"

    def close(self) -> None:
        """Release the index and the corpus."""
        super().close()
        self.allowed = None


class AllowedMasks(AllowedRows):
    """One mask of rows per distinct filter, made on first use."""

    def __init__(self, corpus: Corpus) -> None:
        super().__init__(corpus)
        # Keep all of them: another one would fall into a timed search.
        self._made: dict[str, NDArray[np.bool_]] = {}

    def of(self, condition: Filter) -> NDArray[np.bool_]:
        """The mask of one filter."""
        if condition.key not in self._made:
            self._made[condition.key] = self.mask(condition)
        return self._made[condition.key]


def leg_column(
    records: Records, name: str, stage: str, kind: str, fits: Callable[[pa.DataType], bool]
) -> pa.ChunkedArray:
    """All values of the column that a leg ranks by; other columns are refused, with those that fit.

    Args:
        records: the corpus or the queries.
        name: name of the column.
        stage: name of the leg, for messages.
        kind: what the column has to hold, in words.
        fits: whether a type is of that kind.
    """
    schema = records.columns.schema
    fitting = [field.name for field in schema if fits(field.type)]
    if name in fitting:
        return records.columns.read([name], 0, records.rows)[name]
    part, have = ("queries", "have") if isinstance(records, QuerySet) else ("corpus", "has")
    said = f"no column {name!r}" if name not in schema.names else f"{schema.field(name).type} in {name!r}"
    remedy = f"Set column to a {kind} column of the {part}: {choices(fitting)}"
    if not fitting:
        remedy = f"The {part} {have} no {kind} column. Add one, or remove the stage from the path"
    raise UsageError(f"{stage}: the {part} {records.name} {have} {said}. {remedy}")


def array_bytes(*arrays: Any) -> int:
    """Bytes of some arrays."""
    return int(sum(each.nbytes for each in arrays))
