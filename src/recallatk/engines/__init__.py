"""The engines: one file per kind of index, all behind one small contract."""

from recallatk.engines.base import Engine
from recallatk.engines.registry import get_engine, registered

__all__ = ["Engine", "get_engine", "registered"]
