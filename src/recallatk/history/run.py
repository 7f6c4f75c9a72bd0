"""A run as a folder: run.json, and one Parquet file per trial with its answers and latencies.

Format history:
1. run.json with `format_version`, `dataset`, `metric`, `fingerprints`, `environment`, `timed` and
   `trials`; trial-N.parquet with `query_id`, `neighbors`, `rows` and `latencies_ns` (one per round).
   Later also `sampled_from`, which older readers pass over.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from recallatk.core import Build, Mean, Measurement, Metric, Run, Score, Trial
from recallatk.errors import MismatchError, UsageError
from recallatk.files import (
    PathLike,
    atomic_file,
    is_url,
    locate,
    reading,
    require_version,
    without_secrets,
    write_text,
)
from recallatk.fingerprint import fingerprints
from recallatk.version import __version__

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Dataset

FORMAT_VERSION = 1
_RUN = "run.json"


def save_run(run: Run, dataset: Dataset, folder: PathLike) -> Path:
    """Write the trials, then run.json: a folder with run.json in it is complete.

    Args:
        run: what was measured.
        dataset: the data that it was measured on, whose ids stand beside the answers.
        folder: where to write; a run that is there already is replaced.
    """
    if is_url(str(folder)):
        raise UsageError(f"{without_secrets(str(folder))}: runs are written to local folders only")
    other = [part for part, text in fingerprints(dataset).items() if run.fingerprints.get(part) != text]
    if other:
        raise MismatchError(f"the run was measured on other data: {', '.join(other)} differ")
    target = Path(folder)
    _forget(target)
    for number, measurement in enumerate(run.measurements, 1):
        with atomic_file(target / f"trial-{number}.parquet") as scratch:
            table = _table(measurement, dataset)
            pq.write_table(table, scratch, compression="zstd", write_page_checksum=True)
    write_text(target / _RUN, json.dumps(_header(run), indent=2, ensure_ascii=False) + "\n")
    return target


def _forget(folder: Path) -> None:
    """Remove an older run: none of its files may stand beside the new ones."""
    (folder / _RUN).unlink(missing_ok=True)
    for trial in folder.glob("trial-*.parquet"):
        if trial.stem.removeprefix("trial-").isdigit():
            trial.unlink()


def _table(measurement: Measurement, dataset: Dataset) -> pa.Table:
    rows = measurement.answers.reshape(-1)
    ids = dataset.corpus.ids
    named = ids.take(pa.array(rows, mask=(rows < 0) | (rows >= len(ids))))
    latencies = np.ascontiguousarray(measurement.latencies_ns.T).reshape(-1)
    header = {"format_version": FORMAT_VERSION, "tool_version": __version__, "trial": str(measurement.trial)}
    table = pa.table(
        {
            "query_id": dataset.queries.ids,
            "neighbors": _lists(named, measurement.k),
            "rows": _lists(pa.array(rows), measurement.k),
            "latencies_ns": _lists(pa.array(latencies), len(measurement.latencies_ns)),
        }
    )
    return table.replace_schema_metadata({b"recallatk.trial": json.dumps(header).encode()})


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
        "sampled_from": run.sampled_from,
        "trials": [_trial(each) for each in run.measurements],
    }


def _trial(measurement: Measurement) -> dict[str, Any]:
    built, scored = measurement.build, measurement.score
    return {
        "engine": measurement.trial.engine,
        "version": built.version,
        "build": dict(measurement.trial.build),
        "search": dict(measurement.trial.search),
        "k": measurement.k,
        "build_threads": built.threads,
        "build_seconds": built.seconds,
        "memory_bytes": built.memory_bytes,
        "size_bytes": built.size_bytes,
        "exercised": measurement.exercised,
        "queries": scored.queries,
        "scored": scored.scored,
        "measures": {name: asdict(mean) for name, mean in scored.measures.items()},
        "anomalies": dict(scored.anomalies),
    }


def load_run(folder: PathLike) -> Run:
    """Read a run back; its scores have their means but not each query's own."""
    location = locate(Path(folder)) / _RUN
    if not location.exists:
        raise UsageError(f"{location.text}: no such file, so no whole run is here")
    with reading(location.text, "run"):
        header = json.loads(location.read_at(0, location.size))
        require_version(location.text, "run", int(header["format_version"]), FORMAT_VERSION)
        return Run(
            dataset=header["dataset"],
            metric=Metric[header["metric"].upper()],
            fingerprints=header["fingerprints"],
            environment=header["environment"],
            timed=header["timed"],
            sampled_from=header.get("sampled_from"),
            measurements=tuple(
                _measurement(trial, Path(folder) / f"trial-{number}.parquet")
                for number, trial in enumerate(header["trials"], 1)
            ),
        )


def _measurement(trial: dict[str, Any], path: Path) -> Measurement:
    with reading(str(path), "trial of a run"):
        table = pq.read_table(path, columns=["rows", "latencies_ns"], page_checksum_verification=True)
        answers, latencies = _matrix(table["rows"]), _matrix(table["latencies_ns"]).T
    build, search = tuple(trial["build"].items()), tuple(trial["search"].items())
    return Measurement(
        trial=Trial(trial["engine"], build, search),
        build=Build(
            engine=trial["engine"],
            version=trial["version"],
            parameters=build,
            threads=trial["build_threads"],
            seconds=trial["build_seconds"],
            memory_bytes=trial["memory_bytes"],
            size_bytes=trial["size_bytes"],
        ),
        k=trial["k"],
        answers=answers,
        latencies_ns=latencies,
        exercised=trial["exercised"],
        score=Score(
            queries=trial["queries"],
            scored=trial["scored"],
            measures={name: Mean(**mean) for name, mean in trial["measures"].items()},
            anomalies=trial["anomalies"],
        ),
    )


def _matrix(column: pa.ChunkedArray) -> NDArray[np.int64]:
    array = column.combine_chunks()
    matrix: NDArray[np.int64] = array.flatten().to_numpy().reshape(-1, array.type.list_size)
    return matrix
