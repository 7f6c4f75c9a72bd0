"""Existing collections to a verdict: probes with exact neighbors, and the effort that would do."""

from recallatk.probing.effort import tune_effort
from recallatk.probing.probe import probe
from recallatk.probing.watch import watch

__all__ = ["probe", "tune_effort", "watch"]
