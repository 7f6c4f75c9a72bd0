"""Warming up: small blocks until their medians settle, and never for long."""

import time

import numpy as np
import pytest

from recallatk.adapters.base import Engine
from recallatk.bench.load import Questions, warm_up
from recallatk.core import Metric


class Timed(Engine):
    """Takes so long for each call as it is told, by the clock that it brings along."""

    name = "timed"
    metrics = frozenset(Metric)

    def __init__(self, milliseconds, monkeypatch):
        self.milliseconds, self.now, self.asked = milliseconds, 10**9, []
        monkeypatch.setattr(time, "perf_counter_ns", lambda: self.now)

    def search(self, batch, k):
        self.now += int(self.milliseconds(len(self.asked)) * 1e6)
        self.asked.append(int(batch.vectors[0, 0]))
        return np.zeros((1, k), np.int64)


@pytest.fixture
def questions():
    return Questions(np.arange(50, dtype=np.float32)[:, None], 3)


def test_a_steady_index_is_warm_after_two_blocks(questions, monkeypatch):
    engine = Timed(lambda call: 1.0, monkeypatch)
    order = np.arange(50)[::-1].copy()
    warmed = warm_up(engine, questions, order, first=False)
    assert (warmed.calls, warmed.settled, warmed.cold_ns) == (64, True, None)
    assert engine.asked == [*range(49, -1, -1), *range(49, 35, -1)]


def test_an_index_that_gets_faster_is_asked_until_it_does_not(questions, monkeypatch):
    blocks = [4.0, 3.0, 2.0, 1.5, 1.45, 1.0]
    engine = Timed(lambda call: blocks[call // 32], monkeypatch)
    warmed = warm_up(engine, questions, np.arange(50), first=False)
    assert (warmed.calls, warmed.settled) == (160, True)


def test_the_very_first_call_is_kept_apart(questions, monkeypatch):
    engine = Timed(lambda call: 1.0 if call else 700.0, monkeypatch)
    warmed = warm_up(engine, questions, np.arange(50), first=True)
    assert (warmed.calls, warmed.settled, warmed.cold_ns) == (64, True, 700_000_000)


def test_an_index_that_never_settles_is_left_after_twenty_blocks(questions, monkeypatch):
    engine = Timed(lambda call: 0.1 * 1.2 ** (call // 32 % 2), monkeypatch)
    warmed = warm_up(engine, questions, np.arange(50), first=False)
    assert (warmed.calls, warmed.settled) == (20 * 32, False)


def test_a_slow_index_is_left_after_two_seconds(questions, monkeypatch):
    engine = Timed(lambda call: 300.0, monkeypatch)
    warmed = warm_up(engine, questions, np.arange(50), first=True)
    assert (warmed.calls, warmed.settled, warmed.cold_ns) == (7, False, 300_000_000)


def test_few_queries_come_again_and_none_are_none(questions, monkeypatch):
    engine = Timed(lambda call: 1.0, monkeypatch)
    assert warm_up(engine, questions, np.array([3, 1]), first=False).calls == 64
    assert engine.asked == [3, 1] * 32
    assert warm_up(engine, questions, np.arange(0), first=True).calls == 0


def test_by_the_real_clock_it_ends(questions):
    class Quick(Engine):
        name = "quick"
        metrics = frozenset(Metric)

        def search(self, batch, k):
            return np.zeros((1, k), np.int64)

    warmed = warm_up(Quick(), questions, np.arange(50), first=True)
    assert 64 <= warmed.calls <= 640 and warmed.cold_ns > 0
