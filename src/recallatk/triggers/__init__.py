"""Two snapshots to triggers: cheap numbers that may be a reason to measure recall."""

from recallatk.triggers.corpus_triggers import growth_trigger
from recallatk.triggers.shifts import shifts
from recallatk.triggers.snapshot import FEWEST, Snapshot, open_snapshot

__all__ = ["FEWEST", "Snapshot", "growth_trigger", "open_snapshot", "shifts"]
