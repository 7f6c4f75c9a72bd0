"""The engines: each kind of index in its own module, all behind one small contract."""

from recallatk.adapters.base import Engine
from recallatk.adapters.batch import QueryBatch
from recallatk.adapters.registry import get_engine, registered

__all__ = ["Engine", "QueryBatch", "get_engine", "registered"]
