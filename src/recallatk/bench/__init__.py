"""Measurement of an engine on a dataset: in a separate process, timed call by call."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recallatk.bench.index_measurement import measure
    from recallatk.bench.measurement import run
    from recallatk.bench.settings import read_settings
    from recallatk.bench.trial_losses import explain

__all__ = ["Limits", "explain", "measure", "read_settings", "run"]

# Names are imported on first use: a worker needs only a few of these modules.
_ROOMS = {
    "Limits": "process_usage",
    "explain": "trial_losses",
    "measure": "index_measurement",
    "read_settings": "settings",
    "run": "measurement",
}


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module 'recallatk.bench' has no attribute {name!r}")
    return getattr(importlib.import_module(f"recallatk.bench.{_ROOMS[name]}"), name)
