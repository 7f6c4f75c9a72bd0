"""The command line: one module per command, each a short sentence over library calls."""

from __future__ import annotations

import codecs
import json
import sys

import typer

from recallatk.cli.audit import audit
from recallatk.cli.convert import convert
from recallatk.cli.demo import demo
from recallatk.cli.engines import engines
from recallatk.cli.exits import BAD_INPUT, complain, end_on_signals, guarded, system_message
from recallatk.cli.export import export
from recallatk.cli.init import init
from recallatk.cli.inspect import inspect
from recallatk.cli.report import report
from recallatk.cli.run import run
from recallatk.cli.runs import runs
from recallatk.cli.score import score
from recallatk.cli.show import show
from recallatk.cli.truth import DefaultGroup, compute, verify
from recallatk.cli.tune import tune
from recallatk.version import __version__

_ESCAPED = "recallatk.escaped"
# In the order in which a user meets them.
COMMANDS = (
    demo,
    inspect,
    convert,
    score,
    engines,
    init,
    run,
    tune,
    audit,
    report,
    runs,
    show,
    export,
)
# Plain help starts in half the time of the decorated one and can be piped.
app = typer.Typer(
    name="recallatk",
    help="How much of the true top-K your vector index returns, what that recall costs, and which "
    "setting to run.",
    epilog="First use: recallatk demo",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
for command in COMMANDS:
    app.command()(guarded(command))
truth = typer.Typer(
    cls=DefaultGroup,
    help="Exact nearest neighbours with proof, and proof of anybody's: recallatk truth CORPUS QUERIES.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
truth.command()(guarded(compute))
truth.command()(guarded(verify))
app.add_typer(truth, name="truth")


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"recallatk {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    pass


def main() -> None:
    """Run the command line; SIGTERM and SIGHUP leave no scratch files or processes behind."""
    _take_any_text()
    end_on_signals()
    try:
        app()
    except OSError as problem:
        # Help and version are printed outside any command.
        complain(system_message(problem))
        sys.exit(BAD_INPUT)


def _take_any_text() -> None:
    r"""Write characters that the encoding of a stream lacks as \uXXXX, which JSON reads back."""
    codecs.register_error(_ESCAPED, _escaped)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors=_ESCAPED)


def _escaped(problem: UnicodeError) -> tuple[str, int]:
    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    return json.dumps(problem.object[problem.start : problem.end])[1:-1], problem.end
