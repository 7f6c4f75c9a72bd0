"""Time for the evidence on one trial: what is spent, and what the next call is expected to take."""

from __future__ import annotations

import time

# Kinds of calls that take about as long as others.
_LIKE = {"itself": "full"}
# The first list, at the effort of the trial; more effort takes a multiple of it.
_FIRST = "deeper"


class TimeBudget:
    """A time limit for calls that nothing can interrupt: one is made only if it is expected to end in time.

    A call is expected to take as long as the latest of its kind. Without one, it is expected to take as long
    as a call of the trial, times its effort; until a longer list was timed, in proportion to its rows.

    Args:
        seconds: the limit.
        call_seconds: duration of one call of the trial.
        k: number of rows that such a call requests.
    """

    def __init__(self, seconds: float, call_seconds: float, k: int) -> None:
        self.seconds, self.call_seconds, self.k = seconds, call_seconds, k
        self.stopped = False
        """Whether a call was not made for lack of time."""
        self._began = time.perf_counter()
        self._latest: dict[str, tuple[int, float]] = {}
        self._per_row = call_seconds / max(k, 1)

    @property
    def spent(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._began

    def knows(self, kind: str) -> bool:
        """Whether a call of this kind was timed."""
        return kind in self._latest

    def expected(self, kind: str, k: int | None = None, times: float = 1.0) -> float:
        """Seconds that a call is expected to take.

        Args:
            kind: name of what is called.
            k: number of rows to request; as many as in the trial by default.
            times: effort in multiples of the trial's.
        """
        rows = self.k if k is None else k
        known = self._latest.get(kind) or self._latest.get(_LIKE.get(kind, ""))
        if known is None:
            before, seconds = self._latest.get(_FIRST, (self.k, self.call_seconds))
            known = before, times * seconds
        before, seconds = known
        return seconds + times * self._per_row * max(0, rows - before)

    def fits(self, kind: str, k: int | None = None, times: float = 1.0) -> bool:
        """Whether a call is expected to end in time."""
        return self.spent + self.expected(kind, k, times) <= self.seconds

    def allows(self, kind: str, k: int | None = None, times: float = 1.0) -> bool:
        """The same; after the first call that does not fit, no other is allowed."""
        self.stopped |= not self.fits(kind, k, times)
        return not self.stopped

    def took(self, kind: str, seconds: float, k: int | None = None) -> None:
        """Remember the duration of a call."""
        rows = self.k if k is None else k
        self._latest[kind] = (rows, seconds)
        if kind == _FIRST and rows > self.k:
            self._per_row = max(0.0, seconds - self.call_seconds) / (rows - self.k)
