"""A truth file of any format: what this tool wrote, or what came with somebody else's benchmark."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from recallatk.datasets import read_truth
from recallatk.truth import is_truth_file, load_truth

if TYPE_CHECKING:
    from recallatk.core import Corpus, Metric, Truth
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
            corpus: what the neighbors of other formats are looked up in; a lone neighbors file needs it.
            metric: what the distances of other formats mean, where their file does not say.
        """
        return self._own or read_truth(self.path, corpus=corpus, metric=metric)
