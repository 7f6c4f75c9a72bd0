"""Deprecation notes: old names keep working for one version, and say what replaces them."""

from __future__ import annotations

import sys
import warnings

_GONE_IN = "0.3"


def deprecated(old: str, new: str) -> None:
    """Warn, at the caller's own line, that a name goes away.

    Args:
        old: the name as it was written.
        new: what to write instead.
    """
    warnings.warn(
        f"{old} is deprecated and will be removed in {_GONE_IN}; use {new}",
        DeprecationWarning,
        stacklevel=_caller_level(),
    )


def _caller_level() -> int:
    """The stack level of the first frame outside this package, as `warnings.warn` counts it."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "recallatk":
        level, frame = level + 1, frame.f_back
    return level
