"""Files on web servers: why one could not be read, and what to do."""

from __future__ import annotations

from typing import Any

ADVICE = "Check the address and the network, or download the file and pass its path"
_NOT_THERE = (404, 410)


def is_web(path: str) -> bool:
    """Whether an fsspec path is a web URL."""
    return path.startswith(("http://", "https://"))


def web_failure(filesystem: Any, path: str) -> Exception | None:
    """Why a web server did not deliver a file; None if the file does not exist.

    fsspec reports every failed request as "not found" and keeps the real error as the cause.
    """
    inner = getattr(getattr(filesystem, "handler", None), "fs", None)
    if inner is None or not is_web(path):
        return None
    try:
        inner.info(path)
    except Exception as problem:
        cause = problem.__cause__ if isinstance(problem, FileNotFoundError) else problem
        missing = getattr(cause, "status", None) in _NOT_THERE
        return cause if isinstance(cause, Exception) and not missing else None
    return None
