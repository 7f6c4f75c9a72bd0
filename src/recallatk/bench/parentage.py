"""Processes that do not outlive the one that started them."""

from __future__ import annotations

import os
import signal
import sys

_SET_DEATH_SIGNAL = 1


def die_with(parent: int) -> None:
    """Let the system end this process when its parent, of this number, ends, however that happens."""
    if sys.platform != "linux":
        return
    import ctypes

    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    # It may have ended before the system was asked.
    if os.getppid() != parent:
        os._exit(1)
