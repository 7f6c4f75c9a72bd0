"""From a target to a setting: screen, build, compare, validate and explain."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recallatk.tune.tuning import tune

__all__ = ["tune"]


def __getattr__(name: str) -> Any:
    # Tuning imports most of the package, which nobody else should pay for.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from recallatk.tune.tuning import tune

    return tune


class _Door(ModuleType):
    """Makes `recallatk.tune(…)` work whether Python finds the function or this package of the same name."""

    def __call__(self, *positional: Any, **named: Any) -> Any:
        from recallatk.tune.tuning import tune

        return tune(*positional, **named)


sys.modules[__name__].__class__ = _Door
