"""Existing collections to a verdict: probes with exact neighbors, the effort that would do, and drift."""

from recallatk.probing.drift import drift
from recallatk.probing.effort import tune_effort
from recallatk.probing.probe import probe
from recallatk.probing.watch import watch

__all__ = ["drift", "probe", "tune_effort", "watch"]
