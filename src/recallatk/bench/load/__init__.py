"""Putting queries to an index: one at a time, by many clients at once, or as they arrive."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from recallatk.bench.load.block import Block
from recallatk.bench.load.closed import run_closed
from recallatk.bench.load.highest import highest_rate
from recallatk.bench.load.questions import Questions
from recallatk.bench.load.rate import run_at_rate
from recallatk.core import Mode, Via

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from recallatk.core import Load
    from recallatk.engines.base import Engine

__all__ = ["Block", "Questions", "highest_rate", "require_supported", "run_block"]


def run_block(
    engine: Engine, load: Load, questions: Questions, order: NDArray[np.int64], *, seed: int = 0
) -> Block:
    """Ask the queries in this order under this load; the seed is of the arrivals of an open loop."""
    if load.mode is Mode.RATE:
        return run_at_rate(engine, load, questions, order, seed)
    return run_closed(engine, load, questions, order)


def require_supported(engine: Engine, load: Load) -> None:
    """Refuse a load that the engine or the system cannot take."""
    if load.via is Via.PROCESSES and not hasattr(os, "fork"):
        raise engine.unable("be searched by processes here: this system does not fork. Accepted: via threads")
    if load.via is Via.PROCESSES and not engine.abilities.forks:
        raise engine.unable("be searched by forked processes")
    if load.clients_or(1) > 1 and not engine.abilities.clients:
        raise engine.unable("serve several clients at once")
    if load.batch > 1 and not engine.abilities.batch:
        raise engine.unable("take several queries in one call")
