"""Headers that format 2 wrote, in the terms of the current format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recallatk.history.records import Record

OLDEST_VERSION = 2
"""The oldest format whose trial files describe themselves."""


def upgraded(header: Record) -> Record:
    """A header of run.json or of a trial file as the current format would have it; newer ones unchanged."""
    if int(header["format_version"]) != OLDEST_VERSION:
        return header
    new: Record = _upgraded(header)
    if "trial" in new:
        new["clients"] = new["trial"]["load"]["clients"]
    return new


def _upgraded(value: Any) -> Any:
    """Every load in it with the number of clients that its author gave."""
    if isinstance(value, list):
        return [_upgraded(each) for each in value]
    if not isinstance(value, dict):
        return value
    new = {name: _upgraded(each) for name, each in value.items()}
    if "p99_ms" in new and new.get("mode") == "rate" and new.get("clients") == 1:
        # Format 2 wrote 1 for "not given", and used as many clients as the engine took.
        new["clients"] = None
    return new
