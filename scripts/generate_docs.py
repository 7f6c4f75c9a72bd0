"""Writes docs/cli.md from the commands themselves; with --check, fails when it is stale."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from recallatk.cli import app

if TYPE_CHECKING:
    from collections.abc import Iterator

TARGET = Path(__file__).parent.parent / "docs" / "cli.md"
INTRODUCTION = """# Command line

Made from the commands by `make docs`; do not edit.

`recallatk COMMAND --help` says the same. `python -m recallatk` is `recallatk`. Results go to standard
output; progress, warnings and errors go to standard error.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | what was checked is not so |
| 2 | usage or bad input; the message says what is wrong, where, and what is accepted |
| 130 | stopped with Ctrl-C; what is finished is kept, and the command that goes on is printed |
"""


def page() -> str:
    """The whole page."""
    return "\n".join([INTRODUCTION, *(section(name, command) for name, command in every_command())])


def every_command() -> Iterator[tuple[str, Any]]:
    """All commands by the words that call them; the first of a group needs no word of its own."""
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", None)
        if inner is None:
            yield name, command
            continue
        for number, (second, each) in enumerate(inner.items()):
            yield (f"{name} {second}" if number else name), each


def section(name: str, command: Any) -> str:
    """One command: usage, what it does, and a table of what it takes."""
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    usage = " ".join(f"{each.name.upper()}{'…' if each.nargs == -1 else ''}" for each in arguments)
    rows = [f"| {shown(each)} | {cell(each)} |" for each in command.params if each.name != "help"]
    table = "\n".join(["| argument or option | meaning |", "|---|---|", *rows])
    said = inspect.cleandoc(command.callback.__doc__)
    return f"## recallatk {name}\n\n    recallatk {name} {usage} [OPTIONS]\n\n{said}\n\n{table}\n".replace(
        "  [", " ["
    )


def shown(parameter: Any) -> str:
    """How the parameter is written."""
    if parameter.param_type_name == "argument":
        return f"`{parameter.name.upper()}`"
    return ", ".join(f"`{each}`" for each in parameter.opts)


def cell(parameter: Any) -> str:
    """What the parameter means, with its default where it has one worth saying."""
    default = (
        ""
        if parameter.default in (None, False) or parameter.required
        else f" Default: `{parameter.default}`."
    )
    return f"{parameter.help}{default}"


def main() -> None:
    wanted = page()
    if "--check" not in sys.argv:
        TARGET.write_text(wanted, encoding="utf-8")
    elif not TARGET.exists() or TARGET.read_text(encoding="utf-8") != wanted:
        sys.exit(f"docs/{TARGET.name} is stale; run: make docs")


if __name__ == "__main__":
    main()
