"""The open loop: calls arrive when they do, and a stall costs everybody who came while it lasted."""

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from load_engines import Alone, Answering, Echo, Failing, expected, numbered
from scipy import stats

from recallatk import make_corpus
from recallatk.adapters.base import resolved
from recallatk.adapters.http import Http
from recallatk.analysis.latency import keeping_up, percentile
from recallatk.bench.load import Questions, highest_rate, run_block
from recallatk.bench.load.modes import arrivals, clients_of, kept_up
from recallatk.core import Load, Metric, Mode
from recallatk.errors import UsageError


def at(rate, **settings):
    return Load(Mode.RATE, rate=rate, **settings)


# Arrivals


@pytest.mark.parametrize(("rate", "seconds"), [(50.0, 400.0), (20_000.0, 1.0)])
def test_arrivals_are_a_poisson_process(rate, seconds):
    due = arrivals(rate, 0, seconds, seed=7)
    gaps = np.diff(due, prepend=0) / 1e9
    count = rate * seconds
    assert abs(len(due) - count) < 4 * np.sqrt(count)
    assert gaps.mean() == pytest.approx(1 / rate, rel=4 / np.sqrt(count))
    assert stats.kstest(gaps, stats.expon(scale=1 / rate).cdf).pvalue > 0.01
    # Without memory: a gap says nothing about the next.
    assert abs(np.corrcoef(gaps[1:], gaps[:-1])[0, 1]) < 4 / np.sqrt(count)
    assert due.max() <= seconds * 1e9


def test_without_a_time_every_query_arrives_once_and_none_after_a_minute():
    assert len(arrivals(100.0, 300, None, seed=0)) == 300
    slow = arrivals(10.0, 6000, None, seed=0)
    assert 500 < len(slow) < 700 and slow[-1] <= 60e9


def test_the_seed_decides_and_there_is_always_one():
    assert np.array_equal(arrivals(9.0, 50, None, seed=3), arrivals(9.0, 50, None, seed=3))
    assert not np.array_equal(arrivals(9.0, 50, None, seed=3), arrivals(9.0, 50, None, seed=4))
    assert len(arrivals(1e-6, 0, 0.1, seed=0)) == 1
    assert len(arrivals(1e-6, 5, None, seed=0)) == 1


# Blocks


def test_every_query_is_asked_when_it_is_due():
    order = np.random.default_rng(0).permutation(200)
    block = run_block(Echo(), at(1000.0), numbered(200), order, seed=5)
    assert np.array_equal(block.calls.query, order) and np.array_equal(block.answered, order)
    assert np.array_equal(block.rows, expected(order))
    assert np.array_equal(block.calls.sent_ns, arrivals(1000.0, 200, None, seed=5))
    assert (block.calls.late_ns >= 0).all() and (block.calls.latency_ns > block.calls.late_ns).all()
    assert block.wall_ns == (block.calls.sent_ns + block.calls.latency_ns).max()


def test_with_a_time_queries_come_again():
    block = run_block(Echo(), at(200.0, seconds=0.5), numbered(7), np.arange(7), seed=1)
    assert np.array_equal(block.calls.query, np.arange(len(block)) % 7) and len(block) > 14
    assert np.array_equal(block.rows, expected(block.answered))
    assert not len(run_block(Echo(), at(200.0), numbered(0), np.arange(0)))


def test_sixteen_calls_may_be_on_their_way_unless_the_engine_takes_one():
    assert clients_of(Echo(), at(1.0)) == 16
    assert clients_of(Echo(), at(1.0, clients=3)) == 3
    assert clients_of(Echo(), at(1.0, clients=1)) == 1
    assert clients_of(Alone(), at(1.0)) == 1
    engine = Echo()
    run_block(engine, at(500.0), numbered(20), np.arange(20))
    assert len(engine.clients) == 16 and all(each.closed for each in engine.clients)
    block = run_block(Alone(), at(500.0), numbered(20), np.arange(20))
    assert not block.calls.client.any() and block.calls.clients == 1


def test_waiting_for_a_free_client_is_part_of_the_latency():
    # One at a time, 10 ms each, and one due every millisecond: the last waits for almost all the others.
    block = run_block(Alone(0.01), at(1000.0), numbered(50), np.arange(50), seed=2)
    assert (block.calls.latency_ns >= 0.01e9).all()
    assert block.calls.latency_ns[-1] >= 50 * 0.01e9 - block.calls.sent_ns[-1]
    assert block.calls.late_ns[-1] >= 49 * 0.01e9 - block.calls.sent_ns[-1]
    assert np.median(block.calls.late_ns) > 0.05e9


def test_a_client_that_cannot_keep_up_is_detected():
    # 3 ms in a call each: two clients send 700 a second at the most, and 16 send 200 with ease.
    behind = keeping_up(run_block(Echo(0.003), at(2000.0, clients=2), numbered(300), np.arange(300)).calls)
    assert behind.share > 0.5
    assert behind.p99_ms > 100.0 and behind.worst_ms >= behind.p99_ms
    ahead = run_block(Echo(0.003), at(200.0), numbered(200), np.arange(200))
    assert keeping_up(ahead.calls).share < behind.share
    assert np.median(ahead.calls.late_ns) < 1e6


def test_what_a_client_runs_into_stops_the_block_while_others_sleep():
    began = time.perf_counter()
    with pytest.raises(ValueError, match="query 7 is one too many"):
        run_block(Failing(), at(2.0, clients=4, seconds=300.0), numbered(9), np.array([7, 1, 2]))
    assert time.perf_counter() - began < 60


def test_the_interpreter_switches_as_before_afterwards():
    usual = sys.getswitchinterval()
    run_block(Echo(), at(500.0), numbered(5), np.arange(5))
    with pytest.raises(Exception, match="a list"):
        run_block(Answering([]), at(500.0), numbered(5), np.arange(5))
    assert sys.getswitchinterval() == usual


def test_a_block_needs_a_rate():
    with pytest.raises(UsageError, match="a block needs a rate; highest_rate finds one"):
        run_block(Echo(), Load(Mode.RATE, p99_ms=5.0), numbered(2), np.arange(2))
    with pytest.raises(UsageError, match="the highest rate needs a limit: p99_ms"):
        highest_rate(Echo(), at(5.0), numbered(2), np.arange(2), seed=0)


# The highest rate


@pytest.fixture
def brief(monkeypatch):
    """Steps that are as long as a test can wait for."""
    monkeypatch.setattr("recallatk.bench.load.modes._LEAST_SECONDS", 0.5)
    monkeypatch.setattr("recallatk.bench.load.modes._LEAST_CALLS", 120)
    monkeypatch.setattr("recallatk.bench.load.modes._LIMITS", 10)


def test_the_highest_rate_is_below_what_one_at_a_time_can_take(brief):
    load = Load(Mode.RATE, p99_ms=50.0)
    found, tried = highest_rate(Alone(0.002), load, numbered(20), np.arange(20), seed=0)
    assert len(tried) == 7
    held = [rate for rate, p99 in tried if p99 is not None and p99 <= 50.0]
    assert found is not None and found == max(held)
    # 2 ms each is 500 a second at the most.
    assert max(rate for rate, _ in tried) <= 1.2 * 500
    assert all(rate > found for rate, _ in tried if rate not in held)


def test_the_highest_rate_of_one_client_is_looked_for_with_one(brief, monkeypatch):
    monkeypatch.setattr("recallatk.bench.load.modes._STEPS", 2)
    engine = Echo(0.001)
    highest_rate(engine, Load(Mode.RATE, p99_ms=50.0, clients=1), numbered(20), np.arange(20), seed=0)
    assert not engine.clients and len(engine.threads) == 1


@pytest.mark.parametrize(
    ("late_ms", "share", "p99_ms", "kept"),
    [
        (1.5, 0.1, 20.0, True),
        (2.5, 0.1, 20.0, False),
        (2.5, 0.005, 20.0, True),
        (0.9, 0.1, 2.0, True),
        (1.1, 0.1, 2.0, False),
    ],
)
def test_clients_kept_up_when_one_of_a_hundred_was_late_by_a_tenth_of_the_limit(late_ms, share, p99_ms, kept):
    block = run_block(Echo(), at(2000.0), numbered(1000), np.arange(1000))
    late = np.zeros(1000, np.int64)
    late[: int(share * 1000)] = int(late_ms * 1e6)
    assert kept_up(replace(block.calls, late_ns=late), p99_ms) is kept


def test_a_limit_that_nothing_keeps_has_no_rate(brief, monkeypatch):
    # The lowest rates are those that take time, and none of them is needed to see that none is held.
    monkeypatch.setattr("recallatk.bench.load.modes._LOWEST_SHARE", 1 / 8)
    monkeypatch.setattr("recallatk.bench.load.modes._LEAST_SECONDS", 0.1)
    load = Load(Mode.RATE, p99_ms=1.0, clients=8)
    found, tried = highest_rate(Echo(0.002), load, numbered(20), np.arange(20), seed=0)
    assert found is None
    assert len(tried) == 7 and all(p99 is None or p99 >= 2.0 for _, p99 in tried)
    assert [rate for rate, _ in tried] == sorted((rate for rate, _ in tried), reverse=True)


def test_no_queries_have_no_rate():
    with pytest.raises(UsageError, match="cannot measure a rate: the query set is empty"):
        highest_rate(Echo(), Load(Mode.RATE, p99_ms=1.0), numbered(0), np.arange(0), seed=0)


# A service that stalls


@pytest.fixture
def stalling():
    """The http engine on a service that stands still for 200 ms of every 2 s."""
    script = Path(__file__).parent / "stalling_server.py"
    server = subprocess.Popen(
        [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with server:
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/search"
        with Http() as engine:
            corpus = make_corpus(np.eye(4, dtype=np.float32))
            engine.build(corpus, Metric.L2, **resolved("http", Http.build_knobs, {"url": url}))
            engine.configure(**resolved("http", Http.search_knobs, {}))
            yield engine
        server.stdin.close()


def test_an_open_loop_shows_the_stall_that_a_closed_one_hides(stalling):
    questions, order = Questions(np.eye(4, dtype=np.float32), 3), np.arange(4)
    closed = run_block(stalling, Load(seconds=6.0), questions, order)
    # A tenth of the arrivals fall into a stall and wait uniformly up to 200 ms; beyond 180 ms is 1 % of all.
    expected = pytest.approx(180.0 + percentile(closed.calls.latency_ns, 0.5), rel=0.1)
    for seed in range(3):
        opened = run_block(stalling, at(200.0, seconds=8.0), questions, order, seed=seed)
        # A busy machine adds stalls of its own, which are as real: then it is looked at again.
        if percentile(opened.calls.latency_ns, 0.99) == expected:
            break
    assert percentile(opened.calls.latency_ns, 0.99) == expected
    assert percentile(closed.calls.latency_ns, 0.99) < 60.0
    # The stalls were there: one call met each.
    assert (closed.calls.latency_ns > 100e6).sum() >= 2
    assert (opened.rows == np.arange(3)).all()
