"""A judge's values: what it is given, what counts as a value, what is asked once, what a failure costs."""

import functools
import math
import sys
import threading
import time

import numpy as np
import psutil
import pytest

import judge_service
from recallatk.errors import EngineError, UsageError
from recallatk.quality import JudgedQuery, Quality, QualityJudge, RetrievedRow
from recallatk.quality import calls as calls_module

FAST = {"timeout": "5s", "retries": 2}


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    """Retries follow at once: the tests are about their number."""
    monkeypatch.setattr(calls_module.CallLimits, "pause", lambda *_: 0.0)


@pytest.fixture
def make(dataset, tmp_path):
    """A judge of the dataset, with a cache of its own."""

    def made(function=judge_service.judge, largest_k=5, **options):
        options = {"cache": tmp_path / "cache", **FAST, **options}
        return QualityJudge(Quality(function, **options), dataset, largest_k)

    return made


def expected(rows):
    return [sum(row / rank for rank, row in enumerate(each, 1)) / 100 for each in rows.tolist()]


def test_values_of_a_service(service, make, rows):
    judge = make()
    assert judge.names == ("quality",)
    assert judge.values(rows)["quality"].tolist() == pytest.approx(expected(rows))
    assert len(service.requests) == len(rows)
    assert judge.cautions() == ()


def test_what_a_judge_is_given(make, rows):
    given = []
    make(lambda *each: given.append(each) or 1.0, version="1", k=3).values(rows)
    query, retrieved = given[4]
    assert query == JudgedQuery("q4", "what is 4?", {"text": "what is 4?"})
    assert retrieved == [
        RetrievedRow(f"c{row}", rank, f"passage {row}", {"text": f"passage {row}", "year": row})
        for rank, row in enumerate(rows[4, :3].tolist(), 1)
    ]


def test_padding_repeats_and_numbers_beyond_the_corpus_are_not_retrieved_rows(make, rows):
    given = {}

    def judge(query, retrieved):
        given[query.id] = [each.id for each in retrieved]
        return 0.5

    rows[0] = -1
    rows[1] = [7, 7, -1, 3, 40]
    make(judge, version="1").values(rows)
    assert given["q0"] == []
    assert given["q1"] == ["c7", "c3"]


def test_data_without_ids_texts_and_columns(rows, tmp_path):
    from recallatk import open_dataset

    vectors = np.random.default_rng(0).normal(size=(40, 4)).astype("f4")
    bare = open_dataset(vectors, vectors[:12], metric="l2")
    given = []
    QualityJudge(Quality(lambda *each: given.append(each) or 1, cache=tmp_path), bare, 5).values(rows)
    query, retrieved = given[2]
    assert query == JudgedQuery(2, None, {})
    assert retrieved[1] == RetrievedRow(int(rows[2, 1]), 2, None, {})


def test_the_same_retrieval_is_paid_for_once(service, make, rows):
    """Exact search and trials share calls where they return the same rows in the same order."""
    judge = make()
    judge.values(rows)
    changed = rows.copy()
    changed[3] = rows[3][::-1]
    changed[5, 4] = 39 if rows[5, 4] != 39 else 38
    found = judge.values(changed)["quality"]
    assert found.tolist() == pytest.approx(expected(changed))
    assert sorted(service.queries[len(rows) :]) == ["q3", "q5"]
    # Only the first k count.
    deeper = np.hstack([rows, np.full((len(rows), 1), 2)])
    judge.values(deeper)
    assert len(service.requests) == len(rows) + 2


def test_a_later_process_pays_for_new_retrievals_only(service, make, rows):
    first = make().values(rows)["quality"]
    again = make()
    rows[7] = [1, 2, 3, 4, 5]
    second = again.values(rows)["quality"]
    assert service.queries[12:] == ["q7"]
    assert again.calls.attempts == 1
    assert np.delete(second, 7).tolist() == np.delete(first, 7).tolist()


def test_other_texts_functions_and_versions_are_judged_again(service, make, rows, dataset, tmp_path):
    make(version="1").values(rows)
    make(version="1").values(rows)
    assert len(service.requests) == 12
    make(version="2").values(rows)
    assert len(service.requests) == 24
    make(lambda *each: judge_service.judge(*each), version="1").values(rows)
    assert len(service.requests) == 36
    other = dataset.corpus.metadata.set_column(0, "text", [[f"changed {row}" for row in range(40)]])
    from recallatk import open_dataset

    ids = [f"c{row}" for row in range(40)]
    vectors = dataset.corpus.vectors.read(0, 40)
    changed = open_dataset(
        {"id": ids, "vector": list(vectors), **other.to_pydict()}, dataset.queries, metric="l2"
    )
    QualityJudge(
        Quality(judge_service.judge, version="1", cache=tmp_path / "cache", **FAST), changed, 5
    ).values(rows)
    assert len(service.requests) == 48


def test_an_edited_module_is_another_judge(make, rows, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    file = tmp_path / "edited_judge.py"
    for weight in (1.0, 2.0):
        file.write_text(f"WEIGHT = {weight}\ndef judge(query, retrieved):\n    return WEIGHT\n")
        sys.modules.pop("edited_judge", None)
        import importlib
        import linecache

        importlib.invalidate_caches()
        linecache.clearcache()
        assert set(make("edited_judge:judge").values(rows)["quality"]) == {weight}
    sys.modules.pop("edited_judge")


def test_a_function_that_nothing_identifies_is_not_saved_and_says_so(service, make, rows):
    anonymous = functools.partial(judge_service.judge)
    judge = make(anonymous)
    judge.values(rows)
    judge.values(rows)
    assert len(service.requests) == 12
    assert "State a version" in judge.cautions()[0].message
    make(anonymous).values(rows)
    assert len(service.requests) == 24


def test_progress_counts_what_is_asked(service, make, rows):
    make().values(rows)
    judge, seen = make(), []
    judge.watch = lambda done, of: seen.append((done, of))
    rows[:3, 0] = [1, 2, 3]
    judge.values(rows)
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_values_of_other_judges_have_another_identity(make):
    same = [make(version="1").identity, make(version="1", retries=0, clients=2, rate="1/s").identity]
    others = [
        make(version="2").identity,
        make(version="1", k=2).identity,
        make(version="1", sample=3).identity,
    ]
    assert len(set(same)) == 1
    assert len({*same, *others}) == 4
    assert (
        make(functools.partial(judge_service.judge)).identity
        != make(functools.partial(judge_service.judge)).identity
    )


def test_waiting_retries_hold_no_open_files(make, rows, monkeypatch):
    monkeypatch.setattr(calls_module.CallLimits, "pause", lambda *_: 0.3)
    held = []

    def judge(*_):
        held.append(psutil.Process().num_fds())
        raise RuntimeError("busy")

    make(judge, version="1", retries=1).values(rows)
    assert len(held) == 24
    assert max(held) - min(held) <= 1


def test_a_sample_of_the_queries(service, make, rows):
    judge = make(sample=5)
    found = judge.values(rows)["quality"]
    assert len(service.requests) == 5
    assert np.flatnonzero(~np.isnan(found)).tolist() == judge.queries.tolist()
    assert make(sample=5).queries.tolist() == judge.queries.tolist()
    assert make(sample=500).queries.tolist() == list(range(12))


def test_failures_are_retried(service, make, rows):
    service.failures = {"q2": 2, "q5": 3}
    judge = make(retries=2)
    found = judge.values(rows)["quality"]
    assert np.flatnonzero(np.isnan(found)).tolist() == [5]
    assert service.queries.count("q2") == 3
    assert service.queries.count("q5") == 3
    [caution] = judge.cautions()
    assert "failed on 1 of 12 judged retrievals" in caution.message
    assert "HTTPError: HTTP Error 503: Service Unavailable (query q5)" in caution.message


def test_a_failed_retrieval_is_not_asked_again_by_the_next_trial_but_by_the_next_run(service, make, rows):
    service.failures = {"q5": 1}
    judge = make(retries=0)
    assert judge.complete
    first, second = judge.values(rows)["quality"], judge.values(rows)["quality"]
    assert not judge.complete
    assert math.isnan(first[5])
    assert math.isnan(second[5])
    assert service.queries.count("q5") == 1
    assert not np.isnan(make(retries=0).values(rows)["quality"]).any()
    assert len(service.requests) == 13


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (math.nan, "it returned nan"),
        (-math.inf, "it returned -inf"),
        (None, "it returned None. Accepted: a finite number"),
        ("0.5", "it returned a str"),
        ([0.5], "it returned a list"),
        (10**400, "it returned an int"),
        (1j, "it returned a complex"),
    ],
)
def test_what_is_no_finite_number_is_refused_for_its_query(make, rows, value, reason):
    asked = []

    def judge(query, _):
        asked.append(query.id)
        return value if query.id == "q3" else 0.25

    made = make(judge, version="1")
    found = made.values(rows)["quality"]
    assert np.flatnonzero(np.isnan(found)).tolist() == [3]
    assert set(np.delete(found, 3)) == {0.25}
    assert asked.count("q3") == 1
    assert reason in made.cautions()[0].message
    # A refused value is not saved.
    assert math.isnan(make(judge, version="1").values(rows)["quality"][3])
    assert asked.count("q3") == 2


@pytest.mark.parametrize("value", [True, 1, np.float32(1), np.int64(1), np.True_])
def test_numbers_of_any_kind_are_values(make, rows, value):
    found = make(lambda *_: value, version="1").values(rows)["quality"]
    assert found.dtype == np.float64
    assert set(found) == {1.0}


@pytest.mark.parametrize("problem", [SystemExit, KeyboardInterrupt, GeneratorExit, RecursionError])
def test_whatever_a_judge_raises_costs_its_query(make, rows, problem):
    def judge(query, _):
        if query.id == "q1":
            raise problem("at   once\n")
        return 1.0

    made = make(judge, version="1")
    assert np.flatnonzero(np.isnan(made.values(rows)["quality"])).tolist() == [1]
    assert f"{problem.__name__}: at once (query q1)" in made.cautions()[0].message


def test_reasons_are_redacted(make, rows):
    def judge(query, retrieved):
        raise RuntimeError("GET https://user:hunter2@judge.example/?api_key=abc123 failed")

    made = make(judge, version="1", retries=0)
    made.values(rows)
    assert "hunter2" not in made.cautions()[0].message
    assert "abc123" not in made.cautions()[0].message


def test_a_hanging_judge_costs_its_query_only(service, make, rows):
    service.hangs = {"q4"}
    judge = make(timeout="200ms", retries=1, clients=2)
    found = judge.values(rows)["quality"]
    assert np.flatnonzero(np.isnan(found)).tolist() == [4]
    assert service.queries.count("q4") == 2
    assert "no answer within 200ms (query q4)" in judge.cautions()[0].message


def test_an_answer_that_comes_too_late_is_no_answer(make, rows):
    release = threading.Event()

    def judge(query, _):
        if query.id == "q0":
            release.wait()
        return 1.0

    made = make(judge, version="1", timeout="50ms", retries=0)
    assert math.isnan(made.values(rows)["quality"][0])
    release.set()
    time.sleep(0.1)
    assert math.isnan(made.values(rows)["quality"][0])


def test_a_judge_that_never_answers_is_given_up(make, dataset):
    calls = []

    def judge(*_):
        calls.append(1)
        raise ConnectionError("refused")

    made = make(judge, version="1", retries=1)
    for shift in range(4):
        rows = (np.arange(12)[:, None] + np.arange(5) + shift) % 40
        assert np.isnan(made.values(rows)["quality"]).all()
    assert len(calls) == 2 * calls_module.MOST_FAILURES
    assert "not asked: the judge failed on all of its first 20 queries" in made.cautions()[0].message
    assert "failed on 48 of 48" in made.cautions()[0].message


def test_a_judge_that_hangs_for_good_after_it_worked_is_given_up(service, make, rows, monkeypatch):
    monkeypatch.setattr(calls_module, "MOST_HANGING", 4)
    service.hangs = {f"q{number}" for number in range(1, 12)}
    judge = make(timeout="50ms", retries=0)
    found = judge.values(rows)["quality"]
    assert np.isnan(found[1:]).all()
    assert not np.isnan(found[0])
    assert len(service.requests) == 5
    assert "not asked: 4 earlier calls have not returned" in judge.cautions()[0].message


def test_clients_limit_the_calls_at_once(service, make, rows):
    service.delay = 0.05
    make(clients=3).values(rows)
    assert service.most_busy == 3
    service.most_busy = 0
    make(version="one at a time").values(rows)
    assert service.most_busy == 1
    assert service.queries[12:] == [f"q{number}" for number in range(12)]


def test_the_rate_spaces_calls_of_all_clients_and_trials(make, rows):
    began = []

    def judge(*_):
        began.append(time.monotonic())
        return 1.0

    made = make(judge, version="1", rate="50/s", clients=8)
    first = time.monotonic()
    made.values(rows[:, :4])
    made.values(rows[:, ::-1])
    # Threads may begin late, but never early.
    assert len(began) == 24
    assert all(each >= first + number / 50 for number, each in enumerate(sorted(began)))


def test_a_judge_cannot_change_what_the_next_call_is_given(make, rows):
    given = []

    def judge(query, retrieved):
        given.append((dict(query.columns), dict(retrieved[0].columns)))
        query.columns.clear()
        for each in retrieved:
            each.columns["text"] = "changed"
        return 1.0

    made = make(judge, version="1", k=2)
    rows[:, 0] = 9
    made.values(rows)
    made.values(rows[:, [0, 2]])
    assert [text["text"] for text, _ in given] == [f"what is {number}?" for number in range(12)] * 2
    assert {row["text"] for _, row in given} == {"passage 9"}


def test_judges_that_cannot_be_called_are_refused_at_once(make, rows, tmp_path):
    async def later(query, retrieved):
        return 1.0

    for function, said in [
        (later, "is async"),
        (lambda query: 1.0, "cannot be called with two arguments"),
        ("judge_service", "Accepted: module:function"),
    ]:
        with pytest.raises(UsageError, match=said):
            make(function)
    with pytest.raises(EngineError, match="quality: no_such_module:judge cannot be imported"):
        make("no_such_module:judge")
    with pytest.raises(UsageError, match="int cannot be called"):
        make(3)
    with pytest.raises(UsageError, match="k = 9, but only 5 rows are retrieved"):
        make(k=9)
    with pytest.raises(UsageError, match="12 queries"):
        make().values(rows[:3])
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="file"):
        make(cache=tmp_path / "file")


@pytest.mark.parametrize(
    "option",
    [
        {"k": 0},
        {"retries": -1},
        {"clients": 0},
        {"clients": True},
        {"sample": 0.5},
        {"rate": "fast"},
        {"rate": "0/s"},
        {"timeout": "soon"},
    ],
)
def test_options_that_mean_nothing_are_refused(option):
    with pytest.raises(UsageError, match="Accepted"):
        Quality(judge_service.judge, **option)
