"""The words for what a latency covers."""

import pytest

from recallatk.core import TimedCall, describe_calls

REST = "for the top 10, 1 search thread; build on 2 threads"


def call(engine="exact", kind="library call", k=10, search=1, build=2):
    return TimedCall(engine, kind, k, search, build)


@pytest.mark.parametrize(
    ("calls", "said"),
    [
        ([], None),
        ([call()], f"one library call {REST}"),
        (
            [call("a"), call("b"), call("a")],
            f"one library call {REST}",
        ),
        (
            [call("a"), call("b", "HTTP round trip"), call("c")],
            f"one library call (a, c), HTTP round trip (b) {REST}",
        ),
        (
            [call(k=10, search=1, build=1), call(k=100, search=4, build=1)],
            "one library call for the top 10 or 100, 1 search thread or 4 search threads; build on 1 thread",
        ),
    ],
)
def test_the_calls_of_a_run_are_one_phrase(calls, said):
    assert describe_calls(calls) == said
