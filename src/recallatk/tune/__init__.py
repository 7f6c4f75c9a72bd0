"""From a target to a setting: the search space, the search and its validation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recallatk.tune.tuned import Attempt, Candidate, Price, Tuned
    from recallatk.tune.tuning import tune

__all__ = ["Attempt", "Candidate", "Price", "Tuned", "tune"]


def __getattr__(name: str) -> Any:
    # What it takes to tune is imported when somebody does.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    module = "recallatk.tune.tuning" if name == "tune" else "recallatk.tune.tuned"
    return getattr(importlib.import_module(module), name)
