"""What an engine is known not to do: each gap is a strict expected failure with a kind and a reason."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """Whose a gap is."""

    OURS = "ours to do"
    UPSTREAM = "upstream"
    NEVER = "never"


@dataclass(frozen=True)
class Gap:
    """One test that an engine fails, and why."""

    kind: Kind
    reason: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.reason}"
