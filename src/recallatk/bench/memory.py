"""How much memory belongs to a process alone."""

from __future__ import annotations

import ctypes
import gc
import sys
from pathlib import Path

_ROLLUP = Path("/proc/self/smaps_rollup")


def private_bytes() -> int:
    """Anonymous memory of this process, after handing back what its allocator only keeps.

    Mapped files are not counted: they belong to the page cache. Systems without /proc report the
    unique set size, which is the nearest they have.
    """
    gc.collect()
    if sys.platform == "linux" and _ROLLUP.exists():
        library = ctypes.CDLL(None)
        # Not every C library has it.
        if hasattr(library, "malloc_trim"):
            library.malloc_trim(0)
        lines = (line.split() for line in _ROLLUP.read_text().splitlines())
        sizes = {words[0]: int(words[1]) for words in lines if len(words) == 3}
        return (sizes["Anonymous:"] + sizes["Swap:"]) * 1024
    import psutil

    return int(psutil.Process().memory_full_info().uss)


def held_bytes(pid: int, *, family: bool) -> int:
    """Anonymous memory of a process now, with that of the processes it started if asked; 0 when it has gone.

    Cheap enough to look often: nothing is handed back first.
    """
    import psutil

    try:
        children = psutil.Process(pid).children(recursive=True) if family else []
        return sum(_held(each) for each in (pid, *(child.pid for child in children)))
    except psutil.Error:
        return 0


def _held(pid: int) -> int:
    status = Path(f"/proc/{pid}/status")
    if sys.platform != "linux":
        import psutil

        return int(psutil.Process(pid).memory_info().rss)
    try:
        lines = (line.split() for line in status.read_text().splitlines())
        return 1024 * sum(int(words[1]) for words in lines if words and words[0] in ("RssAnon:", "VmSwap:"))
    except OSError:
        return 0
