"""Measuring: an engine on a dataset, in a process of its own, timed call by call."""

from recallatk.bench.measure import measure

__all__ = ["measure"]
