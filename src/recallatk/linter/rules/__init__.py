"""The rules of the linter by their codes: every module here holds one."""

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


# Module names begin with the code, so that their order is the order of the codes.
RULES: tuple[Rule, ...] = tuple(
    _rule_in(name) for name in sorted(m.name for m in pkgutil.iter_modules(__path__))
)


def rule_codes() -> tuple[str, ...]:
    """The codes of all rules, in order."""
    return tuple(each.code for each in RULES)
