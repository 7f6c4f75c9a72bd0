"""callable: the contract over a Python function, what functions may return, and their parameters."""

import numpy as np
import pyarrow as pa
import pytest
from attached_targets import attached, searcher, three_rows

from recallatk import parse_filter
from recallatk.adapters import QueryBatch, get_engine
from recallatk.adapters.callable import Callable
from recallatk.core import Knob
from recallatk.errors import EngineError, UsageError
from recallatk.testing import EngineContract


class CalledFunction(Callable):
    """The function searches whatever the test builds."""

    def attach(self, corpus, metric, **parameters):
        search = searcher(corpus, metric)
        type(self).function = staticmethod(lambda queries, k, **_: search(queries, k))
        super().attach(corpus, metric, **parameters)


class TestCallable(EngineContract):
    engine = CalledFunction


@pytest.mark.parametrize(
    "answer",
    [
        [["b", "a"]],
        np.array([["b", "a"]]),
        [np.array(["b", "a"], object)],
        [pa.array(["b", "a"])],
        ([["b", "a"]], [[0.1, 0.2]]),
        (np.array([["b", "a"]]), np.zeros((1, 2))),
    ],
    ids=["lists", "array", "objects", "arrow", "scores", "arrays"],
)
def test_functions_may_return_lists_or_arrays_with_or_without_scores(answer):
    engine = attached(Callable.of(lambda queries, k: answer), three_rows(["a", "b", "c"]))
    assert engine.search(QueryBatch(np.eye(3)[:1]), 2).tolist() == [[1, 0]]
    assert "1 query answered by <lambda>; its index use is unknown" in engine.exercised()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "it returned a NoneType"),
        ("ab", "it returned a str"),
        (["a"], "for a query it returned a str"),
        (([], [], []), "a tuple of 3"),
        ([["a"], ["b"]], "it answered 1 query with 2 lists of ids"),
    ],
)
def test_functions_that_return_something_else_are_refused(answer, said):
    with pytest.raises(EngineError, match=said):
        attached(Callable.of(lambda queries, k: answer), three_rows(["a", "b", "c"]))


def test_a_module_that_cannot_be_imported_is_said_with_its_own_error(tmp_path, monkeypatch):
    (tmp_path / "broken_search.py").write_text("index = load_index\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        EngineError, match=r"cannot be imported: broken_search raised NameError: name 'load_ind"
    ):
        get_engine("callable")().connect({"function": "broken_search:search"})


def test_functions_take_declared_knobs_or_any_parameters():
    heard = []

    def search(queries, k, **parameters):
        heard.append(parameters)
        return [["a"]] * len(queries)

    dataset = three_rows(["a", "b", "c"])
    knobbed = Callable.of(search, name="mine", knobs=[Knob("ef", default=5, low=1, high=9, effort=True)])
    assert knobbed.name == "mine"
    attached(knobbed, dataset, search={"ef": 7})
    with pytest.raises(UsageError, match=r"mine: ef = 10\. Accepted: whole numbers from 1 to 9"):
        attached(knobbed, dataset, search={"ef": 10})
    free(search, dataset, nprobe=3, mode="fast", exact=True)
    assert heard == [{"ef": 7}, {"nprobe": 3, "mode": "fast", "exact": True}]


def free(search, dataset, **parameters):
    """The engine of a function, with any parameters."""
    engine = Callable.of(search)()
    engine.build(dataset.corpus, dataset.metric)
    engine.configure(**parameters)
    return engine


def test_the_old_json_of_parameters_is_still_read():
    heard = []

    def search(queries, k, **parameters):
        heard.append(parameters)
        return [["a"]] * len(queries)

    dataset = three_rows(["a", "b", "c"])
    free(search, dataset, parameters='{"nprobe": 3, "modes": ["fast"]}')
    assert heard == [{"nprobe": 3, "modes": ["fast"]}]
    for odd, said in (("[1]", "Accepted: a JSON object"), ("{", "is not JSON")):
        with pytest.raises(UsageError, match=said):
            free(search, dataset, parameters=odd)


def test_a_parameter_that_the_function_does_not_have_is_refused():
    def search(queries, k, *, nprobe=1):
        return [["a"]] * len(queries)

    dataset = three_rows(["a", "b", "c"])
    with pytest.raises(UsageError, match=r"search has no parameter .nprobes.. Did you mean nprobe"):
        free(search, dataset, nprobes=3)
    assert Callable.of(search).unaccepted("nprobe") is None
    with pytest.raises(UsageError, match="api_key may contain a secret"):
        free(lambda queries, k, **_: [["a"]], dataset, api_key="hunter2")


def test_a_function_with_filters_gets_one_for_each_query():
    heard = []

    def search(queries, k, filters):
        heard.append(filters)
        return [["a"]] * len(queries)

    kind, dataset = Callable.of(search), three_rows(["a", "b", "c"])
    assert kind.abilities.filters
    engine = attached(kind, dataset)
    chosen = parse_filter("category = 'x'")
    engine.search(QueryBatch(np.eye(3)[:2], [chosen, None]), 1)
    engine.search(QueryBatch(np.eye(3)[:2]), 1)
    assert heard == [[None], [chosen, None], [None, None]]
    plain = attached(Callable.of(lambda queries, k: [["a"]] * len(queries)), dataset)
    with pytest.raises(EngineError, match="cannot filter during search"):
        plain.search(QueryBatch(np.eye(3)[:1], [chosen]), 1)


def test_a_function_is_found_by_its_name(tmp_path, monkeypatch):
    (tmp_path / "my_search.py").write_text(
        "class Mine:\n    @staticmethod\n    def search(queries, k):\n        return [['b']] * len(queries)\n"
        "number = 3\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    dataset = three_rows(["a", "b", "c"])
    engine = attached(get_engine("callable"), dataset, {"function": "my_search:Mine.search"})
    assert engine.search(QueryBatch(np.eye(3)), 1).tolist() == [[1], [1], [1]]
    assert "3 queries answered by my_search:Mine.search" in engine.exercised()
    for text, kind, said in (
        ("", UsageError, "Accepted: module:function"),
        ("my_search", UsageError, "Accepted: module:function"),
        ("no_such_module:f", EngineError, "cannot be imported"),
        ("my_search:nobody", EngineError, "cannot be imported"),
        ("my_search:number", EngineError, "is an int and cannot be called"),
    ):
        with pytest.raises(kind, match=said):
            attached(Callable, dataset, {"function": text})


def test_what_a_function_raises_is_said():
    def search(queries, k):
        raise ValueError("no such collection")

    with pytest.raises(EngineError, match="search: it raised ValueError: no such collection"):
        attached(Callable.of(search), three_rows(None))


def test_only_its_author_knows_whether_several_threads_may_call_a_function():
    def search(queries, k):
        return [["a"]] * len(queries)

    dataset = three_rows(["a", "b", "c"])
    with pytest.raises(EngineError, match="search cannot serve several clients at once"):
        attached(Callable.of(search), dataset).client()
    engine = attached(Callable.of(search, clients=True), dataset)
    assert engine.client() is engine
    assert engine.call() == "Python function"
