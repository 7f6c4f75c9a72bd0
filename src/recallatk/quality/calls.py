"""Calls of a judge: rate limit, concurrency, time limit and retries; a failing call costs its query only."""

from __future__ import annotations

import heapq
import math
import queue
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.errors import kind_of
from recallatk.redaction import redact_text
from recallatk.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from recallatk.quality.cache import QualityCache, QuestionLock
    from recallatk.quality.inputs import JudgeInputs

_LONGEST_REASON = 200
_LONGEST_BACKOFF = 60.0
# Python's waits take no longer timeouts than some hundred years, and the loop looks again anyway.
_LONGEST_SLEEP = 3600.0
# How often to look for a value that another process is asking for.
_LOOK_SECONDS = 0.1
# A judge that has never answered is broken: asking on would cost hours of retries.
MOST_FAILURES = 20
# Each hanging call keeps a thread, and perhaps a connection, until it returns.
MOST_HANGING = 64


@dataclass(frozen=True)
class CallLimits:
    """How a judge may be called."""

    seconds: float = 30.0
    """Time limit of one call."""
    retries: int = 3
    """Further calls after an exception or a call that took too long."""
    rate: float | None = None
    """Most calls per second; None for no limit."""
    clients: int = 1
    """Most calls at once."""
    backoff: float = 0.5
    """Seconds before the first retry; doubled before each further one."""

    def pause(self, attempts: int) -> float:
        """Seconds to wait after this many failed attempts."""
        return float(min(self.backoff * 2 ** (attempts - 1), _LONGEST_BACKOFF))

    @property
    def longest(self) -> float:
        """Seconds that one question may take, with all retries."""
        pauses = sum(self.pause(attempt) for attempt in range(1, self.retries + 1))
        return self.seconds * (self.retries + 1) + pauses


@dataclass(eq=False)
class Question:
    """One query with the rows that were retrieved for it."""

    query: int
    rows: tuple[int, ...]
    key: str
    attempts: int = field(default=0, init=False)
    lock: QuestionLock | None = field(default=None, init=False)
    waits_until: float | None = field(default=None, init=False)
    """Time after which another process that asks the same is no longer waited for."""


@dataclass(frozen=True)
class Settled:
    """The value of a question, or the reason why there is none."""

    question: Question
    value: float | None
    reason: str = ""


@dataclass(frozen=True)
class _Returned:
    """What one attempt came to."""

    question: Question
    attempt: int
    value: float | None = None
    reason: str = ""
    final: bool = True
    """Whether another attempt would be of no use."""


class JudgeCalls:
    """Asks a judge, and keeps what it says.

    Each attempt runs in a daemon thread, which is abandoned when its time is up: Python cannot end it, and it
    does not keep the process from ending. This object is used by one thread.

    Args:
        function: the judge, `quality(query, retrieved) -> float`.
        inputs: what it is given.
        cache: where values are kept.
        limits: how it may be called.
    """

    def __init__(
        self, function: Callable[..., Any], inputs: JudgeInputs, cache: QualityCache, limits: CallLimits
    ) -> None:
        self._function, self._inputs, self._cache, self._limits = function, inputs, cache, limits
        self.attempts = 0
        """Calls so far."""
        self.answered = 0
        self._failed = 0
        self._next_call = -math.inf
        self._abandoned: list[threading.Thread] = []

    def ask(self, questions: Iterable[Question]) -> Iterator[Settled]:
        """Each question with its value or the reason why it has none, as the judge comes to them."""
        work = _OpenQuestions(deque(questions))
        try:
            while work.left:
                broken = self._broken()
                if broken:
                    yield from (Settled(each, None, broken) for each in work.give_up())
                yield from self._start(work)
                self._wait(work)
                yield from self._collect(work)
        finally:
            # After Ctrl-C, values that have arrived are kept.
            deque(self._collect(work), maxlen=0)
            work.release()

    def _broken(self) -> str:
        self._abandoned = [each for each in self._abandoned if each.is_alive()]
        if not self.answered and self._failed >= MOST_FAILURES:
            return f"not asked: the judge failed on all of its first {self._failed} queries"
        if len(self._abandoned) >= MOST_HANGING:
            return f"not asked: {len(self._abandoned)} earlier calls have not returned"
        return ""

    def _start(self, work: _OpenQuestions) -> Iterator[Settled]:
        """Start calls while there are questions, free clients and a share of the rate."""
        now = time.monotonic()
        work.wake(now)
        while work.ready and len(work.flying) < self._limits.clients and now >= self._next_call:
            question = work.ready.popleft()
            if not self._locked(question, now):
                work.later(now + _LOOK_SECONDS, question)
                continue
            # Whoever held the lock before may have saved the value.
            known = self._cache.find(question.key)
            if known is not None:
                work.settle(question)
                yield Settled(question, known)
                continue
            if self._limits.rate is not None:
                self._next_call = max(now, self._next_call) + 1 / self._limits.rate
            self._call(question, work, now)

    def _locked(self, question: Question, now: float) -> bool:
        """Whether the question may be asked; not while another process asks the same."""
        question.lock = self._cache.lock(question.key)
        if question.waits_until is None:
            question.waits_until = now + self._limits.longest
        return question.lock is not None or now >= question.waits_until

    def _call(self, question: Question, work: _OpenQuestions, now: float) -> None:
        question.attempts += 1
        self.attempts += 1
        attempt = self.attempts
        given = self._inputs.query(question.query), self._inputs.retrieved(question.rows)

        def call() -> None:
            work.returned.put(_attempted(self._function, given, question, attempt))

        thread = threading.Thread(target=call, name=f"judge call {attempt}", daemon=True)
        work.flying[attempt] = _Flying(question, now + self._limits.seconds, thread)
        thread.start()

    def _wait(self, work: _OpenQuestions) -> None:
        """Sleep until a call returns, runs out of time, or another one may start."""
        moments = [each.deadline for each in work.flying.values()]
        if work.sleeping:
            moments.append(work.sleeping[0][0])
        if work.ready and len(work.flying) < self._limits.clients:
            moments.append(self._next_call)
        if not moments:
            return
        seconds = min(max(0.0, min(moments) - time.monotonic()), _LONGEST_SLEEP)
        try:
            work.arrived.append(work.returned.get(timeout=seconds) if seconds else work.returned.get_nowait())
        except queue.Empty:
            return

    def _collect(self, work: _OpenQuestions) -> Iterator[Settled]:
        """Take every call that returned or ran out of time."""
        while not work.returned.empty():
            work.arrived.append(work.returned.get())
        while work.arrived:
            # It leaves the list only after its value was saved, so that Ctrl-C cannot lose it.
            settled = self._take(work.arrived[0], work)
            work.arrived.popleft()
            if settled is not None:
                yield settled
        now = time.monotonic()
        for attempt, flying in list(work.flying.items()):
            if now >= flying.deadline:
                self._abandoned.append(flying.thread)
                reason = f"no answer within {format_duration(self._limits.seconds)}"
                settled = self._take(_Returned(flying.question, attempt, None, reason, final=False), work)
                if settled is not None:
                    yield settled

    def _take(self, returned: _Returned, work: _OpenQuestions) -> Settled | None:
        """The outcome of a question; None if it is asked again, or was abandoned before."""
        question = returned.question
        if returned.attempt not in work.flying:
            return None
        if returned.value is not None:
            self._cache.save(question.key, returned.value)
            self.answered += 1
        del work.flying[returned.attempt]
        # A lock is an open file, and thousands of questions may wait for a retry.
        work.settle(question)
        if returned.value is None and not returned.final and question.attempts <= self._limits.retries:
            work.later(time.monotonic() + self._limits.pause(question.attempts), question)
            return None
        self._failed += returned.value is None
        return Settled(question, returned.value, returned.reason)


@dataclass(frozen=True)
class _Flying:
    question: Question
    deadline: float
    thread: threading.Thread


class _OpenQuestions:
    """The questions of one request, wherever each of them is."""

    def __init__(self, questions: deque[Question]) -> None:
        self.ready = questions
        self.sleeping: list[tuple[float, int, Question]] = []
        self.flying: dict[int, _Flying] = {}
        self.returned: queue.SimpleQueue[_Returned] = queue.SimpleQueue()
        self.arrived: deque[_Returned] = deque()
        self._order = 0

    @property
    def left(self) -> bool:
        """Whether any question is open."""
        return bool(self.ready or self.sleeping or self.flying)

    def later(self, moment: float, question: Question) -> None:
        """Ask a question at another moment."""
        self._order += 1
        heapq.heappush(self.sleeping, (moment, self._order, question))

    def wake(self, now: float) -> None:
        """Ask the questions first whose moment has come."""
        while self.sleeping and self.sleeping[0][0] <= now:
            self.ready.appendleft(heapq.heappop(self.sleeping)[2])

    @staticmethod
    def settle(question: Question) -> None:
        """Let other processes have the question, whose value they find if there is one."""
        if question.lock is not None:
            question.lock.release()
            question.lock = None

    def give_up(self) -> list[Question]:
        """The questions that are not being asked, which are not asked any more."""
        given_up = [*self.ready, *(each for *_, each in self.sleeping)]
        self.ready.clear()
        self.sleeping.clear()
        for each in given_up:
            self.settle(each)
        return given_up

    def release(self) -> None:
        """Let other processes have all questions."""
        self.give_up()
        for each in self.flying.values():
            self.settle(each.question)


def _attempted(
    function: Callable[..., Any], given: tuple[Any, Any], question: Question, attempt: int
) -> _Returned:
    try:
        found = function(*given)
    except BaseException as problem:
        # SystemExit and KeyboardInterrupt of a judge end its call, not the run.
        return _Returned(question, attempt, None, _reason(problem), final=False)
    try:
        value = float(found) if isinstance(found, Real | np.bool_) else None
    except (OverflowError, ValueError, TypeError):
        value = None
    if value is None:
        return _Returned(question, attempt, None, f"it returned {_described(found)}")
    if not math.isfinite(value):
        return _Returned(question, attempt, None, f"it returned {value}")
    return _Returned(question, attempt, value)


def _described(found: object) -> str:
    kind = "None" if found is None else kind_of(found)
    return f"{kind}. Accepted: a finite number"


def _reason(problem: BaseException) -> str:
    try:
        said = " ".join(str(problem).split())
    except Exception:
        said = ""
    text = redact_text(f"{type(problem).__name__}: {said}" if said else type(problem).__name__)
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}…"
