"""How much memory belongs to this process alone."""

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
