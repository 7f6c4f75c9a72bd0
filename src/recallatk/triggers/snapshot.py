"""Snapshots: the queries, the corpus or both that a query log, a file, a data set or a run holds."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.bench.recorded_benchmark import RecordedBenchmark
from recallatk.core import Corpus, Dataset, Metric, QuerySet, Run
from recallatk.core.drifted import SnapshotSize
from recallatk.datasets import open_corpus, open_queries
from recallatk.datasets.matrix import gather
from recallatk.datasets.registry import open_source
from recallatk.datasets.source import CORPUS, QUERIES, ROWS
from recallatk.errors import MismatchError, UsageError
from recallatk.redaction import without_secrets
from recallatk.storage import load_run

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Records

FEWEST = 50
"""Fewer vectors show too little of their distribution."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Queries, a corpus, or both, at one time."""

    name: str
    queries: QuerySet | None = None
    corpus: Corpus | None = None
    metric: Metric | None = None
    run: Run | None = None
    """The run, whose data these are."""
    folder: Path | None = None
    """Its folder."""

    @property
    def parts(self) -> dict[str, Records]:
        """What it holds, by name."""
        found = {QUERIES: self.queries, CORPUS: self.corpus}
        return {name: part for name, part in found.items() if part is not None}

    @property
    def size(self) -> SnapshotSize:
        """How much it holds."""
        some = next(iter(self.parts.values()))
        return SnapshotSize(
            self.name,
            None if self.queries is None else self.queries.rows,
            None if self.corpus is None else self.corpus.rows,
            some.dimension,
        )


def open_snapshot(what: Any, *, corpora: bool = False) -> Snapshot:
    """Open one side of a comparison over time.

    Args:
        what: a query log, a file or folder of vectors, a data set, a run or its folder, or data in memory.
        corpora: a file with one matrix is a corpus; by default it is taken as queries.
    """
    if isinstance(what, Snapshot):
        return what
    if isinstance(what, Run):
        return _of_run(what, what.dataset, None)
    if isinstance(what, Dataset):
        return _usable(Snapshot(what.name or "data set", what.queries, what.corpus, what.metric))
    if isinstance(what, QuerySet):
        return _usable(Snapshot(what.name, what))
    if isinstance(what, Corpus):
        return _usable(Snapshot(what.name, corpus=what))
    if isinstance(what, str | os.PathLike):
        folder = _run_folder(Path(what))
        if folder is not None:
            return _of_run(load_run(folder), without_secrets(os.fspath(what)), folder)
    source = open_source(what, name=CORPUS if corpora else QUERIES)
    parts = {CORPUS if corpora else QUERIES} if ROWS in source.parts else set(source.parts)
    queries = open_queries(what) if QUERIES in parts else None
    corpus = open_corpus(what) if CORPUS in parts else None
    return _usable(Snapshot(without_secrets(source.text), queries, corpus, source.metric))


def rows_of(records: Records, rows: NDArray[np.int64]) -> NDArray[Any]:
    """Some vectors of a part."""
    return np.asarray(gather(records.vectors, rows).array)


def _run_folder(path: Path) -> Path | None:
    folder = path.parent if path.name == "run.json" and path.is_file() else path
    return folder if (folder / "run.json").is_file() else None


def _of_run(run: Run, name: str, folder: Path | None) -> Snapshot:
    data = RecordedBenchmark(run, folder)
    if data.dataset is None:
        raise MismatchError(
            f"{name}: the data of this run cannot be opened ({data.no_dataset}). Compare its files themselves"
        )
    found = data.dataset
    return _usable(Snapshot(name, found.queries, found.corpus, found.metric, run, folder))


def _usable(snapshot: Snapshot) -> Snapshot:
    for name, part in snapshot.parts.items():
        if part.rows < FEWEST:
            what = "rows" if name == CORPUS else "queries"
            raise UsageError(
                f"{snapshot.name}: {part.rows:,} {what} are too few to compare. Accepted: {FEWEST} or more"
            )
    return snapshot
