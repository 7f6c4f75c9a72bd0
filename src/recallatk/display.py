"""Notebook display of results: core types call the renderer that the package registers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_renderers: list[Callable[[], Any]] = []


def register(load: Callable[[], Any]) -> None:
    """Register a function that imports the rendering module."""
    _renderers[:] = [load]


def renderer() -> Any:
    """The registered module; core cannot import it, because it is in a higher layer."""
    return _renderers[0]()
