"""What the measuring process is asked and what it answers, as plain files in a scratch folder."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import feather

from recallatk.core import blocks
from recallatk.datasets.opening import make_corpus

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from recallatk.core import Corpus, Dataset, Vectors

_JOB, _RESULT, _COLUMNS = "job.json", "result.json", "corpus.arrow"
_ID, _BESIDE = "id", "beside."


@dataclass(frozen=True)
class Job:
    """One build and the searches on it."""

    engine: str
    metric: str
    build: dict[str, Any]
    searches: list[dict[str, Any]]
    k: int
    rounds: int
    seed: int
    build_threads: int
    search_threads: int
    filters: list[dict[str, Any] | None] | None = None
    """What each query may return, in the JSON form of filters."""
    needs_ids: bool = False
    """Whether the engine answers with the user's ids."""


@dataclass(frozen=True)
class Result:
    """What the build cost and what showed that the index answered each search."""

    build_seconds: float
    memory_bytes: int
    size_bytes: int | None
    version: str | None
    exercised: list[str]


def write_job(folder: Path, job: Job, dataset: Dataset) -> None:
    """Lay out the job: its parameters, and the vectors as arrays that can be mapped."""
    (folder / _JOB).write_text(json.dumps(asdict(job)))
    _write_vectors(folder / "corpus.npy", dataset.corpus.vectors)
    _write_vectors(folder / "queries.npy", dataset.queries.vectors)
    _write_columns(folder / _COLUMNS, job, dataset)


def _write_columns(path: Path, job: Job, dataset: Dataset) -> None:
    """The ids, which attached engines answer with, and the metadata that filters ask for."""
    corpus = dataset.corpus
    columns = {_ID: corpus.ids} if job.needs_ids and corpus.id_column is not None else {}
    filters = [each for each in dataset.queries.filters or () if each is not None]
    names = sorted(frozenset[str]().union(*(each.columns() for each in filters)))
    if names:
        beside = corpus.columns.read(names, 0, corpus.rows)
        columns |= {f"{_BESIDE}{name}": beside[name] for name in names}
    if columns:
        feather.write_feather(pa.table(columns), path, compression="uncompressed")


def read_corpus(folder: Path) -> Corpus:
    """The corpus of a folder, its vectors mapped."""
    vectors = read_vectors(folder, "corpus")
    if not (folder / _COLUMNS).exists():
        return make_corpus(vectors)
    table = feather.read_table(folder / _COLUMNS)
    names = [name for name in table.column_names if name.startswith(_BESIDE)]
    metadata = table.select(names).rename_columns([name.removeprefix(_BESIDE) for name in names])
    ids = table[_ID].to_pylist() if _ID in table.column_names else None
    return make_corpus(vectors, ids, metadata if names else None)


def _write_vectors(path: Path, vectors: Vectors) -> None:
    target = np.lib.format.open_memmap(path, "w+", vectors.dtype, vectors.shape)
    for start, block in blocks(vectors):
        target[start : start + len(block)] = block
    target.flush()


def read_job(folder: Path) -> Job:
    """The job of a folder."""
    return Job(**json.loads((folder / _JOB).read_text()))


def read_vectors(folder: Path, name: str) -> NDArray[Any]:
    """The corpus or the queries of a folder, mapped."""
    array: NDArray[Any] = np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
    return array


def write_result(
    folder: Path,
    result: Result,
    answers: NDArray[np.int64],
    latencies: NDArray[np.int64],
) -> None:
    """Write what was measured: the raw numbers first, the summary last."""
    np.save(folder / "answers.npy", answers, allow_pickle=False)
    np.save(folder / "latencies.npy", latencies, allow_pickle=False)
    (folder / _RESULT).write_text(json.dumps(asdict(result)))


def read_result(folder: Path) -> tuple[Result, NDArray[np.int64], NDArray[np.int64]]:
    """The summary, the answers by search and query, and the latencies by search, round and query."""
    result = Result(**json.loads((folder / _RESULT).read_text()))
    answers, latencies = (
        np.load(folder / f"{name}.npy", allow_pickle=False) for name in ("answers", "latencies")
    )
    return result, answers, latencies
