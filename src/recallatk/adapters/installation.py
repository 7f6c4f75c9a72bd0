"""Libraries of engines: whether they are installed, and the command that installs them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from recallatk.errors import MissingExtraError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.adapters.base import Engine


def installed_version(engine: type[Engine]) -> str | None:
    """Version of the engine's library; None if it is not installed or has none."""
    from importlib import metadata

    try:
        return None if engine.distribution is None else metadata.version(engine.distribution)
    except metadata.PackageNotFoundError:
        return None


def require_installed(engine: type[Engine]) -> None:
    """Refuse an engine whose library is missing, with the command that installs it."""
    if engine.distribution is None or installed_version(engine) is not None:
        return
    if engine.extra is not None:
        raise MissingExtraError(f"the engine {engine.name}", engine.extra)
    raise UsageError(f"{engine.distribution} is not installed. Install it: pip install {engine.distribution}")


@contextmanager
def importing(engine: type[Engine]) -> Iterator[None]:
    """Turn a missing module into an error with the command that installs it."""
    try:
        yield
    except ModuleNotFoundError as problem:
        what = f"{problem.name}, which the engine {engine.name} needs,"
        if engine.extra is not None:
            raise MissingExtraError(what, engine.extra) from problem
        line = f"pip install {engine.distribution or problem.name}"
        raise UsageError(f"{what} is not installed. Install it: {line}") from problem
