"""command: the contract over a program, and programs that crash, hang, or say something else."""

import json
import os
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from attached_targets import QUERIES, attached, three_rows

from recallatk import parse_filter
from recallatk.adapters import QueryBatch
from recallatk.adapters.command import Command
from recallatk.errors import EngineError, UsageError
from recallatk.testing import EngineContract, tiny_dataset

PROGRAM = """
import json, os, sys, time
import numpy as np

vectors, ids = np.load(sys.argv[1] + ".npy"), json.load(open(sys.argv[1] + ".json"))
metric = sys.argv[2]
if metric == "cosine":
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
for line in sys.stdin:
    asked = json.loads(line)
    query = np.array(asked["query"])
    difference = vectors - query
    scores = (difference * difference).sum(axis=1) if metric == "l2" else -vectors @ query
    print(json.dumps({"ids": [ids[i] for i in np.argsort(scores, kind="stable")[: asked["k"]]]}), flush=True)
"""


class StartedCommand(Command):
    """The program has an index of whatever the test builds."""

    folder = None
    count = 0

    def attach(self, corpus, metric, **parameters):
        type(self).count += 1
        data = self.folder / f"data-{self.count}"
        np.save(f"{data}.npy", np.array(corpus.vectors.read(0, corpus.rows), np.float64))
        (self.folder / f"{data.name}.json").write_text(json.dumps(corpus.ids.to_pylist()))
        command = f"'{sys.executable}' '{self.folder / 'program.py'}' '{data}' {metric}"
        super().attach(corpus, metric, **{**parameters, "command": command})


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    StartedCommand.folder = tmp_path_factory.mktemp("program")
    (StartedCommand.folder / "program.py").write_text(PROGRAM)


@pytest.mark.usefixtures("program")
class TestCommand(EngineContract):
    engine = StartedCommand


@pytest.fixture
def starting(tmp_path):
    """Starts a program of some lines of Python on three rows."""
    made = []

    def start(code, search=None, timeout=10.0, **more):
        (tmp_path / "it is mine.py").write_text(f"import json, os, sys, time\n{code}\n")
        command = f"'{sys.executable}' '{tmp_path / 'it is mine.py'}'"
        build = {"command": command, "timeout": timeout, **more}
        made.append(attached(Command, three_rows(["a", "b", "c"]), build, search))
        return made[-1]

    yield start
    for engine in made:
        engine.close()


LOOP = "for line in sys.stdin:\n    asked = json.loads(line)\n    {}\n    sys.stdout.flush()"
ANSWER = 'print(json.dumps({"ids": ["b", "a"]}))'


def test_a_program_hears_id_query_k_and_parameters(starting, tmp_path):
    heard = tmp_path / "heard"
    code = LOOP.format(f"open({str(heard)!r}, 'a').write(line); {ANSWER}")
    engine = starting(code, {"parameters": '{"ef": 5}'})
    assert engine.search(QueryBatch(QUERIES[:1]), 3).tolist() == [[1, 0, -1]]
    assert json.loads(heard.read_text().splitlines()[-1]) == {
        "id": 2,
        "query": [1.0, 0.0, 0.0],
        "k": 3,
        "parameters": {"ef": 5},
    }
    assert engine.exercised().startswith("1 query answered by ")


def test_a_program_that_can_filter_hears_filters_and_parameters_by_their_names(starting, tmp_path):
    heard, chosen = tmp_path / "heard", parse_filter("category = 'x'")
    code = LOOP.format(f"open({str(heard)!r}, 'a').write(line); {ANSWER}")
    engine = starting(code, {"ef": 5}, filters="yes")
    engine.search(QueryBatch(QUERIES[:2], [None, chosen]), 3)
    lines = [json.loads(line) for line in heard.read_text().splitlines()][-2:]
    assert [line["filter"] for line in lines] == [None, chosen.to_json()]
    assert [line["parameters"] for line in lines] == [{"ef": 5}] * 2
    with pytest.raises(EngineError, match="command cannot filter during search"):
        starting(code).search(QueryBatch(QUERIES[:1], [chosen]), 1)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("sys.exit('no license')", "it ended with code 1. Last line of its standard error: no license"),
        ("sys.stderr.write('a\\nb\\n\\n'); os._exit(3)", "it ended with code 3. .* error: b$"),
        ("os.kill(os.getpid(), 9)", "it ended with signal 9$"),
        ("sys.stderr.write('loading\\n')\n" + LOOP.format("print('ready')"), "not JSON: ready. .* loading$"),
        (LOOP.format("print('[1]')"), r'it wrote \[1\]\. Accepted: \{"ids": \[\.\.\.\]\}'),
        (LOOP.format('print(\'{"ids": "a"}\')'), "Accepted"),
        (LOOP.format("os.write(1, b'\\xff\\n')"), "not JSON"),
        (LOOP.format(f"print(); {ANSWER}"), "it wrote an empty line. Accepted: one line of JSON"),
        ("1/0", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_program_that_fails_is_an_error_with_its_last_words(starting, code, said):
    with pytest.raises(EngineError, match=said):
        starting(code)


def test_a_program_that_crashes_later_stays_ended_until_the_next_setting(starting):
    engine = starting(LOOP.format(f"{ANSWER} if asked['k'] < 3 else sys.exit('too many')"))
    engine.search(QueryBatch(QUERIES), 2)
    with pytest.raises(EngineError, match=r"it ended with code 1. .*: too many"):
        engine.search(QueryBatch(QUERIES), 3)
    with pytest.raises(EngineError, match="it was stopped"):
        engine.search(QueryBatch(QUERIES), 2)
    engine.configure(parameters="{}")
    assert engine.search(QueryBatch(QUERIES[:1]), 2).tolist() == [[1, 0]]


# k is above 1 once the engine has tried the program out.
TAGGED = "print(json.dumps({'id': asked['id'], 'ids': ['b']}))"
LATE = "sys.stdout.flush(); time.sleep(0.3)"
MORE = r"it wrote more than one line for a query: 'debug'\. Accepted: one line of JSON"


def test_a_line_too_many_is_never_the_answer_to_the_next_query(starting):
    code = (
        "os.write(1, (json.dumps({'ids': [asked['id']]}) + '\\n' + 'debug\\n' * (asked['k'] > 1)).encode())"
    )
    engine = starting(LOOP.format(code))
    found = engine.search(QueryBatch(QUERIES[:1]), 2)
    with pytest.raises(EngineError, match=MORE):
        engine.search(QueryBatch(QUERIES[:1]), 2)
    # Three rows are known by other ids.
    assert found.tolist() == [[3, -1]]


def test_a_line_too_many_after_the_last_answer_is_found(starting):
    late = f"{ANSWER}\n    if asked['k'] > 1: sys.stdout.flush(); time.sleep(0.02); print('debug')"
    engine = starting(LOOP.format(late))
    engine.search(QueryBatch(QUERIES[:1]), 2)
    with pytest.raises(EngineError, match=MORE):
        engine.exercised()


def test_a_slow_program_that_is_a_line_ahead_is_found_after_the_last_answer(starting):
    """One line too many, which comes when the next query is on its way: from then on all answers are late."""
    slow = f"time.sleep(0.3 * (asked['k'] > 1))\n    {ANSWER}\n    if asked['id'] == 2: {ANSWER}"
    engine = starting(LOOP.format(slow))
    with pytest.raises(EngineError, match="it wrote more than one line for a query"):
        for _ in range(3):
            engine.search(QueryBatch(QUERIES[:1]), 2)
        engine.exercised()


def test_a_late_answer_of_an_earlier_query_is_told_by_its_id(starting):
    code = f"{TAGGED}\n    if asked['k'] > 1: {LATE}; print(json.dumps({{'id': asked['id'], 'ids': ['c']}}))"
    engine = starting(LOOP.format(code))
    engine.search(QueryBatch(QUERIES[:1]), 2)
    with pytest.raises(EngineError, match="it wrote the answer to query 2 instead of query 3"):
        engine.search(QueryBatch(QUERIES[:1]), 2)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("{'id': 'x', 'ids': []}", "it wrote the answer to query 'x' instead of query 2"),
        ("{'id': None, 'ids': []}", "the answer to query None"),
        ("{'ids': []}", 'it wrote an answer without "id", but earlier answers had one'),
    ],
)
def test_ids_of_queries_that_are_wrong_or_missing_are_refused(starting, answer, said):
    engine = starting(LOOP.format(f"print(json.dumps({answer})) if asked['k'] > 1 else {TAGGED}"))
    with pytest.raises(EngineError, match=said):
        engine.search(QueryBatch(QUERIES[:1]), 2)


def test_a_long_line_comes_whole(starting):
    engine = starting(LOOP.format("print(json.dumps({'ids': ['b'] * asked['k']}))"))
    assert engine.search(QueryBatch(QUERIES[:1]), 100_000).tolist() == [[1] * 100_000]


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_program_that_hangs_is_ended_with_all_it_started(starting, tmp_path):
    code = f"""
import subprocess
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
open({str(tmp_path / "pids")!r}, "w").write(f"{{os.getpid()}} {{child.pid}}")
sys.stderr.write("waiting for a lock\\n")
sys.stderr.flush()
time.sleep(60)
"""
    started = time.monotonic()
    with pytest.raises(EngineError, match=r"no answer within 3 s\. .* error: waiting for a lock"):
        starting(code, timeout=3.0)
    assert time.monotonic() - started < 15
    own, child = map(int, (tmp_path / "pids").read_text().split())
    assert not alive(own)
    for _ in range(50):
        # A child of the child is collected by the system, in its own time.
        if not alive(child) or "Z" in (state(child) or "Z"):
            break
        time.sleep(0.05)
    else:
        pytest.fail("what the program started is still there")


def state(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None


def test_a_program_that_does_not_read_is_ended_too(starting):
    dataset = tiny_dataset(5, 1, 100_000)
    engine = Command()
    build = {"command": f"'{sys.executable}' -c 'import time; time.sleep(60)'", "timeout": 0.5}
    engine.build(dataset.corpus, dataset.metric, **build)
    with pytest.raises(EngineError, match=r"no answer within 0\.5 s"):
        engine.configure(parameters="{}")
    engine.close()


def test_closing_ends_the_program_and_leaves_nothing(starting, tmp_path):
    pid, ended = tmp_path / "pid", tmp_path / "ended"
    code = f"open({str(pid)!r}, 'w').write(str(os.getpid()))\n" + LOOP.format(ANSWER)
    engine = starting(f"{code}\nopen({str(ended)!r}, 'w').write('by itself')")
    assert sum(each.name == "command" for each in threading.enumerate()) == 2
    engine.close()
    engine.close()
    assert not alive(int(pid.read_text()))
    assert ended.read_text() == "by itself"
    assert not any(each.name == "command" for each in threading.enumerate())


def test_arguments_and_parameters_come_from_the_environment_and_are_never_shown(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_SECRET", "hush 'hush' ; exit 1")
    code = "import sys, json\nasked = json.loads(sys.stdin.readline())\nsys.exit(str([sys.argv[1:], asked]))"
    (tmp_path / "tell.py").write_text(code)
    command = f"'{sys.executable}' '{tmp_path / 'tell.py'}' --token ${{MY_SECRET}}"
    search = {"parameters": '{"password": "${MY_SECRET}"}'}
    with pytest.raises(EngineError, match=r"Last line of its standard error") as caught:
        attached(Command, three_rows(["a", "b", "c"]), {"command": command}, search)
    assert "hush" not in str(caught.value)
    assert str(caught.value).count("${MY_SECRET}") == 2
    with pytest.raises(UsageError, match="--token may contain a secret"):
        attached(Command, three_rows(["a", "b", "c"]), {"command": "prog --token hush"})


def test_commands_that_cannot_be_are_refused():
    dataset = three_rows(None)
    for command, kind, said in (
        ("", UsageError, "needs command"),
        ("'open", UsageError, "cannot be parsed"),
        ("/no/such/program", EngineError, "/no/such/program: it cannot be started: No such file"),
    ):
        with pytest.raises(kind, match=said):
            attached(Command, dataset, {"command": command})


def test_a_client_is_a_program_of_its_own(starting, tmp_path):
    code = f"open({str(tmp_path / 'pids')!r}, 'a').write(f'{{os.getpid()}}\\n')\n" + LOOP.format(ANSWER)
    engine = starting(code)
    client = engine.client()
    assert client.search(QueryBatch(QUERIES[:1]), 2).tolist() == [[1, 0]]
    first, second = map(int, (tmp_path / "pids").read_text().split())
    client.close()
    assert alive(first)
    assert not alive(second)
    assert engine.search(QueryBatch(QUERIES[:1]), 2).tolist() == [[1, 0]]
    assert engine.call() == "line to a subprocess and back"
