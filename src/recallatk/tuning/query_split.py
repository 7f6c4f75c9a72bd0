"""The query split: one side to choose by, and one held out for validation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from recallatk.analysis.answer_scores import answer_scores
from recallatk.analysis.compared import Compared
from recallatk.datasets.matrix import gather
from recallatk.datasets.opening import make_corpus
from recallatk.datasets.sampling import split_queries, take_queries
from recallatk.errors import UsageError
from recallatk.truths import ground_truth

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.core import Dataset, FilterFacts, QuerySet, Truth, Weights
    from recallatk.goals import Target

# Screening needs no more queries than this, because no verdict rests on a sample.
QUERIES_ON_A_PART = 250


@dataclass(frozen=True, eq=False)
class Side:
    """Some of the queries with their truth; code that holds a side cannot use other queries."""

    name: str
    numbers: NDArray[np.int64]
    """The number of each query among all queries."""
    dataset: Dataset
    """The corpus with only these queries."""
    truth: Truth
    rows: NDArray[np.int64] | None = None
    """For a sample, its rows of the full corpus; None for the full corpus."""
    weights: Weights | None = None
    """How much each query counts; None if all count the same."""
    facts: FilterFacts | None = None
    """What the filters of the queries admit in the full corpus; None without filters."""

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def columns(self) -> pa.Table | None:
        """Columns of the queries; None if there are none."""
        queries = self.dataset.queries
        return queries.metadata if queries.metadata_names else None

    @property
    def scored_weights(self) -> Weights | None:
        """The weights, 0 for queries without an eligible row, which have no recall; None without weights."""
        if self.weights is None:
            return None
        return replace(self.weights, values=np.where(self.truth.rows[:, 0] < 0, 0.0, self.weights.values))

    def asked(self, which: NDArray[np.int64]) -> NDArray[np.int64]:
        """Numbers among all queries; refuses queries of the other side."""
        if len(which) and not 0 <= which.min() <= which.max() < len(self):
            raise IndexError(f"the {self.name} side has {len(self)} queries")
        return self.numbers[which]

    def order(self, seed: int) -> NDArray[np.int64]:
        """Its queries in random order."""
        return np.random.default_rng([seed, len(self)]).permutation(len(self))

    def compared(
        self, which: NDArray[np.int64], rows: NDArray[np.int64], truth: Truth | None = None, *, scores: bool
    ) -> Compared:
        """Answers to some of its queries, compared with its truth or with that of a path."""
        known = np.where(rows < self.dataset.corpus.rows, rows, -1)
        found = None
        if scores:
            whole = np.full((len(self), rows.shape[1]), -1, np.int64)
            whole[which] = known
            found = answer_scores(self.dataset, whole)[which]
        return Compared((self.truth if truth is None else truth).take(which), known, found)


def split_sides(
    dataset: Dataset,
    truth: Truth,
    seed: int,
    weights: Weights | None = None,
    facts: FilterFacts | None = None,
) -> tuple[Side, Side]:
    """The side to choose by, and the validation side with a third of the queries."""
    whole = Side("all", np.arange(dataset.queries.rows), dataset, truth, None, weights, facts)
    tune, validate = split_queries(dataset.queries, seed=seed)
    return _side("tune", tune, whole), _side("validate", validate, whole)


def _side(name: str, queries: QuerySet, whole: Side) -> Side:
    known = whole.dataset.queries.ids
    numbers = pc.index_in(queries.ids, value_set=known).to_numpy().astype(np.int64)
    weights = None if whole.weights is None else whole.weights.take(numbers)
    if weights is not None and not weights.values.any():
        raise UsageError(f"weight: {weights.column!r} is 0 for all {len(numbers)} queries to {name} on")
    facts = None if whole.facts is None else whole.facts.take(numbers)
    dataset = replace(whole.dataset, queries=queries)
    return Side(name, numbers, dataset, whole.truth.take(numbers), None, weights, facts)


def part_of(side: Side, count: int, depth: int, seed: int) -> Side:
    """The side on a sample of the corpus, with at most QUERIES_ON_A_PART of its queries."""
    corpus = side.dataset.corpus
    rows = np.sort(np.random.default_rng([seed, corpus.rows]).permutation(corpus.rows)[:count])
    which = np.sort(side.order(seed)[:QUERIES_ON_A_PART])
    # Filters and the legs and stages of paths read columns.
    metadata = corpus.metadata.take(rows) if corpus.metadata_names else None
    # Relevance judgments and functions of paths name ids.
    ids = corpus.ids.take(rows).to_pylist()
    part = replace(
        side.dataset,
        corpus=make_corpus(gather(corpus.vectors, rows).array, ids, metadata),
        queries=take_queries(side.dataset.queries, which),
    )
    truth = ground_truth(part, depth=depth)
    weights = None if side.weights is None else side.weights.take(which)
    facts = None if side.facts is None else side.facts.take(which)
    return Side(f"part {count}", side.numbers[which], part, truth, rows, weights, facts)


def require_enough(targets: Sequence[Target], *sides: Side) -> None:
    """Refuse a target whose segment has no queries on a side."""
    for side in sides:
        for target in targets:
            if not target.members(side.columns, len(side), side.facts).any():
                raise UsageError(
                    f"{target.text}: none of the {len(side)} queries to {side.name} on is in this segment"
                )
