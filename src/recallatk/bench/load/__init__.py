"""Load on an index: closed loops with one or more clients, and open loops."""

from recallatk.bench.load.calls import Block, Questions
from recallatk.bench.load.modes import highest_rate, require_supported, run_block
from recallatk.bench.load.timed_loops import warm_up

__all__ = ["Block", "Questions", "highest_rate", "require_supported", "run_block", "warm_up"]
