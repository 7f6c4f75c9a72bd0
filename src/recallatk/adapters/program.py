"""A subprocess that answers each line with one line, within a time limit."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from recallatk.adapters.attached import shortened

# Grace period of a program before it is killed.
_GRACE_SECONDS = 2.0
_KEPT_BYTES = 1 << 14
_READ_BYTES = 1 << 16
_REAPER = Path(__file__).with_name("reaper.py")


class SurplusError(Exception):
    """The program wrote a surplus line; the message is its text."""


class Program:
    """A running program, and a watchdog that kills it when an answer takes too long.

    Args:
        arguments: the program and its arguments.
        timeout: seconds that an answer may take.
    """

    def __init__(self, arguments: list[str], timeout: float) -> None:
        self.timeout = timeout
        self.late = False
        self.slowest = 0.0
        """Seconds of the slowest answer so far."""
        self._deadline: float | None = None
        self._closing = threading.Event()
        self._errors = b""
        self._held = b""
        self._control: socket.socket | None = None
        self._process = self._start(arguments)
        # Windows cannot poll a pipe; there, only surplus that arrives with an answer is detected.
        self._poller = select.poll() if hasattr(select, "poll") else None
        if self._poller is not None and self._process.stdout is not None:
            self._poller.register(self._process.stdout, select.POLLIN)
        self._threads = [
            threading.Thread(target=work, name="command", daemon=True)
            for work in (self._keep_errors, self._watch)
        ]
        for thread in self._threads:
            thread.start()

    def _start(self, arguments: list[str]) -> subprocess.Popen[bytes]:
        if os.name != "posix":
            return _piped(arguments)
        self._control, theirs = socket.socketpair()
        with theirs:
            number = theirs.fileno()
            # -I -S: no user code is imported, and the start takes a few milliseconds.
            script = [sys.executable, "-I", "-S", str(_REAPER), str(number), *arguments]
            process = _piped(script, number)
        said = self._control.recv(16)
        if said != b"0":
            process.communicate()
            self._control.close()
            raise OSError(int(said or b"-1"), os.strerror(int(said)) if said else "its parent ended")
        return process

    def exchange(self, line: bytes) -> bytes | None:
        """Write one line and read one; None when the program ended or was killed.

        Raises a SurplusError if the program wrote a line too early, which would be taken for the answer.
        """
        began = time.monotonic()
        self._deadline = began + self.timeout
        try:
            self.require_silence()
            self._write(line + b"\n")
            answer = self._line()
            self.slowest = max(self.slowest, time.monotonic() - began)
            return answer
        except OSError:
            return None
        finally:
            self._deadline = None

    def require_silence(self, seconds: float = 0.0) -> None:
        """Raise a SurplusError if the program has written a surplus line or writes one within this time."""
        if not self._held and self._readable(seconds):
            self._held = self._read()
        if self._held:
            raise SurplusError(self._held.decode("utf-8", "replace"))

    def _readable(self, seconds: float) -> bool:
        return self._poller is not None and bool(self._poller.poll(seconds * 1000))

    def _read(self) -> bytes:
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        return os.read(self._process.stdout.fileno(), _READ_BYTES)

    def _write(self, line: bytes) -> None:
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        number, rest = self._process.stdin.fileno(), memoryview(line)
        while rest:
            rest = rest[os.write(number, rest) :]

    def _line(self) -> bytes | None:
        parts: list[bytes] = []
        while some := self._read():
            first, end, rest = some.partition(b"\n")
            parts.append(first)
            if end:
                self._held = rest
                return b"".join(parts)
        return b"".join(parts) or None

    def ending(self) -> str:
        """How the program ended, in words."""
        if self.late:
            return f"no answer within {self.timeout:g} s"
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._process.wait(_GRACE_SECONDS)
            return f"it ended with signal {-code}" if code < 0 else f"it ended with code {code}"
        return "it closed its output"

    def last_error(self) -> str:
        """The last line that the program wrote to standard error."""
        if self._process.poll() is not None:
            self._threads[0].join(_GRACE_SECONDS)
        # Skip a truncated line: without its beginning, a secret in it is not recognized.
        lines = self._errors.splitlines()[len(self._errors) == _KEPT_BYTES :]
        said = (shortened(line.decode("utf-8", "replace")) for line in reversed(lines))
        return next(filter(None, said), "")

    def close(self) -> None:
        """Close the program's input, kill it if it does not end, and reap it."""
        process = self._process
        self._closing.set()
        with contextlib.suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_SECONDS)
        self._kill()
        process.wait()
        for thread in self._threads:
            thread.join(_GRACE_SECONDS)
        for pipe in (process.stdout, process.stderr, self._control):
            if pipe is not None and not self._threads[0].is_alive():
                pipe.close()

    def _kill(self) -> None:
        """Kill the program and its descendants."""
        if self._control is None:
            self._process.kill()
            return
        with contextlib.suppress(OSError):
            # `close` is not enough: a forked client has a copy of the socket.
            self._control.shutdown(socket.SHUT_RDWR)

    def _keep_errors(self) -> None:
        """Keep the raw tail of standard error; parsing every line would slow the calls."""
        if self._process.stderr is None:
            return
        with contextlib.suppress(OSError):
            while some := os.read(self._process.stderr.fileno(), _READ_BYTES):
                self._errors = (self._errors + some)[-_KEPT_BYTES:]

    def _watch(self) -> None:
        # One watchdog for all queries: a timer for each would cost more than many answers.
        while not self._closing.wait(min(0.5, self.timeout / 4)):
            deadline = self._deadline
            if deadline is not None and time.monotonic() > deadline:
                self.late = True
                self._kill()
                return


def _piped(arguments: list[str], *passed: int) -> subprocess.Popen[bytes]:
    """Start a process with pipes, shielded from Ctrl-C because this class ends it."""
    return subprocess.Popen(
        arguments,
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=passed,
        start_new_session=os.name == "posix",
    )
