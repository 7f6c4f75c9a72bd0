"""command: a program that answers lines of JSON, in whatever language it is written."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from recallatk.core import Knob
from recallatk.engines.attached import Attached, shortened
from recallatk.errors import EngineError, UsageError
from recallatk.references import expanded

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A program that was asked to end gets this long before it is ended.
_GRACE_SECONDS = 2.0
_KEPT_LINES = 20


class Program:
    """A running program with its lines, and a clock that ends it when an answer does not come."""

    def __init__(self, arguments: list[str], timeout: float) -> None:
        self.timeout = timeout
        self.late = False
        self._deadline: float | None = None
        self._closing = threading.Event()
        self._errors: deque[str] = deque(maxlen=_KEPT_LINES)
        # A session of its own, so that what the program starts ends with it.
        self._process = subprocess.Popen(
            arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=os.name == "posix",
        )
        self._threads = [
            threading.Thread(target=work, name="command", daemon=True)
            for work in (self._keep_errors, self._watch)
        ]
        for thread in self._threads:
            thread.start()

    def exchange(self, line: bytes) -> bytes:
        """Write one line and read one; empty when the program ended or was ended."""
        process = self._process
        assert process.stdin is not None  # noqa: S101 - both are pipes
        assert process.stdout is not None  # noqa: S101
        self._deadline = time.monotonic() + self.timeout
        try:
            process.stdin.write(line + b"\n")
            process.stdin.flush()
            return process.stdout.readline()
        except OSError:
            return b""
        finally:
            self._deadline = None

    def ending(self) -> str:
        """How it ended, in words."""
        if self.late:
            return f"no answer within {self.timeout:g} s"
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._process.wait(_GRACE_SECONDS)
            return f"it ended with signal {-code}" if code < 0 else f"it ended with code {code}"
        return "it closed its output"

    def last_error(self) -> str:
        """The last line that it wrote to standard error."""
        if self._process.poll() is not None:
            self._threads[0].join(_GRACE_SECONDS)
        return next((line for line in reversed(self._errors) if line), "")

    def close(self) -> None:
        """End it, first by the end of its input, and collect it."""
        process = self._process
        self._closing.set()
        with contextlib.suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_SECONDS)
            self._threads[0].join(_GRACE_SECONDS / 10)
        # Once all have ended, the number of their group may be somebody else's.
        if process.poll() is None or self._threads[0].is_alive():
            self._kill()
        process.wait()
        for thread in self._threads:
            thread.join(_GRACE_SECONDS)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None and not self._threads[0].is_alive():
                pipe.close()

    def _kill(self) -> None:
        """End the program and what it started."""
        with contextlib.suppress(OSError):
            if os.name == "posix":
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()

    def _keep_errors(self) -> None:
        if self._process.stderr is not None:
            for line in self._process.stderr:
                self._errors.append(shortened(line.decode("utf-8", "replace")))

    def _watch(self) -> None:
        # One clock for all queries: a timer for each would cost more than many an answer.
        while not self._closing.wait(min(0.5, self.timeout / 4)):
            deadline = self._deadline
            if deadline is not None and time.monotonic() > deadline:
                self.late = True
                self._kill()
                return


class Command(Attached):
    """A program that reads {"query": [...], "k": 10, "parameters": {...}} and writes {"ids": [...]}.

    One line for one query, in turn, until its input ends. What it has to say beside it writes to standard
    error, of which messages show the last line. It is started without a shell. `${NAME}` in `command` and
    `parameters` is taken from the environment.
    """

    name = "command"
    build_knobs = (
        Knob(
            "command", default="", help="the program and its arguments; ${NAME} is taken from the environment"
        ),
        Knob("timeout", default=30.0, low=0.01, high=3600.0, help="seconds that an answer may take"),
    )

    def __init__(self) -> None:
        super().__init__()
        self._program: Program | None = None

    def connect(self, parameters: dict[str, Any]) -> None:
        """Start the program."""
        try:
            arguments = shlex.split(parameters["command"])
        except ValueError as problem:
            raise UsageError(f"{self.name}: command cannot be split: {problem}") from problem
        if not arguments:
            raise UsageError(f"{self.name} needs command, a program and its arguments")
        self.target = arguments[0]
        try:
            # Expanded after it is split: a value may hold spaces and quotes.
            self._program = Program(expanded(arguments, "command", self.name), float(parameters["timeout"]))
        except OSError as problem:
            raise self.failed(f"it cannot be started: {problem.strerror or problem}") from problem

    def call(self) -> str:
        """One line of each side."""
        return "line to a subprocess and back"

    def ask(self, queries: NDArray[Any], k: int) -> list[list[object]]:
        """One line after the other."""
        return [self._answer(query, k) for query in queries.tolist()]

    def _answer(self, query: list[float], k: int) -> list[object]:
        if self._program is None:
            raise self.failed("it was ended")
        asked = {"query": query, "k": k, "parameters": self.passed}
        line = self._program.exchange(json.dumps(asked).encode())
        if not line:
            raise self._broken(self._program, self._program.ending())
        try:
            said = json.loads(line)
        except ValueError:
            shown = shortened(line.decode("utf-8", "replace"))
            raise self._broken(self._program, f"it wrote a line that is no JSON: {shown}") from None
        ids = said.get("ids") if isinstance(said, dict) else None
        if not isinstance(ids, list):
            shown = shortened(line.decode("utf-8", "replace"))
            raise self._broken(self._program, f'it wrote {shown}. Accepted: {{"ids": [...]}}')
        return ids

    def _broken(self, program: Program, what: str) -> EngineError:
        """The error with the last words of the program, whose answers would be out of step from here."""
        program.close()
        self._program = None
        last = program.last_error()
        return self.failed(f"{what}. Last line of its standard error: {last}" if last else what)

    def close(self) -> None:
        """End the program."""
        super().close()
        if self._program is not None:
            self._program.close()
            self._program = None
