"""The command line: one module per command, each a short sentence over library calls."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from recallatk.cli.overview import COMMANDS, overview
from recallatk.version import __version__

if TYPE_CHECKING:
    import typer

    app: typer.Typer
_HELP = {"-h", "--help"}


def __getattr__(name: str) -> Any:
    """The whole Typer application, built on first use."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from recallatk.cli.application import application

    globals()[name] = application()
    return globals()[name]


def main() -> None:
    """Run the command line; SIGTERM and SIGHUP leave no scratch files or processes behind."""
    from recallatk.cli.streams import accept_any_text

    accept_any_text()
    given = sys.argv[1:]
    try:
        if given and set(given) <= _HELP:
            _print(overview())
        elif given == ["--version"]:
            _print(f"recallatk {__version__}")
        else:
            _run(given)
    except OSError as problem:
        # Help and version are printed outside any command.
        from recallatk.cli.exits import BAD_INPUT, complain, system_message

        complain(system_message(problem))
        sys.exit(BAD_INPUT)


def _print(text: str) -> None:
    # Only a flush tells that the text did not fit.
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _run(given: list[str]) -> None:
    """Run one command; every other word, such as a misspelled one, needs all of them."""
    from recallatk.cli.application import application
    from recallatk.cli.exits import end_on_signals
    from recallatk.cli.volume import print_deprecations

    end_on_signals()
    print_deprecations()
    named = given[0] if given else ""
    application([named] if named in COMMANDS else COMMANDS)(prog_name="recallatk")
