"""What the contract asks of engines, and how it judges their answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import Dataset, Metric
from recallatk.engines.base import Engine, require_constraints, resolved
from recallatk.errors import UsageError
from recallatk.testing.tiny import tiny_dataset
from recallatk.truth import ground_truth

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

ROWS, QUERIES, DIMENSION, K = 300, 24, 16, 10


def data(**options: Any) -> Dataset:
    """A small dataset with clusters, string ids and metadata."""
    rows = options.pop("rows", ROWS)
    return tiny_dataset(rows, QUERIES, DIMENSION, metric=options.pop("metric", Metric.L2), **options)


def vectors_of(dataset: Dataset) -> NDArray[Any]:
    """The queries."""
    return np.array(dataset.queries.vectors.read(0, dataset.queries.rows))


def rebuild(engine: Engine, dataset: Dataset, build: Mapping[str, Any], search: Mapping[str, Any]) -> None:
    """Build and configure as the tool does."""
    engine.build(dataset.corpus, dataset.metric, **resolved(engine.name, engine.build_knobs, build))
    configure(engine, search)


def configure(engine: Engine, search: Mapping[str, Any]) -> None:
    """Set search parameters, the others at their defaults."""
    engine.configure(**resolved(engine.name, engine.search_knobs, search))


def recall(found: NDArray[np.int64], dataset: Dataset) -> float:
    """recall@10, or of as many rows as there are."""
    from recallatk.analysis import score

    truth = ground_truth(dataset, depth=K)
    value = score(found, truth, [K], row_numbers=True)[f"recall@{K}"]
    return 0.0 if value is None else value


def agreement(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    """The share of rows that two answers have in common."""
    both = [len(set(one) & set(other)) for one, other in zip(first.tolist(), second.tolist(), strict=True)]
    return float(np.mean(both) / first.shape[1])


def fits(kind: type[Engine], dataset: Dataset, parameters: Mapping[str, Any]) -> bool:
    """Whether these parameters may be together on this data."""
    sizes = {"k": K, "rows": dataset.corpus.rows, "dimension": dataset.corpus.dimension}
    try:
        require_constraints(kind, **sizes, **parameters)
    except UsageError:
        return False
    return True
