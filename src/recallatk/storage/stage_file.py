"""Stage files: what the stages of a path returned and took in a finished trial, beside the trial file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from recallatk.core import Truth
from recallatk.core.stages import MeasuredStage, MeasuredStages
from recallatk.files import reading
from recallatk.redaction import public
from recallatk.storage.sidecar import Sidecar

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from recallatk.core import Measurement
    from recallatk.storage.records import Record

_HINT = "Run the same command again: that trial is measured anew"
STAGES = Sidecar("stages", 1, "stages", _HINT)
SPANS = Sidecar("spans", 1, "stage times", _HINT)
# More would not be a path that somebody runs, and would let a crafted file fill the memory.
_MOST_STAGES, _PADDED, _PADDED_TIMES = 100, 1_000_000, 20


def write_stages(path: Path, measurement: Measurement, found: MeasuredStages, run: Mapping[str, Any]) -> None:
    """Write the stages of a trial beside its file, atomically."""
    columns: dict[str, Any] = {}
    for number, stage in enumerate(found.stages):
        columns[f"rows {number}"] = _lists(stage.rows, pa.int64())
        columns[f"contained {number}"] = pa.array(stage.contained, pa.float64())
        if stage.recall is not None:
            columns[f"recall {number}"] = pa.array(stage.recall, pa.float64())
    columns |= {f"lost {name}": pa.array(shares, pa.float64()) for name, shares in found.lost.items()}
    if found.truth is not None:
        columns["truth"] = _lists(found.truth.rows, pa.int64())
        if found.truth.scores is not None:
            columns["scores"] = _lists(found.truth.scores, pa.float64())
    facts = {
        "k": found.k,
        "names": [public(each.name) for each in found.stages],
        "lost": [public(each) for each in found.lost],
    }
    STAGES.write(STAGES.beside(path), measurement, pa.table(columns), facts, run)
    spans = {f"ns {number}": pa.array(each, pa.int64()) for number, each in enumerate(found.spans_ns.T)}
    SPANS.write(SPANS.beside(path), measurement, pa.table(spans), {}, run)


def with_stages(path: Path, measurement: Measurement, identity: str) -> Measurement:
    """The measurement with the stages beside its trial file; without, if there are none."""
    found = STAGES.read(STAGES.beside(path), measurement, identity)
    times = None if found is None else SPANS.read(SPANS.beside(path), measurement, identity)
    if found is None or times is None:
        return measurement
    table, header = found
    with reading(str(STAGES.beside(path)), f"{STAGES.content} file of a run", _HINT):
        stages = _stages(table, header, len(measurement.answers))
        spans = _spans(times[0], len(stages))
        return replace(measurement, stages=_results(table, header, stages, spans))


def _stages(table: pa.Table, header: Record, queries: int) -> tuple[MeasuredStage, ...]:
    names = _texts(header, "names")
    if not 1 <= len(names) <= _MOST_STAGES:
        raise ValueError(f"it has {len(names)} stages")
    if table.num_rows != queries:
        raise ValueError(f"it has {table.num_rows:,} rows, but the trial has {queries:,} queries")
    return tuple(
        MeasuredStage(
            name,
            _matrix(table[f"rows {number}"], np.int64),
            _shares(table[f"contained {number}"]),
            _shares(table[f"recall {number}"]) if f"recall {number}" in table.column_names else None,
        )
        for number, name in enumerate(names)
    )


def _results(
    table: pa.Table, header: Record, stages: tuple[MeasuredStage, ...], spans: NDArray[np.int64]
) -> MeasuredStages:
    k = header["k"]
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise ValueError("k is not a whole number from 1")
    lost = {name: _shares(table[f"lost {name}"]) for name in _texts(header, "lost")}
    truth = None
    if "truth" in table.column_names:
        scores = _matrix(table["scores"], np.float64) if "scores" in table.column_names else None
        rows = _matrix(table["truth"], np.int64)
        if scores is not None and not np.array_equal(rows >= 0, ~np.isnan(scores)):
            raise ValueError("the truth has other numbers of rows and scores")
        truth = Truth(rows, scores, None, None)
    return MeasuredStages(k, stages, spans, truth, lost)


def _spans(table: pa.Table, stages: int) -> NDArray[np.int64]:
    if table.column_names != [f"ns {number}" for number in range(stages)]:
        raise ValueError("it does not have one time per stage")
    found = np.column_stack([table[name].to_numpy() for name in table.column_names]).astype(np.int64)
    if len(found) and found.min() < 0:
        raise ValueError("a stage took less than no time")
    return found


def _lists(matrix: NDArray[Any], kind: pa.DataType) -> pa.Array:
    """The rows of a matrix as lists; padding at the end is left out."""
    there = matrix >= 0 if pa.types.is_integer(kind) else ~np.isnan(matrix)
    # Padding is at the end, so that the number of values says where it begins.
    offsets = np.concatenate([[0], np.cumsum(there.sum(axis=1))]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(matrix[there], kind))


def _matrix(column: pa.ChunkedArray, dtype: Any) -> NDArray[Any]:
    """Lists as a padded matrix."""
    whole = column.combine_chunks()
    if not pa.types.is_list(whole.type) or whole.null_count or whole.flatten().null_count:
        raise ValueError("a column does not hold lists of numbers")
    lengths = whole.value_lengths().to_numpy()
    width = int(lengths.max(initial=0))
    # Lists differ in length, but not so much that padding takes most of the memory.
    if width * len(lengths) > _PADDED + _PADDED_TIMES * int(lengths.sum()):
        raise ValueError(f"a list has {width:,} rows, many more than the others")
    padding = -1 if dtype is np.int64 else np.nan
    found = np.full((len(lengths), width), padding, dtype)
    found[np.arange(width) < lengths[:, None]] = whole.flatten().to_numpy().astype(dtype)
    return found


def _shares(column: pa.ChunkedArray) -> NDArray[np.float64]:
    values: NDArray[np.float64] = column.to_numpy().astype(np.float64)
    if ((values < -1e-9) | (values > 1 + 1e-9)).any():
        raise ValueError("a share is not between 0 and 1")
    return values


def _texts(header: Record, key: str) -> tuple[str, ...]:
    listed = header[key]
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        raise ValueError(f"{key} is not a list of texts")
    return tuple(listed)
