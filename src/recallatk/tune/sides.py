"""The two sides of the queries: one to choose by, one that is not seen until something was chosen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.answer_scores import answer_scores
from recallatk.analysis.compared import Compared
from recallatk.datasets.opening import make_corpus
from recallatk.datasets.sampling import split_queries
from recallatk.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.core import Dataset, QuerySet, Truth
    from recallatk.goals import Target

# A filter needs to see no more than this; a verdict is never taken on a part.
QUERIES_ON_A_PART = 250


@dataclass(frozen=True, eq=False)
class Side:
    """Some of the queries with their truth: whoever holds one can ask no others."""

    name: str
    numbers: NDArray[np.int64]
    """Which of all queries each is."""
    dataset: Dataset
    """The corpus, and these queries only."""
    truth: Truth
    rows: NDArray[np.int64] | None = None
    """Set where the corpus is a part: the rows of the whole."""

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def columns(self) -> pa.Table | None:
        """What stands beside the queries."""
        queries = self.dataset.queries
        return queries.metadata if queries.metadata_names else None

    def asked(self, which: NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers that an index is asked by; one that is not of this side is refused."""
        if len(which) and not 0 <= which.min() <= which.max() < len(self):
            raise IndexError(f"the {self.name} side has {len(self)} queries")
        return self.numbers[which]

    def order(self, seed: int) -> NDArray[np.int64]:
        """All its queries in an order drawn from the seed."""
        return np.random.default_rng([seed, len(self)]).permutation(len(self))

    def compared(self, which: NDArray[np.int64], rows: NDArray[np.int64], *, scores: bool) -> Compared:
        """Answers of some of its queries against their truth."""
        known = np.where(rows < self.dataset.corpus.rows, rows, -1)
        found = None
        if scores:
            whole = np.full((len(self), rows.shape[1]), -1, np.int64)
            whole[which] = known
            found = answer_scores(self.dataset, whole)[which]
        return Compared(self.truth.take(which), known, found)


def split_sides(dataset: Dataset, truth: Truth, seed: int) -> tuple[Side, Side]:
    """The side to choose by, and the side to validate on, which has a third of the queries."""
    tune, validate = split_queries(dataset.queries, seed=seed)
    return _side("tune", tune, dataset, truth), _side("validate", validate, dataset, truth)


def _side(name: str, queries: QuerySet, dataset: Dataset, truth: Truth) -> Side:
    import pyarrow.compute as pc

    numbers = pc.index_in(queries.ids, value_set=dataset.queries.ids).to_numpy().astype(np.int64)
    return Side(name, numbers, replace(dataset, queries=queries), truth.take(numbers))


def part_of(side: Side, count: int, depth: int, seed: int) -> Side:
    """The same side, or the first of its queries in random order, over a sample of the corpus."""
    from recallatk.datasets.matrix import gather
    from recallatk.datasets.sampling import take_queries
    from recallatk.truth import ground_truth

    corpus = side.dataset.corpus
    rows = np.sort(np.random.default_rng([seed, corpus.rows]).permutation(corpus.rows)[:count])
    which = np.sort(side.order(seed)[:QUERIES_ON_A_PART])
    metadata = None if side.dataset.queries.filters is None else corpus.metadata.take(rows)
    # Judgements go by the user's ids.
    ids = None if side.dataset.qrels is None else corpus.ids.take(rows).to_pylist()
    part = replace(
        side.dataset,
        corpus=make_corpus(gather(corpus.vectors, rows).array, ids, metadata),
        queries=take_queries(side.dataset.queries, which),
    )
    return Side(f"part {count}", side.numbers[which], part, ground_truth(part, depth=min(depth, count)), rows)


def require_enough(targets: Sequence[Target], side: Side) -> None:
    """Refuse a target that speaks of none of the queries of a side."""
    for target in targets:
        if not target.members(side.columns, len(side)).any():
            raise UsageError(f"{target.text}: none of the {len(side)} queries to {side.name} on is of it")
