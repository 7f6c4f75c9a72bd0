"""Test support: the contract of engines, small datasets with known answers, and recall as an assertion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recallatk.testing.tiny import tiny_dataset

if TYPE_CHECKING:
    from recallatk.testing.assertion import assert_recall
    from recallatk.testing.contract import EngineContract
    from recallatk.testing.contract_ground import Gap, Kind

__all__ = ["EngineContract", "Gap", "Kind", "assert_recall", "tiny_dataset"]


def __getattr__(name: str) -> Any:
    # The contract imports pytest, which the datasets do not need.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "assert_recall":
        from recallatk.testing import assertion

        return assertion.assert_recall
    from recallatk.testing import contract, contract_ground

    return getattr(contract if name == "EngineContract" else contract_ground, name)
