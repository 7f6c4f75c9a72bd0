"""Ground truth that exists already: in a file of any format, or in a store."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from recallatk.api import load_truth
from recallatk.fingerprint import fingerprints
from recallatk.truths import is_truth_file
from recallatk.truths.results import with_columns
from recallatk.truths.store import Identity, Store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from recallatk.core import Corpus, Dataset, Metric, Truth
    from recallatk.files import PathLike


class TruthFile:
    """A file with the ground truth, in any of the accepted formats.

    Args:
        path: a truth file of this tool, ann-benchmarks HDF5, ivecs, ibin, npy, a VectorDBBench folder or one
            of its neighbors files.
    """

    def __init__(self, path: PathLike) -> None:
        self.path = path

    @cached_property
    def _own(self) -> Truth | None:
        return load_truth(self.path) if is_truth_file(self.path) else None

    @property
    def metric(self) -> Metric | None:
        """The metric that a truth file of this tool states; None for other formats."""
        return None if self._own is None else self._own.metric

    def read(self, corpus: Corpus | None = None, metric: Metric | str | None = None) -> Truth:
        """The truth.

        Args:
            corpus: resolves the ids of other formats; a lone neighbors file requires it.
            metric: the metric of the distances, for formats that do not state it.
        """
        return self._own or load_truth(self.path, corpus=corpus, metric=metric)


def stored_truths(folder: PathLike | None, dataset: Dataset, depths: Iterable[int]) -> Iterator[Truth]:
    """Stored truths of a dataset at these depths, in the order of the depths.

    Args:
        folder: the store; by default the one in the user's cache directory.
        dataset: the data.
        depths: the depths to look for.
    """
    store = Store(folder)
    prints = fingerprints(dataset)
    for depth in dict.fromkeys(depths):
        found = store.find(Identity(prints, dataset.metric, depth, dataset.corpus.sampled_from))
        if found is not None:
            yield with_columns(found, dataset)
