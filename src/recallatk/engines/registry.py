"""The engines by name: where each is imported from and the line that installs it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from recallatk.errors import MissingExtraError, UsageError, choices

if TYPE_CHECKING:
    from recallatk.engines.base import Engine

# name: (import path, the extra that installs it or None when it comes with the package)
ENGINES: dict[str, tuple[str, str | None]] = {
    "exact": ("recallatk.engines.exact:Exact", None),
    "faiss-hnsw": ("recallatk.engines.faiss_hnsw:FaissHnsw", None),
}


def get_engine(name: str) -> type[Engine]:
    """The class of the engine of that name; nothing is imported before it is asked for."""
    if name not in ENGINES:
        raise UsageError(f"no engine {name!r}. Accepted: {choices(ENGINES)}")
    path, extra = ENGINES[name]
    module, _, attribute = path.partition(":")
    try:
        found: type[Engine] = getattr(importlib.import_module(module), attribute)
    except ImportError as problem:
        if extra is None:
            raise
        raise MissingExtraError(f"the engine {name}", extra) from problem
    return found
