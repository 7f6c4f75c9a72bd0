"""The engines: each kind of index in its own module, all behind one small contract."""

from recallatk.engines.base import Engine
from recallatk.engines.batch import QueryBatch
from recallatk.engines.registry import get_engine, registered

__all__ = ["Engine", "QueryBatch", "get_engine", "registered"]
