"""Functions that rerank: what they get and may return, and what is said when they fail."""

import signal
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from made_paths import QUERIES, batch, built, dataset, ranked, scores, vectors

from recallatk import Path, make_corpus, measure
from recallatk.errors import EngineError
from recallatk.pipeline.path_engine import path_engine
from recallatk.pipeline.rerankers import _within

LEG = {"retrieve": "exact", "oversample": 2}


@pytest.fixture(scope="module")
def data():
    return dataset("l2")


def searched(data, function, *, k=5, **keys):
    return built(data, LEG, {"rerank": function, **keys}).search(batch(data), k)


def candidates_of(data, k=10):
    return ranked(scores("l2", vectors(data.queries), vectors(data.corpus)), k)


def test_a_function_gets_the_query_and_every_candidate_in_its_place(data):
    seen = []

    def function(query, candidates):
        seen.append((query, candidates))
        return [-each.rank for each in candidates]

    found = searched(data, function)
    assert (found == candidates_of(data)[:, :5]).all()
    assert [query.row for query, _ in seen] == list(range(QUERIES))
    query, candidates = seen[3]
    assert (query.vector == vectors(data.queries)[3]).all()
    assert query.text == batch(data).texts[3]
    assert [each.rank for each in candidates] == list(range(1, 11))
    assert [each.id for each in candidates] == [f"c{row}" for row in candidates_of(data)[3]]
    texts = data.corpus.columns.read(["text"], 0, data.corpus.rows)["text"].to_pylist()
    assert [each.text for each in candidates] == [texts[row] for row in candidates_of(data)[3]]


def last_first(query, candidates):
    return [each.rank for each in candidates]


FORMS = {
    "scores": last_first,
    "tuple": lambda query, candidates: tuple(last_first(query, candidates)),
    "array": lambda query, candidates: np.array(last_first(query, candidates)),
    "column": lambda query, candidates: np.array(last_first(query, candidates))[:, None],
    "mapping": lambda query, candidates: {each.id: each.rank for each in candidates},
    "ids": lambda query, candidates: [each.id for each in reversed(candidates)],
    "candidates": lambda query, candidates: candidates[::-1],
    "the best alone": lambda query, candidates: [each.id for each in reversed(candidates[-5:])],
}


@pytest.mark.parametrize("form", FORMS)
def test_a_function_returns_scores_a_mapping_ids_or_candidates(data, form):
    assert (searched(data, FORMS[form]) == candidates_of(data)[:, :4:-1]).all()


def test_equal_scores_keep_their_order_and_infinite_ones_are_in_theirs(data):
    assert (searched(data, lambda query, candidates: [0] * 10) == candidates_of(data)[:, :5]).all()
    values = [0, 1, -np.inf, np.inf, 2, 0, 0, 0, 0, 0]
    places = [3, 4, 1, 0, 5]
    assert (searched(data, lambda query, candidates: values) == candidates_of(data)[:, places]).all()


def test_ids_that_are_left_out_follow_in_their_order(data):
    found = searched(data, lambda query, candidates: [candidates[7].id])
    assert (found == candidates_of(data)[:, [7, 0, 1, 2, 3]]).all()


def test_rows_beyond_the_depth_are_not_given_and_follow(data):
    found = searched(data, last_first, k=5, depth=3)
    assert (found == candidates_of(data)[:, [2, 1, 0, 3, 4]]).all()


def test_a_function_gets_another_column_by_its_name(data):
    seen = []

    def function(query, candidates):
        seen.extend(each.text for each in candidates)
        return [0] * len(candidates)

    searched(data, function, column="group")
    assert set(seen) <= {0, 1, 2, 3}


def raising(query, candidates):
    raise LookupError("no model today")


def hanging(query, candidates):
    time.sleep(30)


WRONG = {
    "raises": (raising, "it raised LookupError: no model today ("),
    "too few": (
        lambda query, candidates: [1.0],
        "it returned 1 score for 10 candidates. Return one score per ",
    ),
    "too many": (lambda query, candidates: [0] * 11, "it returned 11 scores for 10 candidates. "),
    "none": (lambda query, candidates: [], "it returned 0 scores for 10 candidates. "),
    "nothing": (lambda query, candidates: None, "it returned a NoneType. Return one score per candidate"),
    "NaN": (lambda query, candidates: [0, np.nan] * 5, "is NaN. Return numbers"),
    "tables": (lambda query, candidates: [{"s": 1}] * 10, "it returned {'s': 1} as a score. Return numbers"),
    "matrix": (lambda query, candidates: np.zeros((10, 2)), "it returned [0.0, 0.0] as a score. Return "),
    "unknown id": (
        lambda query, candidates: ["c399999"],
        "it returned the id 'c399999', which is not a candidate. Return only ids that it was given",
    ),
    "unknown id in a mapping": (
        lambda query, candidates: {**dict.fromkeys([each.id for each in candidates], 0), "c-1": 1},
        "it returned the id 'c-1', which is not a candidate. ",
    ),
    "mapping without one": (
        lambda query, candidates: {each.id: 0 for each in candidates[1:]},
        "it left out candidate '",
    ),
}


@pytest.mark.parametrize("how", WRONG)
def test_a_function_that_fails_is_named_with_stage_query_and_remedy(data, how):
    function, said = WRONG[how]
    asked = 0

    def later(query, candidates):
        nonlocal asked
        asked += 1
        return last_first(query, candidates) if asked <= 4 else function(query, candidates)

    with pytest.raises(EngineError) as caught:
        searched(data, later, name="cross encoder")
    text = str(caught.value)
    assert text.startswith("mine: stage cross encoder (later), query 4: it ") or how == "NaN"
    assert said in text


def test_ids_that_are_numbers_are_not_taken_for_scores():
    data = dataset("l2")
    numbered = replace(data, corpus=make_corpus(vectors(data.corpus)))
    with pytest.raises(
        EngineError, match=r"it returned the ids, which as numbers are scores\. Return candidates"
    ):
        searched(numbered, lambda query, candidates: [each.id for each in reversed(candidates)])
    found = searched(numbered, lambda query, candidates: candidates[::-1])
    assert (found == candidates_of(numbered)[:, :4:-1]).all()


def test_a_score_that_is_nan_names_its_candidate(data):
    with pytest.raises(EngineError) as caught:
        searched(data, lambda query, candidates: [0, np.nan] * 5)
    second = candidates_of(data)[0, 1]
    assert str(caught.value).endswith(f"query 0: the score of candidate 'c{second}' is NaN. Return numbers")


def test_a_function_that_hangs_is_interrupted_with_the_limit(data):
    began = time.monotonic()
    with pytest.raises(EngineError) as caught:
        searched(data, hanging, timeout=0.2)
    assert time.monotonic() - began < 10
    assert str(caught.value) == (
        "mine: stage rerank (hanging), query 0: it took longer than 0.2 s. "
        "Make it faster, or raise timeout = 0.2"
    )


def test_code_that_catches_everything_is_interrupted_too(data):
    def stubborn(query, candidates):
        try:
            time.sleep(30)
        except Exception:
            return last_first(query, candidates)

    with pytest.raises(EngineError, match=r"it took longer than 0\.1 s"):
        searched(data, stubborn, timeout=0.1)


def test_a_timer_of_the_program_goes_on():
    rung = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(time.monotonic()))
    try:
        began = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, 0.4)
        with _within(5):
            time.sleep(0.05)
        assert signal.getitimer(signal.ITIMER_REAL)[0] <= 0.36
        while not rung and time.monotonic() - began < 10:
            time.sleep(0.01)
        assert rung and rung[0] - began >= 0.39
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_other_threads_call_functions_without_a_limit(data):
    found = []
    thread = threading.Thread(target=lambda: found.append(searched(data, last_first, timeout=0.001)))
    thread.start()
    thread.join()
    assert (found[0] == candidates_of(data)[:, :4:-1]).all()


def test_fewer_candidates_than_k_stay_fewer_and_none_is_no_call():
    data = dataset("l2", filters=["group = 9", "group = 1"] * 6)
    asked = []

    def function(query, candidates):
        asked.append(query.row)
        return last_first(query, candidates)

    engine = built(data, LEG, {"filter": "after"}, {"rerank": function})
    found = engine.search(batch(data), 10)
    assert asked == [query for query in range(QUERIES) if (found[query] >= 0).any()]
    assert 0 not in asked and (found[0] == -1).all()
    counts = (found >= 0).sum(axis=1)
    assert 0 < counts.max() < 10


def test_a_function_in_python_is_measured_in_this_process(data):
    calls = []

    def function(query, candidates):
        calls.append(query.row)
        return [-each.rank for each in candidates]

    found = measure(Path("in-process", [LEG, {"rerank": function}], 5), data, rounds=1)
    [measured] = found.measurements
    assert measured.score["recall@5"] == 1.0
    assert calls and measured.stages.stages[-1].contained.tolist() == [1.0] * QUERIES


def test_a_function_that_fails_in_python_is_an_error_that_names_it(data):
    with pytest.raises(EngineError) as caught:
        measure(Path("in-process", [LEG, {"rerank": raising}], 5), data, rounds=1)
    said = str(caught.value)
    assert "in-process: stage rerank (raising), query " in said and "it raised LookupError" in said


def test_a_function_that_does_not_exist_is_refused_at_the_build(data):
    for named, said in (("no_such_module_7:f", "no_such_module_7"), ("json:no_such", "no_such")):
        with pytest.raises(EngineError, match=said):
            built(data, LEG, {"rerank": named})


def test_several_clients_do_not_share_a_function():
    kind = path_engine(Path("mine", [LEG, {"rerank": last_first}]))
    assert not kind.abilities.clients and not kind.abilities.deterministic
    assert path_engine(Path("mine", [LEG, {"rerank": "exact"}])).abilities.clients
