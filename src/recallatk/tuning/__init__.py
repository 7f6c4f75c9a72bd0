"""Tuning: from a target to a setting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recallatk.tuning.flow import tune

__all__ = ["tune"]


def __getattr__(name: str) -> Any:
    # Tuning imports most of the package, so it loads only on first use.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from recallatk.tuning.flow import tune

    return tune
