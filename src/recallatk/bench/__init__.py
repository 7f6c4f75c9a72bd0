"""Measurement of an engine on a dataset: in a process of its own, timed call by call."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recallatk.bench.index_measurement import measure
    from recallatk.bench.measurement import run
    from recallatk.bench.settings import read_settings
    from recallatk.bench.trial_losses import explain

__all__ = ["Limits", "explain", "measure", "read_settings", "run"]

# A worker imports from this room and should not pay for all of it.
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
