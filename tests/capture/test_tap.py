"""`tap` keeps a sample of the calls of a function, and changes nothing else about it."""

import asyncio
import functools
import inspect
import logging
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime

import numpy as np
import pytest
from logs import rows
from scipy.stats import binomtest

import recallatk
from recallatk import tap

VECTOR = np.arange(4, dtype=np.float32)


def search(vector, k=2, *, filter=None, ef=64):
    """The nearest."""
    return list(range(k))


def test_a_call_is_kept_with_everything_that_it_was(tmp_path):
    tapped = tap(search, sample=1.0, to=tmp_path)
    before = datetime.now(UTC)
    assert tapped(VECTOR, 3, filter="color = 'red'", ef=80) == [0, 1, 2]
    assert tapped.log.flush()
    (row,) = rows(tmp_path)
    assert row["vector"] == [0, 1, 2, 3] and row["neighbors"] == [0, 1, 2]
    assert (row["k"], row["filter"], row["parameters"]) == (3, "color = 'red'", '{"ef": 80}')
    assert before <= row["time"] <= datetime.now(UTC) and 0 < row["latency_ms"] < 1000
    assert (row["batch"], row["error"], row["filter_raw"]) == (1, None, None)


def test_the_wrapper_looks_like_the_function(tmp_path):
    tapped = tap(search, to=tmp_path)
    assert (tapped.__name__, tapped.__doc__, tapped.__wrapped__) == ("search", "The nearest.", search)
    assert inspect.signature(tapped) == inspect.signature(search)
    assert list(tmp_path.iterdir()) == []


def test_defaults_of_the_function_are_kept_too(tmp_path):
    tapped = tap(search, sample=1.0, to=tmp_path)
    tapped(VECTOR)
    tapped.log.close()
    (row,) = rows(tmp_path)
    assert (row["k"], row["parameters"]) == (2, '{"ef": 64}')


def test_the_smallest_probability_keeps_nothing_and_fails_nothing(tmp_path):
    tapped = tap(search, sample=5e-324, to=tmp_path)
    assert [tapped(VECTOR) for _ in range(100)] == [[0, 1]] * 100 and tapped.log.counts["written"] == 0


@pytest.mark.parametrize("probability", [0.0, 0.003, 0.1, 0.7, 1.0])
def test_each_call_is_kept_with_the_stated_probability(tmp_path, probability):
    calls = 20_000
    kept = []
    sampler = recallatk.capture.wrapper.Sampler(probability, seed=7)
    for number in range(1, calls + 1):
        if next(sampler.numbers) >= sampler.due and sampler.keeps(number):
            kept.append(number)
    assert binomtest(len(kept), calls, probability).pvalue > 0.001 if 0 < probability < 1 else True
    assert len(kept) == {0.0: 0, 1.0: calls}.get(probability, len(kept))
    if 0.003 < probability < 1:
        # Neighbors are independent: after a kept call the next one is kept as often as any other.
        after = sum(number + 1 in set(kept) for number in kept[:2000])
        assert binomtest(after, min(2000, len(kept)), probability).pvalue > 0.001


def test_threads_lose_and_add_no_kept_call(tmp_path):
    sampler = recallatk.capture.wrapper.Sampler(0.25, seed=3)
    alone = recallatk.capture.wrapper.Sampler(0.25, seed=3)
    kept, start = [], threading.Barrier(8)

    def call():
        start.wait()
        for _ in range(5_000):
            number = next(sampler.numbers)
            if number >= sampler.due and sampler.keeps(number):
                kept.append(number)

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    single = sum(alone.keeps(n) for n in range(1, 40_001) if next(alone.numbers) >= alone.due)
    # At the end, each thread may hold a call that another one was kept for.
    assert abs(len(kept) - single) <= len(threads)


def test_the_same_seed_keeps_the_same_calls(tmp_path):
    def kept(folder):
        tapped = tap(search, sample=0.2, to=folder, seed=11)
        for number in range(200):
            tapped(np.full(4, number, np.float32))
        tapped.log.close()
        return [row["vector"][0] for row in rows(folder)]

    first = kept(tmp_path / "a")
    assert first == kept(tmp_path / "b") and 15 < len(first) < 70


def test_calls_from_many_threads_are_all_written(tmp_path):
    tapped = tap(search, sample=1.0, to=tmp_path, rotate_rows=300)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: tapped(np.full(4, number, np.float32)), range(4_000)))
    tapped.log.close()
    assert sorted(row["vector"][0] for row in rows(tmp_path)) == list(range(4_000))
    assert len({row["query_id"] for row in rows(tmp_path)}) == 4_000
    assert len(list(tmp_path.iterdir())) > 5


class Index:
    def __init__(self):
        self.calls = 0

    def search(self, vector, limit):
        self.calls += 1
        return [7] * limit


class Served:
    def __init__(self, folder):
        self.folder = folder

    def find(self, vector, top_k):
        return ["a"] * top_k


def test_bound_methods_and_methods_of_a_class_are_tapped(tmp_path):
    index = Index()
    tapped = tap(index.search, sample=1.0, to=tmp_path / "bound")
    assert tapped(VECTOR, limit=1) == [7] and index.calls == 1
    tapped.log.close()
    log = Served.find = tap(Served.find, sample=1.0, to=tmp_path / "class")
    assert Served(tmp_path).find(VECTOR, 2) == ["a", "a"]
    log.log.close()
    assert [row["k"] for row in rows(tmp_path / "bound")] == [1]
    assert [(row["k"], row["neighbors"], row["parameters"]) for row in rows(tmp_path / "class")] == [
        (2, ["a", "a"], "{}")
    ]


async def async_search(vector, k=2):
    await asyncio.sleep(0.01)
    return list(range(k))


class AsyncCallable:
    async def __call__(self, vector, k):
        return [5] * k


ASYNC = {
    "coroutine function": async_search,
    "partial of one": functools.partial(async_search, k=2),
    "object with an async call": AsyncCallable(),
    "function that returns a coroutine": lambda vector, k: async_search(vector, k),
    "function that returns a task": lambda vector, k: asyncio.ensure_future(async_search(vector, k)),
}


@pytest.mark.parametrize("kind", ASYNC)
def test_whatever_can_be_awaited_is_tapped(tmp_path, kind):
    tapped = tap(ASYNC[kind], sample=1.0, to=tmp_path)

    async def many():
        return await asyncio.gather(*(tapped(np.full(4, n, np.float32), k=2) for n in range(50)))

    results = asyncio.run(many())
    tapped.log.close()
    kept = rows(tmp_path)
    assert sorted(row["vector"][0] for row in kept) == list(range(50))
    assert [row["neighbors"] for row in kept] == results
    if kind in ("coroutine function", "function that returns a task"):
        assert min(row["latency_ms"] for row in kept) >= 9


def test_futures_of_threads_are_returned_as_they_are(tmp_path):
    with ThreadPoolExecutor(1) as pool:
        tapped = tap(lambda vector: pool.submit(search, vector), sample=1.0, to=tmp_path)
        future = tapped(VECTOR)
        assert isinstance(future, Future) and future.result() == [0, 1]
    tapped.log.close()
    assert [row["neighbors"] for row in rows(tmp_path)] == [[0, 1]]


class Refused(Exception):  # noqa: N818
    pass


def refusing(vector, k=2):
    raise Refused("password=hunter2")


async def refusing_later(vector, k=2):
    raise Refused("password=hunter2")


def test_an_exception_goes_through_unchanged_and_only_its_type_is_kept(tmp_path):
    for function in (refusing, refusing_later):
        tapped = tap(function, sample=1.0, to=tmp_path)
        with pytest.raises(Refused, match="hunter2") as caught:
            result = tapped(VECTOR)
            asyncio.run(result) if function is refusing_later else None
        assert caught.traceback[-1].name == function.__name__
        tapped.log.close()
    kept = rows(tmp_path, "failed")
    assert [(row["error"], row["neighbors"], row["vector"]) for row in kept] == [
        ("Refused", None, [0, 1, 2, 3])
    ] * 2
    assert not any(b"hunter2" in path.read_bytes() for path in tmp_path.iterdir())
    assert rows(tmp_path) == []


def test_a_cancelled_call_stays_cancelled(tmp_path):
    tapped = tap(async_search, sample=1.0, to=tmp_path)

    async def cancelled():
        task = asyncio.ensure_future(tapped(VECTOR))
        await asyncio.sleep(0.001)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    tapped.log.close()
    assert [row["error"] for row in rows(tmp_path, "failed")] == ["CancelledError"]


def test_each_query_of_a_batch_is_a_row(tmp_path):
    def nearest(vectors, k):
        return np.arange(len(vectors) * k).reshape(len(vectors), k)

    tapped = tap(nearest, sample=1.0, to=tmp_path)
    tapped(np.eye(3, dtype=np.float32), 2)
    tapped.log.close()
    kept = rows(tmp_path)
    assert [row["vector"] for row in kept] == np.eye(3).tolist()
    assert [row["neighbors"] for row in kept] == [[0, 1], [2, 3], [4, 5]]
    assert {row["batch"] for row in kept} == {3} and len({row["latency_ms"] for row in kept}) == 1


def test_what_the_caller_changes_later_is_not_what_is_kept(tmp_path):
    vector, found, condition = VECTOR.copy(), [1, 2], {"category": "x"}
    tapped = tap(lambda vector, where: found, sample=1.0, to=tmp_path)
    tapped(vector, where=condition)
    vector[:], condition["category"] = 9, "y"
    found.clear()
    tapped.log.close()
    (row,) = rows(tmp_path)
    assert (row["vector"], row["neighbors"], row["filter_raw"]) == ([0, 1, 2, 3], [1, 2], '{"category": "x"}')


def test_calls_without_vector_or_ids_are_counted_and_mentioned_once(tmp_path, caplog):
    tapped = tap(lambda *arguments: (n for n in [1, 2]), sample=1.0, to=tmp_path)
    with caplog.at_level(logging.WARNING, "recallatk"):
        assert list(tapped("text", object())) == [1, 2]
        assert list(tapped(VECTOR)) == [1, 2]  # an iterator is not consumed
    assert tapped.log.counts["skipped"] == 2 and tapped.log.flush()
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path}: calls are skipped: no argument is a vector. Said once; see log.counts"
    ]
    assert list(tmp_path.iterdir()) == []


class Hostile:
    """An argument that fails whatever is asked of it."""

    def __getattribute__(self, name):
        if name == "__class__":
            return type(self)
        raise RuntimeError("secret=1")


def test_an_argument_that_cannot_be_looked_at_costs_its_record_only(tmp_path, caplog):
    tapped = tap(lambda context, vector: [1], sample=1.0, to=tmp_path)
    with caplog.at_level(logging.WARNING, "recallatk"):
        assert tapped(Hostile(), VECTOR) == [1]
        assert tapped(threading.Lock(), VECTOR) == [1]
    tapped.log.close()
    assert tapped.log.counts == {"written": 1, "dropped": 0, "unwritable": 0, "redacted": 0, "skipped": 1}
    assert "secret" not in caplog.text


def test_vectors_that_are_not_finite_are_skipped(tmp_path):
    tapped = tap(search, sample=1.0, to=tmp_path)
    tapped(np.array([1.0, np.nan]))
    tapped.log.close()
    assert tapped.log.counts["skipped"] == 1


def test_functions_say_where_the_parts_of_a_call_are(tmp_path):
    def fetch(request):
        return {"body": {"rows": [{"key": "b"}, {"key": "a"}]}}

    tapped = tap(
        fetch,
        sample=1.0,
        to=tmp_path,
        vector=lambda request: request["embedding"],
        filter=lambda request: f"owner = {request['owner']}",
        k=lambda request: request["page"],
        parameters=lambda request: {"ef": request["ef"]},
        ids=lambda result: [row["key"] for row in result["body"]["rows"]],
    )
    tapped({"embedding": [0.5, 1.0], "owner": 3, "page": 2, "ef": 40})
    tapped.log.close()
    (row,) = rows(tmp_path)
    assert (row["vector"], row["filter"], row["k"]) == ([0.5, 1.0], "owner = 3", 2)
    assert (row["parameters"], row["neighbors"]) == ('{"ef": 40}', ["b", "a"])


def test_an_extractor_that_fails_costs_its_record_only(tmp_path):
    tapped = tap(search, sample=1.0, to=tmp_path, k=lambda *arguments, **named: named["missing"])
    assert tapped(VECTOR) == [0, 1]
    assert tapped.log.counts["skipped"] == 1


def test_words_of_users_and_secrets_are_no_parameters(tmp_path):
    def ask(vector, query, *, api_key, ef):
        return [1]

    tapped = tap(ask, sample=1.0, to=tmp_path)
    tapped(VECTOR, "what ails me", api_key="sk-12345678", ef=3)
    tapped.log.close()
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"ails" not in written and b"sk-12345678" not in written
    assert '"ef": 3' in rows(tmp_path)[0]["parameters"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sample": 1.5}, "sample is 1.5. Accepted: a probability from 0 to 1"),
        ({"sample": float("nan")}, "sample is nan"),
        ({"sample": "often"}, "sample is 'often'"),
        ({"to": "s3://user:secret@bucket/log"}, "s3://bucket/log: calls are written to local folders only"),
        ({"rotate_rows": 0}, "rotate_rows"),
        ({"search": [1, 2]}, "search is an object of type list. Accepted: a function"),
    ],
)
def test_mistakes_are_refused_when_the_function_is_wrapped(tmp_path, options, message):
    with pytest.raises(recallatk.RecallError, match=message):
        tap(**{"search": search, "to": tmp_path, **options})


def test_a_closed_log_keeps_nothing_and_the_search_goes_on(tmp_path):
    tapped = tap(search, sample=1.0, to=tmp_path)
    with tapped.log:
        tapped(VECTOR)
    assert tapped(VECTOR) == [0, 1] and tapped.log.flush()
    assert len(rows(tmp_path)) == 1 and tapped.log.counts["dropped"] == 0
