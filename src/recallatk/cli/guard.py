"""What a command may end with: one line on standard error and an exit code, never a traceback."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from functools import wraps
from typing import NoReturn, ParamSpec

import typer

from recallatk.errors import RecallError
from recallatk.redaction import hide_known, redact_text, without_secrets

Arguments = ParamSpec("Arguments")

FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130


def guarded(command: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """The command, with everything that a user can cause turned into a message."""

    @wraps(command)
    def run(*positional: Arguments.args, **named: Arguments.kwargs) -> None:
        try:
            command(*positional, **named)
        except RecallError as problem:
            _stop(str(problem), BAD_INPUT)
        except KeyboardInterrupt:
            _stop(f"stopped; what is finished is kept. To go on: {_again()}", INTERRUPTED)
        except BrokenPipeError:
            # Whoever read our output has gone; writing more would only complain again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except MemoryError:
            _stop("out of memory", BAD_INPUT)
        except OSError as problem:
            where = f"{problem.filename}: " if problem.filename else ""
            _stop(redact_text(f"{where}{problem.strerror or problem}"), BAD_INPUT)

    return run


def _stop(message: str, code: int) -> NoReturn:
    complain(message)
    raise typer.Exit(code)


def complain(message: str) -> None:
    """Print to standard error, without known secrets or control characters other than line feeds."""
    from recallatk.report.text import printable

    lines = hide_known(message).split("\n")
    typer.echo("recallatk: " + "\n".join(map(printable, lines)), err=True)


def warn_if_swapped(rows: int | None, queries: int) -> None:
    """Warn of a corpus that has far fewer rows than there are queries."""
    from recallatk.core.proportion import swapped

    said = swapped(rows, queries)
    if said is not None:
        complain(f"warning: {said}")


def _again() -> str:
    """The command that was given, without secrets."""
    return shlex.join(["recallatk", *(hide_known(without_secrets(each)) for each in sys.argv[1:])])
