"""Runs in format 1, whose trials are described only by run.json."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq

from recallatk.core import Build, Calls, Measurement, Metric, Run, Trial
from recallatk.files import reading, require_ordinary
from recallatk.storage.folder_scan import trial_name
from recallatk.storage.records import parameters, read_score

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray


def read_format_one(header: Mapping[str, Any], folder: Path) -> Run:
    """The run described by a run.json of format 1."""
    return Run(
        dataset=header["dataset"],
        metric=Metric[header["metric"].upper()],
        fingerprints=header["fingerprints"],
        environment=header["environment"],
        sampled_from=header.get("sampled_from"),
        checked=False,
        measurements=tuple(
            _measurement(trial, folder / trial_name(number), _search_threads(header["timed"]))
            for number, trial in enumerate(header["trials"], 1)
        ),
    )


def _search_threads(timed: str) -> int:
    """Number of search threads, which format 1 recorded only in the text about timing."""
    found = re.search(r"(\d+) search thread", timed)
    return 1 if found is None else int(found[1])


def _measurement(trial: Mapping[str, Any], path: Path, search_threads: int) -> Measurement:
    with reading(str(path), "trial of a run"):
        require_ordinary(path)
        table = pq.read_table(path, columns=["rows", "latencies_ns"], page_checksum_verification=True)
        answers, latencies = _matrix(table["rows"]), _matrix(table["latencies_ns"]).T
    build = parameters(trial["build"])
    return Measurement(
        trial=Trial(trial["engine"], build, parameters(trial["search"])),
        build=Build(
            engine=trial["engine"],
            version=trial["version"],
            parameters=build,
            threads=trial["build_threads"],
            seconds=trial["build_seconds"],
            memory_bytes=trial["memory_bytes"],
            size_bytes=trial["size_bytes"],
            search_threads=search_threads,
        ),
        k=trial["k"],
        answers=answers,
        calls=_calls(latencies),
        exercised=trial["exercised"],
        score=read_score(trial),
        times=np.full(len(answers), len(latencies), np.int64),
    )


def _calls(latencies: NDArray[np.int64]) -> Calls:
    """Calls of a single client: each was sent when the previous one was answered."""
    rounds, queries = latencies.shape
    before = np.cumsum(latencies, axis=1) - latencies
    return Calls(
        query=np.tile(np.arange(queries, dtype=np.int32), rounds),
        round=np.repeat(np.arange(rounds, dtype=np.int16), queries),
        client=np.zeros(latencies.size, np.int16),
        sent_ns=before.reshape(-1),
        latency_ns=np.ascontiguousarray(latencies).reshape(-1),
        late_ns=np.zeros(latencies.size, np.int64),
        round_ns=latencies.sum(axis=1),
        size=np.ones(latencies.size, np.int32),
        clients=1,
    )


def _matrix(column: pa.ChunkedArray) -> NDArray[np.int64]:
    array = column.combine_chunks()
    matrix: NDArray[np.int64] = array.flatten().to_numpy().reshape(-1, array.type.list_size)
    return matrix
