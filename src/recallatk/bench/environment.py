"""The machine and the software of a measurement."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from recallatk.version import __version__

_GROUPS = Path("/sys/fs/cgroup")
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
# More than any kernel supports.
_MOST_CORES = 8192
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def describe_environment() -> dict[str, Any]:
    """Facts to compare before comparing two measurements; None if the system does not report one."""
    import psutil

    return {
        "recallatk": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "processor": _processor(),
        "cache_bytes": largest_cache(),
        "cores": usable_cores(),
        "affinity": _affinity(),
        "memory_bytes": psutil.virtual_memory().total,
        "memory_limit_bytes": _number(_GROUPS / "memory.max"),
        "processor_limit": _processor_limit(),
        "governor": _first_line(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
        "load_average": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
        "blas": _blas(),
        "packages": {name: version(name) for name in ("numpy", "pyarrow", "faiss-cpu")},
    }


def usable_cores() -> int:
    """Number of cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def possible_cores() -> list[int] | None:
    """Cores to which a child process may be pinned; None if the system cannot pin."""
    if sys.platform != "linux":
        return None
    before = os.sched_getaffinity(0)
    try:
        # The kernel drops cores that do not exist or that the container excludes.
        os.sched_setaffinity(0, range(_MOST_CORES))
        return sorted(os.sched_getaffinity(0))
    finally:
        os.sched_setaffinity(0, before)


def largest_cache(folder: Path = _CACHES) -> int | None:
    """Size in bytes of the largest cache of the first core."""
    sizes = [_first_line(path) or "" for path in folder.glob("index*/size")]
    return max(
        (int(text[:-1]) * _UNITS[text[-1]] for text in sizes if text[:-1].isdigit() and text[-1] in _UNITS),
        default=None,
    )


def load_average() -> float | None:
    """Load average of the last minute."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def _affinity() -> list[int] | None:
    return sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else None


def _processor() -> str:
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        for line in listing.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _processor_limit() -> float | None:
    """Number of cores that the cgroup allows."""
    quota, _, period = (_first_line(_GROUPS / "cpu.max") or "").partition(" ")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None


def _blas() -> list[str]:
    """BLAS libraries with version and number of threads."""
    import numpy as np
    from threadpoolctl import threadpool_info

    np.ones((2, 2)) @ np.ones((2, 2))
    return [
        f"{each['internal_api']} {each.get('version') or ''}".strip() + f", {each['num_threads']} threads"
        for each in threadpool_info()
        if each["user_api"] == "blas"
    ]


def _number(path: Path) -> int | None:
    text = _first_line(path)
    return int(text) if text is not None and text.isdigit() else None


def _first_line(path: Path) -> str | None:
    try:
        return path.read_text().strip().partition("\n")[0]
    except OSError:
        return None
