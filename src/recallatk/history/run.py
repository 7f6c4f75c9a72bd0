"""A run as a folder: run.json, and one Parquet file per trial with its answers and latencies.

Format history:
1. run.json with `format_version`, `dataset`, `metric`, `fingerprints`, `environment`, `timed` and
   `trials`; trial-N.parquet with `query_id`, `neighbors`, `rows` and `latencies_ns` (one per round).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from recallatk.core import Measurement, Metric, Run, Trial
from recallatk.errors import FormatError, UsageError
from recallatk.files import PathLike, atomic_file, write_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Dataset

FORMAT_VERSION = 1
_RUN = "run.json"


def save_run(run: Run, dataset: Dataset, folder: PathLike) -> Path:
    """Write the trials, then run.json: a folder with run.json in it is complete."""
    target = Path(folder)
    # What an older run left must not stand beside half of the new one.
    (target / _RUN).unlink(missing_ok=True)
    for number, measurement in enumerate(run.measurements, 1):
        with atomic_file(target / f"trial-{number}.parquet") as scratch:
            pq.write_table(
                _table(measurement, dataset), scratch, compression="zstd", write_page_checksum=True
            )
    write_text(target / _RUN, json.dumps(_header(run), indent=2, ensure_ascii=False) + "\n")
    return target


def _table(measurement: Measurement, dataset: Dataset) -> pa.Table:
    rows = measurement.answers
    chosen = pa.array(rows.reshape(-1), mask=rows.reshape(-1) < 0)
    return pa.table(
        {
            "query_id": dataset.queries.ids,
            "neighbors": _lists(dataset.corpus.ids.take(chosen), rows.shape[1]),
            "rows": _lists(pa.array(rows.reshape(-1)), rows.shape[1]),
            "latencies_ns": _lists(
                pa.array(np.ascontiguousarray(measurement.latencies_ns.T).reshape(-1)),
                len(measurement.latencies_ns),
            ),
        }
    )


def _lists(flat: pa.Array, width: int) -> pa.FixedSizeListArray:
    return pa.FixedSizeListArray.from_arrays(flat, width)


def _header(run: Run) -> dict[str, Any]:
    return {
        "format_version": FORMAT_VERSION,
        "dataset": run.dataset,
        "metric": run.metric,
        "fingerprints": dict(run.fingerprints),
        "environment": dict(run.environment),
        "timed": run.timed,
        "trials": [
            {
                "engine": each.trial.engine,
                "build": dict(each.trial.build),
                "search": dict(each.trial.search),
                "k": each.k,
                "build_seconds": each.build_seconds,
                "memory_bytes": each.memory_bytes,
                "size_bytes": each.size_bytes,
                "exercised": each.exercised,
                "score": dict(scored),
            }
            for each, scored in zip(run.measurements, run.scores, strict=True)
        ],
    }


def load_run(folder: PathLike) -> Run:
    """Read a run back."""
    path = Path(folder) / _RUN
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
        version = int(header["format_version"])
        run = _run(header, Path(folder)) if version <= FORMAT_VERSION else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, UsageError) as problem:
        raise FormatError(str(path), "cannot be read as a run", "a folder of save_run") from problem
    if run is None:
        raise FormatError(
            str(path),
            f"run format {version}",
            f"format {FORMAT_VERSION} or older",
            hint="Upgrade: pip install --upgrade recallatk",
        )
    return run


def _run(header: dict[str, Any], folder: Path) -> Run:
    trials = header["trials"]
    return Run(
        dataset=header["dataset"],
        metric=Metric(header["metric"]),
        fingerprints=header["fingerprints"],
        environment=header["environment"],
        timed=header["timed"],
        measurements=tuple(
            _measurement(trial, folder / f"trial-{number}.parquet") for number, trial in enumerate(trials, 1)
        ),
        scores=tuple(trial["score"] for trial in trials),
    )


def _measurement(trial: dict[str, Any], path: Path) -> Measurement:
    try:
        table = pq.read_table(path, columns=["rows", "latencies_ns"], page_checksum_verification=True)
        answers, latencies = _matrix(table["rows"]), _matrix(table["latencies_ns"]).T
    except (OSError, LookupError, AttributeError, pa.ArrowException) as problem:
        raise FormatError(str(path), "cannot be read as a trial", "a file of save_run") from problem
    return Measurement(
        trial=Trial(trial["engine"], tuple(trial["build"].items()), tuple(trial["search"].items())),
        k=trial["k"],
        answers=answers,
        latencies_ns=latencies,
        build_seconds=trial["build_seconds"],
        memory_bytes=trial["memory_bytes"],
        size_bytes=trial["size_bytes"],
        exercised=trial["exercised"],
    )


def _matrix(column: pa.ChunkedArray) -> NDArray[np.int64]:
    array = column.combine_chunks()
    matrix: NDArray[np.int64] = array.flatten().to_numpy().reshape(-1, array.type.list_size)
    return matrix
