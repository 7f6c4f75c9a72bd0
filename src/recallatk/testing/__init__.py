"""Test support: the contract of engines, small datasets with known answers, and recall as an assertion."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recallatk.testing.assertion import assert_recall
    from recallatk.testing.contract import EngineContract
    from recallatk.testing.contract_ground import Gap, Kind
    from recallatk.testing.recall_fixture import RecallFixture
    from recallatk.testing.tiny import tiny_dataset

# pytest imports this package in every session, for the plugin: nothing else may come along.
_HOMES = {
    "EngineContract": "contract",
    "Gap": "contract_ground",
    "Kind": "contract_ground",
    "RecallFixture": "recall_fixture",
    "assert_recall": "assertion",
    "tiny_dataset": "tiny",
}

__all__ = ["EngineContract", "Gap", "Kind", "RecallFixture", "assert_recall", "tiny_dataset"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
