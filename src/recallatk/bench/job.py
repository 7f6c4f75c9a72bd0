"""What the measuring process is asked and what it answers, as plain files in a scratch folder."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import blocks

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from recallatk.core import Dataset, Vectors

_JOB, _RESULT = "job.json", "result.json"


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
