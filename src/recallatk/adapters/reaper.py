"""The parent process of a user's program, which kills the program and its descendants when recallatk ends.

Needs only the standard library: `python -I -S reaper.py SOCKET PROGRAM ARGUMENTS...`. The program gets the
standard streams. The reaper reports through the socket whether the program started, and exits with
its exit code. When the other end of the socket closes, even by kill -9, it kills all descendants at once.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
from pathlib import Path

_SUBREAPER = 36
# Signals that Python or the reaper ignores; the program gets their default handling back.
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_RESTORED = (signal.SIGPIPE, signal.SIGXFSZ, *_IGNORED)


def main(descriptor: int, arguments: list[str]) -> None:
    """Start the program and wait until it has ended."""
    control = socket.socket(fileno=descriptor)
    control.set_inheritable(False)
    _adopt_orphans()
    waking = _wake_on_child()
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    try:
        # A separate process group, so that systems that cannot adopt orphans can kill the group.
        program = os.posix_spawnp(arguments[0], arguments, os.environ, setpgroup=0, setsigdef=_RESTORED)
    except OSError as problem:
        control.sendall(b"%d" % (problem.errno or -1))
        return
    control.sendall(b"0")
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        # The streams close with the program only if the reaper does not hold copies.
        os.dup2(null, stream)
    status = None
    while status is None:
        ready = select.select([descriptor, waking], [], [])[0]
        if descriptor in ready:
            break
        os.read(waking, 4096)
        status = _reaped(program)
    _kill_all(program)
    _end_like(status)


def _adopt_orphans() -> None:
    """Become the parent of all orphaned descendants (Linux only)."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def _wake_on_child() -> int:
    """Open a pipe that becomes readable when a child ends."""
    waking, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return waking


def _reaped(program: int) -> int | None:
    """Reap ended children; return the program's exit code if it is among them."""
    found = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == program:
                found = os.waitstatus_to_exitcode(status)
    return found


def _kill_all(program: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(program, signal.SIGKILL)
    # Orphans become children of this process, so repeated kills reach all descendants.
    while children := _children():
        for each in children:
            with contextlib.suppress(OSError):
                os.kill(each, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)


def _children() -> list[int]:
    """Child processes; empty if the system does not list them."""
    own, found = str(os.getpid()), []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if entry.read_text(errors="replace").rpartition(")")[2].split()[1] == own:
                found.append(int(entry.parent.name))
    return found


def _end_like(status: int | None) -> None:
    if status is None or status >= 0:
        os._exit(status or 0)
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):
        signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
