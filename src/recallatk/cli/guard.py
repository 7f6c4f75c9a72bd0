"""What a command may end with: one line on standard error and an exit code, never a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import typer

from recallatk.errors import RecallError

Arguments = ParamSpec("Arguments")

BAD_INPUT, INTERRUPTED = 2, 130


def guarded(command: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """The command, with everything that a user can cause turned into a message."""

    @wraps(command)
    def run(*positional: Arguments.args, **named: Arguments.kwargs) -> None:
        try:
            command(*positional, **named)
        except RecallError as problem:
            _stop(str(problem), BAD_INPUT)
        except KeyboardInterrupt:
            _stop("stopped; what was finished is kept. The same command does it again", INTERRUPTED)
        except BrokenPipeError:
            # Whoever read our output has gone; writing more would only complain again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except MemoryError:
            _stop("out of memory", BAD_INPUT)
        except OSError as problem:
            where = f"{problem.filename}: " if problem.filename else ""
            _stop(f"{where}{problem.strerror or problem}", BAD_INPUT)

    return run


def _stop(message: str, code: int) -> None:
    from recallatk.report.text import printable

    typer.echo(f"recallatk: {printable(message)}", err=True)
    raise typer.Exit(code)
