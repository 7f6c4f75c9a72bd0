"""Two snapshots to triggers: cheap numbers that may be a reason to measure recall."""

from recallatk.triggers.shifts import shifts
from recallatk.triggers.snapshot import Snapshot, open_snapshot

__all__ = ["Snapshot", "open_snapshot", "shifts"]
