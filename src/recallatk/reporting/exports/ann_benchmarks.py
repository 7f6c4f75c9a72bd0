"""Result files of ann-benchmarks: one per trial whose load the format can represent."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import Metric, Mode
from recallatk.errors import UsageError
from recallatk.files import atomic_file
from recallatk.hdf5 import hdf5_library, new_hdf5_file
from recallatk.redaction import is_url, without_secrets, writable
from recallatk.reporting.exports import Exported
from recallatk.reporting.labels import listed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Dataset, Load, Measurement, Run
    from recallatk.files import PathLike

_DISTANCES = {Metric.L2: "euclidean", Metric.COSINE: "angular"}
_LONGEST_NAME = 120
_NO_DISTANCES = (
    "distances are NaN because no data was given. ann-benchmarks computes recall from them and would report "
    "0. Name the data: --corpus CORPUS --queries QUERIES"
)


def write(run: Run, out: PathLike, dataset: Dataset | None = None) -> Exported:
    """Write a folder that ann-benchmarks accepts as its `results`."""
    if run.metric not in _DISTANCES:
        raise UsageError(
            f"ann-benchmarks files support cosine (angular) and l2 (euclidean), not {run.metric}. "
            "csv, json and parquet take every metric"
        )
    hdf5_library()
    folder = _new_folder(out)
    written = []
    for number, measurement in enumerate(run.measurements, 1):
        if _fits(measurement.trial.load):
            path = folder / _path(run, measurement, number)
            _write_trial(run, measurement, dataset, path)
            written.append(path)
    return Exported(tuple(written), tuple(_notes(run, len(written), dataset)))


def _notes(run: Run, written: int, dataset: Dataset | None) -> list[str]:
    left_out = len(run.measurements) - written
    said = []
    if left_out:
        said.append(
            f"{left_out:,} trials with several clients or a rate were skipped: the format cannot store them"
        )
    if run.failures:
        said.append(f"{len(run.failures):,} failed trials were skipped")
    if dataset is None and written:
        said.append(_NO_DISTANCES)
    return said


def _new_folder(out: PathLike) -> Path:
    if is_url(str(out)):
        raise UsageError(f"{without_secrets(str(out))}: files can be written only to local paths")
    folder = Path(out)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder}: already exists, and results would mix. Name a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _fits(load: Load) -> bool:
    """Whether ann-benchmarks can represent a load: one client, single queries or batches."""
    return load.mode is not Mode.RATE and load.clients == 1


def _path(run: Run, measurement: Measurement, number: int) -> Path:
    trial = measurement.trial
    batch = "-batch" if trial.load.batch > 1 else ""
    arguments = f"{listed(trial.build)}_{listed(trial.search)}"
    algorithm = f"{_safe(trial.engine)}{batch}"
    return Path(_safe(run.dataset)) / str(measurement.k) / algorithm / f"{number}_{_safe(arguments)}.hdf5"


def _safe(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9-]+", "_", text)[:_LONGEST_NAME].strip("_") or "_"


def _write_trial(run: Run, measurement: Measurement, dataset: Dataset | None, path: Path) -> None:
    answers = measurement.answers
    times, best = _times(measurement)
    wide = answers.max(initial=-1) > np.iinfo(np.int32).max
    with atomic_file(path) as scratch, new_hdf5_file(scratch) as file:
        for name, value in _attributes(run, measurement, best).items():
            file.attrs[name] = value
        file.create_dataset("times", data=times.astype(np.float32))
        neighbors = np.maximum(answers, -1).astype(np.int64 if wide else np.int32)
        file.create_dataset("neighbors", data=neighbors)
        file.create_dataset("distances", data=_distances(run.metric, answers, dataset))


def _attributes(run: Run, measurement: Measurement, best: float) -> dict[str, Any]:
    built = measurement.build
    # The tool's own number is the memory that a build added, in units of 1,024 bytes.
    size = built.memory_bytes if built.memory_bytes is not None else built.size_bytes
    return {
        "algo": _attribute(measurement.trial.engine),
        "name": _attribute(str(measurement.trial)),
        "build_time": np.nan if built.seconds is None else built.seconds,
        "index_size": np.nan if size is None else size / 1024,
        "best_search_time": best,
        "count": measurement.k,
        "run_count": measurement.calls.rounds,
        "candidates": float((measurement.answers >= 0).sum(axis=1).mean()),
        "distance": _DISTANCES[run.metric],
        "dataset": _attribute(run.dataset),
        "batch_mode": measurement.trial.load.batch > 1,
        "expect_extra": False,
    }


def _attribute(text: str) -> str:
    # HDF5 strings end at the first NUL.
    return writable(text).replace("\0", "\\x00")


def _times(measurement: Measurement) -> tuple[NDArray[np.float64], float]:
    """Seconds per query in the fastest round, and their mean; in batches every query has the mean."""
    calls = measurement.calls
    answered = calls.answered
    spent = np.bincount(calls.round, calls.latency_ns / 1e9, minlength=calls.rounds)
    means = np.divide(spent, answered, out=np.full(len(answered), np.inf), where=answered > 0)
    times = np.full(len(measurement.answers), np.nan)
    if not np.isfinite(means).any():
        return times, np.nan
    best = int(np.argmin(means))
    if calls.batch > 1:
        times[measurement.asked] = means[best]
    else:
        # Queries missing from the fastest round are taken from the others.
        order = np.argsort(calls.round != best, kind="stable")
        found, first = np.unique(calls.query[order], return_index=True)
        times[found] = calls.latency_ns[order][first] / 1e9
    return times, float(means[best])


def _distances(metric: Metric, answers: NDArray[np.int64], dataset: Dataset | None) -> NDArray[np.float32]:
    """Distances as ann-benchmarks defines them; infinite for padding, NaN if unknown."""
    from recallatk.analysis.answer_scores import answer_scores, cosine_distances

    if dataset is None:
        found = np.full(answers.shape, np.nan)
    else:
        found = answer_scores(dataset, answers)
        found = cosine_distances(found) if metric is Metric.COSINE else found
    return np.where(answers < 0, np.inf, found).astype(np.float32)
