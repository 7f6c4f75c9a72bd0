"""The truth and the data that a run names, where they can still be opened and are still the same."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recallatk.errors import RecallError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core import Dataset, Run, Truth

_BESIDE = "truth.parquet"


@dataclass(frozen=True, eq=False)
class Opened:
    """What could be opened, and why the rest could not."""

    truth: Truth | None
    dataset: Dataset | None
    why: str = ""


def open_recorded(run: Run, folder: Path | None = None) -> Opened:
    """Open what the settings of a run name; a truth beside the run, or one in the store, will do.

    Args:
        run: whose data is wanted.
        folder: where the run lies, which may have the truth too.
    """
    dataset, why = None, "the run does not say which files it was measured on"
    if run.settings.get("data"):
        try:
            dataset, why = _dataset(run), ""
        except (RecallError, OSError) as problem:
            why = str(problem)
    wanted = run.fingerprints.get("truth")
    for truth in _truths(run, folder, dataset):
        if wanted is None or _print(truth) == wanted:
            return Opened(truth, dataset, why)
    return Opened(None, dataset, why or "the truth that it was scored against was not found")


def _dataset(run: Run) -> Dataset:
    """What the settings name, split and sampled as they say, and the same as it was."""
    from recallatk.bench.settings import open_data, settings_from
    from recallatk.history.run import require_same_data

    data = {name: value for name, value in run.settings["data"].items() if value is not None}
    # Settings name an engine; which one is of no matter to the data.
    dataset = open_data(settings_from({"name": run.dataset, "data": data, "engine": [{"name": "exact"}]}))
    require_same_data(run, dataset)
    return dataset


def _truths(run: Run, folder: Path | None, dataset: Dataset | None) -> Iterator[Truth]:
    from recallatk.truth import is_truth_file, load_truth
    from recallatk.truth.store import Identity, Store

    stated: dict[str, Any] = dict(run.settings.get("truth") or {})
    for path in (stated.get("file"), None if folder is None else folder / _BESIDE):
        try:
            if path is not None and Path(path).is_file() and is_truth_file(path):
                yield load_truth(path)
        except (RecallError, OSError):
            continue
    if dataset is None:
        return
    from recallatk.fingerprint import fingerprints

    rows = dataset.corpus.rows
    for depth in dict.fromkeys([stated.get("depth"), min(100, rows), *_depths(run)]):
        if depth:
            identity = Identity(fingerprints(dataset), dataset.metric, depth, dataset.corpus.sampled_from)
            found = Store().find(identity)
            if found is not None:
                yield found


def _depths(run: Run) -> list[int]:
    return sorted({each.k for each in run.measurements}, reverse=True)


def _print(truth: Truth) -> str:
    from recallatk.fingerprint import fingerprint_truth

    return fingerprint_truth(truth)
