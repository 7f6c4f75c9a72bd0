"""The curve in a terminal."""

import re

from hypothesis import given
from hypothesis import strategies as st
from made_runs import HOSTILE, large_run, make_measurement, make_run, varied_run

from recallatk.core import Trial
from recallatk.reporting.plot import plot


def test_every_engine_has_a_sign_and_axes_have_names():
    lines = plot(varied_run())
    text = "\n".join(lines)
    assert lines[0].strip() == "QPS"
    assert text.rstrip().endswith("● faiss-hnsw  ■ hnswlib")
    assert "recall@10" in text
    assert all(len(line) <= 90 for line in lines)


def test_nothing_is_drawn_of_less_than_two_points():
    assert plot(make_run([])) == []
    assert plot(make_run([make_measurement(Trial("e", (), ()))])) == []


def test_hostile_names_and_hundreds_of_points_stay_within_the_frame():
    names = varied_run(engines=(HOSTILE, "b"))
    assert all(line.isprintable() for line in plot(names))
    assert len(plot(large_run(400))) == len(plot(large_run(3)))


@given(
    st.lists(
        st.tuples(st.floats(0, 1), st.floats(0.01, 1e6)),
        min_size=2,
        max_size=20,
        unique_by=lambda pair: pair[0],
    )
)
def test_more_recall_is_never_further_left_and_more_throughput_never_lower(pairs):
    def place(pair):
        lines = plot(
            make_run(
                make_measurement(Trial("a" if each == pair else "b", (), (("ef", number),)), *each)
                for number, each in enumerate([pair, *(other for other in pairs if other != pair)])
            )
        )[1:13]
        found = [(row, line.index("●")) for row, line in enumerate(lines) if "●" in line]
        return found[0] if found else None

    low, high = min(pairs), max(pairs)
    first, second = place(low), place(high)
    if first is not None and second is not None:
        assert first[1] <= second[1]
        if low[1] != high[1]:
            # A slower setting has less throughput, and a line further down.
            assert (first[0] <= second[0]) == (low[1] <= high[1]) or first[0] == second[0]


def test_the_scale_says_the_ends():
    text = "\n".join(plot(large_run(10)))
    assert re.search(r"0\.091 +0\.\d+ +0\.909 recall@10", text)
