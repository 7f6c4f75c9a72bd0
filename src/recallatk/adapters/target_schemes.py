"""The schemes of existing collections, and the module that opens each of them."""

from __future__ import annotations

import importlib
import re
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from recallatk.adapters.collection import Collection, parse_target
from recallatk.adapters.probe_limits import ProbeLimits
from recallatk.errors import UsageError, unknown

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Any

_SCHEMES = {
    "postgresql": "recallatk.adapters.postgres_collection:PostgresCollection",
    "postgres": "recallatk.adapters.postgres_collection:PostgresCollection",
    "lancedb": "recallatk.adapters.lancedb_collection:LanceCollection",
    "http": "recallatk.adapters.attached_collection:HttpCollection",
    "https": "recallatk.adapters.attached_collection:HttpCollection",
    "function": "recallatk.adapters.attached_collection:FunctionCollection",
    "duckdb": "recallatk.adapters.duckdb_collection:DuckCollection",
    "faiss": "recallatk.adapters.faiss_collection:FaissFileCollection",
    "usearch": "recallatk.adapters.usearch_collection:UsearchFileCollection",
    "hnswlib": "recallatk.adapters.hnswlib_collection:HnswlibFileCollection",
    "chroma": "recallatk.adapters.chroma_collection:ChromaCollection",
    "qdrant": "recallatk.adapters.qdrant_collection:QdrantCollection",
    "milvus": "recallatk.adapters.milvus_collection:MilvusCollection",
    "sqlite": "recallatk.adapters.sqlite_collection:SqliteCollection",
}

_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*(\?.*)?")


def is_target(text: str) -> bool:
    """Whether a text names an existing collection rather than a file of vectors."""
    scheme, sign, _ = _complete(text).partition("://")
    return bool(sign) and scheme in _SCHEMES


def _complete(text: str) -> str:
    """The URL of a text: `module:function` is one of the scheme `function`."""
    return f"function://{text}" if _FUNCTION.fullmatch(text) and not Path(text).exists() else text


def open_collection(text: str, limits: ProbeLimits | None = None, **more: Any) -> Collection:
    """Open what a target names; nothing is changed there.

    Args:
        text: such as `postgresql://host/db?table=items`, `lancedb://folder/table` or `module:function`.
        limits: time limits.
        more: options in place of those in the URL.
    """
    text = _complete(text)
    scheme, sign, _ = text.partition("://")
    if not sign or scheme not in _SCHEMES:
        known = unknown("scheme", scheme, _SCHEMES) if sign else f"{text} has no scheme"
        raise UsageError(f"{known}. A target is a URL such as postgresql://host/db?table=items")
    module, _, name = _SCHEMES[scheme].partition(":")
    kind: type[Collection] = getattr(importlib.import_module(module), name)
    target = parse_target(text, kind.options)
    for option in more:
        if option not in kind.options:
            raise UsageError(f"{scheme}: {unknown('option', option, kind.options)}")
    from dataclasses import replace

    # As typed: `module:function` has no scheme.
    shown = target.text.removeprefix("function://")
    target = replace(target, text=shown, options={**target.options, **more})
    return kind.open(target, limits or ProbeLimits())


def collection_in_use(target: str | Collection, timeout: float) -> AbstractContextManager[Collection]:
    """A collection for the time of a job; one that the caller opened stays open.

    Args:
        target: a text that names a collection, or one that is open.
        timeout: time limit of each statement or call, in seconds.
    """
    if isinstance(target, Collection):
        return nullcontext(target)
    return open_collection(target, ProbeLimits(seconds=timeout))
