"""Signals that ask the command to end: it stops as after Ctrl-C, and its exit code names the signal."""

from __future__ import annotations

import signal
from typing import NoReturn

# Windows has no SIGHUP.
ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class Ended(SystemExit):
    """A signal has asked this process to end."""

    def __init__(self, number: int) -> None:
        self.exit_code = 128 + number
        super().__init__(self.exit_code)

    @classmethod
    def behind(cls, problem: BaseException | None) -> Ended | None:
        """The signal in whose wake something else went wrong; None where there was none."""
        while problem is not None and not isinstance(problem, cls):
            problem = problem.__context__
        return problem


def end_on_signals() -> None:
    """Raise Ended when SIGTERM or SIGHUP comes; one that is ignored, as under nohup, stays ignored."""
    for number in ENDING:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)


def _end(number: int, _frame: object) -> NoReturn:
    # One is enough: a terminal that is closed sends several, and the next would cut the cleaning up short.
    for each in ENDING:
        signal.signal(each, signal.SIG_IGN)
    raise Ended(number)
