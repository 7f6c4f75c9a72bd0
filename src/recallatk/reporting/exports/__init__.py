"""Runs as other tools read them: flat tables, ann-benchmarks results, HdrHistogram logs."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from recallatk.errors import MismatchError, UsageError, unknown

if TYPE_CHECKING:
    from pathlib import Path

    from recallatk.core import Dataset, Run
    from recallatk.files import PathLike

# Where each format is written, so that a command imports one of them only.
FORMATS = {
    "csv": "tabular:write_csv",
    "json": "tabular:write_json",
    "parquet": "tabular:write_parquet",
    "ann-benchmarks-hdf5": "ann_benchmarks:write",
    "hdrhistogram": "hdrhistogram:write",
}
# Formats that hold distances, which are computed from the data.
HOLD_DISTANCES = ("ann-benchmarks-hdf5",)

__all__ = ["FORMATS", "HOLD_DISTANCES", "Exported", "export"]


@dataclass(frozen=True)
class Exported:
    """The files of an export, and what a reader of them must know."""

    files: tuple[Path, ...]
    notes: tuple[str, ...] = ()


def export(run: Run, to: str, out: PathLike, dataset: Dataset | None = None) -> Exported:
    """Write a run in another form, whole or not at all.

    Args:
        run: what was measured.
        to: csv, json, parquet, ann-benchmarks-hdf5 or hdrhistogram.
        out: the file to write; for ann-benchmarks-hdf5 a new folder.
        dataset: the data that was measured, for formats that hold distances.
    """
    if to not in FORMATS:
        raise UsageError(unknown("export format", to, FORMATS))
    if dataset is not None:
        _require_same(run, dataset)
    beside = (dataset,) if to in HOLD_DISTANCES else ()
    module, _, function = FORMATS[to].partition(":")
    found: Exported = getattr(import_module(f"{__name__}.{module}"), function)(run, out, *beside)
    return found


def _require_same(run: Run, dataset: Dataset) -> None:
    from recallatk.storage.run_store import require_same_data

    if dataset.metric is not run.metric:
        raise MismatchError(f"metric mismatch: the run uses {run.metric}, the dataset {dataset.metric}")
    require_same_data(run, dataset)
