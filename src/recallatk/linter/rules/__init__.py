"""The linter's rules by code, one module each."""

from __future__ import annotations

import importlib
import pkgutil

from recallatk.linter.rule import Rule


def _rule_in(module: str) -> Rule:
    found = vars(importlib.import_module(f"{__name__}.{module}")).values()
    [kind] = [
        each for each in found if isinstance(each, type) and each is not Rule and issubclass(each, Rule)
    ]
    return kind()


# Module names begin with the code, so sorting by name sorts by code.
RULES: tuple[Rule, ...] = tuple(
    _rule_in(name) for name in sorted(m.name for m in pkgutil.iter_modules(__path__))
)


def rule_codes() -> tuple[str, ...]:
    """Codes of all rules, in order."""
    return tuple(each.code for each in RULES)
