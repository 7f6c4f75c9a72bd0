"""Places of rows among answers, against a dictionary of them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recallatk import score
from recallatk.analysis import matching
from recallatk.analysis.matching import find_places

FAR = 1 << 45


def naive(rows, answers):
    """Of one line: the place of each row or None, the distinct answers, the repeats."""
    first = {}
    repeats = 0
    for answer in answers:
        if answer >= 0:
            repeats += answer in first
            first.setdefault(answer, len(first))
    return [first.get(row) if row >= 0 else None for row in rows], len(first), repeats


@st.composite
def lines(draw):
    width, given = draw(st.integers(0, 5)), draw(st.integers(0, 6))
    # Small numbers meet often; the far ones do not fit beside a place in 64 bits.
    number = st.sampled_from([*range(8), 2**31, 2**32 + 1, FAR, FAR + 1, 2**63 - 1])
    row_lists = st.lists(number, min_size=width, max_size=width, unique=True)
    answer_lists = st.lists(st.one_of(number, st.sampled_from([-1, -3])), min_size=given, max_size=given)
    line = st.tuples(row_lists, answer_lists, st.integers(0, width))
    several = draw(st.lists(line, min_size=1, max_size=6))
    rows = [[*row[:kept], *[-1] * (width - kept)] for row, _, kept in several]
    answers = [answer for _, answer, _ in several]
    return (
        np.array(rows, np.int64).reshape(len(several), width),
        np.array(answers, np.int64).reshape(len(several), given),
    )


@pytest.mark.parametrize("block_keys", [1, 25, 1 << 18])
@given(lines())
def test_places_are_those_of_a_dictionary(block_keys, data):
    rows, answers = data
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "_BLOCK_KEYS", block_keys)
        found = find_places(rows, answers)
    for number, (row, answer) in enumerate(zip(rows.tolist(), answers.tolist(), strict=True)):
        places, distinct, repeats = naive(row, answer)
        told = [None if place == found.never else place for place in found.of_rows[number].tolist()]
        assert (told, found.distinct[number], found.repeats[number]) == (places, distinct, repeats)
        for of, within in product(range(1, len(row) + 2), range(1, len(answer) + 2)):
            hits = sum(place is not None and place < within for place in places[:of])
            assert found.found(of, within)[number] == hits


# Places up to 127, 32,767 and beyond are kept in one, two and four bytes.
@pytest.mark.parametrize("given", [127, 128, 300, 32_767, 32_768, 300_000])
def test_many_answers_to_one_query(given):
    answers = np.random.default_rng(0).permutation(given)[None]
    rows = np.array([[int(answers[0, -1]), given, int(answers[0, 0])]])
    found = find_places(rows, answers)
    assert found.of_rows.tolist() == [[given - 1, found.never, 0]]
    assert [found.found(3, k).tolist() for k in (given - 1, given)] == [[1], [2]]


@pytest.mark.parametrize("width", [127, 128, 255, 256, 300, 32_767, 32_768])
def test_many_rows_in_one_list(width):
    rows = np.random.default_rng(0).permutation(width)[None]
    found = find_places(rows, rows[:, ::-1])
    assert found.of_rows.tolist() == [list(range(width))[::-1]]
    assert [found.found(k, width).tolist() for k in (1, 255, width)] == [[1], [min(255, width)], [width]]
    assert [found.found(k, k).tolist() for k in (width // 2, width)] == [[0], [width]]


def test_places_up_to_a_k_that_is_larger_than_any_place():
    found = find_places(np.array([[5, 6]]), np.array([[6, 7]]))
    for k in (1, 2, 10**6):
        assert found.up_to(k).tolist() == [[k, 0]]
        assert found.found(k, k).tolist() == [k > 1]
        assert found.found(2, k).tolist() == [1]


@pytest.mark.parametrize("k", [2, 10**6])
def test_the_reciprocal_rank_of_what_was_not_found_is_zero_at_any_k(k):
    assert score(truth=[[5, 6]], answers=[[8, 9]], at=[1], measures=[f"mrr@{k}"])[f"mrr@{k}"] == 0.0
