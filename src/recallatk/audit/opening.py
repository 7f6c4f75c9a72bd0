"""What a bench file names, as far as it is there: its data, and a truth that nobody has to compute."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.errors import RecallError

if TYPE_CHECKING:
    from pathlib import Path

    from recallatk.bench.settings import Settings
    from recallatk.core import Dataset, Truth


def settings_beside(folder: Path) -> Settings | None:
    """The bench file in the folder of a run; None where there is none that can be read."""
    from recallatk.bench.benchmark import SETTINGS_FILE
    from recallatk.bench.settings import read_settings

    file = (folder.parent if folder.name == "run.json" else folder) / SETTINGS_FILE
    try:
        return read_settings(file)
    except (RecallError, OSError):
        # The data may have moved since; what the run itself holds can be looked at all the same.
        return None


def open_if_there(settings: Settings) -> Dataset | None:
    """The data of a bench file; None where they cannot be opened any more."""
    from recallatk.bench.settings import open_data

    try:
        return open_data(settings)
    except (RecallError, OSError):
        return None


def find_truth(settings: Settings, dataset: Dataset) -> Truth | None:
    """The truth file that the settings name, or the truth in the store; None where it has to be computed.

    A truth file that cannot be used is an error, as it is for a run.
    """
    from recallatk.bench.benchmark import truth_of
    from recallatk.fingerprint import fingerprints
    from recallatk.truth.store import Identity, Store

    if settings.truth.file is not None:
        return truth_of(settings, dataset)
    depth = settings.depth(dataset.corpus.rows)
    wanted = Identity(fingerprints(dataset), dataset.metric, depth, dataset.corpus.sampled_from)
    return Store(settings.truth.store).find(wanted)


def truth_if_there(settings: Settings, dataset: Dataset) -> Truth | None:
    """The same after a run, when a truth file may be gone."""
    try:
        return find_truth(settings, dataset)
    except (RecallError, OSError):
        return None
