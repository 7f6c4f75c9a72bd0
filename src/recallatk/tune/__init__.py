"""From a target to a setting: the search space, the search and its validation."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recallatk.tune.tuning import tune

__all__ = ["tune"]


def __getattr__(name: str) -> Any:
    # What it takes to tune is imported when somebody does.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from recallatk.tune.tuning import tune

    return tune


class _Door(ModuleType):
    """The room is called like the function: `recallatk.tune(…)` works whichever of them Python finds."""

    def __call__(self, *positional: Any, **named: Any) -> Any:
        from recallatk.tune.tuning import tune

        return tune(*positional, **named)


sys.modules[__name__].__class__ = _Door
