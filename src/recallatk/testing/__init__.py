"""Test support for engines, ours and third parties': the contract, and small datasets with known answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recallatk.testing.tiny import tiny_dataset

if TYPE_CHECKING:
    from recallatk.testing.contract import EngineContract
    from recallatk.testing.contract_ground import Gap, Kind

__all__ = ["EngineContract", "Gap", "Kind", "tiny_dataset"]


def __getattr__(name: str) -> Any:
    # The contract imports pytest, which the datasets do not need.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from recallatk.testing import contract, contract_ground

    return getattr(contract if name == "EngineContract" else contract_ground, name)
