"""Everything that was measured while tuning, one JSON object a line, so that a killed call can go on."""

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


# 1: values of targets from 0 to 1.
# 2: each query's measure or loss as it is (`raw`), and the machine's pace.
JOURNAL_FORMAT = 2


class Journal:
    """Measures what is not written down yet, and reads what is.

    Time is what the steps took: a call that goes on after a kill has spent what the one before had, and the
    same lines give the same decisions.
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
            # A kill can cut the last line only.
            os.truncate(path, len(whole))
        for line in whole.splitlines():
            step = json.loads(line)
            self.steps[step.pop("key")] = step

    def step(
        self, key: list[Any], measure: Callable[[], dict[str, Any]], seconds: float | None = None
    ) -> dict[str, Any]:
        """What this step gave, measured now or before; a failure is remembered like a result.

        Args:
            key: what it is known by.
            measure: gives a result that JSON can hold.
            seconds: what it may take now; None: as long as it needs.
        """
        text = json.dumps(public(key), separators=(",", ":"))
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
        # What is read back is what is used, so that going on is no different from going through.
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
                # Half a line would spoil the next one.
                os.ftruncate(opened, before)
                raise
            finally:
                os.close(opened)


def _was_too_short(step: dict[str, Any], seconds: float | None) -> bool:
    """Whether it failed for lack of time that there is now."""
    if "failed" not in step or step["failed"][0] != "time limit":
        return False
    return seconds is None or seconds > step["seconds"]
