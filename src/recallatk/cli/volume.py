"""How much a command says beside its result: the flag behind --quiet, and notes that it silences."""

from __future__ import annotations

import warnings
from typing import Any


class Volume:
    """Whether progress and notes are printed; set anew by each command."""

    quiet = False


def set_quiet(asked: bool) -> None:
    """Follow the option --quiet."""
    Volume.quiet = asked


def note(message: str) -> None:
    """Print a note to standard error, unless the user wants the result only."""
    from recallatk.cli.exits import complain

    if not Volume.quiet:
        complain(message)


def print_deprecations() -> None:
    """Print each use of an old name as a note of one line, where Python would hide it."""
    warnings.filterwarnings("once", message=".* will be removed in ", category=DeprecationWarning)
    usual = warnings.showwarning
    # Libraries that change the filters make Python forget what it has shown once.
    said: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *rest: Any, **named: Any) -> None:
        if issubclass(category, DeprecationWarning) and "will be removed in" in str(message):
            if str(message) not in said:
                said.add(str(message))
                note(f"note: {message}")
        else:
            usual(message, category, *rest, **named)

    warnings.showwarning = show
