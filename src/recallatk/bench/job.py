"""What a measuring process is asked, as plain files in a scratch folder."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import feather

from recallatk.core import Load, blocks
from recallatk.datasets.opening import make_corpus
from recallatk.engines import get_engine, registered
from recallatk.filters import filter_from_json
from recallatk.filters.eligibility import distinct_filters
from recallatk.references import remember_references, remember_variables
from recallatk.scratch import scratch_writing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from recallatk.core import Corpus, Dataset, Vectors
    from recallatk.filters import Filter

_JOB, _COLUMNS, _FILTERS = "job.json", "corpus.arrow", "filters.json"
_ID, _BESIDE = "id", "beside."


@dataclass(frozen=True)
class Task:
    """One trial of a job."""

    number: int
    """Its place among all trials of the run."""
    search: dict[str, Any]
    load: Load


@dataclass(frozen=True)
class Job:
    """One build and the trials on it."""

    engine: str
    metric: str
    build: dict[str, Any]
    tasks: tuple[Task, ...]
    k: int
    rounds: int
    seed: int
    build_threads: int
    search_threads: int
    repeat: int = 0
    """Which of several builds; each but the first inserts the rows in another order."""


def write_job(folder: Path, job: Job) -> None:
    """Lay out what one process is to do."""
    remember_secrets(job.engine, job.build, *(task.search for task in job.tasks))
    _write_text(folder / _JOB, json.dumps(asdict(job)))


def read_job(folder: Path) -> Job:
    """The job of a folder."""
    plain = json.loads((folder / _JOB).read_text())
    tasks = [Task(each["number"], each["search"], Load(**each["load"])) for each in plain.pop("tasks")]
    job = Job(**plain, tasks=tuple(tasks))
    remember_secrets(job.engine, job.build, *(task.search for task in tasks))
    return job


def remember_secrets(engine: str, *parameters: Mapping[str, Any]) -> None:
    """Remove the secrets that an engine is given or reads itself from what is written or shown.

    Called in the measuring process, which words its errors, and in its parent, which writes everything else.
    """
    if engine in registered():
        remember_variables(get_engine(engine).secret_variables)
    for each in parameters:
        remember_references(each)


def write_data(folder: Path, dataset: Dataset, *, needs_ids: bool) -> None:
    """Lay out what every job of a run reads: the vectors as arrays that can be mapped, and what filters ask.

    Args:
        folder: where to write.
        dataset: the data.
        needs_ids: whether some engine answers with the user's ids.
    """
    _write_vectors(folder / "corpus.npy", dataset.corpus.vectors)
    _write_vectors(folder / "queries.npy", dataset.queries.vectors)
    _write_columns(folder / _COLUMNS, dataset, needs_ids=needs_ids)
    filters = dataset.queries.filters
    if filters is not None:
        distinct = distinct_filters(filters)
        plain = [None if each is None else each.to_json() for each in distinct.filters]
        _write_text(folder / _FILTERS, json.dumps([plain, distinct.numbers.tolist()]))


def _write_text(path: Path, text: str) -> None:
    with scratch_writing(path):
        path.write_text(text)


def _write_columns(path: Path, dataset: Dataset, *, needs_ids: bool) -> None:
    """The ids, which attached engines answer with, and the metadata that filters ask for."""
    corpus = dataset.corpus
    columns = {_ID: corpus.ids} if needs_ids and corpus.id_column is not None else {}
    names = sorted(distinct_filters(dataset.queries.filters or ()).columns())
    if names:
        beside = corpus.columns.read(names, 0, corpus.rows)
        columns |= {f"{_BESIDE}{name}": beside[name] for name in names}
    if columns:
        with scratch_writing(path):
            feather.write_feather(pa.table(columns), path, compression="uncompressed")


def _write_vectors(path: Path, vectors: Vectors) -> None:
    header = {"descr": np.lib.format.dtype_to_descr(vectors.dtype), "fortran_order": False}
    # Written block by block: into a mapped file, a lack of space would be a SIGBUS.
    with scratch_writing(path), path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header | {"shape": vectors.shape})
        for _, block in blocks(vectors):
            file.write(np.ascontiguousarray(block, vectors.dtype).data)


def read_corpus(folder: Path, order: NDArray[np.int64] | None = None) -> Corpus:
    """The corpus of a folder, its vectors mapped, or gathered where the rows come in another order."""
    vectors = read_vectors(folder, "corpus")
    vectors = vectors if order is None else vectors[order]
    if not (folder / _COLUMNS).exists():
        return make_corpus(vectors)
    table = feather.read_table(folder / _COLUMNS)
    table = table if order is None else table.take(order)
    names = [name for name in table.column_names if name.startswith(_BESIDE)]
    metadata = table.select(names).rename_columns([name.removeprefix(_BESIDE) for name in names])
    ids = table[_ID].to_pylist() if _ID in table.column_names else None
    return make_corpus(vectors, ids, metadata if names else None)


def read_vectors(folder: Path, name: str) -> NDArray[Any]:
    """The corpus or the queries of a folder, mapped."""
    array: NDArray[Any] = np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
    return array


def read_filters(folder: Path) -> list[Filter | None] | None:
    """What each query may return; None where there are no filters."""
    if not (folder / _FILTERS).exists():
        return None
    plain, numbers = json.loads((folder / _FILTERS).read_text())
    distinct = [None if each is None else filter_from_json(each) for each in plain]
    return [distinct[number] for number in numbers]


def insertion_order(job: Job, rows: int) -> NDArray[np.int64] | None:
    """In which order the rows are inserted; None for their own, as the first build has it."""
    return None if job.repeat == 0 else np.random.default_rng([job.seed, job.repeat]).permutation(rows)
