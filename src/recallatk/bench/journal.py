"""The journal of a long computation: every measurement as one JSON object per line, to resume from."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

from recallatk.bench.supervisor import TrialFailed
from recallatk.files import writing
from recallatk.redaction import public

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Journal:
    """Returns recorded steps; measures and records the others.

    Elapsed time is the sum over steps: a resumed call starts with the time that the interrupted one spent,
    and the same lines lead to the same decisions.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.steps: dict[str, dict[str, Any]] = {}
        self.elapsed = 0.0
        self._taken: set[str] = set()
        self._mark = time.monotonic()
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._read(path)

    def _read(self, path: Path) -> None:
        if not path.exists():
            return
        raw = path.read_bytes()
        whole = raw[: raw.rfind(b"\n") + 1]
        if len(whole) < len(raw):
            # A kill can truncate only the last line.
            os.truncate(path, len(whole))
        for line in whole.splitlines():
            step = json.loads(line)
            self.steps[step.pop("key")] = step

    def has(self, key: list[Any]) -> bool:
        """Whether the result of a step is recorded."""
        return _named(key) in self.steps

    def step(
        self, key: list[Any], measure: Callable[[], dict[str, Any]], seconds: float | None = None
    ) -> dict[str, Any]:
        """The result of a step, measured now or before; a failure is recorded like a result.

        Args:
            key: the identity of the step.
            measure: returns a JSON-serializable result.
            seconds: the time limit of this call; None without one.
        """
        text = _named(key)
        found = self.steps.get(text)
        if found is not None and _was_too_short(found, seconds):
            found = None
        if found is None:
            found = self._measured(text, measure)
        else:
            self._mark = time.monotonic()
        if text not in self._taken:
            self._taken.add(text)
            self.elapsed += found["seconds"]
        if "failed" in found:
            raise TrialFailed(*found["failed"])
        return found

    def _measured(self, text: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        try:
            found = measure()
        except TrialFailed as problem:
            found = {"failed": [problem.kind, problem.phase, problem.message, problem.log]}
        now = time.monotonic()
        found["seconds"], self._mark = now - self._mark, now
        # Use the parsed line, so that a resumed call decides on exactly the same numbers.
        line = json.dumps({"key": text, **found}, separators=(",", ":"))
        self._append(line)
        step: dict[str, Any] = json.loads(line)
        del step["key"]
        self.steps[text] = step
        return step

    def _append(self, line: str) -> None:
        if self.path is None:
            return
        with writing(self.path):
            opened = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            before, left = os.fstat(opened).st_size, (line + "\n").encode()
            try:
                while left:
                    left = left[os.write(opened, left) :]
                os.fsync(opened)
            except OSError:
                # A partial line would corrupt the next one.
                os.ftruncate(opened, before)
                raise
            finally:
                os.close(opened)


def _named(key: list[Any]) -> str:
    return json.dumps(public(key), separators=(",", ":"))


def _was_too_short(step: dict[str, Any], seconds: float | None) -> bool:
    """Whether a step hit a time limit that is longer now."""
    if "failed" not in step or step["failed"][0] != "time limit":
        return False
    return seconds is None or seconds > step["seconds"]
