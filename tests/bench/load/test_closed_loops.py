"""Closed loops ask every query, by whatever clients, and know whose answer each is."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from load_engines import Alone, Answering, Echo, Failing, Reusing, Unreachable, expected, numbered

from examples import examples
from recallatk import parse_filter
from recallatk.adapters.base import Abilities
from recallatk.bench.load import Questions, require_supported, run_block
from recallatk.core import Load, Mode, Via
from recallatk.errors import EngineError, MismatchError


def throughput(**settings):
    return Load(Mode.THROUGHPUT, **settings)


def assert_sound(block, order, batch=1, k=3):
    """The parts fit each other, and each answer is of its query."""
    assert np.array_equal(np.sort(block.answered), np.sort(order))
    calls = block.calls
    assert np.array_equal(block.rows, expected(block.answered, k))
    assert len(block) == -(-len(order) // batch)
    assert {len(each) for each in (calls.client, calls.sent_ns, calls.late_ns, calls.latency_ns)} == {
        len(block)
    }
    assert np.array_equal(block.answered[np.searchsorted(block.call, np.arange(len(block)))], calls.query)
    assert (np.diff(calls.sent_ns) >= 0).all() and (np.diff(block.call) >= 0).all()
    assert (calls.sent_ns >= 0).all() and (calls.latency_ns > 0).all() and not calls.late_ns.any()
    assert block.wall_ns == (calls.sent_ns + calls.latency_ns).max(initial=0)
    # No client has two calls on their way.
    for client in np.unique(calls.client):
        sent, took = (
            calls.sent_ns[calls.client == client],
            calls.latency_ns[calls.client == client],
        )
        assert (sent[1:] >= (sent + took)[:-1]).all()
    kinds = [each.dtype for each in (calls.query, calls.client, block.answered, block.call, block.rows)]
    assert kinds == [np.int32, np.int16, np.int32, np.int64, np.int64]


@examples(25)
@given(st.integers(0, 40), st.integers(0, 2**32 - 1))
def test_one_client_asks_in_the_order_given(queries, seed):
    order = np.random.default_rng(seed).permutation(queries)
    block = run_block(Alone(), Load(), numbered(queries), order)
    assert_sound(block, order)
    assert np.array_equal(block.calls.query, order)
    assert not block.calls.client.any()
    assert block.calls.latency_ns.sum() <= block.wall_ns


@examples(40)
@given(
    queries=st.integers(0, 60),
    clients=st.integers(1, 5),
    batch=st.integers(1, 9),
    seed=st.integers(0, 2**32 - 1),
)
def test_clients_and_batches_ask_every_query_once(queries, clients, batch, seed):
    order = np.random.default_rng(seed).permutation(queries)
    block = run_block(Echo(), throughput(clients=clients, batch=batch), numbered(queries), order)
    assert_sound(block, order, batch)
    assert np.array_equal(np.sort(block.calls.query), np.sort(order[::batch]))


def test_more_answers_than_are_held_at_once():
    order = np.random.default_rng(1).permutation(40_000)
    for load in (Load(), throughput(clients=2), throughput(batch=7), throughput(clients=2, batch=5000)):
        assert_sound(run_block(Echo(), load, numbered(40_000), order), order, load.batch)
    exactly = np.arange(16_384)
    assert_sound(run_block(Echo(), Load(), numbered(16_384), exactly), exactly)


def test_threads_have_clients_of_their_own_that_are_closed():
    engine, order = Echo(0.002), np.arange(60)
    block = run_block(engine, throughput(clients=4), numbered(60), order)
    assert_sound(block, order)
    assert len(engine.clients) == 4 and all(each.closed for each in engine.clients)
    assert not engine.closed and not engine.asked
    assert all(len(each.threads) == 1 for each in engine.clients)
    assert set(block.calls.client.tolist()) == {0, 1, 2, 3}
    # They waited at the same time.
    assert block.wall_ns < block.calls.latency_ns.sum()


def test_a_client_that_is_the_engine_itself_is_not_closed():
    class Shared(Echo):
        def client(self):
            return self

    engine = Shared()
    run_block(engine, throughput(clients=3), numbered(9), np.arange(9))
    assert not engine.closed


@pytest.mark.parametrize("load", [Load(seconds=0.3), throughput(clients=3, batch=4, seconds=0.3)])
def test_with_a_time_the_order_is_asked_again_and_again(load):
    block = run_block(Echo(0.005), load, numbered(10), np.arange(10)[::-1].copy())
    assert block.wall_ns >= 0.3e9
    assert np.array_equal(block.rows, expected(block.answered))
    counts = np.bincount(block.answered, minlength=10)
    assert counts.min() >= 2
    assert counts.max() - counts.min() <= 1 + load.clients
    # The clock is read once to decide and once more when the call is sent.
    assert (block.calls.sent_ns < 0.305e9).all()


def test_filters_go_along_where_there_are_any():
    condition = parse_filter("category = 'x'")
    filters = [None, condition, None, None, None]
    engine = Echo()
    run_block(engine, Load(), numbered(5, filters=filters), np.arange(5))
    assert engine.asked == [(1, None), (1, [condition]), (1, None), (1, None), (1, None)]
    engine = Echo()
    run_block(engine, throughput(batch=2), numbered(5, filters=filters), np.arange(5))
    assert engine.asked == [(2, [None, condition]), (2, None), (1, None)]
    with pytest.raises(MismatchError, match="5 queries have 2 filters"):
        numbered(5, filters=[None, condition])


def test_queries_are_views_that_lie_together():
    vectors = np.asfortranarray(np.random.default_rng(0).random((6, 4)).astype(np.float32))
    questions = Questions(vectors, 3)
    alone = [batch.vectors for batch, _ in questions.single]
    assert all(each.flags.c_contiguous and each.base is questions.vectors for each in alone)
    assert [list(batch.rows) for batch, _ in questions.single] == [[row] for row in range(6)]
    together, _ = questions.together(np.array([4, 1]))
    assert together.vectors.flags.c_contiguous and list(together.rows) == [4, 1]


def test_an_engine_may_write_its_answers_into_the_same_memory():
    order = np.arange(30)
    assert_sound(run_block(Reusing(), Load(), numbered(30), order), order)


@pytest.mark.parametrize("dtype", [np.int32, np.uint64, np.int64])
def test_short_answers_are_filled_up(dtype):
    block = run_block(Answering(np.array([[5, 6]], dtype)), Load(), numbered(2, k=4), np.arange(2))
    assert block.rows.tolist() == [[5, 6, -1, -1]] * 2
    block = run_block(Answering(np.empty((1, 0), dtype)), Load(), numbered(2), np.arange(2))
    assert block.rows.tolist() == [[-1] * 3] * 2


def test_answers_of_different_width_stay_apart():
    class Ragged(Echo):
        def search(self, batch, k):
            return super().search(batch, k)[:, : int(batch.vectors[0, 0]) % 4]

    block = run_block(Ragged(), throughput(batch=2), numbered(7), np.arange(7))
    widths = (np.arange(7) // 2 * 2) % 4
    assert (block.rows >= 0).sum(axis=1).tolist() == np.minimum(widths, 3).tolist()
    assert all(
        (line[line >= 0] == expected([number])[0][: (line >= 0).sum()]).all()
        for number, line in enumerate(block.rows)
    )


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([[1, 2, 3]], "the engine returned a list, not an array of row numbers"),
        (None, "the engine returned a NoneType, not an array"),
        (
            np.zeros((1, 3)),
            r"returned an array of float64 and shape \(1, 3\) for one query and k = 3",
        ),
        (np.zeros((1, 3), bool), "an array of bool"),
        (np.zeros(3, np.int64), r"shape \(3,\)"),
        (np.zeros((2, 3), np.int64), r"shape \(2, 3\)"),
        (np.zeros((1, 4), np.int64), r"shape \(1, 4\)"),
        (np.zeros((0, 3), np.int64), r"shape \(0, 3\)"),
    ],
)
def test_what_is_no_answer_is_refused(answer, message):
    for load in (Load(), Load(Mode.RATE, rate=1000.0)):
        with pytest.raises(EngineError, match=message):
            run_block(Answering(answer), load, numbered(2), np.arange(2))


def test_a_batch_that_got_one_line_is_refused():
    engine = Answering(np.zeros((1, 3), np.int64))
    with pytest.raises(EngineError, match=r"shape \(1, 3\) for 2 queries and k = 3"):
        run_block(engine, throughput(batch=2), numbered(4), np.arange(4))


@pytest.mark.parametrize("load", [Load(), throughput(clients=3), throughput(clients=3, seconds=60.0)])
def test_what_a_client_runs_into_stops_the_block(load):
    engine, began = Failing(0.001), time.perf_counter()
    with pytest.raises(ValueError, match="query 7 is one too many"):
        run_block(engine, load, numbered(20), np.arange(20))
    assert time.perf_counter() - began < 30
    assert all(each.closed for each in engine.clients)


def test_a_client_that_cannot_be_had_stops_the_block():
    engine = Unreachable()
    with pytest.raises(ValueError, match="no more connections"):
        run_block(engine, throughput(clients=3), numbered(20), np.arange(20))
    assert [each.closed for each in engine.clients] == [True]
    assert not engine.clients[0].asked


def test_what_an_engine_cannot_is_refused():
    with pytest.raises(EngineError, match="alone cannot serve several clients at once"):
        require_supported(Alone(), throughput(clients=2))
    with pytest.raises(EngineError, match="alone cannot take several queries in one call"):
        require_supported(Alone(), throughput(batch=2))
    with pytest.raises(EngineError, match="alone cannot be searched from forked processes"):
        require_supported(Alone(), throughput(via=Via.PROCESSES))
    require_supported(Alone(), Load())
    require_supported(Alone(), throughput())
    require_supported(Alone(), Load(Mode.RATE, rate=10.0))
    for load in (throughput(clients=9, batch=8), throughput(clients=2, via="processes")):
        require_supported(Echo(), load)


def test_a_system_without_forks_says_so(monkeypatch):
    monkeypatch.delattr("os.fork")
    with pytest.raises(EngineError, match=r"this system cannot fork\. Accepted: via threads"):
        require_supported(Echo(), throughput(via=Via.PROCESSES))


def test_only_the_monotonic_clock_counts(monkeypatch):
    backwards = iter(range(10**9, 0, -(10**5)))
    monkeypatch.setattr(time, "time", lambda: next(backwards))
    monkeypatch.setattr(time, "time_ns", lambda: next(backwards) * 10**9)
    for load in (Load(), throughput(clients=2), Load(Mode.RATE, rate=500.0)):
        block = run_block(Echo(0.001), load, numbered(20), np.arange(20))
        assert (block.calls.latency_ns >= 0.001e9).all() and (np.diff(block.calls.sent_ns) >= 0).all()
        assert 0 < block.wall_ns < 60e9


def test_abilities_are_those_of_the_contract():
    assert not Abilities().clients and not Abilities().forks
