"""The HDF5 layout of ann-benchmarks: train, test, neighbors and distances in one file."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import Metric, Records, blocks
from recallatk.datasets.answer_tables import matrix_answers
from recallatk.datasets.formats.npy import check_matrix
from recallatk.datasets.imported import as_scores, imported
from recallatk.datasets.matrix import NO_COLUMNS
from recallatk.datasets.source import CORPUS, QUERIES, Format, OpenOptions, Source
from recallatk.errors import FormatError, UsageError
from recallatk.files import reading
from recallatk.hdf5 import hdf5_library, new_hdf5_file

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from recallatk.core import Answers, Dataset, Truth, Vectors
    from recallatk.files import Location

_MAGIC = b"\x89HDF\r\n\x1a\n"
_HEAP_MAGIC = b"GCOL"
# Text heaps are of a few kB; one beyond this is a damaged size or no heap.
_MOST_HEAP_BYTES = 1 << 20
_DISTANCES = {"euclidean": Metric.L2, "angular": Metric.COSINE}


@dataclass(frozen=True, eq=False)
class Hdf5Vectors:
    """One dataset of an HDF5 file."""

    data: Any
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    where: str

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Some rows."""
        with reading(self.where, "HDF5 file"):
            block: NDArray[Any] = self.data[start:stop].astype(self.dtype, copy=False)
        return block


class AnnBenchmarks(Format):
    """A corpus (`train`), queries (`test`) and their truth, under `euclidean` or `angular`."""

    name = "ann-benchmarks"
    suffixes = (".hdf5", ".h5")
    magics = (_MAGIC,)
    writable = True
    holds_queries = True

    def open(self, shards: list[Location], options: OpenOptions) -> Source:
        """Open the corpus and the queries; the truth is read when it is asked for."""
        (location,) = shards
        attributes = _attributes(location)
        metric = _metric(attributes, location.text)
        file = _open(location)
        parts = {
            role: Records(f"{location.text} ({name})", _matrix(file, name, location), NO_COLUMNS)
            for role, name in ((CORPUS, "train"), (QUERIES, "test"))
        }
        truth = partial(_truth, file, metric, location) if _has(file, "neighbors", location) else None
        return Source(location.text, self.name, parts, metric, truth, details=attributes)

    def read_truth(
        self, location: Location, metric: Metric | None, corpus: Records | None = None
    ) -> Truth | None:
        """The `neighbors` and `distances` of the file."""
        stated = _metric(_attributes(location), location.text)
        if metric is not None and stated is not None and metric != stated:
            raise UsageError(f"metric mismatch: {location.text} states {stated}, not {metric}")
        file = _open(location)
        return _truth(file, stated or metric, location) if _has(file, "neighbors", location) else None

    def read_answers(self, location: Location) -> Answers | None:
        """The `neighbors` and `distances` of a result file."""
        _attributes(location)
        with _open(location) as file:
            if _has(file, "train", location):
                raise FormatError(
                    location.text,
                    "it has 'train': a data set with its truth, not the answers of a system",
                    "a result file of ann-benchmarks, with neighbors and distances only",
                )
            neighbors = _matrix(file, "neighbors", location)
            has_distances = _has(file, "distances", location)
            distances = _matrix(file, "distances", location) if has_distances else None
            return matrix_answers(neighbors, location.text, distances)

    def write(self, records: Records, path: Path) -> None:
        """Refuse one matrix: such a file without queries would be none."""
        raise UsageError(
            f"{records.name}: an ann-benchmarks file holds a corpus with its queries. Give its queries too"
        )

    def write_dataset(self, dataset: Dataset, truth: Truth, path: Path) -> None:
        """Write the file that ann-benchmarks would read."""
        names = {metric: name for name, metric in _DISTANCES.items()}
        if dataset.metric not in names:
            raise UsageError(
                f"ann-benchmarks files support cosine (angular) and l2 (euclidean), not {dataset.metric}"
            )
        if dataset.queries.filters is not None or dataset.queries.corpus_rows is not None:
            raise UsageError(
                f"{dataset.queries.name}: the queries have filters or are corpus rows, "
                "which ann-benchmarks files cannot store"
            )
        with new_hdf5_file(path) as file:
            file.attrs["type"] = "dense"
            file.attrs["distance"] = names[dataset.metric]
            file.attrs["dimension"] = dataset.corpus.dimension
            file.attrs["point_type"] = "float"
            for name, records in (("train", dataset.corpus), ("test", dataset.queries)):
                _copy(file, name, records.vectors)
            wide = truth.rows.max(initial=-1) > np.iinfo(np.int32).max
            file.create_dataset("neighbors", data=truth.rows.astype(np.int64 if wide else np.int32))
            if truth.scores is not None:
                distances = 1.0 - truth.scores if dataset.metric is Metric.COSINE else truth.scores
                distances = np.where(truth.rows < 0, np.inf, distances)
                file.create_dataset("distances", data=distances.astype(np.float32))


def _copy(file: Any, name: str, vectors: Vectors) -> None:
    target = file.create_dataset(name, shape=vectors.shape, dtype=vectors.dtype)
    for start, block in blocks(vectors):
        target[start : start + len(block)] = block


class _WatchedFile(io.RawIOBase):
    """The bytes of an HDF5 file, refused where they would keep the library busy for ever.

    Texts of any length stand in heaps, and the library steps through a heap from object to object;
    free space that says its size is 0 is a step to itself.
    """

    def __init__(self, file: Any) -> None:
        self.file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self.file.seek(offset, whence))

    def tell(self) -> int:
        return int(self.file.tell())

    def readinto(self, target: Any) -> int:
        begin = self.tell()
        found = bytes(self.file.read(len(target)))
        target[: len(found)] = found
        at = found.find(_HEAP_MAGIC)
        while at >= 0:
            self._walk(begin + at)
            at = found.find(_HEAP_MAGIC, at + 1)
        self.file.seek(begin + len(found))
        return len(found)

    def _walk(self, heap: int) -> None:
        self.file.seek(heap)
        head = bytes(self.file.read(16))
        size = int.from_bytes(head[8:16], "little")
        body = bytes(self.file.read(min(size, _MOST_HEAP_BYTES)))[: max(0, size - 16)]
        at = 0
        while at + 16 <= len(body):
            number = int.from_bytes(body[at : at + 2], "little")
            length = int.from_bytes(body[at + 8 : at + 16], "little")
            step = 16 + -(-length // 8) * 8 if number else length
            if step == 0:
                raise ValueError(f"the text heap at byte {heap} has an object without a size")
            at += step


def _open(location: Location) -> Any:
    h5py = hdf5_library()
    with reading(location.text, "HDF5 file"):
        return h5py.File(location.path if location.local else location.open(), "r")


def _check_magic(location: Location) -> None:
    head = location.read_at(0, 8)
    if head != _MAGIC:
        raise FormatError(location.text, f"it begins with {head!r}", f"{_MAGIC!r}, an HDF5 file")


def _attributes(location: Location) -> dict[str, str]:
    _check_magic(location)
    h5py = hdf5_library()
    with (
        reading(location.text, "HDF5 file"),
        location.open() as raw,
        h5py.File(_WatchedFile(raw), "r") as file,
    ):
        found = {name: file.attrs[name] for name in file.attrs}
    decoded = {
        name: value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
        for name, value in found.items()
    }
    for name, accepted in (("type", ("dense",)), ("point_type", ("float", "uint8", "int8"))):
        if decoded.get(name, accepted[0]) not in accepted:
            raise FormatError(
                location.text, f"the attribute {name} is {decoded[name]!r}", " or ".join(accepted)
            )
    return decoded


def _metric(attributes: dict[str, str], where: str) -> Metric | None:
    distance = attributes.get("distance")
    if distance is None:
        return None
    if distance not in _DISTANCES:
        raise FormatError(where, f"the distance {distance!r}", "euclidean (l2) or angular (cosine)")
    return _DISTANCES[distance]


def _has(file: Any, name: str, location: Location) -> bool:
    with reading(location.text, "HDF5 file"):
        return name in file


def _dataset(file: Any, name: str, location: Location) -> Any:
    h5py = hdf5_library()
    with reading(location.text, "HDF5 file"):
        data = file.get(name)
        listed = ", ".join(map(str, file)) or "nothing"
        elsewhere = data is not None and not isinstance(file.get(name, getlink=True), h5py.HardLink)
        if isinstance(data, h5py.Dataset):
            elsewhere |= bool(data.external) or data.is_virtual
    if elsewhere:
        raise FormatError(location.text, f"{name!r} links to external data", "data inside the file")
    if not isinstance(data, h5py.Dataset):
        raise FormatError(
            location.text, f"it has no dataset {name!r} (it has {listed})", "train, test, neighbors"
        )
    return data


def _matrix(file: Any, name: str, location: Location) -> Hdf5Vectors:
    data = _dataset(file, name, location)
    where = f"{location.text} ({name})"
    with reading(where, "HDF5 file"):
        shape, dtype = tuple(data.shape or ()), np.dtype(data.dtype).newbyteorder("=")
    return Hdf5Vectors(data, check_matrix(where, shape, dtype), dtype, where)


def _truth(file: Any, metric: Metric | None, location: Location) -> Truth:
    where = f"{location.text} (neighbors)"
    neighbors = _matrix(file, "neighbors", location)
    if neighbors.dtype.kind not in "iu":
        raise FormatError(where, f"neighbors of type {neighbors.dtype}", "integers")
    rows = neighbors.read(0, neighbors.shape[0]).astype(np.int64)
    queries = _matrix(file, "test", location).shape[0]
    if len(rows) != queries:
        raise FormatError(
            where, f"neighbors of {len(rows)} queries, but test has {queries}", "one row per query"
        )
    scores = None
    if _has(file, "distances", location) and metric is not None:
        distances = _matrix(file, "distances", location)
        if distances.shape != neighbors.shape:
            raise FormatError(
                where,
                f"{neighbors.shape} neighbors and {distances.shape} distances",
                "one distance for each neighbor",
            )
        scores = as_scores(distances)
        scores = 1.0 - scores if metric is Metric.COSINE else scores
    limit = _matrix(file, "train", location).shape[0]
    if rows.max(initial=-1) >= limit:
        row = int(np.argmax(rows.max(axis=1) >= limit))
        raise FormatError(where, "a neighbor outside the corpus", f"rows below {limit}", row=row)
    return replace(imported(rows, scores, metric, where), corpus_rows=limit)
