"""The log of a measuring process: its standard error, redacted line by line before it reaches the disk."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import threading
from collections import deque
from typing import TYPE_CHECKING

from recallatk.redaction import redact_text

if TYPE_CHECKING:
    from pathlib import Path

_TAIL_LINES = 20
_TAIL_WIDTH = 500
# Longer lines are cut; a progress bar ends its lines with a carriage return.
_LONGEST = 1 << 16
_LINE_END = re.compile(rb"(?<=[\r\n])")


class ProcessLog:
    """A log file with a pipe before it: what a process writes into the pipe is appended without secrets.

    Args:
        path: the file, which is appended to.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab")
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        self._waking, self._wake = os.pipe()
        self._lock = threading.Lock()
        self._held = b""
        self._cut = self._ended = self._closed = False
        self._last: deque[str] = deque(maxlen=_TAIL_LINES)
        self._thread = threading.Thread(target=self._follow, name="process log", daemon=True)
        self._thread.start()

    @property
    def descriptor(self) -> int:
        """The end of the pipe for the process's standard error."""
        return self._writing

    def handed_over(self) -> None:
        """Close our copy of that end, once the process has its own; may be called twice."""
        if self._writing >= 0:
            os.close(self._writing)
            self._writing = -1

    def tail(self) -> str:
        """The last lines of all that the process has written so far."""
        with self._lock:
            self._drain()
            partial = _shown(self._held)
            lines = [*self._last, *([partial] if partial else [])]
            return "\n".join(line[:_TAIL_WIDTH] for line in lines[-_TAIL_LINES:])

    def close(self) -> None:
        """Write what is left and close the file; may be called twice."""
        if self._closed:
            return
        self._closed = True
        self.handed_over()
        os.write(self._wake, b"\n")
        self._thread.join()
        with self._lock:
            self._drain()
            self._write(self._held)
            self._held, self._ended = b"", True
            self._file.close()
        for descriptor in (self._reading, self._waking, self._wake):
            os.close(descriptor)

    def __enter__(self) -> ProcessLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _follow(self) -> None:
        """Empty the pipe whenever there is something in it: a full one would stop the process."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._reading, selectors.EVENT_READ)
            selector.register(self._waking, selectors.EVENT_READ)
            while not self._ended:
                ready = [key.fd for key, _ in selector.select()]
                if self._waking in ready:
                    return
                with self._lock:
                    self._drain()

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while not self._ended:
                some = os.read(self._reading, 1 << 16)
                self._ended = not some
                *whole, self._held = _LINE_END.split(self._held + some)
                for line in whole:
                    self._write(line)
                if len(self._held) > _LONGEST:
                    self._write(self._held)
                    self._held, self._cut = b"", True
                self._file.flush()

    def _write(self, line: bytes) -> None:
        """Append one line; what follows the beginning of an endless one is left out."""
        ended = line.endswith((b"\r", b"\n"))
        if not self._cut and line:
            shown = _shown(line)
            end = line[-1:] if ended else b"\n"
            self._file.write(shown.encode() + end)
            if shown:
                self._last.append(shown)
        self._cut = self._cut and not ended


def _shown(line: bytes) -> str:
    """A line without secrets and its end, cut where it is endless."""
    # Half of what was read stays: a secret at the cut was whole when it was redacted.
    return redact_text(line.decode("utf-8", "replace").rstrip("\r\n"))[: _LONGEST // 2]
