"""What a command may end with: one line on standard error and an exit code, never a traceback."""

from __future__ import annotations

import errno
import os
import shlex
import sys
from collections.abc import Callable
from functools import wraps
from typing import NoReturn, ParamSpec, TextIO

import typer

from recallatk.cli.signals import Ended
from recallatk.errors import RecallError
from recallatk.redaction import hide_known, without_secrets

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
        except (KeyboardInterrupt, Ended) as stopped:
            code = stopped.exit_code if isinstance(stopped, Ended) else INTERRUPTED
            _stop(f"stopped; what is finished is kept. To go on: {_again()}", code)
        except BrokenPipeError:
            _drop(sys.stdout)
        except MemoryError:
            _stop("out of memory", BAD_INPUT)
        except OSError as problem:
            signaled = Ended.behind(problem)
            # A view cannot take its leave of a terminal that has gone.
            _stop(system_message(problem), BAD_INPUT if signaled is None else signaled.exit_code)

    return run


def _drop(stream: TextIO) -> None:
    """Let nothing more be written there: Python would only complain again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def system_message(problem: OSError) -> str:
    """What the system said, with the file that it was about."""
    full = problem.filename is None and problem.errno == errno.ENOSPC and _is_full(sys.stdout)
    where = "standard output" if full else problem.filename
    return f"{where}: {problem.strerror or problem}" if where else str(problem)


def _is_full(stream: TextIO) -> bool:
    """Whether nothing more can be written there; then nothing more is."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):
        return False
    try:
        stream.flush()
        os.write(descriptor, b"\n")
    except OSError:
        _drop(stream)
        return True
    return False


def _stop(message: str, code: int) -> NoReturn:
    complain(message)
    raise typer.Exit(code)


def complain(message: str) -> None:
    """Print to standard error, without known secrets or control characters other than line feeds."""
    from recallatk.report.text import printable

    lines = hide_known(message).split("\n")
    try:
        typer.echo("recallatk: " + "\n".join(map(printable, lines)), err=True)
    except OSError:
        # Nobody can be told.
        _drop(sys.stderr)


def warn_if_swapped(rows: int | None, queries: int) -> None:
    """Warn of a corpus that has far fewer rows than there are queries."""
    from recallatk.core.data import swapped

    said = swapped(rows, queries)
    if said is not None:
        complain(f"warning: {said}")


def _again() -> str:
    """The command that goes on with what was begun, without secrets."""
    given = [each for each in sys.argv[1:] if each != "--fresh"]
    return shlex.join(["recallatk", *(hide_known(without_secrets(each)) for each in given)])
