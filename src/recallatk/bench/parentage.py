"""Processes that do not outlive the one that started them."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_SET_DEATH_SIGNAL = 1
_ENDING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


def belong_to(parent: int) -> None:
    """Leave the end of this process to its parent, of this number: it goes with it, and answers no signal.

    Whoever stops a service asks all of its processes to end. The parent ends this one then; if this one went
    first, its trial would count as failed.
    """
    for number in _ENDING:
        # Not ignored: programs that an engine starts would inherit that.
        signal.signal(number, lambda *_: None)
    if sys.platform != "linux":
        return
    import ctypes

    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    # It may have ended before the system was asked.
    if os.getppid() != parent:
        os._exit(1)


@contextmanager
def starting() -> Iterator[None]:
    """Defer SIGINT, SIGTERM and SIGHUP to the end of this: by then the process being started can be ended."""
    if threading.current_thread() is not threading.main_thread():
        # Signals are handled in the main thread alone.
        yield
        return
    came: list[int] = []
    before: dict[int, Any] = {}

    def later(number: int, _frame: object) -> None:
        came.append(number)

    for number in _ENDING:
        if signal.getsignal(number) not in (None, signal.SIG_IGN):
            before[number] = signal.signal(number, later)
    try:
        yield
    finally:
        for known, handler in before.items():
            signal.signal(known, handler)
    if came:
        signal.raise_signal(came[0])
