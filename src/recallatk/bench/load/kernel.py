"""What Linux is asked for through prctl: timers that ring on time, children that end with us."""

from __future__ import annotations

import ctypes
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_TIMERSLACK = 29


def ring_on_time() -> None:
    """Let sleeps of this thread end when they should, and not up to 50 microseconds later."""
    _prctl(_PR_SET_TIMERSLACK, 1)


def end_with_parent() -> None:
    """Let this process be killed when the thread that forked it ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    # Elsewhere sleeps are as they are, and children see that a pipe was closed.
    if sys.platform == "linux":
        unused = (ctypes.c_ulong(0),) * 3
        ctypes.CDLL(None).prctl(ctypes.c_int(option), ctypes.c_ulong(value), *unused)
