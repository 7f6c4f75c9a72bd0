"""How a command ends: a message on standard error and an exit code, also on signals."""

from __future__ import annotations

import errno
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, NoReturn, ParamSpec, TextIO

import typer

from recallatk.cli.volume import note
from recallatk.errors import RecallError
from recallatk.redaction import hide_known, without_secrets

if TYPE_CHECKING:
    from recallatk.core.judgments import Finding, Verdict

Arguments = ParamSpec("Arguments")

FAILED, BAD_INPUT, UNDECIDED, INTERRUPTED = 1, 2, 3, 130
# Windows has no SIGHUP.
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class Ended(SystemExit):
    """A signal asked this process to end; the exit code names it."""

    def __init__(self, number: int) -> None:
        self.exit_code = 128 + number
        super().__init__(self.exit_code)

    @classmethod
    def behind(cls, problem: BaseException | None) -> Ended | None:
        """The signal that caused another exception; None if there was none."""
        while problem is not None and not isinstance(problem, cls):
            problem = problem.__context__
        return problem


# What an interrupted command has saved, or what its repetition does.
_SAVED = {
    "run": "finished trials are saved. Resume with",
    "demo": "the next one starts anew. Repeat with",
    "tune": "finished trials are saved. Resume with",
    "churn": "finished searches are saved. Resume with",
    "compute": "whatever has a checkpoint is saved. Resume with",
    "publish": "every page is whole. Publish again with",
}


def guarded(command: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """The command with every error that a user can cause turned into a message and an exit code."""

    @wraps(command)
    def run(*positional: Arguments.args, **named: Arguments.kwargs) -> None:
        try:
            command(*positional, **named)
        except RecallError as problem:
            _stop(str(problem), BAD_INPUT)
        except (KeyboardInterrupt, Ended) as stopped:
            code = stopped.exit_code if isinstance(stopped, Ended) else INTERRUPTED
            saved = _SAVED.get(command.__name__)
            _stop("stopped" if saved is None else f"stopped; {saved}: {_again()}", code)
        except BrokenPipeError:
            _drop(sys.stdout)
        except MemoryError:
            _stop("out of memory", BAD_INPUT)
        except OSError as problem:
            signaled = Ended.behind(problem)
            # A live view cannot clear a terminal that is gone.
            _stop(system_message(problem), BAD_INPUT if signaled is None else signaled.exit_code)

    return run


@contextmanager
def nothing_to_resume() -> Iterator[None]:
    """End on a signal without advice to resume: the work within saves nothing."""
    try:
        yield
    except (KeyboardInterrupt, Ended) as stopped:
        complain("stopped")
        raise SystemExit(stopped.exit_code if isinstance(stopped, Ended) else INTERRUPTED) from None


def _drop(stream: TextIO) -> None:
    """Discard further output: Python would fail again when it flushes the stream at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def system_message(problem: OSError) -> str:
    """The message of the operating system with the file it concerns."""
    full = problem.filename is None and problem.errno == errno.ENOSPC and _is_full(sys.stdout)
    where = "standard output" if full else problem.filename
    return f"{where}: {problem.strerror or problem}" if where else str(problem)


def _is_full(stream: TextIO) -> bool:
    """Whether the device is full; then further output is discarded."""
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
    from recallatk.reporting.text import printable

    lines = hide_known(message).split("\n")
    try:
        typer.echo("recallatk: " + "\n".join(map(printable, lines)), err=True)
    except OSError:
        # Standard error is gone too.
        _drop(sys.stderr)


def say(text: str) -> None:
    """Print a result; the reader of a pipe that is gone does not change how the command ends."""
    try:
        typer.echo(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _drop(sys.stdout)


def end_strictly(findings: Iterable[Finding], verdict: Verdict) -> None:
    """End a command under --strict by its goals and the linter's errors; unmet goals are named on stderr."""
    from recallatk.core.judgments import Outcome
    from recallatk.reporting.verdict_words import goal_said

    unmet = [each for each in verdict.goals if each.outcome is not Outcome.MET]
    for each in unmet:
        complain(goal_said(each))
    found = {each.outcome for each in unmet}
    # Not measured comes first: a mistyped goal must not look like a result.
    if Outcome.NOT_MEASURED in found:
        raise typer.Exit(BAD_INPUT)
    if Outcome.MISSED in found or any(each.counts for each in findings):
        raise typer.Exit(FAILED)
    if found:
        raise typer.Exit(UNDECIDED)


def end_with(outcome: str | None) -> None:
    """End a command with the code of its verdict; without goals, and on PASS, it goes on."""
    if outcome in ("FAIL", "UNDECIDED"):
        raise typer.Exit(FAILED if outcome == "FAIL" else UNDECIDED)


def warn_if_swapped(rows: int | None, queries: int) -> None:
    """Warn of a corpus that has far fewer rows than there are queries."""
    from recallatk.core.data import swapped

    said = swapped(rows, queries)
    if said is not None:
        note(f"warning: {said}")


def _again() -> str:
    """The command that resumes the work, without secrets."""
    given = [each for each in sys.argv[1:] if each != "--fresh"]
    return shlex.join(["recallatk", *(hide_known(without_secrets(each)) for each in given)])


def end_on_signals() -> None:
    """Raise Ended on SIGTERM or SIGHUP; a signal that is ignored, as under nohup, stays ignored."""
    for number in _SIGNALS:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)


def _end(number: int, _frame: object) -> NoReturn:
    # A closing terminal sends several signals, and the next one would interrupt the cleanup.
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise Ended(number)
