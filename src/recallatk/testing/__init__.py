"""For our tests and for those of others: the contract of engines, and small datasets with known answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recallatk.testing.gaps import Gap, Kind
from recallatk.testing.tiny import tiny_dataset

if TYPE_CHECKING:
    from recallatk.testing.contract import EngineContract

__all__ = ["EngineContract", "Gap", "Kind", "tiny_dataset"]


def __getattr__(name: str) -> Any:
    # The contract is for pytest, which others of this room do not need.
    if name != "EngineContract":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from recallatk.testing.contract import EngineContract

    return EngineContract
