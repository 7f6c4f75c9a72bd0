"""The data that ships with the package: real embeddings of WordNet definitions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import Metric, Vectors
from recallatk.datasets.opening import open_dataset

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Dataset

DEMO_FOLDER = Path(__file__).parent / "demo_data"
DEMO_NAME = "wordnet-demo"


@dataclass(frozen=True, eq=False)
class UnitVectors:
    """Quantized vectors decoded to float32 unit vectors."""

    codes: Vectors

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and dimension."""
        return self.codes.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The decoded type."""
        return np.dtype(np.float32)

    def read(self, start: int, stop: int) -> NDArray[np.float32]:
        """Some rows, decoded; the same codes give the same numbers to the last bit."""
        wide = self.codes.read(start, stop).astype(np.float64)
        unit: NDArray[np.float64] = wide / np.sqrt(np.square(wide).sum(axis=1, keepdims=True))
        return unit.astype(np.float32)


def is_demo(path: str) -> bool:
    """Whether a path is that of the bundled data, which are stored as codes."""
    return Path(path).absolute() == DEMO_FOLDER


def open_demo() -> Dataset:
    """20,000 WordNet definitions as the corpus and 1,000 usage examples as queries, under cosine."""
    stored = open_dataset(DEMO_FOLDER, metric=Metric.COSINE)
    return replace(
        stored,
        name=DEMO_NAME,
        corpus=replace(stored.corpus, vectors=UnitVectors(stored.corpus.vectors)),
        queries=replace(stored.queries, vectors=UnitVectors(stored.queries.vectors)),
    )
