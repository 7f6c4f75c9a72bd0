"""What attached engines do with ids: those of no row, repeated ones, gaps, and ids of another kind."""

import numpy as np
import pytest
from attached_targets import attached, three_rows

from recallatk import ground_truth, score
from recallatk.adapters import QueryBatch
from recallatk.adapters.callable import Callable
from recallatk.adapters.command import Command
from recallatk.adapters.http import Http
from recallatk.errors import EngineError


def returning(*lines):
    return Callable.of(lambda queries, k: list(lines)[: len(queries)])


def found(dataset, *lines, k=3):
    return attached(returning(*lines), dataset).search(QueryBatch(np.eye(3)[: len(lines)]), k).tolist()


def test_unknown_ids_repeats_and_short_answers_are_counted_by_scoring():
    dataset = three_rows(["a", "b", "c"])
    engine = attached(returning(["a", "nobody", "a"], ["b"]), dataset)
    answers = engine.search(QueryBatch(np.eye(3)[:2]), 3)
    assert answers.tolist() == [[0, 3, 0], [1, -1, -1]]
    scored = score(truth=ground_truth(dataset, depth=3), answers=answers, at=[3], row_numbers=True)
    assert {name: scored.anomalies[name] for name in ("unknown", "duplicate", "short", "padding")} == {
        "unknown": 1,
        "duplicate": 1,
        "short": 2,
        "padding": 2,
    }


def test_gaps_before_the_end_are_no_rows():
    assert found(three_rows(["a", "b", "c"]), [None, "b", None]) == [[3, 1, -1]]
    assert found(three_rows(None), [-1, 2, -1]) == [[3, 2, -1]]


def test_what_stands_beyond_k_is_not_looked_at():
    assert found(three_rows(["a", "b", "c"]), ["c", "b", "a"], k=2) == [[2, 1]]


@pytest.mark.parametrize(
    ("ids", "said", "rows"),
    [
        ([7, 8, 9], ["8", 9, np.int32(7)], [1, 2, 0]),
        ([7, 8, 9], ["08", "x", 70], [3, 3, 3]),
        (["7", "8", "9"], [8, "9", np.str_("7")], [1, 2, 0]),
        (None, ["1", 2, "0"], [1, 2, 0]),
        (None, [np.int64(1), np.uint8(2), np.int32(0)], [1, 2, 0]),
        (None, [3, -2, "x"], [3, 3, 3]),
    ],
)
def test_ids_are_matched_as_the_users_ids(ids, said, rows):
    assert found(three_rows(ids), said) == [rows]


@pytest.mark.parametrize("odd", [1.5, True, ["a"], {"a": 1}])
def test_ids_of_another_kind_are_refused(odd):
    with pytest.raises(EngineError, match=r"an id is a .*Accepted: strings and whole numbers"):
        found(three_rows(["a", "b", "c"]), [odd])


def test_a_target_of_other_data_is_no_evidence():
    engine = attached(returning(["x-1", "x-2"]), three_rows(["a", "b", "c"]))
    engine.search(QueryBatch(np.eye(3)[:1]), 2)
    with pytest.raises(EngineError, match=r"none of its 2 returned ids .*: it returned 'x-1', .* as 'a'"):
        engine.exercised()


def test_an_engine_that_is_attached_to_nothing_says_so():
    for kind in (Callable, Http, Command):
        with pytest.raises(EngineError, match="not attached to an index"):
            kind().search(QueryBatch(np.eye(3)), 1)
