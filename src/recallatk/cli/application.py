"""The Typer application; the modules of commands are imported when the commands are needed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from recallatk.cli.exits import guarded
from recallatk.cli.overview import COMMANDS, DESCRIPTION, EPILOG, overview
from recallatk.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable


class Overview(TyperGroup):
    """The group of all commands; its help is the overview, which needs none of their modules."""

    def get_help(self, ctx: Any) -> str:
        """The one-line descriptions of all commands."""
        return overview()


def application(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """The command line with the named commands, by default all."""
    # Plain help starts in half the time of the decorated one and can be piped.
    app = typer.Typer(
        name="recallatk",
        cls=Overview,
        help=DESCRIPTION,
        epilog=EPILOG,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback()(_options)
    for name in names:
        module = import_module(f"recallatk.cli.{name}")
        group = getattr(module, "GROUP", None)
        if group is None:
            app.command(short_help=COMMANDS[name])(guarded(getattr(module, name)))
        else:
            app.add_typer(group, name=name, short_help=COMMANDS[name])
    return app


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"recallatk {__version__}")
        raise typer.Exit


def _options(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    pass
