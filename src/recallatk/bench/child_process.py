"""Child processes that end with their parent, and threads that wake up on time."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_PR_SET_PDEATHSIG = 1
_PR_SET_TIMERSLACK = 29
_ENDING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


def belong_to(parent: int) -> None:
    """Tie this process to its parent with this pid: it ends with the parent, and handles no signals itself.

    A service manager signals all processes of a service. The parent then ends this process; if this process
    ended first, its trial would count as failed.
    """
    for number in _ENDING:
        # Handled, not ignored: programs that an engine starts would inherit SIG_IGN.
        signal.signal(number, lambda *_: None)
    end_with_parent()
    # The parent may have ended before the request to the kernel.
    if sys.platform == "linux" and os.getppid() != parent:
        os._exit(1)


def end_with_parent() -> None:
    """Ask the kernel to kill this process when the thread that started it ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def ring_on_time() -> None:
    """Let sleeps of this thread end on time instead of up to 50 microseconds late."""
    _prctl(_PR_SET_TIMERSLACK, 1)


def _prctl(option: int, value: int) -> None:
    # On other systems sleeps are not adjusted, and children notice that a pipe was closed.
    if sys.platform == "linux":
        unused = (ctypes.c_ulong(0),) * 3
        ctypes.CDLL(None).prctl(ctypes.c_int(option), ctypes.c_ulong(value), *unused)


@contextmanager
def starting() -> Iterator[None]:
    """Defer SIGINT, SIGTERM and SIGHUP until the new process is registered and can be ended."""
    if threading.current_thread() is not threading.main_thread():
        # Python handles signals only in the main thread.
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
