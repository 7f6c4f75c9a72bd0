"""Any function, or a class of one's own, can be measured without being registered."""

import subprocess
import sys

import numpy as np
import pytest

from recallatk import Load, ground_truth, make_corpus, make_queries, measure, open_dataset, parse_filter
from recallatk.adapters.exact import Exact
from recallatk.errors import EngineError, UsageError
from recallatk.testing import tiny_dataset


@pytest.fixture(scope="module")
def data():
    dataset = tiny_dataset(200, 20, metric="l2")
    return dataset, ground_truth(dataset, depth=10)


def vectors_of(records):
    return records.vectors.read(0, records.rows)


def brute_force(dataset):
    corpus = dataset.corpus.vectors.read(0, dataset.corpus.rows)
    ids = np.array(dataset.corpus.ids.to_pylist())

    def search(queries, k, first=0):
        distances = np.square(queries[:, None] - corpus).sum(axis=2)
        return ids[np.argsort(distances, axis=1, kind="stable")[:, first : first + k]]

    return search


@pytest.mark.parametrize("by_caller", [False, True])
def test_only_a_heap_that_measure_froze_is_released(by_caller):
    script = f"""
import gc
import numpy as np
from recallatk import measure
vectors = np.eye(30, dtype="float32")
frozen = []
def search(queries, k):
    frozen.append(gc.get_freeze_count())
    return np.argsort(-(queries @ vectors.T), axis=1)[:, :k]
if {by_caller}:
    gc.freeze()
before = gc.get_freeze_count()
measure(search, vectors, vectors[:3], metric="ip", at=1, rounds=1)
print(bool(before), frozen[-1] > 0, gc.get_freeze_count() > 0, gc.isenabled())
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == [str(by_caller), "True", str(by_caller), "True"]


def test_a_function_is_measured_in_this_process(data):
    dataset, truth = data
    run = measure(brute_force(dataset), dataset, truth=truth, at=(1, 10), rounds=2)
    (found,) = run.measurements
    assert found.score["recall@10"] == 1.0
    assert found.trial.engine == "search"
    assert len(found.calls) == 40
    assert found.build.memory_bytes is None
    assert found.build.seconds is None
    assert run.timed.startswith("one Python function")


def test_a_function_takes_parameters_and_its_truth_is_computed_where_there_is_none(data):
    dataset, _ = data
    run = measure(brute_force(dataset), dataset, search={"first": [5, 0]}, at=[10], rounds=1)
    assert [each.trial.search for each in run.measurements] == [(("first", 5),), (("first", 0),)]
    assert [each.score["recall@10"] for each in run.measurements] == [0.5, 1.0]
    with pytest.warns(DeprecationWarning, match="the search parameter 'parameters'"):
        old = measure(brute_force(dataset), dataset, search={"parameters": '{"first": 5}'}, at=[10], rounds=1)
    assert old.measurements[0].score["recall@10"] == 0.5
    with pytest.raises(UsageError, match=r"has no parameter .frist.. Did you mean first"):
        measure(brute_force(dataset), dataset, search={"frist": 5}, at=[10])
    with pytest.raises(UsageError, match=r"search\.first: a table\. Accepted: numbers"):
        measure(brute_force(dataset), dataset, search={"first": {"a": 1}}, at=[10])


def test_a_function_gets_the_filters_of_the_queries_where_it_takes_any(data):
    dataset, _ = data
    rows = {each: row for row, each in enumerate(dataset.corpus.ids.to_pylist())}
    exact = brute_force(dataset)
    kept = np.arange(dataset.corpus.rows) % 2 == 0
    corpus = make_corpus(vectors_of(dataset.corpus), metadata={"even": kept.tolist()})
    queries = make_queries(vectors_of(dataset.queries)).where(parse_filter("even = true"))
    filtered = open_dataset(corpus, queries, metric=dataset.metric)

    def search(queries, k, filters):
        found = [[rows[each] for each in line] for line in exact(queries, dataset.corpus.rows).tolist()]
        return [[row for row in line if filters[n] is None or kept[row]][:k] for n, line in enumerate(found)]

    assert measure(search, filtered, at=[10], rounds=1).measurements[0].score["recall@10"] == 1.0
    with pytest.raises(EngineError, match="cannot filter during search, and these queries have filters"):
        measure(exact, filtered, at=[10])


def test_an_error_of_a_function_is_one_message_with_its_line(data, tmp_path, capfd):
    dataset, truth = data
    file = tmp_path / "my search.py"
    file.write_text(
        "def find(rows):\n    return rows[-1] / 0\n\ndef search(queries, k):\n    return find([1])\n"
    )
    scope = {}
    exec(compile(file.read_text(), str(file), "exec"), scope)
    with pytest.raises(EngineError) as caught:
        measure(scope["search"], dataset, truth=truth, at=[10], rounds=1)
    said = str(caught.value)
    assert said.endswith(f"search: it raised ZeroDivisionError: division by zero ({file}, line 2)")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert "Traceback" not in "".join(capfd.readouterr())


def test_an_error_deep_in_a_library_names_the_line_that_called_it(data):
    dataset, truth = data

    def search(queries, k, wide=0):
        return np.linalg.inv(queries) if wide else [["row-0"]] * len(queries)

    run = measure(search, dataset, truth=truth, search={"wide": [0, 1]}, at=[10], rounds=1)
    [failure] = run.failures
    assert "it raised LinAlgError" in failure.message
    assert failure.message.endswith(f"({__file__}, line {search.__code__.co_firstlineno + 1})")
    assert "Traceback" in failure.log
    with pytest.raises(EngineError, match=r"it raised TypeError: .*missing 1 required"):
        measure(lambda queries, k, other: [], dataset, truth=truth, at=[10], rounds=1)


def test_a_class_that_is_not_registered_is_measured_in_this_process(data):
    class Mine(Exact):
        name = "mine"

    run = measure(
        Mine, data[0], truth=data[1], at=(10,), load=[Load(), Load("throughput", batch=8)], rounds=1
    )
    assert [each.score["recall@10"] for each in run.measurements] == [1.0, 1.0]
    assert run.measurements[1].calls.size.tolist() == [8, 8, 4]


def test_a_function_that_fails_is_an_error_with_its_message(data):
    def failing(queries, k):
        raise ConnectionError("nobody is there")

    with pytest.raises(EngineError, match="ConnectionError: nobody is there"):
        measure(failing, data[0], truth=data[1], at=(1,))


def test_what_is_no_engine_is_refused(data):
    with pytest.raises(
        UsageError, match=r"cannot measure an object of type int. Accepted: the name of an engine"
    ):
        measure(42, data[0], truth=data[1])
    with pytest.raises(UsageError, match="only registered engines are built more than once"):
        measure(brute_force(data[0]), data[0], truth=data[1], at=(1,), builds=2)
