"""Fixtures of the contract: small data, engines built on it, scores of answers, and known gaps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

from recallatk.adapters.base import Engine, require_constraints, resolved, resolved_search
from recallatk.adapters.batch import QueryBatch
from recallatk.adapters.installation import require_installed
from recallatk.adapters.registry import get_engine
from recallatk.core import Dataset, Metric
from recallatk.datasets.opening import make_corpus
from recallatk.errors import UsageError
from recallatk.testing.tiny import tiny_dataset
from recallatk.truths import ground_truth

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from recallatk.filters import Filter

ROWS, QUERIES, DIMENSION, K = 300, 24, 16, 10
# Every kind of condition on every type of column that `typed` makes.
TYPED_FILTERS = (
    "whole = 7",
    "whole in (1, 2, 3)",
    "not (whole < 30)",
    "whole is null",
    "real between 1.5 and 20.25",
    "real > 70 or whole = 3",
    "word = 'w3'",
    "not (word in ('w1', 'w2'))",
    "word is not null and whole < 50",
    "word >= 'w5'",
    "flag = true",
    "not flag",
    "day >= '1970-03-01'",
    "not (day in ('1970-01-11', '1970-01-12'))",
    "moment between '1970-01-01T00:00:20Z' and '1970-01-01T01:00:50.5+01:00'",
    "moment is null",
    "word starts with 'w4'",
    "not (word like 'w%') or whole = 5",
    "tags contains 't1'",
    "not (tags contains any ('t0', 't2'))",
    "tags contains all ('t1', 'even')",
    "tags is not null",
    "numbers contains any (3, 200)",
)


class Kind(StrEnum):
    """The party who could close a gap."""

    OURS = "ours to do"
    UPSTREAM = "upstream"
    NEVER = "never"


@dataclass(frozen=True)
class Gap:
    """A known failure: one test, and the reason."""

    kind: Kind
    reason: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.reason}"


class ContractGround:
    """The engine under test, its parameters, and the fixtures that build it."""

    engine: ClassVar[str | type[Engine]]
    build: ClassVar[Mapping[str, Any]] = {}
    """Build parameters for indexes of some hundred rows."""
    full_effort: ClassVar[Mapping[str, Any]] = {}
    """Search parameters for (nearly) full recall; other effort knobs take their maximum."""
    gaps: ClassVar[Mapping[str, Gap]] = {}
    """Known failures by the name of the test."""

    @pytest.fixture(autouse=True)
    def _expect_gaps(self, request: Any) -> None:
        gap = self.gaps.get(request.node.originalname or request.node.name)
        if gap is not None:
            request.node.add_marker(pytest.mark.xfail(strict=True, reason=str(gap)))

    @pytest.fixture
    def making(self) -> Iterator[Any]:
        """Build engines, and close all of them at the end."""
        made: list[Engine] = []

        def make(dataset: Dataset, build: Mapping[str, Any] | None = None, **search: Any) -> Engine:
            engine = self.kind()()
            made.append(engine)
            rebuild(engine, dataset, {**self.build, **(build or {})}, search)
            return engine

        yield make
        for engine in made:
            engine.close()

    def kind(self) -> type[Engine]:
        """The class under test."""
        found = get_engine(self.engine) if isinstance(self.engine, str) else self.engine
        require_installed(found)
        return found

    def data(self, **options: Any) -> Dataset:
        """A small dataset with a metric that the engine supports."""
        known = self.kind().metrics
        metric = Metric.L2 if Metric.L2 in known else min(known)
        return data(**{"metric": metric, **options})

    def most(self, dataset: Dataset) -> dict[str, Any]:
        """Search parameters with the highest effort that the constraints allow for these data."""
        kind = self.kind()
        built = resolved(kind.name, kind.build_knobs, self.build)
        effort = {knob.name: knob.high for knob in kind.search_knobs if knob.effort}
        for name in list(effort):
            while effort[name] > 1 and not fits(kind, dataset, {**built, name: effort[name]}):
                effort[name] = effort[name] // 2 if isinstance(effort[name], int) else effort[name] / 2
        return {**effort, **self.full_effort}


def data(**options: Any) -> Dataset:
    """A small dataset with clusters, string ids and metadata."""
    rows = options.pop("rows", ROWS)
    return tiny_dataset(rows, QUERIES, DIMENSION, metric=options.pop("metric", Metric.L2), **options)


def typed(dataset: Dataset) -> Dataset:
    """The dataset with metadata of every type that filters know, and nulls in each column."""

    def column(period: int, value: Callable[[int], Any], kind: pa.DataType) -> pa.Array:
        return pa.array([None if row % period == 1 else value(row) for row in range(ROWS)], kind)

    metadata = {
        "whole": column(7, lambda row: row % 97, pa.int32()),
        "real": column(11, lambda row: row / 4, pa.float32()),
        "word": column(13, lambda row: f"w{row % 9}", pa.string()),
        "flag": column(5, lambda row: row % 3 == 0, pa.bool_()),
        "day": column(17, lambda row: row, pa.date32()),
        "moment": column(19, lambda row: row * 10**9, pa.timestamp("ns", "UTC")),
        "tags": column(8, lambda row: [f"t{row % 4}", None, "even"][: 3 - row % 2], pa.list_(pa.string())),
        "numbers": column(9, lambda row: list(range(row % 7)), pa.list_(pa.int32())),
    }
    corpus = make_corpus(dataset.corpus.vectors.read(0, ROWS), dataset.corpus.ids.to_pylist(), metadata)
    return replace(dataset, corpus=corpus)


def vectors_of(dataset: Dataset) -> NDArray[Any]:
    """The queries."""
    return np.array(dataset.queries.vectors.read(0, dataset.queries.rows))


def batch_of(dataset: Dataset, filters: Sequence[Filter | None] | None = None) -> QueryBatch:
    """The queries in one batch."""
    return QueryBatch(vectors_of(dataset), filters)


def rebuild(engine: Engine, dataset: Dataset, build: Mapping[str, Any], search: Mapping[str, Any]) -> None:
    """Build and configure as recallatk does."""
    engine.build(dataset.corpus, dataset.metric, **resolved(engine.name, engine.build_knobs, build))
    configure(engine, search)


def configure(engine: Engine, search: Mapping[str, Any]) -> None:
    """Set search parameters; others take their defaults."""
    engine.configure(**resolved_search(type(engine), search))


def recall(found: NDArray[np.int64], dataset: Dataset) -> float:
    """recall@10, or recall at the number of rows if there are fewer."""
    from recallatk.analysis import score

    truth = ground_truth(dataset, depth=K)
    value = score(truth, found, [K], row_numbers=True)[f"recall@{K}"]
    return 0.0 if value is None else value


def agreement(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    """The share of rows that two answers have in common."""
    both = [len(set(one) & set(other)) for one, other in zip(first.tolist(), second.tolist(), strict=True)]
    return float(np.mean(both) / first.shape[1])


def fits(kind: type[Engine], dataset: Dataset, parameters: Mapping[str, Any]) -> bool:
    """Whether the constraints allow these parameters for these data."""
    sizes = {"k": K, "rows": dataset.corpus.rows, "dimension": dataset.corpus.dimension}
    try:
        require_constraints(kind, **sizes, **parameters)
    except UsageError:
        return False
    return True
