"""The log of a worker: its standard error, redacted line by line before it reaches the disk."""

from __future__ import annotations

import os
import re
import selectors
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from recallatk.redaction import HIDDEN, hide_known, hiding, redact_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_TAIL_LINES = 20
_TAIL_WIDTH = 500
# Longer lines are truncated; progress bars end lines with a carriage return.
_LONGEST = 1 << 16
_READ_BYTES = 1 << 16
# A pipe holds at most a megabyte unless resized.
_MOST_READS = 17
_GIVE_WAY_SECONDS = 0.001
_LINE_END = re.compile(rb"(?<=[\r\n])")


class ProcessLog:
    """A log file behind a pipe: everything written into the pipe is redacted and appended.

    Args:
        path: the log file; new lines are appended.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        self._waking, self._wake = os.pipe()
        self._lock = threading.Lock()
        self._wanted = threading.Event()
        self._held = b""
        self._cut = self._ended = self._closed = self._full = False
        self._last: deque[str] = deque(maxlen=_TAIL_LINES)
        self._thread = threading.Thread(target=self._follow, name="process log", daemon=True)
        self._thread.start()

    @property
    def descriptor(self) -> int:
        """The write end of the pipe, for the standard error of the process."""
        return self._writing

    def handed_over(self) -> None:
        """Close our copy of the write end once the process has its own; may be called twice."""
        if self._writing >= 0:
            os.close(self._writing)
            self._writing = -1

    def tail(self) -> str:
        """The last lines that the process has written so far."""
        self._wanted.set()
        with self._lock:
            self._wanted.clear()
            if not self._closed:
                self._drain()
            partial = _shown(self._held, hide_known)
            lines = [*self._last, *([partial] if partial else [])]
            return "\n".join(line[:_TAIL_WIDTH] for line in lines[-_TAIL_LINES:])

    def close(self) -> None:
        """Write the rest and close the file; may be called twice."""
        if self._closed:
            return
        self._closed = True
        self.handed_over()
        os.write(self._wake, b"\n")
        self._thread.join()
        with self._lock:
            self._drain()
            self._append([self._held])
            self._held, self._ended = b"", True
            self._file.close()
        for descriptor in (self._reading, self._waking, self._wake):
            os.close(descriptor)

    def __enter__(self) -> ProcessLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _follow(self) -> None:
        """Read the pipe continuously: a full pipe would block the process."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._reading, selectors.EVENT_READ)
            selector.register(self._waking, selectors.EVENT_READ)
            while not self._ended:
                ready = [key.fd for key, _ in selector.select()]
                if self._waking in ready:
                    return
                while self._wanted.is_set():
                    # Locks are not fair: without a pause, `tail` might wait forever.
                    time.sleep(_GIVE_WAY_SECONDS)
                with self._lock:
                    self._take()

    def _drain(self) -> None:
        """Read what is in the pipe at the time of the call; more may arrive meanwhile."""
        for _ in range(_MOST_READS):
            if self._ended or not self._take():
                return

    def _take(self) -> bool:
        """Read once; return whether there was anything to read."""
        try:
            some = os.read(self._reading, _READ_BYTES)
        except BlockingIOError:
            return False
        self._ended = not some
        *whole, self._held = _LINE_END.split(self._held + some)
        if len(self._held) > _LONGEST:
            whole.append(self._held)
            self._held = b""
        self._append(whole)
        return True

    def _append(self, lines: list[bytes]) -> None:
        """Append lines; the rest of an overlong line is dropped."""
        hide = hiding()
        written = b""
        for line in filter(None, lines):
            ended = line.endswith((b"\r", b"\n"))
            if not self._cut:
                shown = _shown(line, hide)
                written += shown.encode() + (line[-1:] if ended else b"\n")
                if shown:
                    self._last.append(shown)
            self._cut = not ended
        self._write(written)

    def _write(self, text: bytes) -> None:
        """Write as much as fits; a full disk must not stop the process."""
        try:
            while text and not self._full:
                text = text[self._file.write(text) :]
        except OSError:
            self._full = True


def _shown(line: bytes, hide: Callable[[str], str]) -> str:
    """A redacted line without its line end, truncated if overlong."""
    text = line.decode("utf-8", "replace").rstrip("\r\n")
    try:
        # Keep half of the line: a secret at the cut was still whole when redacted.
        return redact_text(text, hide)[: _LONGEST // 2]
    except Exception:
        # An exception would end the reading thread, and the process would block forever.
        return HIDDEN
