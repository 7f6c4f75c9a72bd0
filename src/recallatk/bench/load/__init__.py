"""Load on an index: queries sent one at a time, by several clients at once, or as they arrive."""

from recallatk.bench.load.calls import Block, Questions
from recallatk.bench.load.modes import highest_rate, require_supported, run_block
from recallatk.bench.load.timed_loops import warm_up

__all__ = ["Block", "Questions", "highest_rate", "require_supported", "run_block", "warm_up"]
