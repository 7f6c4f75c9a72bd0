"""The job of a worker: settings, trials and data as plain files in a folder."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import feather

from recallatk.adapters import get_engine, registered
from recallatk.analysis.measures import parse_measure
from recallatk.bench.environment import usable_cores
from recallatk.bench.process_usage import Limits
from recallatk.core import Load, blocks
from recallatk.datasets.opening import make_corpus
from recallatk.filters import filter_from_json
from recallatk.filters.eligibility import distinct_filters
from recallatk.pipeline.lexical import query_texts
from recallatk.references import remember_references, remember_variables
from recallatk.scratch import scratch_writing
from recallatk.storage.checksums import column_checksum

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from recallatk.adapters import Engine
    from recallatk.core import Corpus, Dataset, Vectors
    from recallatk.filters import Filter

_JOB, _COLUMNS, _FILTERS, _TEXTS = "job.json", "corpus.arrow", "filters.json", "texts.json"
_ID, _METADATA = "id", "metadata."


@dataclass(frozen=True)
class TrialSettings:
    """Settings shared by all builds and trials of a run."""

    at: tuple[int, ...] = (1, 10, 100)
    """The values of k to score."""
    measures: tuple[str, ...] = ()
    rounds: int = 5
    seed: int = 0
    build_threads: int | None = None
    """None: one per core."""
    search_threads: int = 1
    affinity: tuple[int, ...] | None = None
    """Cores to pin to; None: all."""
    limits: Limits = field(default_factory=Limits)
    explain: bool = False
    """Whether to collect evidence on missed neighbors after the trials of a build."""
    weight: str | None = None
    """Query column that means are weighted by; None: all queries count the same."""

    @property
    def k(self) -> int:
        """Number of neighbors that every call requests."""
        return max((*self.at, *(parse_measure(each).k for each in self.measures), 1))

    @property
    def threads_to_build(self) -> int:
        """Number of threads that a build may use."""
        return self.build_threads or usable_cores()


@dataclass(frozen=True)
class Task:
    """One trial of a job."""

    number: int
    """Its position among all trials of the run."""
    search: dict[str, Any]
    load: Load


@dataclass(frozen=True)
class Job:
    """One engine, its trial settings, and the trials to measure on each build."""

    engine: str
    metric: str
    k: int
    settings: TrialSettings = field(default_factory=TrialSettings)
    tasks: tuple[Task, ...] = ()
    declaration: Mapping[str, Any] | None = None
    """The path that the engine is; None for a registered engine."""

    def by_load(self) -> list[list[int]]:
        """The numbers of the tasks, one list per load."""
        loads = dict.fromkeys(task.load for task in self.tasks)
        return [[task.number for task in self.tasks if task.load == load] for load in loads]


def write_job(folder: Path, job: Job) -> None:
    """Write the job for the worker of a folder."""
    # Resolve the thread count here: a pinned worker sees fewer cores.
    settled = replace(job.settings, build_threads=job.settings.threads_to_build)
    _write_text(folder / _JOB, json.dumps(asdict(replace(job, settings=settled))))


def read_job(folder: Path) -> Job:
    """The job of a folder."""
    plain = json.loads((folder / _JOB).read_text())
    tasks = [Task(each["number"], each["search"], Load(**each["load"])) for each in plain.pop("tasks")]
    settings = plain.pop("settings")
    limits = Limits(**settings.pop("limits"))
    return Job(**plain, settings=TrialSettings(**settings, limits=limits), tasks=tuple(tasks))


def queries_file(folder: Path, number: int) -> Path:
    """File with the numbers of the queries to send."""
    return folder / f"queries-{number}.npy"


def result_file(folder: Path, number: int) -> Path:
    """File with the result of a trial or a request."""
    return folder / f"result-{number}.npz"


def remember_secrets(engine: str, *parameters: Mapping[str, Any]) -> None:
    """Register the engine's secrets for redaction: those in its parameters and those it reads itself.

    Called in the worker, which formats errors, and in its parent, which writes all files.
    """
    if engine in registered():
        remember_variables(get_engine(engine).secret_variables)
    for each in parameters:
        remember_references(each)


def insertion_order(seed: int, repeat: int, rows: int) -> NDArray[np.int64] | None:
    """Order in which a repeated build inserts the rows; None for the first build, which keeps their own."""
    return None if repeat == 0 else np.random.default_rng([seed, repeat]).permutation(rows)


def write_data(folder: Path, dataset: Dataset, engines: Iterable[type[Engine]] = ()) -> None:
    """Write the data that all workers of a run share: vectors as arrays to map, and columns.

    Args:
        folder: the destination.
        dataset: the data.
        engines: the engines that will read them.
    """
    kinds = list(engines)
    _write_vectors(folder / "corpus.npy", dataset.corpus.vectors)
    _write_vectors(folder / "queries.npy", dataset.queries.vectors)
    _write_columns(folder / _COLUMNS, dataset, kinds)
    if any(each.inputs.texts for each in kinds):
        _write_text(folder / _TEXTS, json.dumps(query_texts(dataset.queries)))
    for each in dict.fromkeys(kind.inputs.sparse for kind in kinds):
        if each is not None:
            _write_text(_sparse_file(folder, each), json.dumps(query_sparse(dataset, each)))
    filters = dataset.queries.filters
    if filters is not None:
        distinct = distinct_filters(filters)
        plain = [None if each is None else each.to_json() for each in distinct.filters]
        _write_text(folder / _FILTERS, json.dumps([plain, distinct.numbers.tolist()]))


def _write_text(path: Path, text: str) -> None:
    with scratch_writing(path):
        path.write_text(text)


def _write_columns(path: Path, dataset: Dataset, engines: list[type[Engine]]) -> None:
    """Write the ids and columns that engines read, and the metadata that filters need."""
    corpus = dataset.corpus
    needs_ids = any(each.abilities.attaches or each.inputs.ids for each in engines)
    # A function is told ids that stay the same when a repeated build inserts the rows in another order.
    named = corpus.id_column is not None or any(each.inputs.functions for each in engines)
    columns = {_ID: corpus.ids} if needs_ids and named else {}
    there = set(corpus.columns.schema.names)
    read = {name for each in engines for name in (*each.inputs.columns, *each.inputs.optional)}
    names = sorted(distinct_filters(dataset.queries.filters or ()).columns() | (read & there))
    if names:
        metadata = corpus.columns.read(names, 0, corpus.rows)
        columns |= {f"{_METADATA}{name}": metadata[name] for name in names}
    for file in dict.fromkeys(file for each in engines for file in each.inputs.sparse_files):
        columns[f"{_METADATA}{file}"] = _sparse_rows(corpus, file)
    if columns:
        with scratch_writing(path):
            feather.write_feather(pa.table(columns), path, compression="uncompressed")


def _write_vectors(path: Path, vectors: Vectors) -> None:
    header = {"descr": np.lib.format.dtype_to_descr(vectors.dtype), "fortran_order": False}
    # Written block by block: on a full disk, a mapped file would raise SIGBUS.
    with scratch_writing(path), path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header | {"shape": vectors.shape})
        for _, block in blocks(vectors):
            file.write(np.ascontiguousarray(block, vectors.dtype).data)


def read_corpus(folder: Path, order: NDArray[np.int64] | None = None) -> Corpus:
    """The corpus of a folder: all vectors mapped, or copies of these rows in this order."""
    vectors = read_vectors(folder, "corpus")
    vectors = vectors if order is None else vectors[order]
    if not (folder / _COLUMNS).exists():
        return make_corpus(vectors)
    table = feather.read_table(folder / _COLUMNS)
    table = table if order is None else table.take(order)
    names = [name for name in table.column_names if name.startswith(_METADATA)]
    metadata = table.select(names).rename_columns([name.removeprefix(_METADATA) for name in names])
    ids = table[_ID].to_pylist() if _ID in table.column_names else None
    return make_corpus(vectors, ids, metadata if names else None)


def read_vectors(folder: Path, name: str) -> NDArray[Any]:
    """The corpus or the queries of a folder, mapped."""
    array: NDArray[Any] = np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
    return array


def query_sparse(dataset: Dataset, source: str) -> list[list[tuple[int, float]]]:
    """The sparse vector of each query as (term, weight) pairs, from a column or a file."""
    from recallatk.datasets.sparse_vectors import query_pairs
    from recallatk.pipeline.sparse import sparse_vectors

    in_column = source in dataset.queries.columns.schema.names
    column, file = (source, "") if in_column else ("", source)
    return query_pairs(sparse_vectors(dataset.queries, column, file))


def inputs_digest(engine: type[Engine], dataset: Dataset) -> str | None:
    """Identity of what an engine reads besides vectors and filters; None if it reads nothing else."""
    reads, corpus = engine.inputs, dataset.corpus
    there = corpus.columns.schema.names
    names = sorted(name for name in {*reads.columns, *reads.optional} if name in there)
    content: list[object] = [
        column_checksum(corpus.columns.read([name], 0, corpus.rows)[name]) for name in names
    ]
    if reads.texts:
        content.append(query_texts(dataset.queries))
    if reads.sparse is not None:
        content.append(query_sparse(dataset, reads.sparse))
    content += [column_checksum(_sparse_rows(corpus, file)) for file in reads.sparse_files]
    if not content:
        return None
    return blake2b(json.dumps([names, content]).encode(), digest_size=16).hexdigest()


def _sparse_rows(corpus: Corpus, file: str) -> pa.ChunkedArray:
    """The sparse vectors of a file as a column of the corpus."""
    from recallatk.datasets.sparse_vectors import sparse_column
    from recallatk.pipeline.sparse import sparse_vectors

    return pa.chunked_array([sparse_column(sparse_vectors(corpus, file=file))])


def read_texts(folder: Path) -> list[str] | None:
    """The text of each query; None if no engine reads it."""
    found: list[str] | None = _read_json(folder / _TEXTS)
    return found


def read_sparse(folder: Path, source: str | None) -> list[list[tuple[int, float]]] | None:
    """The sparse vector of each query; None if the engine reads none."""
    found = None if source is None else _read_json(_sparse_file(folder, source))
    if found is None:
        return None
    return [[(int(term), float(weight)) for term, weight in pairs] for pairs in found]


def _sparse_file(folder: Path, source: str) -> Path:
    return folder / f"sparse-{blake2b(source.encode(), digest_size=8).hexdigest()}.json"


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text()) if path.exists() else None


def read_filters(folder: Path) -> list[Filter | None] | None:
    """The filter of each query; None if no query has one."""
    if not (folder / _FILTERS).exists():
        return None
    plain, numbers = json.loads((folder / _FILTERS).read_text())
    distinct = [None if each is None else filter_from_json(each) for each in plain]
    return [distinct[number] for number in numbers]
